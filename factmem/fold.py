"""The fold: what is current, as a pure function of a store's log.

`fold` works on assertions in full; `factmem.recall.index.column_fold` folds the columns of an index, by the same rules
(`in_effect`, `ends`) and in the same order.

- An assertion counts while it is active, not expired and, for `Moment.as_of` and `Moment.known_at`,
  already said and already recorded.
- An update of a record that expires ends the record: it does not bring back what it revised.
- Trust orders before time: of the counting assertions of a record, those of the highest `Assertion.trust` decide, so
  that the assistant's words neither supersede nor remove the user's. The others stand beside it in the history.
- SINGLE: of those that decide, the one with the newest timestamp is the value; the sequence number breaks ties.
- MULTIPLE: a set, one record per value, in the order first said; a removal is an assertion like any other.
- A removal, and an update that has expired, end their record for words of a lower trust as well, however late.
- The order in which assertions arrive makes no difference.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, assert_never

import attrs

from factmem.details import FactDetails
from factmem.facts import FactType
from factmem.records import Assertion, AssertionState, LogEntry, Recorded, StateChange, Tombstone
from factmem.values import canonical_bytes

_NEVER: Final = dt.datetime.max.replace(tzinfo=dt.UTC)


@attrs.frozen(kw_only=True)
class Moment:
    """A moment to look at.

    Attributes:
        now: the present; decides what has expired.
        as_of: only what had been *said* by then, in UTC.
        known_at: only what had been *recorded* by then, in UTC.
    """

    now: dt.datetime
    as_of: dt.datetime | None = None
    known_at: dt.datetime | None = None

    @property
    def present(self) -> dt.datetime:
        """The time that decides what has expired."""
        return self.as_of or self.known_at or self.now


def in_effect(
    active: Any,
    revises: Any,
    *,
    said_at: Any,
    recorded_at: Any,
    expires_at: Any,
    at: Callable[[dt.datetime], Any],
    moment: Moment,
) -> Any:
    """Return whether assertions take part in the fold: a bool, or an array of them for arrays.

    An update takes part after it has expired: it ends its record then; see `ends`.

    Args:
        active: whether the assertion's state counts.
        revises: whether it is an update.
        said_at: when it was said.
        recorded_at: when it was recorded.
        expires_at: when it expires.
        at: converts a datetime to the type of these times.
        moment: the moment.
    """
    held = active & (revises | (expires_at > at(moment.present)))
    if moment.as_of is not None:
        held = held & (said_at <= at(moment.as_of))
    if moment.known_at is not None:
        held = held & (recorded_at <= at(moment.known_at))
    return held


def ends(removed: Any, expires_at: Any, present: Any) -> Any:
    """Return whether assertions end their record: a bool, or an array of them for arrays.

    Args:
        removed: whether the assertion is a removal.
        expires_at: when it expires.
        present: see `Moment.present`, in the type of ``expires_at``.
    """
    return removed | (expires_at <= present)


@attrs.frozen
class Current:
    """A current record.

    Attributes:
        recorded: the assertion that decided.
        said: every counting assertion of this value, oldest first; all of them are its evidence.
    """

    recorded: Recorded
    said: tuple[Recorded, ...]

    @property
    def first_said(self) -> tuple[dt.datetime, int]:
        """Sort key of records, in the order first said."""
        return said_order(self.said[0])

    @property
    def details(self) -> FactDetails:
        """The winner's details, with the evidence of all assertions of its value: that which quotes something first."""
        if len(self.said) == 1:
            return self.recorded.assertion.details
        evidence = dict.fromkeys(item for recorded in self.said for item in recorded.assertion.details.evidence)
        quoting_first = sorted(evidence, key=lambda item: not item.quote)
        return attrs.evolve(self.recorded.assertion.details, evidence=quoting_first)


def fold(log: Iterable[LogEntry], moment: Moment) -> list[Current]:
    """Return what is current, in the order first said.

    Args:
        log: entries of any number of places, in any order.
        moment: the moment.
    """
    entries = list(log)
    states = states_of(entries, known_at=moment.known_at)
    records: dict[tuple[object, ...], list[Recorded]] = defaultdict(list)
    for recorded in entries:
        if isinstance(recorded, Recorded) and _counts(recorded, states, moment):
            records[record_key(recorded)].append(recorded)
    standing = [current for said in records.values() if (current := _winner(said, moment)) is not None]
    return _united(sorted(standing, key=lambda current: current.first_said))


