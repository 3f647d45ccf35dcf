"""Sources of a mirror: a tenant's log, and its assertions in full, by the best means of a provider."""

from __future__ import annotations

import abc
import bisect
import functools
import hashlib
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import numpy as np

from factmem.abc.capabilities import KeepsLog
from factmem.abc.outlines import KeepsOutlines, Outline, Outlined, number_of_id
from factmem.abc.provider import AgentMemoryProvider
from factmem.errors import CapabilityError, InvalidDataError
from factmem.facts import MultipleFacts, SingleFact, microseconds
from factmem.recall.index.columns import Rows
from factmem.recall.index.outline_codec import outlines_of
from factmem.records import Assertion, LogEntry, Place, Recorded, assertions_of
from factmem.scopes import MemoryScope
from factmem.short_work import may_wait
from factmem.subjects import MemorySubject

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BATCH = 1024
"""Number of assertions that are read in full, and outlined, at a time."""


_PAGE = 4096
"""Number of outlines read at a time."""

_LATELY = 256
"""Number of recently requested places that are read of a provider which cannot enumerate."""

_OF_ROWS: Final = tuple(field.name for field in attrs.fields(Rows) if field.name != "ahead")
"""The columns of rows."""


class LogSource(abc.ABC):
    """A source of a tenant's log; by default of a provider of which nothing is known without awaiting it.

    Attributes:
        behind: Whether something new is expected, for example because this process wrote to the store.
    """

    START: ClassVar[Any] = 0
    """The position of the first pull."""

    def __init__(self) -> None:
        self.behind: bool = True
        self.restart()

    @abc.abstractmethod
    async def pull(self) -> Callable[[], Pulled | None]:
        """Return a function that returns the new entries since the last acknowledged pull, or None.

        The function blocks: for worker threads only.
        """

    def taken_in(self, pulled: Pulled) -> None:
        """Acknowledge a pull: the next one begins behind it."""
        self._until, self._last = pulled.until, pulled.last

    def restart(self) -> None:
        """Let the next pull read the whole log."""
        self._until, self._last = self.START, None

    def watch(self) -> Callable[[], bool] | None:
        """Begin to read what was pulled. Blocks, and so does the result; see `factmem.short_work`.

        Returns:
            Tells after the reading whether there certainly was nothing new when it began; None if there may be
            something.
        """
        return None

    def library(self) -> Library:
        """Return an empty library for the assertions in full."""
        return Held()

    def look_in(self, subjects: Sequence[MemorySubject], scopes: Sequence[MemoryScope]) -> None:  # noqa: B027
        """Include some subjects and scopes in the next pull; a source that enumerates its store includes all.

        Args:
            subjects: The subjects; those of the source's places if empty.
            scopes: The scopes; those of the source's places if empty.
        """


@attrs.frozen
class Pulled:
    """New entries of a log.

    Attributes:
        entries: Log entries, by sequence number.
        until: Position of the next pull.
        last: The last entry, or the number of its id; None if it is not known.
        rows: Assertions in outline, by sequence number.
        whole: Whether these entries replace the log instead of extending it.
        more: Whether the store had more than these entries.
        made: Outlines that the store lacks, by sequence number.
    """

    entries: Sequence[LogEntry]
    until: Any
    last: Any = attrs.field(default=None, kw_only=True)
    rows: Rows | None = attrs.field(default=None, kw_only=True)
    whole: bool = attrs.field(default=False, kw_only=True)
    more: bool = attrs.field(default=False, kw_only=True)
    made: Mapping[int, Outline] = attrs.field(factory=dict, kw_only=True)


def log_source(provider: AgentMemoryProvider, tenant: str | None, places: Sequence[Place]) -> LogSource:
    """Return the best source that a provider allows.

    Args:
        provider: The store.
        tenant: The tenant.
        places: The places to read of a provider that cannot enumerate.
    """
    if isinstance(provider, KeepsOutlines):
        return _OutlineFeed(provider, tenant)
    if isinstance(provider, KeepsLog):
        return _Feed(provider, tenant)
    return _Waist(provider, places)


