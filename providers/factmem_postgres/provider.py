"""Provider of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Self, TypeVar

import anyio
import anyio.to_thread
from typing_extensions import override

from factmem.abc import system_clock
from factmem.abc.clock import Clock
from factmem.providers.threaded import DatabaseProvider
from factmem_postgres.address import Address
from factmem_postgres.engine import PostgresEngine
from factmem_postgres.server import Cancellation, Server

T = TypeVar("T")


class PostgresMemoryProvider(DatabaseProvider[PostgresEngine]):
    """Keeps facts, their history and their vectors in a PostgreSQL database, for those who outgrow one machine.

    It has every capability but files. Tasks that save at the same time share one transaction, which takes a few round
    trips whatever its size; any number of processes may use the database. Each tenant has a counter of its own, so
    that tenants do not wait for each other. The tables are in a schema of their own, which the first write creates;
    the tenant comes first in every key, and row-level security keeps tenants apart a second time.

    A call waits for a server that is away, and goes on with a new connection when it is back. The outcome of a
    transaction whose connection broke is looked up, so that nothing is written twice. If the server stays away,
    `StoreUnavailableError` is raised; what was being committed just then may have been written.

    Erasing deletes the rows at once. Their bytes are gone only after the server has written over its write-ahead log:
    until then the receipt says ``pending``. Backups, archived logs and replicas are out of reach.

    Args:
        address: URL ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE``, or pairs ``key=value``, as libpq reads them. The
            options below may stand in a URL as well.
        schema: Name of the schema (default: factmem).
        pool_size: Maximum number of connections (default: 8).
        timeout: Longest wait for a connection and for other writers, in seconds (default: 10).
        clock: Returns the time of recording, and decides on expiry; called in a worker thread.

    Raises:
        InvalidDataError: The address or an option cannot be parsed.
    """

    far = True

    @override
    def __init__(
        self,
        address: str,
        *,
        schema: str | None = None,
        pool_size: int | str | None = None,
        timeout: float | str | None = None,
        clock: Clock = system_clock,
    ) -> None:
        options = {"schema": schema, "pool_size": pool_size, "timeout": timeout}
        self._address = Address.parse(address, options)
        super().__init__(clock=clock)

    @classmethod
    def from_address(cls, address: str, *, clock: Clock = system_clock) -> Self:
        """Return the provider of a URL; see `factmem.open_provider`."""
        return cls(address, clock=clock)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._address.name}, schema {self._address.schema}>"

    @override
    def _open_engine(self) -> PostgresEngine:
        return PostgresEngine(Server(self._address), self._clock)

    @override
    async def _read(self, query: Callable[[PostgresEngine], T]) -> T:
        """Run a query in a worker thread; a cancelled call ends its statement on the server."""
        opened, cancellation = self._here(), Cancellation()
        try:
            return await anyio.to_thread.run_sync(
                partial(cancellation.run, partial(query, opened.engine)), limiter=opened.readers, abandon_on_cancel=True
            )
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(cancellation.cancel)
            raise