def revisions(log: Iterable[LogEntry], moment: Moment) -> list[tuple[Recorded, AssertionState]]:
    """Return every assertion that was said up to a moment and is not erased, oldest first, with its state then."""
    entries = list(log)
    states = states_of(entries, known_at=moment.known_at)
    current = {item.recorded.id for item in fold(entries, moment)}
    known = (
        entry
        for entry in entries
        if isinstance(entry, Recorded)
        and entry.id in states
        and (moment.as_of is None or entry.assertion.timestamp <= moment.as_of)
    )

    def became(recorded: Recorded) -> AssertionState:
        state = states[recorded.id]
        return AssertionState.SUPERSEDED if recorded.assertion.counts(state) and recorded.id not in current else state

    return [(recorded, became(recorded)) for recorded in sorted(known, key=said_order)]


def endings(log: Sequence[LogEntry], moment: Moment) -> dict[str, tuple[dt.datetime, str]]:
    """Return when and why values that are not current ended, by the id of their assertion.

    A value that is only said again has not ended. One that was superseded before its record was retracted ended then.
    The reason of a retraction is for the audit trail, and is not among these.

    Args:
        log: entries of any number of places, with all of their records.
        moment: the moment.
    """
    states = states_of(log, known_at=moment.known_at)
    former, stood, retracted = dict[str, AssertionState](), set[str](), dict[str, dt.datetime]()
    records: dict[tuple[object, ...], list[Recorded]] = defaultdict(list)
    for entry in sorted(log, key=lambda entry: entry.seq):
        match entry:
            case Recorded(id=id, assertion=assertion) if id in states:
                records[record_key(entry)].append(entry)
                former[id] = assertion.state
                stood.update([id] if assertion.counts(assertion.state) else ())
            case StateChange(assertion_id=id, recorded_at=at) if id in former and at <= (moment.known_at or at):
                if entry.state is not AssertionState.RETRACTED:
                    retracted.pop(id, None)
                    stood.update([id] if entry.state is AssertionState.ACTIVE else ())
                elif former[id] is not AssertionState.RETRACTED:
                    retracted[id] = at
                former[id] = entry.state
            case _:
                pass
    ended: dict[str, tuple[dt.datetime, str]] = {}
    for said in records.values():
        later: list[Recorded] = []
        ends: dict[str, tuple[dt.datetime, str] | None] = {}
        for entry in sorted(said, key=deciding_order, reverse=True):
            taken = retracted.get(entry.id)
            if taken is None and not entry.assertion.counts(states[entry.id]):
                continue
            holding = (
                it
                for it in reversed(later)
                if it.id not in retracted or (taken is not None and taken <= retracted[it.id])
            )
            end = None
            if (after := next(holding, None)) is not None:
                moved_on = max(entry.assertion.timestamp, after.assertion.timestamp), _reason_of(after)
                end = moved_on if _differ(entry.assertion, after.assertion) else ends[after.id]
            ends[entry.id] = end
            expired = (_expiry(entry.assertion), "expired") if has_expired(entry.assertion, moment) else None
            gone = (taken, "retracted") if taken is not None else None
            if first := min(filter(None, (end, expired, gone)), key=itemgetter(0), default=None):
                ended[entry.id] = first
            if (taken is not None and entry.id in stood) or _counts(entry, states, moment):
                later.append(entry)
    return ended


def _differ(one: Assertion, other: Assertion) -> bool:
    return one.removed or other.removed or canonical_bytes(one.data) != canonical_bytes(other.data)


def _reason_of(after: Recorded) -> str:
    """Return the reason for the end of a value: the one that replaced it, or the words that ended it."""
    if not after.assertion.removed:
        return "superseded"
    evidence = after.assertion.details.evidence
    return f"ended: {evidence[0].quote}" if evidence else "ended"


def states_of(log: Iterable[LogEntry], *, known_at: dt.datetime | None = None) -> dict[str, AssertionState]:
    """Return the state of each assertion that is recorded and not erased, by assertion id.

    The newest state change by sequence number decides; erasure holds at any ``known_at``.
    """
    states: dict[str, AssertionState] = {}
    changed: dict[str, StateChange] = {}
    erased: set[str] = set()
    for entry in log:
        match entry:
            case Recorded():
                if known_at is None or entry.recorded_at <= known_at:
                    states[entry.id] = entry.assertion.state
            case StateChange():
                newest = changed.get(entry.assertion_id)
                if (known_at is None or entry.recorded_at <= known_at) and (newest is None or entry.seq > newest.seq):
                    changed[entry.assertion_id] = entry
            case Tombstone():
                erased.add(entry.assertion_id)
            case _:
                assert_never(entry)
    return {id: changed[id].state if id in changed else state for id, state in states.items() if id not in erased}