class _Feed(LogSource):
    """The log of a provider that feeds changes; only new entries are read.

    A log that does not continue the one read before is read anew: the store was restored, or its server failed over.
    """

    def __init__(self, provider: KeepsLog, tenant: str | None) -> None:
        super().__init__()
        self._provider, self._tenant = provider, tenant

    async def pull(self) -> Callable[[], Pulled | None]:
        """See `LogSource.pull`."""
        version = await self._provider.version(self._tenant)
        if version == self._until:
            return lambda: None
        new = await self._provider.changes(self._tenant, max(self._until - 1, 0))
        known = self._last if new and new[0].seq == self._until else None
        whole = version < self._until or (known is not None and new[0] != known)
        if whole:
            new = await self._provider.changes(self._tenant)
        elif new and new[0].seq == self._until:
            new = new[1:]
        last = new[-1] if new else None
        pulled = Pulled(new, max(version, last.seq if last else 0), last=last, whole=whole)
        return lambda: pulled


class _Reads:
    """Reads of a tenant's assertions in full, and the newest sequence numbers that they have come upon.

    Any thread may use it.

    Args:
        store: The store.
        tenant: The tenant.

    Attributes:
        far: See `KeepsOutlines.far`.
    """

    def __init__(self, store: KeepsOutlines, tenant: str | None) -> None:
        self.far: bool = store.far
        self._store = store
        self._tenant = tenant
        self._moments = itertools.count()
        self._last = (-1, 0)

    def recorded(self, seqs: Sequence[int]) -> Sequence[Recorded | None]:
        """Return assertions by sequence number; see `KeepsOutlines.recorded`."""
        began = self.moment()
        read, newest = self._store.recorded(self._tenant, seqs)
        self._last = max(self._last, (began, newest))
        return read

    def moment(self) -> int:
        """Return the number of the present moment."""
        return next(self._moments)

    def newest(self, since: int | None = None) -> int:
        """Return the newest number, as far as known from a read that began after a moment, or else as the store says.

        Args:
            since: The moment; None for the present.
        """
        began, newest = self._last
        return newest if since is not None and began > since else self._store.newest(self._tenant)


class _OutlineFeed(LogSource):
    """The log of a provider that keeps outlines; only assertions without one are read in full.

    As `_Feed`, it begins anew if the log does not continue the one read before.
    """

    def __init__(self, provider: KeepsOutlines, tenant: str | None) -> None:
        super().__init__()
        self._provider, self._tenant = provider, tenant
        self._reads = _Reads(provider, tenant)
        self._steady = True
        """Whether the store had nothing new lately, so that reading before asking is seldom in vain."""
        self.behind = False

    async def pull(self) -> Callable[[], Pulled | None]:
        """See `LogSource.pull`."""
        self.behind = False  # what is written from now on may be missed
        return self._read_new

    def _read_new(self) -> Pulled | None:
        newest = self._reads.newest()
        if newest == self._until:
            return None
        log = self._provider.outlined(self._tenant, max(self._until - 1, 0), limit=_PAGE)
        known = _entry_at(log, self._until)
        whole = newest < self._until or (known is not None and self._last is not None and known != self._last)
        if whole:
            log = self._provider.outlined(self._tenant, limit=_PAGE)
        since = 0 if whole else self._until
        first = bisect.bisect_right(log.seqs, since)
        rows = Rows(**{name: getattr(log, name)[first:] for name in _OF_ROWS}, ahead=log.ahead)
        missing = [seq for seq in log.missing if seq > since]
        made: dict[int, Outline] = {}
        several = [rows]
        for start in range(0, len(missing), _BATCH):
            read = self._reads.recorded(missing[start : start + _BATCH])
            there = [item for item in read if item is not None]
            outlines = outlines_of([item.assertion for item in there])
            made |= {item.seq: outline for item, outline in zip(there, outlines, strict=True)}
            several.append(rows_in_outline(there, outlines))
        return Pulled(
            [entry for entry in log.rest if entry.seq > since],
            log.until,
            last=_entry_at(log, log.until),
            rows=rows_in_order(several),
            whole=whole,
            more=log.until < newest,
            made=made,
        )

    def watch(self) -> Callable[[], bool] | None:
        """See `LogSource.watch`. A steady store is asked by the reading itself."""
        if self.behind:
            return None
        if self._steady:
            return functools.partial(self._stood, self._until, self._reads.moment())
        self._steady = self._reads.newest() == self._until
        return (lambda: True) if self._steady else None

    def _stood(self, seq: int, since: int) -> bool:
        """Return whether a number was the newest at a moment."""
        self._steady = self._reads.newest(since) == seq
        return self._steady

    def library(self) -> Stored:
        """See `LogSource.library`."""
        return Stored(self._reads)


