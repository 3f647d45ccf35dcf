"""The fold: what is current, as a pure function of a store's log.

- An assertion counts while it is active, not expired and, for `Moment.as_of` and `Moment.known_at`,
  already said and already recorded.
- An update of a record that expires ends the record: it does not bring back what it revised.
- SINGLE: the counting assertion with the newest timestamp is the value; the sequence number breaks ties.
- MULTIPLE: a set, one record per value, in the order first said; a removal is an assertion like any other.
- The order in which assertions arrive makes no difference.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import attrs

from factmem.facts import FactType
from factmem.records import (
    Assertion,
    AssertionState,
    FactDetails,
    LogEntry,
    Recorded,
    StateChange,
    Tombstone,
)
from factmem.values import canonical_bytes

__all__ = [
    "Current",
    "Moment",
    "fold",
    "has_expired",
    "never_let_in",
    "record_key",
    "revisions",
    "said_order",
    "states_of",
]


@attrs.frozen(kw_only=True)
class Moment:
    """When to look.

    Attributes:
        now: the present; decides what has expired.
        as_of: only what had been *said* by then, in UTC.
        known_at: only what had been *recorded* by then, in UTC.
    """

    now: dt.datetime
    as_of: dt.datetime | None = None
    known_at: dt.datetime | None = None


@attrs.frozen
class Current:
    """One record that is current.

    Attributes:
        recorded: the assertion that won.
        said: every counting assertion of this value, oldest first; they all are its evidence.
    """

    recorded: Recorded
    said: tuple[Recorded, ...]

    @property
    def first_said(self) -> tuple[dt.datetime, int]:
        """Sorts records in the order first said."""
        return said_order(self.said[0])

    @property
    def details(self) -> FactDetails:
        """The winner's details with the evidence of all who said the same."""
        if len(self.said) == 1:
            return self.recorded.assertion.details
        evidence = dict.fromkeys(item for recorded in self.said for item in recorded.assertion.details.evidence)
        return attrs.evolve(self.recorded.assertion.details, evidence=evidence)


def fold(log: Iterable[LogEntry], moment: Moment) -> list[Current]:
    """Return what is current, in the order first said.

    Args:
        log: entries of any number of places, in any order.
        moment: when to look.
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
    """Return every assertion that is not erased, oldest first, with what became of it."""
    entries = list(log)
    states = states_of(entries, known_at=moment.known_at)
    current = {said.id for item in fold(entries, moment) for said in item.said[-1:]}
    known = (entry for entry in entries if isinstance(entry, Recorded) and entry.id in states)

    def became(recorded: Recorded) -> AssertionState:
        state = states[recorded.id]
        return AssertionState.SUPERSEDED if recorded.assertion.counts(state) and recorded.id not in current else state

    return [(recorded, became(recorded)) for recorded in sorted(known, key=said_order)]


def states_of(log: Iterable[LogEntry], *, known_at: dt.datetime | None = None) -> dict[str, AssertionState]:
    """Return the state of each assertion that is recorded and not erased, by assertion id.

    The newest state change by sequence number decides; erasure holds at any ``known_at``.
    """
    states: dict[str, AssertionState] = {}
    changed: dict[str, tuple[int, AssertionState]] = {}
    erased: set[str] = set()
    for entry in log:
        match entry:
            case Recorded():
                if known_at is None or entry.recorded_at <= known_at:
                    states[entry.id] = entry.assertion.state
            case StateChange():
                newest = changed.get(entry.assertion_id)
                if (known_at is None or entry.recorded_at <= known_at) and (newest is None or entry.seq > newest[0]):
                    changed[entry.assertion_id] = (entry.seq, entry.state)
            case Tombstone():
                erased.add(entry.assertion_id)
    return {id: changed[id][1] if id in changed else state for id, state in states.items() if id not in erased}


def record_key(recorded: Recorded) -> tuple[object, ...]:
    """Return what assertions of one record have in common: of a SINGLE its track, of a MULTIPLE the record's id."""
    said = recorded.assertion
    return (*said.track, None if said.fact_type is FactType.SINGLE else recorded.record_id)


def said_order(recorded: Recorded) -> tuple[dt.datetime, int]:
    """Return what the assertions of a record are sorted by; the last one that counts is the value."""
    return (recorded.assertion.timestamp, recorded.seq)


def has_expired(said: Assertion, moment: Moment) -> bool:
    """Whether an assertion has expired at a moment."""
    expires_at = said.details.expires_at
    return expires_at is not None and expires_at <= (moment.as_of or moment.known_at or moment.now)


def never_let_in(log: Iterable[LogEntry]) -> set[str]:
    """Return the ids of assertions that began in quarantine and have not counted so far."""
    return {
        recorded.id
        for recorded, states in _lives(log)
        if recorded.assertion.state is not AssertionState.RETRACTED and not any(map(recorded.assertion.counts, states))
    }


def _lives(log: Iterable[LogEntry]) -> Iterator[tuple[Recorded, list[AssertionState]]]:
    """Yield every assertion with the states it was in, in their order."""
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
    for recorded in entries:
        later = sorted(changes.get(recorded.id, ()), key=lambda change: change.seq)
        yield recorded, [recorded.assertion.state, *(change.state for change in later)]


def _counts(recorded: Recorded, states: Mapping[str, AssertionState], moment: Moment) -> bool:
    said = recorded.assertion
    state = states.get(recorded.id)
    return (
        state is not None
        and said.counts(state)
        and (moment.as_of is None or said.timestamp <= moment.as_of)
        and (said.revises is not None or not has_expired(said, moment))
    )


def _winner(said: list[Recorded], moment: Moment) -> Current | None:
    said.sort(key=said_order)
    newest = said[-1]
    if _ends(newest.assertion, moment):
        return None
    if len(said) == 1:
        return Current(newest, (newest,))
    value = canonical_bytes(newest.assertion.data)
    same = (item for item in said if not _ends(item.assertion, moment))
    return Current(newest, tuple(item for item in same if canonical_bytes(item.assertion.data) == value))


def _ends(said: Assertion, moment: Moment) -> bool:
    """Whether an assertion that counts says that the record is no more: a removal, or an update that has expired."""
    return said.removed or has_expired(said, moment)


def _united(standing: list[Current]) -> list[Current]:
    """Drop a second record of an equal value, which an update by id can bring about."""
    seen: set[tuple[object, ...]] = set()
    united = []
    for current in standing:
        said = current.recorded.assertion
        key = (*said.track, said.slot)
        if key not in seen:
            seen.add(key)
            united.append(current)
    return united