def by_record(log: Iterable[LogEntry]) -> dict[str, list[Recorded | StateChange]]:
    """Return the assertions and changes of state in a log by record id, each record's in the order of their numbers."""
    entries = sorted((entry for entry in log if not isinstance(entry, Tombstone)), key=lambda entry: entry.seq)
    records = {entry.id: entry.record_id for entry in entries if isinstance(entry, Recorded)}
    logs: dict[str, list[Recorded | StateChange]] = {id: [] for id in records.values()}
    for entry in entries:
        id = records.get(entry.assertion_id)
        if id is not None:
            logs[id].append(entry)
    return logs


def record_key(recorded: Recorded) -> tuple[object, ...]:
    """Return the key of an assertion's record: the track, and for a MULTIPLE the record's id."""
    said = recorded.assertion
    return (*said.track, None if said.fact_type is FactType.SINGLE else recorded.record_id)


def said_order(recorded: Recorded) -> tuple[dt.datetime, int]:
    """Return the sort key of assertions in the order said."""
    return (recorded.assertion.timestamp, recorded.seq)


def deciding_order(recorded: Recorded) -> tuple[int, dt.datetime, int]:
    """Return the sort key of assertions of a record; the last one that counts is the value, or ends it."""
    return (recorded.assertion.trust, recorded.assertion.timestamp, recorded.seq)


def has_expired(said: Assertion, moment: Moment) -> bool:
    """Return whether an assertion has expired at a moment."""
    return _expiry(said) <= moment.present


def _expiry(said: Assertion) -> dt.datetime:
    return said.details.expires_at or _NEVER


def never_accepted(log: Iterable[LogEntry]) -> set[str]:
    """Return the ids of assertions that began in quarantine, or were copied from there, and have never counted.

    One that waits again, since its acceptance was undone, counts as never accepted.
    """
    return {
        recorded.id
        for recorded, states in _lives(log)
        if not began_retracted(recorded.assertion)
        and not any(map(recorded.assertion.counts, _since(states, AssertionState.QUARANTINED)))
    }


def _since(states: Sequence[AssertionState], last: AssertionState) -> Sequence[AssertionState]:
    """Return the states since the last time that a state was entered; all of them if it never was."""
    return states[max((at for at, state in enumerate(states) if state is last), default=0) :]


def began_retracted(said: Assertion) -> bool:
    """Return whether an assertion was recorded as the copy of a retracted one, by an import or a conversion.

    A copy of what was never believed is one of a rejected assertion.
    """
    return said.state is AssertionState.RETRACTED and said.details.believed and said.details.doubt is None


def _lives(log: Iterable[LogEntry]) -> Iterator[tuple[Recorded, list[AssertionState]]]:
    """Yield every assertion with its states, in order."""
    changes: dict[str, list[StateChange]] = defaultdict(list)
    entries: list[Recorded] = []
    for entry in log:
        match entry:
            case Recorded():
                entries.append(entry)
            case StateChange():
                changes[entry.assertion_id].append(entry)
            case Tombstone():
                pass
            case _:
                assert_never(entry)
    for recorded in entries:
        later = sorted(changes.get(recorded.id, ()), key=lambda change: change.seq)
        yield recorded, [recorded.assertion.state, *(change.state for change in later)]


def _counts(recorded: Recorded, states: Mapping[str, AssertionState], moment: Moment) -> bool:
    said = recorded.assertion
    state = states.get(recorded.id)
    held: bool = in_effect(
        state is not None and said.counts(state),
        said.revises is not None,
        said_at=said.timestamp,
        recorded_at=recorded.recorded_at,
        expires_at=_expiry(said),
        at=lambda time: time,
        moment=moment,
    )
    return held


def _winner(said: list[Recorded], moment: Moment) -> Current | None:
    decisive = max(said, key=deciding_order)
    if _ends(decisive.assertion, moment):
        return None
    if len(said) == 1:
        return Current(decisive, (decisive,))
    value = canonical_bytes(decisive.assertion.data)
    same = (item for item in sorted(said, key=said_order) if not _ends(item.assertion, moment))
    return Current(decisive, tuple(item for item in same if canonical_bytes(item.assertion.data) == value))


def _ends(said: Assertion, moment: Moment) -> bool:
    """Return whether an assertion that counts ends its record: a removal, or an update that has expired."""
    ended: bool = ends(said.removed, _expiry(said), moment.present)
    return ended


def _united(standing: list[Current]) -> list[Current]:
    """Drop a second record of an equal value, which an update by id can produce, by trust and then by time."""
    kept: dict[tuple[object, ...], Current] = {}
    for current in standing:
        said = current.recorded.assertion
        first = kept.setdefault(said.key, current)
        if said.trust > first.recorded.assertion.trust:
            kept[said.key] = current
    chosen = {id(current) for current in kept.values()}
    return [current for current in standing if id(current) in chosen]
