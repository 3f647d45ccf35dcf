"""Plans of writes, before anything is written: times, types of tracks, states, what is new, and whether copies fit.

A track takes its type from the first assertion that counts in it. An assertion that has never counted (a quarantined
one, or a pending one of an untrusted origin) neither sets a type nor is checked against one, so that planted words of
another type cannot keep the user's facts out.
"""

from __future__ import annotations

import datetime as dt
import itertools
import logging
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, assert_never

import attrs

from factmem.abc.capabilities import Append, LogPart, Receipt, StateRequest
from factmem.abc.clock import Clock
from factmem.errors import ConceptConflictError, InvalidDataError, RecordNotFoundError, StateConflictError
from factmem.facts import ClockTime, Concept, FactType, utc
from factmem.providers.sql_rows import NewRow
from factmem.records import Assertion, AssertionState, LogEntry, Recorded, StateChange, Tombstone
from factmem.shapes import Shape, accepts
from factmem.validators import changed

_Item: TypeAlias = Append | NewRow | StateRequest
"""A statement, as it was given or prepared for a database."""
_log = logging.getLogger("factmem")


_BEGINNING: Final = dt.datetime.min.replace(tzinfo=dt.UTC)


class SteadyClock:
    """Gives the times of recording of a store: in each tenant, one is at least as late as all before it.

    While the clock is behind the newest time of a tenant, that time is given again, and the program is warned once.
    The times of one tenant say nothing about those of another.

    Args:
        clock: The clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._newest: dict[str | None, dt.datetime] = defaultdict(lambda: _BEGINNING)
        self._warned: set[str | None] = set()

    def __call__(self, tenant: str | None) -> dt.datetime:
        """Return the time to record next in a tenant, in UTC."""
        now, newest = utc(self._clock()), self._newest[tenant]
        if now >= newest:
            self._newest[tenant] = now
            return now
        if tenant not in self._warned:
            self._warned.add(tenant)
            _log.warning(
                "the clock is %s behind %s, the newest time in the store: until it catches up, what is saved is dated "
                "with that time; set the clock of this machine, or open the store with the clock that it was written "
                "with (clock=)",
                dt.timedelta(seconds=round((newest - now).total_seconds())),
                newest.isoformat(" ", "seconds"),
            )
        return newest

    def newest(self, tenant: str | None) -> dt.datetime | None:
        """Return the newest time of a tenant so far; None before the first."""
        newest = self._newest[tenant]
        return newest if newest > _BEGINNING else None

    def reached(self, recorded_at: dt.datetime, tenant: str | None) -> None:
        """Note a time that is in the store."""
        if self._newest[tenant] < recorded_at:
            self._newest[tenant] = recorded_at

    def dated(self, said: Assertion) -> Assertion:
        """Return an assertion that is not older than the store if a clock gave its time, and has stepped back since.

        Without that, an older value would stay current. A time that somebody gave is never changed.
        """
        newest = self._newest[said.place.scope.tenant]
        if said.timestamp >= newest or not isinstance(said.timestamp, ClockTime) or utc(self._clock()) > newest:
            return said
        return attrs.evolve(said, timestamp=ClockTime.of(newest))

    def leaves_open(self, said: Assertion) -> bool:
        """Return whether an equal assertion in the store may be another one, because the clock gave one time twice.

        What a message says, and a revision of a revision, is the same whatever its time.
        """
        evidence = said.details.evidence
        if said.revised is not None or (evidence and evidence[0].message_id is not None):
            return False
        return isinstance(said.timestamp, ClockTime) and utc(self._clock()) <= self._newest[said.place.scope.tenant]


def _random_ids(seq: int) -> tuple[str, str]:
    """Return two random ids: of an assertion, and of the record that it begins."""
    return secrets.token_hex(16), secrets.token_hex(16)


def check_readable(stored: Assertion, concept: Concept[Any, Any]) -> None:
    """Raise unless a stored value can be read as a concept's type.

    Raises:
        ConceptConflictError: The types differ; it names both.
    """
    if stored.fact_type is not concept.fact_type:
        raise _conflict(stored, stored.fact_type, concept.fact_type)
    if not accepts(stored.shape, concept.shape):
        raise _conflict(stored, stored.shape, concept.shape)


def check_writable(new: Assertion, fact_type: FactType, shapes: Sequence[Shape]) -> None:
    """Raise unless a track that holds these types can take a new assertion, and be read as its type.

    Raises:
        ConceptConflictError: The types differ; it names both.
    """
    if new.fact_type is not fact_type:
        raise _conflict(new, fact_type, new.fact_type)
    for shape in shapes:
        if shape != new.shape and not (accepts(shape, new.shape) and new.shape != "json"):
            raise _conflict(new, shape, new.shape)


def unknown_assertion() -> RecordNotFoundError:
    """Return the error of a request that names no assertion."""
    return RecordNotFoundError("no assertion of this store has the id whose state should change")


def _conflict(said: Assertion, stored: Shape | FactType, wanted: Shape | FactType) -> ConceptConflictError:
    names = [item.name if isinstance(item, FactType) else repr(item) for item in (stored, wanted)]
    scope = said.place.scope.within(None)
    return ConceptConflictError(
        f"{said.place.subject} in {scope} holds the concept {said.keyword!r} as {names[0]}, not as {names[1]}: "
        "use the same type or another keyword, or convert what is there (Admin.convert)",
        keyword=said.keyword,
    )


class _Life(NamedTuple):
    """An assertion, its current state, and whether it has ever counted: then it conforms to the type of its track."""

    said: Assertion
    state: AssertionState
    joined: bool


_MISSING: Final = object()


@attrs.define(eq=False)
class TrackIndex:
    """An index of a log in memory: assertions, record ids, states and types.

    Add every entry of the log, in order. A provider that reads only a part of a log, which some statements depend on,
    says what it found with the methods that begin with ``found_``; then the index answers for those statements alone.
    """

    _recorded: dict[bytes, Recorded] = attrs.field(factory=dict)
    _record_ids: dict[tuple[object, ...], str] = attrs.field(factory=dict)
    _slots: dict[str, tuple[object, ...]] = attrs.field(factory=dict)
    _types: dict[tuple[object, ...], tuple[FactType, tuple[Shape, ...]]] = attrs.field(factory=dict)
    _lives: dict[str, Recorded | _Life] = attrs.field(factory=dict)
    _seqs: dict[str | None, dict[int, None]] = attrs.field(factory=lambda: defaultdict(dict))
    _changes: list[tuple[dict[Any, Any], Any, Any]] | None = None

    def begin(self) -> None:
        """Remember the additions from now on, until `commit` or `roll_back`."""
        self._changes = []

    def commit(self) -> None:
        """Keep the additions since `begin`."""
        self._changes = None

    def roll_back(self) -> None:
        """Take back the additions since `begin`."""
        for place, key, before in reversed(self._changes or ()):
            if before is _MISSING:
                del place[key]
            else:
                place[key] = before
        self._changes = None

    def known(self, assertion: Assertion) -> Recorded | None:
        """Return the same assertion if it was recorded before.

        Raises:
            ConceptConflictError: It cannot join its track.
        """
        known = self._recorded.get(assertion.fingerprint)
        if known is None and assertion.counts(assertion.state):
            self._check_type(assertion)
        return known

    def check_followed(self, item: Append | NewRow) -> None:
        """Raise unless the assertion that another one follows exists.

        Raises:
            RecordNotFoundError: It was erased.
        """
        if item.follows is not None and item.follows not in self._seqs[item.tenant]:
            raise RecordNotFoundError("the record to update was erased meanwhile: read it again; nothing was written")

    def record(
        self,
        assertion: Assertion,
        seq: int,
        now_in: Callable[[str | None], dt.datetime],
        ids: Callable[[int], tuple[str, str]] = _random_ids,
    ) -> Recorded:
        """Assign ids, a sequence number and a time to a new assertion, and add it.

        Args:
            assertion: The assertion.
            seq: Its sequence number.
            now_in: Gives the time of recording in a tenant, such as a `SteadyClock`.
            ids: Gives an id for the assertion with a number, and one for a record that it begins.
        """
        id, own_record = ids(seq)
        record_id = self.joined_by(assertion) or own_record
        now = now_in(assertion.place.scope.tenant)
        if isinstance(assertion.timestamp, ClockTime):  # what is recorded has its time: a plain one
            assertion = changed(assertion, timestamp=assertion.timestamp.replace())
        recorded = Recorded(assertion=assertion, id=id, record_id=record_id, seq=seq, recorded_at=now)
        self.add(recorded)
        return recorded

    def joined_by(self, assertion: Assertion) -> str | None:
        """Return the id of the record that a new assertion joins; None if it begins one."""
        return assertion.revises or self._record_ids.get(assertion.key)

    def change(self, request: StateRequest, seq: int, now_in: Callable[[str | None], dt.datetime]) -> StateChange:
        """Assign a sequence number and a time to a change of state, and add it.

        Raises:
            RecordNotFoundError: It names no assertion of its tenant in this log.
            StateConflictError: The assertion is not in the state expected.
            ConceptConflictError: It would accept what cannot join its track. The error names the assertion.
        """
        life = self._life(request.assertion_id)
        if life is None or life.said.place.scope.tenant != request.tenant:
            raise unknown_assertion()
        said, state, joined = life
        if request.expected not in (None, state):
            raise StateConflictError(
                f"{request.assertion_id} is {state.value}, not {request.expected.value} as expected; nothing was "
                "written: read it again"
            )
        if said.counts(request.state) and not joined:
            try:
                self._check_type(said)
            except ConceptConflictError as error:
                raise ConceptConflictError(
                    f"{request.assertion_id} cannot be accepted: {error}, or reject it",
                    keyword=said.keyword,
                    entry=request.assertion_id,
                ) from None
        changed = StateChange(
            assertion_id=request.assertion_id,
            state=request.state,
            seq=seq,
            recorded_at=now_in(request.tenant),
            reason=request.reason,
            actor=request.actor,
        )
        self.add(changed)
        return changed

    def found_type(self, track: tuple[object, ...], fact_type: FactType, shapes: Iterable[Shape]) -> None:
        """Note the type of a track; see `Assertion.track`."""
        self._types[track] = fact_type, tuple(shapes)

    def found_record(self, said: Assertion, record_id: str) -> None:
        """Note the record that holds the slot of an assertion."""
        self._record_ids[said.key] = record_id
        self._slots[record_id] = said.key

    def found_same(self, recorded: Recorded) -> None:
        """Note an assertion that was recorded, for `known`."""
        self._recorded[recorded.assertion.fingerprint] = recorded

    def found_state(self, recorded: Recorded, state: AssertionState, *, joined: bool) -> None:
        """Note an assertion with its state, and whether it has ever counted, for `change`."""
        self._lives[recorded.id] = _Life(recorded.assertion, state, joined)

    def found_seq(self, tenant: str | None, seq: int) -> None:
        """Note that an assertion exists, for `check_followed`."""
        self._seqs[tenant][seq] = None

    def type_of(self, track: tuple[object, ...]) -> tuple[FactType, Sequence[Shape]] | None:
        """Return the type of a track, and the shapes of the assertions that have counted in it; None if none has."""
        return self._types.get(track)

    def has_joined(self, assertion_id: str) -> bool:
        """Return whether an assertion has ever counted."""
        life = self._life(assertion_id)
        return life is not None and life.joined

    def add(self, entry: LogEntry) -> None:
        """Add an entry of the log. After an erasure, build a new index instead."""
        match entry:
            case Recorded():
                self._add_assertion(entry)
            case StateChange(assertion_id=id, state=state):
                if (life := self._life(id)) is not None:
                    said, _, joined = life
                    counts = said.counts(state)
                    self._put((self._lives, id, _Life(said, state, joined or counts)))
                    if counts and not joined:
                        self._join(said)
            case Tombstone():
                pass
            case _:
                assert_never(entry)

    def take(self, entry: Recorded | StateChange, tenant: str | None) -> bool:
        """Add an entry as another store recorded it, and return whether an assertion counts for the first time with it.

        Raises:
            InvalidDataError: It does not fit: it is there already, names an unknown assertion, or is of another type.
        """
        id = entry.assertion_id
        joined = self.has_joined(id)
        try:
            if isinstance(entry, Recorded):
                fits = self.known(entry.assertion) is None
            else:
                life = self._life(id)
                fits = life is not None and life.said.place.scope.tenant == tenant
                if life is not None and not joined and life.said.counts(entry.state):
                    self._check_type(life.said)
        except ConceptConflictError:
            fits = False
        if not fits:
            raise misfit()
        self.add(entry)
        return self.has_joined(id) and not joined

    def _add_assertion(self, recorded: Recorded) -> None:
        said, record_id = recorded.assertion, recorded.record_id
        key = said.key
        before = self._slots.get(record_id)
        if before is not None and before != key and self._record_ids.get(before) == record_id:
            self._put((self._record_ids, before, ""))  # it has moved to another value
        self._put(
            (self._recorded, said.fingerprint, recorded),
            (self._seqs[said.place.scope.tenant], recorded.seq, None),
            (self._slots, record_id, key),
            (self._record_ids, key, record_id),
        )
        if recorded.id not in self._lives:
            self._put((self._lives, recorded.id, recorded))
            if said.counts(said.state):
                self._join(said)

    def _life(self, id: str) -> _Life | None:
        found = self._lives.get(id)
        if isinstance(found, Recorded):
            said = found.assertion
            return _Life(said, said.state, said.counts(said.state))
        return found

    def _join(self, said: Assertion) -> None:
        """Let an assertion that counts give its type to its track."""
        fact_type, shapes = self._types.get(said.track, (said.fact_type, ()))
        if said.shape not in shapes:
            self._put((self._types, said.track, (fact_type, (*shapes, said.shape))))

    def _put(self, *additions: tuple[dict[Any, Any], Any, Any]) -> None:
        for place, key, value in additions:
            if self._changes is not None:
                self._changes.append((place, key, place.get(key, _MISSING)))
            place[key] = value

    def _check_type(self, said: Assertion) -> None:
        if (types := self._types.get(said.track)) is not None:
            check_writable(said, *types)


@attrs.define
class Planned:
    """An entry to write.

    Attributes:
        item: The statement that asks for it.
        entry: The entry; its assertion may have another time than the statement's (see `SteadyClock.dated`).
        joined: Whether an assertion counts for the first time with it.
    """

    item: _Item
    entry: Recorded | StateChange
    joined: bool


@attrs.define(eq=False)
class Planner:
    """Plans requests one after the other: each as a whole, or nothing of it.

    Args:
        clock: Gives the times of recording.
        index_of: Returns the index that a statement depends on.
        last_of: Returns the last sequence number of a tenant.
        ids: See `TrackIndex.record`.

    Attributes:
        last: Last sequence number of each tenant that something was planned of.
    """

    _clock: SteadyClock
    _index_of: Callable[[_Item], TrackIndex]
    _last_of: Callable[[str | None], int]
    _ids: Callable[[int], tuple[str, str]] = _random_ids
    _now: dict[str | None, dt.datetime] = attrs.field(factory=dict, init=False)
    last: dict[str | None, int] = attrs.field(factory=dict, init=False)

    def plan(self, items: Sequence[_Item]) -> tuple[list[Receipt], list[Planned]]:
        """Return the receipts of a request, and what is to be written. All of it is recorded at one time.

        Raises:
            FactMemError: See `KeepsLog.append`; the plan continues without the request.
        """
        receipts: list[Receipt] = []
        planned: list[Planned] = []
        before, begun = dict(self.last), dict[int, TrackIndex]()
        self._now.clear()
        try:
            for item in items:
                index = self._index_of(item)
                if id(index) not in begun:
                    begun[id(index)] = index
                    index.begin()
                if isinstance(item, StateRequest):
                    joined = index.has_joined(item.assertion_id)
                    change = index.change(item, self.next_number(item.tenant), self._recorded_at)
                    planned.append(Planned(item, change, index.has_joined(item.assertion_id) and not joined))
                    continue
                receipt = self._receipt(item, index)
                receipts.append(receipt)
                if receipt.new:
                    said = receipt.recorded.assertion
                    planned.append(Planned(item, receipt.recorded, said.counts(said.state)))
        except BaseException:
            self.last = before
            for index in begun.values():
                index.roll_back()
            raise
        for index in begun.values():
            index.commit()
        return receipts, planned

    def _recorded_at(self, tenant: str | None) -> dt.datetime:
        """Return the time of recording of the request that is planned."""
        if tenant not in self._now:
            self._now[tenant] = self._clock(tenant)
        return self._now[tenant]

    def _receipt(self, item: Append | NewRow, index: TrackIndex) -> Receipt:
        said = item.assertion
        known = index.known(said)
        if known is None and (dated := self._clock.dated(said)) is not said:
            said, known = dated, index.known(dated)
        if known is not None:
            tenant = said.place.scope.tenant
            last = self.last.get(tenant) or self._last_of(tenant)
            if known.seq == last or not self._clock.leaves_open(said):
                return Receipt(recorded=known, new=False)
            said = attrs.evolve(self._clock.dated(said), revised=last)
        index.check_followed(item)
        seq, joins = self.next_number(said.place.scope.tenant), index.joined_by(said) is not None
        return Receipt(recorded=index.record(said, seq, self._recorded_at, self._ids), new=True, joins=joins)

    def next_number(self, tenant: str | None) -> int:
        """Return the next sequence number of a tenant."""
        last = self.last.get(tenant)
        self.last[tenant] = seq = (self._last_of(tenant) if last is None else last) + 1
        return seq


def check_part(part: LogPart, tenant: str | None, copied: int | None) -> None:
    """Raise unless a part continues an unfinished copy, and its entries are the tenant's, in order.

    Args:
        part: The part.
        tenant: The tenant.
        copied: See `KeepsLog.copied`.

    Raises:
        StateConflictError: The copy was not begun, or is not complete up to where the part begins.
        InvalidDataError: An entry is another tenant's, or its number does not grow or is not in the part.
    """
    if copied is None:
        raise StateConflictError("this copy was not begun, or is finished; nothing was written: begin it again")
    if copied != part.since:
        raise StateConflictError(
            f"the copy is complete up to number {copied}, not {part.since}: another process writes to the target; "
            "nothing was written: wait for it, then move again"
        )
    numbers = [part.since, *(entry.seq for entry in part.entries)]
    if any(later <= earlier for earlier, later in itertools.pairwise(numbers)) or numbers[-1] > part.until:
        raise misfit()
    said = (entry.assertion for entry in part.entries if isinstance(entry, Recorded))
    if any(assertion.place.scope.tenant != tenant for assertion in said):
        raise misfit()


def misfit() -> InvalidDataError:
    """Return the error of entries that do not fit together."""
    return InvalidDataError(
        "the entries of the log do not fit together; nothing of this part was written: run `factmem check` on the "
        "store that they come from"
    )