def _entry_at(log: Outlined, seq: int) -> object:
    """Return the number of the id of the assertion with a sequence number, or the other entry; None if unknown."""
    at = bisect.bisect_left(log.seqs, seq)
    if at < len(log.seqs) and log.seqs[at] == seq:
        return int(log.ids[at])
    return next((entry for entry in log.rest if entry.seq == seq), None)


class _Waist(LogSource):
    """The log of a provider with the four verbs only: read in full at each pull, with ids from the contents.

    The places read are those of the memory, and those requested lately.
    """

    START = frozenset[str]()

    def __init__(self, provider: AgentMemoryProvider, places: Sequence[Place]) -> None:
        super().__init__()
        self._provider, self._places = provider, places
        self._asked = OrderedDict[Place, None]()
        self._walled = set[tuple[Any, ...]]()

    async def pull(self) -> Callable[[], Pulled | None]:
        """See `LogSource.pull`."""
        places = list(dict.fromkeys((*self._places, *self._asked)))
        if not places:
            raise CapabilityError("this provider has the four verbs only: pass subjects= and scopes= to Memory")
        log = {recorded.id: recorded for place in places for recorded in await self._read(place)}
        if log.keys() == self._until:
            return lambda: None
        return lambda: Pulled(list(log.values()), frozenset(log), whole=True)

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
        if not isinstance(facts, Sequence) or not all(isinstance(fact, SingleFact | MultipleFacts) for fact in facts):
            raise InvalidDataError(f"load_all of {type(self._provider).__name__} returns something else than facts")
        if facts:
            await self._check_wall(place)
        return [
            outside_log(assertion, seq)
            for fact in facts
            for seq, assertion in enumerate(assertions_of(fact, place), start=1)
        ]

    async def _check_wall(self, place: Place) -> None:
        """Probe a tenant that does not exist, to refuse a provider that ignores tenants.

        Raises:
            CapabilityError: The provider has facts of that tenant, so it shows those of others as well.
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


def outside_log(assertion: Assertion, seq: int = 0) -> Recorded:
    """Return an assertion that no log holds as if it were recorded, with ids from its contents."""
    record = hashlib.blake2b(repr((assertion.track, assertion.slot)).encode(), digest_size=16).hexdigest()
    return Recorded(
        assertion=assertion,
        id=f"{record}-{assertion.fingerprint.hex()}",
        record_id=record,
        seq=seq,
        recorded_at=assertion.timestamp,
    )


_KNOWN: Final = 2048
"""Number of assertions in full in each of the two halves of the cache; more than half of it at once are not cached."""


_IN_FULL: Final = 3000
"""Typical bytes of an assertion in full."""


class Library(abc.ABC):
    """The assertions in full, by rows of the columns.

    Attributes:
        seqs: The sequence number of each row.
        far: Whether reading takes a round trip, so that it pays to read at once what may be needed soon.
    """

    def __init__(self, *, far: bool = False) -> None:
        self.seqs: NDArray[np.int64] = np.empty(0, np.int64)
        self.far = far

    @abc.abstractmethod
    def read(self, rows: Sequence[int]) -> list[Recorded | None]:
        """Return assertions; None for those erased meanwhile. Blocks; see `factmem.short_work`."""

    @abc.abstractmethod
    def add(self, recorded: Sequence[Recorded]) -> None:
        """Add the assertions of the next rows."""

    @abc.abstractmethod
    def without(self, left: NDArray[np.intp]) -> Library:
        """Return a library of some rows, in this order."""

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """The size in memory, in bytes."""


class Held(Library):
    """Assertions held in memory."""

    def __init__(self, recorded: Sequence[Recorded] = ()) -> None:
        super().__init__()
        self._recorded = list(recorded)

    def read(self, rows: Sequence[int]) -> list[Recorded | None]:
        """See `Library.read`."""
        return [self._recorded[row] for row in rows]

    def add(self, recorded: Sequence[Recorded]) -> None:
        """See `Library.add`."""
        self._recorded.extend(recorded)

    def without(self, left: NDArray[np.intp]) -> Held:
        """See `Library.without`."""
        return Held([self._recorded[row] for row in left.tolist()])

    @property
    def nbytes(self) -> int:
        """See `Library.nbytes`."""
        return _IN_FULL * len(self._recorded)


class Stored(Library):
    """Assertions that stay in the store, and are read on demand.

    Args:
        reads: Reads of the store.
    """

    def __init__(self, reads: _Reads) -> None:
        super().__init__(far=reads.far)
        self._reads = reads
        # Entries that are asked for again move to the recent half. A full one becomes the older one, which is dropped.
        self._recent: dict[int, Recorded] = {}
        self._older: dict[int, Recorded] = {}

    def read(self, rows: Sequence[int]) -> list[Recorded | None]:
        """See `Library.read`."""
        seqs = self.seqs[np.asarray(rows, np.intp)].tolist()
        recent, older = self._recent, self._older
        found = {seq: item for seq in seqs if (item := recent.get(seq) or older.get(seq)) is not None}
        if new := [seq for seq in seqs if seq not in found]:
            may_wait()
            found |= {item.seq: item for item in self._reads.recorded(new) if item is not None}
        if len(found) <= _KNOWN // 2:
            recent.update(found)
            if len(recent) > _KNOWN:
                self._recent, self._older = {}, recent
        return list(map(found.get, seqs))

    def add(self, recorded: Sequence[Recorded]) -> None:
        """See `Library.add`; the store has them already."""

    def without(self, left: NDArray[np.intp]) -> Stored:
        """See `Library.without`."""
        return Stored(self._reads)

    @property
    def nbytes(self) -> int:
        """See `Library.nbytes`."""
        return _IN_FULL * (len(self._recent) + len(self._older))


def rows_in_outline(recorded: Sequence[Recorded], outlines: Sequence[Outline]) -> Rows:
    """Return assertions as rows of columns.

    Args:
        recorded: The assertions.
        outlines: Their outlines.
    """
    return Rows(
        seqs=[item.seq for item in recorded],
        ids=[number_of_id(item.id) for item in recorded],
        records=[number_of_id(item.record_id) for item in recorded],
        recorded_at=[microseconds(item.recorded_at) for item in recorded],
        shared=[outline.shared for outline in outlines],
        own=[outline.own for outline in outlines],
    )


def rows_in_order(several: Sequence[Rows]) -> Rows:
    """Join rows, ordered by sequence number."""
    if len(several) == 1:
        return several[0]
    joined = {name: [item for rows in several for item in getattr(rows, name)] for name in _OF_ROWS}
    order = sorted(range(len(joined["seqs"])), key=joined["seqs"].__getitem__)
    ahead = max(rows.ahead for rows in several)
    return Rows(**{name: [items[at] for at in order] for name, items in joined.items()}, ahead=ahead)
