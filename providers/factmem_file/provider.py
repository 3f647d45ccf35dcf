"""A store of readable files, one per scope and subject."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from factmem.abc import Access, Clock, EmbedderIdentity, EraseReceipt, Receipt, Statement, Storage, system_clock
from factmem.errors import InvalidDataError, ProviderClosedError
from factmem.names import checked_path
from factmem.providers import GroupCommit, LedgerProvider
from factmem.records import LogEntry, Place
from factmem.vectors import unit_vector
from factmem_file.ledger import Ledger
from factmem_file.plan import Request
from factmem_file.storage import LocalStorage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["LocalFileMemoryProvider"]

T = TypeVar("T")


class LocalFileMemoryProvider(LedgerProvider):
    """Keeps facts in readable files, one per scope and subject, with every capability.

    Several processes may share a store. A save reads and writes the same number of bytes however many
    facts there are, after the first one at a place, which reads what the place holds. Saves that
    wait at the same time are written together, with one flush a file.

    A transaction over one place is atomic. One over several places is refused as a whole or written
    place by place; a crash or a full disk in between leaves some of its places written, and
    handing it in again completes it. Where that matters, use the provider of one SQLite file.

    Args:
        root: the folder, its ``~`` expanded; the first write makes it.
        storage: in place of plain files in ``root``.
        clock: gives the time of recording, and decides what has expired.
        lock_timeout: how long to wait for other processes that write, in seconds.

    Raises:
        InvalidDataError: the time-out is no number of seconds, or the folder no legal path.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        storage: Storage | None = None,
        clock: Clock = system_clock,
        lock_timeout: float | str = 30.0,
    ) -> None:
        super().__init__(clock=clock)
        if isinstance(storage, str):  # an address can bring any text as an option
            raise InvalidDataError("storage must be a Storage", path="$.storage")
        self._root = checked_path(root, what="root")
        self._lock_timeout = _seconds(lock_timeout)
        self._ledger = Ledger(storage or LocalStorage(root), clock=clock, lock_timeout=self._lock_timeout)
        self._group: GroupCommit[Request] = GroupCommit(self._ledger.commit, anyio.CapacityLimiter(1))
        self._closed = False

    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        """See `factmem.abc.KeepsHistory.append`."""
        self._check_open()
        if not statements:
            return ()
        request = Request(tuple(statements))
        await self._group.submit(request)
        if request.error is not None:
            raise request.error
        return request.receipts

    async def entries(self, place: Place, keyword: str | None = None) -> Sequence[LogEntry]:
        """See `factmem.abc.KeepsHistory.entries`."""
        return await self._run(lambda: self._ledger.entries(place, keyword))

    async def version(self) -> int:
        """See `factmem.abc.FeedsChanges.version`."""
        return await self._run(self._ledger.version)

    async def changes(self, tenant: str | None, since: int = 0) -> Sequence[LogEntry]:
        """See `factmem.abc.FeedsChanges.changes`."""
        return await self._run(lambda: self._ledger.changes(tenant, since))

    async def embedder(self) -> EmbedderIdentity | None:
        """See `factmem.abc.KeepsVectors.embedder`."""
        return await self._run(self._ledger.embedder)

    async def use_embedder(self, identity: EmbedderIdentity, *, replace: bool = False) -> None:
        """See `factmem.abc.KeepsVectors.use_embedder`."""
        await self._write(lambda: self._ledger.use_embedder(identity, replace=replace))

    async def put_vectors(self, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """See `factmem.abc.KeepsVectors.put_vectors`."""
        await self._write(lambda: self._ledger.put_vectors(vectors))

    async def vectors(self, tenant: str | None, since: int = 0) -> tuple[Sequence[int], NDArray[np.float32]]:
        """See `factmem.abc.KeepsVectors.vectors`."""
        return await self._run(lambda: self._ledger.vectors(tenant, since))

    async def nearest(
        self, vector: NDArray[np.float32], limit: int, *, tenant: str | None
    ) -> Sequence[tuple[int, float]]:
        """See `factmem.abc.SearchesVectors.nearest`."""
        return await self._run(lambda: self._nearest(vector, limit, tenant))

    def _nearest(self, vector: NDArray[np.float32], limit: int, tenant: str | None) -> list[tuple[int, float]]:
        import numpy as np

        identity = self._ledger.embedder()
        wanted = unit_vector(vector, dimension=identity.dimension if identity else None)
        seqs, rows = self._ledger.vectors(tenant, 0)
        if not seqs:
            return []
        cosines = rows @ wanted
        best = np.argsort(-cosines, kind="stable")[:limit]
        return [(seqs[row], float(cosines[row])) for row in best]

    async def add_accesses(self, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        """See `factmem.abc.KeepsAccesses.add_accesses`."""
        await self._write(lambda: self._ledger.add_accesses(tenant, accesses))

    async def accesses(self, tenant: str | None, record_ids: Collection[str]) -> Mapping[str, Access]:
        """See `factmem.abc.KeepsAccesses.accesses`."""
        return await self._run(lambda: self._ledger.accesses(tenant, record_ids))

    async def erase(
        self, record_ids: Sequence[str], *, tenant: str | None, assertion_ids: Sequence[str] = ()
    ) -> EraseReceipt:
        """See `factmem.abc.Erases.erase`.

        The files are written anew without what is erased and the old ones are unlinked; what the file
        system does with the freed blocks is beyond this. A place that holds nothing more loses its file and
        its empty folders.
        """
        records, singly = frozenset(record_ids), frozenset(assertion_ids)
        return await self._write(lambda: self._ledger.erase(records, singly, tenant))

    async def files(self) -> Sequence[Path]:
        """See `factmem.abc.KeepsFiles.files`: everything in the folder, whoever put it there."""
        return await self._run(lambda: sorted(path for path in self._root.rglob("*") if path.is_file()))

    async def aclose(self) -> None:
        """See `AgentMemoryProvider.aclose`."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            await self._group.alone(self._ledger.close)

    async def _run(self, work: Callable[[], T]) -> T:
        self._check_open()
        return await anyio.to_thread.run_sync(work)

    async def _write(self, work: Callable[[], T]) -> T:
        self._check_open()
        return await self._group.alone(work)

    def _check_open(self) -> None:
        if self._closed:
            raise ProviderClosedError("the provider was closed")


def _seconds(value: float | str) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InvalidDataError("lock_timeout must be a number of seconds, 0 or more", path="$.lock_timeout")
    return seconds
