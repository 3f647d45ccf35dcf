"""Where a mirror gets a tenant's log from: the best way that a provider allows."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import attrs
from anyio import to_thread

from factmem.abc import AgentMemoryProvider, FeedsChanges, KeepsOutlines, Outline
from factmem.errors import CapabilityError, ReadOnlyError, StoreUnavailableError
from factmem.recall.columns import Rows
from factmem.recall.documents import rows_in_order, rows_in_outline
from factmem.recall.outlines import outline_of
from factmem.records import LogEntry, Place, Recorded, assertions_of

__all__ = ["LogSource", "Pulled", "log_source"]

_BATCH = 1024
"""How many assertions are read in full, and outlined, at a time."""


_PAGE = 4096
"""How many outlines are read at a time."""


class LogSource(Protocol):
    """Where a mirror gets a tenant's log from."""

    async def pull(self) -> Pulled | None:
        """Return what is new since the last pull that was taken in, or None."""
        ...

    def taken_in(self, pulled: Pulled) -> None:
        """Go on behind something that was pulled."""
        ...

    def is_pulled(self) -> bool:
        """Whether it is sure that there is nothing new. This may block: for worker threads only."""
        ...


@attrs.frozen
class Pulled:
    """What a source has that is new.

    Attributes:
        entries: log entries, by sequence number.
        until: what to pull from the next time.
        rows: assertions in outline, by sequence number.
        whole: whether this is all there is, instead of what came to it.
    """

    entries: Sequence[LogEntry]
    until: Any
    rows: Rows | None = attrs.field(default=None, kw_only=True)
    whole: bool = attrs.field(default=False, kw_only=True)


def log_source(provider: AgentMemoryProvider, tenant: str | None, places: Sequence[Place]) -> LogSource:
    """Return the best source that a provider allows.

    Args:
        provider: the store.
        tenant: whose facts.
        places: where to look in a provider that cannot enumerate; it has only the four verbs.
    """
    if isinstance(provider, KeepsOutlines):
        return _OutlineFeed(provider, tenant)
    if isinstance(provider, FeedsChanges):
        return _Feed(provider, tenant)
    return _Waist(provider, places)


@attrs.define
class _Feed:
    """The log of a provider that feeds changes: only what is new is read."""

    _provider: FeedsChanges
    _tenant: str | None
    _seq: int = attrs.field(default=0, init=False)

    async def pull(self) -> Pulled | None:
        """See `LogSource.pull`."""
        version = await self._provider.version()
        if version == self._seq:
            return None
        new = await self._provider.changes(self._tenant, self._seq)
        return Pulled(new, max(version, new[-1].seq if new else 0))

    def taken_in(self, pulled: Pulled) -> None:
        """See `LogSource.taken_in`."""
        self._seq = pulled.until

    def is_pulled(self) -> bool:
        """See `LogSource.is_pulled`; only waiting could tell."""
        return False


@attrs.define
class _OutlineFeed:
    """The log of a provider that keeps outlines: no assertion is read that has one."""

    _provider: KeepsOutlines
    _tenant: str | None
    _seq: int = attrs.field(default=0, init=False)

    async def pull(self) -> Pulled | None:
        """See `LogSource.pull`."""
        pulled = await to_thread.run_sync(self._pull)
        if pulled is None:
            return None
        read, made = pulled
        if made:
            with contextlib.suppress(ReadOnlyError, StoreUnavailableError):  # the next one may have more luck
                await self._provider.put_outlines(made)
        return read

    def _pull(self) -> tuple[Pulled, dict[int, Outline]] | None:
        if self._provider.newest() == self._seq:
            return None
        log = self._provider.outlined(self._tenant, self._seq, limit=_PAGE)
        rows = Rows(
            seqs=log.seqs,
            ids=log.ids,
            records=log.records,
            recorded_at=log.recorded_at,
            about=log.about,
            metadata=log.metadata,
            bodies=log.bodies,
        )
        made: dict[int, Outline] = {}
        several = [rows]
        for start in range(0, len(log.missing), _BATCH):
            read = self._provider.recorded(self._tenant, log.missing[start : start + _BATCH])
            there = [item for item in read if item is not None]
            outlines = [outline_of(item.assertion) for item in there]
            made |= {item.seq: outline for item, outline in zip(there, outlines, strict=True)}
            several.append(rows_in_outline(there, outlines))
        return Pulled(log.rest, log.until, rows=rows_in_order(several)), made

    def taken_in(self, pulled: Pulled) -> None:
        """See `LogSource.taken_in`."""
        self._seq = pulled.until

    def is_pulled(self) -> bool:
        """See `LogSource.is_pulled`."""
        return self._provider.newest() == self._seq


@attrs.define
class _Waist:
    """The log of a provider with the four verbs only: read anew each time, its records numbered by what they say."""

    _provider: AgentMemoryProvider
    _places: Sequence[Place]
    _known: Mapping[str, Recorded] = attrs.field(factory=dict, init=False)

    async def pull(self) -> Pulled | None:
        """See `LogSource.pull`."""
        if not self._places:
            raise CapabilityError(
                "this provider has the four verbs only: tell the Memory which subjects= and scopes= to look in"
            )
        log = {recorded.id: recorded for place in self._places for recorded in await self._read(place)}
        if log.keys() == self._known.keys():
            return None
        return Pulled(list(log.values()), log, whole=True)

    def taken_in(self, pulled: Pulled) -> None:
        """See `LogSource.taken_in`."""
        self._known = pulled.until

    def is_pulled(self) -> bool:
        """See `LogSource.is_pulled`; only waiting could tell."""
        return False

    async def _read(self, place: Place) -> Iterable[Recorded]:
        facts = await self._provider.load_all(place.subject, place.scope)
        return [
            _numbered(assertion, seq)
            for fact in facts
            for seq, assertion in enumerate(assertions_of(fact, place), start=1)
        ]


def _numbered(assertion: Any, seq: int) -> Recorded:
    record = hashlib.blake2b(repr((assertion.track, assertion.slot)).encode(), digest_size=16).hexdigest()
    return Recorded(
        assertion=assertion,
        id=f"{record}-{assertion.fingerprint.hex()}",
        record_id=record,
        seq=seq,
        recorded_at=assertion.timestamp,
    )
