"""Where a mirror gets a tenant's log from: the best way that a provider allows."""

from __future__ import annotations

import contextlib
import hashlib
from collections import OrderedDict
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
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

__all__ = ["LogSource", "Pulled", "log_source"]

_BATCH = 1024
"""How many assertions are read in full, and outlined, at a time."""


_PAGE = 4096
"""How many outlines are read at a time."""

_LATELY = 256
"""Number of places asked about lately that are read of a provider which cannot enumerate."""


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

    def look_in(self, subjects: Sequence[MemorySubject], scopes: Sequence[MemoryScope]) -> None:
        """Have the next pull see what is known about some subjects, or in some scopes, or of some subjects in some.

        A source that enumerates its store sees everything anyway.
        """
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

    def look_in(self, subjects: Sequence[MemorySubject], scopes: Sequence[MemoryScope]) -> None:
        """See `LogSource.look_in`."""


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
            shared=log.shared,
            own=log.own,
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

    def look_in(self, subjects: Sequence[MemorySubject], scopes: Sequence[MemoryScope]) -> None:
        """See `LogSource.look_in`."""


@attrs.define
class _Waist:
    """The log of a provider with the four verbs only: read anew each time, its records numbered by what they say.

    It is read at the places that the memory was opened with, and at those that were asked about lately.
    """

    _provider: AgentMemoryProvider
    _places: Sequence[Place]
    _asked: OrderedDict[Place, None] = attrs.field(factory=OrderedDict, init=False)
    _walled: set[tuple[Any, ...]] = attrs.field(factory=set, init=False)
    _known: Mapping[str, Recorded] = attrs.field(factory=dict, init=False)

    async def pull(self) -> Pulled | None:
        """See `LogSource.pull`."""
        places = list(dict.fromkeys((*self._places, *self._asked)))
        if not places:
            raise CapabilityError(
                "this provider has the four verbs only: tell the Memory which subjects= and scopes= to look in"
            )
        log = {recorded.id: recorded for place in places for recorded in await self._read(place)}
        if log.keys() == self._known.keys():
            return None
        return Pulled(list(log.values()), log, whole=True)

    def taken_in(self, pulled: Pulled) -> None:
        """See `LogSource.taken_in`."""
        self._known = pulled.until

    def is_pulled(self) -> bool:
        """See `LogSource.is_pulled`; only waiting could tell."""
        return False

    def look_in(self, subjects: Sequence[MemorySubject], scopes: Sequence[MemoryScope]) -> None:
        """See `LogSource.look_in`."""
        if not (subjects or scopes):
            return
        about = subjects or list(dict.fromkeys(place.subject for place in self._places))
        within = scopes or list(dict.fromkeys(place.scope for place in self._places))
        asked = [Place(subject, scope) for subject in about for scope in within]
        for place in asked:
            self._asked[place] = None
            self._asked.move_to_end(place)
        while len(self._asked) > max(_LATELY, len(asked)):
            self._asked.popitem(last=False)

    async def _read(self, place: Place) -> Iterable[Recorded]:
        facts = await self._provider.load_all(place.subject, place.scope)
        if facts:
            await self._check_wall(place)
        return [
            _numbered(assertion, seq)
            for fact in facts
            for seq, assertion in enumerate(assertions_of(fact, place), start=1)
        ]

    async def _check_wall(self, place: Place) -> None:
        """Refuse a provider that has facts of an organisation which nobody has: it shows those of others as well.

        Raises:
            CapabilityError: it passes the tenant over.
        """
        if place.scope.tenant is None or place.key in self._walled:
            return
        nobody = hashlib.blake2b(place.scope.tenant.encode(), digest_size=16, person=b"nobody").hexdigest()
        if await self._provider.load_all(place.subject, place.scope.within(nobody)):
            raise CapabilityError(
                f"{type(self._provider).__name__} shows facts of one organization to all others: key them by "
                "str(scope), or by the scope's tenant, kind and path"
            )
        self._walled.add(place.key)


def _numbered(assertion: Any, seq: int) -> Recorded:
    record = hashlib.blake2b(repr((assertion.track, assertion.slot)).encode(), digest_size=16).hexdigest()
    return Recorded(
        assertion=assertion,
        id=f"{record}-{assertion.fingerprint.hex()}",
        record_id=record,
        seq=seq,
        recorded_at=assertion.timestamp,
    )
