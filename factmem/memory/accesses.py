"""Access counts: recalls of records are counted in memory, and written to the store in the background."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import anyio
import attrs

from factmem.abc import Access, AgentMemoryProvider, Clock, KeepsAccesses
from factmem.errors import CapabilityError, FactMemError

__all__ = ["AccessCounts", "keeper_of"]

_log = logging.getLogger("factmem")

_MOST: Final = 1_000
"""Number of counted records after which the counts are written."""

_LONGEST: Final = 30.0
"""Age in seconds after which the next read writes the counts."""


@attrs.define(eq=False)
class AccessCounts:
    """Counts that are not written yet. One instance serves a memory and all its views.

    A read never waits for a write: a read that finds a batch full or old starts a write in the background, and closing
    the memory writes the rest. A killed process loses the counts since the last write.

    Attributes:
        keeper: The store of the counts.
        tenant: The organization of the records.
        clock: Returns the present.
        begin: Starts work in the background; raises `CapabilityError` while the memory is not open.
    """

    keeper: KeepsAccesses
    tenant: str | None
    clock: Clock
    begin: Callable[[Callable[[], Awaitable[object]]], None] | None = None
    _counted: dict[str, Access] = attrs.field(factory=dict, init=False)
    _since: float = attrs.field(factory=time.monotonic, init=False)
    _writing: bool = attrs.field(default=False, init=False)

    def count(self, record_ids: Iterable[str]) -> None:
        """Count one recall of each record."""
        if not self._counted:
            self._since = time.monotonic()
        recalled = Access(count=1, last=self.clock())
        for id in record_ids:
            self._counted[id] = self._counted.get(id, Access()) + recalled
        full = len(self._counted) >= _MOST or (self._counted and time.monotonic() - self._since >= _LONGEST)
        if full and not self._writing and self.begin is not None:
            with contextlib.suppress(CapabilityError):
                self.begin(self.write)
                self._writing = True

    def counted(self, record_id: str) -> Access:
        """Return the counts of a record that are not written yet."""
        return self._counted.get(record_id, Access())

    async def write(self) -> None:
        """Write the counts. If that fails, they are kept and written with the next batch.

        A write that has begun is finished even if its task is cancelled.
        """
        self._writing = True
        batch, self._counted = self._counted, {}
        try:
            if batch:
                with anyio.CancelScope(shield=True):
                    await self.keeper.add_accesses(self.tenant, batch)
        except FactMemError as error:
            _log.warning("access counts could not be written yet: %s", type(error).__name__)
            self._put_back(batch)
        except BaseException:
            self._put_back(batch)
            raise
        finally:
            self._writing = False
            self._since = time.monotonic()

    def _put_back(self, batch: Mapping[str, Access]) -> None:
        for id, access in batch.items():
            self._counted[id] = self._counted.get(id, Access()) + access


def keeper_of(provider: AgentMemoryProvider) -> KeepsAccesses:
    """Return a provider as one that keeps access counts.

    Raises:
        CapabilityError: It does not.
    """
    if not isinstance(provider, KeepsAccesses):
        raise CapabilityError(f"{type(provider).__name__} keeps no access counts")
    return provider
