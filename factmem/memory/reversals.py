"""Reversals: the changes of state that bring former revisions back, and those of records that follow from them.

All of it follows from the log that the viewer may see; `Writer` commits the changes.
"""

from __future__ import annotations

import bisect
import datetime as dt
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, assert_never

import attrs

from factmem.abc.capabilities import StateRequest
from factmem.changes import Change, ChangeKind, change_of, changed_states
from factmem.error_hints import kind_of
from factmem.errors import InvalidDataError, RecordNotFoundError, StateConflictError
from factmem.facts import Concept
from factmem.fold import (
    Current,
    Moment,
    began_retracted,
    by_record,
    deciding_order,
    fold,
    has_expired,
    record_key,
    revisions,
    states_of,
)
from factmem.grouping import grouped
from factmem.recall.results import hydrate
from factmem.records import AssertionState, FactRecord, LogEntry, Recorded, StateChange, as_kept_apart, shown_record

MOVED: Final = "moved to another scope"
"""Beginning of the reasons of moves and of their undoing: which scope, not all readers may know."""

_ROLLED_BACK: Final = "rolled back"


def revision_in(log: Sequence[LogEntry], revision: int | FactRecord[Any]) -> Recorded:
    """Return a revision that may become current again.

    Args:
        log: Log that the viewer may see.
        revision: Number of the revision, or the record of a history.

    Raises:
        InvalidDataError: The revision is neither.
        RecordNotFoundError: There is no such revision.
    """
    if not isinstance(revision, int | FactRecord) or isinstance(revision, bool):
        raise InvalidDataError(
            f"a revision is a record of a history or its number, not {kind_of(revision)}: take one of "
            "await memory.history(concept)"
        )
    number = revision if isinstance(revision, int) else revision.revision
    record_id = None if isinstance(revision, int) else revision.id
    for entry in log:
        if not isinstance(entry, Recorded) or entry.seq != number or record_id not in (None, entry.record_id):
            continue
        if not entry.assertion.removed and _ever_counted(log, entry):
            return entry
    raise RecordNotFoundError("no visible revision of a record has this number: see its history")


def _ever_counted(log: Sequence[LogEntry], target: Recorded) -> bool:
    """Return whether an assertion ever counted: a rollback must not accept quarantined ones."""
    states = [change.state for change in log if isinstance(change, StateChange) and change.assertion_id == target.id]
    return any(target.assertion.counts(state) for state in (target.assertion.state, *states))


def rollback_requests(
    log: Sequence[LogEntry], target: Recorded, moment: Moment, reason: str | None
) -> list[StateRequest]:
    """Return the changes of state that make a revision current: what stands before it is retracted, of any origin.

    Args:
        log: Log that the viewer may see.
        target: Revision to make current.
        moment: The present.
        reason: Reason, for the audit trail.

    Raises:
        RecordNotFoundError: It has expired, or another record has its value by now.
        StateConflictError: Words that wait for a model would have to be retracted.
    """
    if has_expired(target.assertion, moment):
        raise RecordNotFoundError("the revision has expired: save its value anew")
    states = states_of(log)
    reason = _beginning(_ROLLED_BACK, reason)
    retracted, own = AssertionState.RETRACTED, record_key(target)
    above = _counting([entry for entry in log if isinstance(entry, Recorded) and record_key(entry) == own], states)
    requests = [_request(item, states[item.id], retracted, reason) for item in _taken_above(target, above, states)]
    if not target.assertion.counts(states[target.id]):
        requests.append(_request(target, states[target.id], AssertionState.ACTIVE, reason))
    _check_current([target.record_id], changed_log(log, requests, moment), moment)
    return requests


def _counting(log: Iterable[LogEntry], states: Mapping[str, AssertionState]) -> list[Recorded]:
    """Return the revisions of a record that count, the one that decides last."""
    entries = [entry for entry in log if isinstance(entry, Recorded)]
    return sorted((entry for entry in entries if entry.assertion.counts(states[entry.id])), key=deciding_order)


def _taken_above(target: Recorded, counting: list[Recorded], states: Mapping[str, AssertionState]) -> list[Recorded]:
    """Take from the revisions of a record those that decide before one of them; return those that count.

    Raises:
        StateConflictError: One of them waits for a model.
    """
    found = []
    while counting and deciding_order(counting[-1]) > deciding_order(target):
        if (item := counting.pop()).assertion.counts(states[item.id]):
            found.append(item)
    if any(states[item.id] is AssertionState.PENDING for item in found):
        raise StateConflictError("later words wait for a model: try again once the model has read them")
    return found


def undo_requests(log: Sequence[LogEntry], last_first: Sequence[Change], reason: str | None) -> list[StateRequest]:
    """Return the changes of state that revert changes of records.

    What decides before a new revision goes with it, unless the revision changed nothing or is a removal.

    Args:
        log: Log that the viewer may see.
        last_first: Changes to revert, the last one first.
        reason: Reason, for the audit trail.

    Raises:
        RecordNotFoundError: One of them is undone already, or its record was erased, or one of the two that it moved.
        StateConflictError: Words that wait for a model would have to be retracted.
    """
    present, logs = states_of(log), by_record(log)
    entries = {entry.seq: entry for entry in log if isinstance(entry, Recorded)}
    states, moved = dict(present), set[str]()
    counting: dict[str, list[Recorded]] = {}  # by record, the one that decides last; those taken back are left there
    for change in last_first:
        ids = {change.record.id, (change.previous or change.record).id}
        known = ((entries[number], state) for number, state in change.states_before.items() if number in entries)
        named = [(entry, state) for entry, state in known if not ids.isdisjoint((entry.id, entry.record_id))]
        if change.states_before and all(states[entry.id] is state for entry, state in named):
            raise RecordNotFoundError("one of the changes is undone already, or its record was erased: see history()")
        if change.previous is not None and change.previous.scope != change.record.scope:
            if ids != {entry.record_id for entry, _ in named}:
                raise _half_seen()
            moved |= ids
        for entry, state in named:
            above = counting.get(entry.record_id)
            if above is None:
                above = counting[entry.record_id] = _counting(logs[entry.record_id], states)
            states[entry.id] = state
            if entry.assertion.counts(state):
                bisect.insort(above, entry, key=deciding_order)
            replaces = change.kind is not ChangeKind.UNCHANGED and not entry.assertion.removed
            if state is AssertionState.RETRACTED and replaces:
                states |= {taken.id: state for taken in _taken_above(entry, above, states)}
    return [
        _request(
            entry,
            present[entry.id],
            states[entry.id],
            _beginning(MOVED, reason) if entry.record_id in moved else reason,
        )
        for entry in entries.values()
        if states[entry.id] is not present[entry.id]
    ]


def _beginning(beginning: str, reason: str | None) -> str:
    return beginning if reason is None else f"{beginning}: {reason}"


def _half_seen() -> RecordNotFoundError:
    return RecordNotFoundError(
        "the record was moved, and its place before or after is not visible here, or was erased, so that the move "
        "cannot be undone: retract the record, or restore it where it was"
    )


def moves_beside(log: Iterable[LogEntry]) -> set[int]:
    """Return the numbers of revisions by which moves link some records with others; see `moves_in`."""
    made = {entry.assertion.revised or 0 for entry in log if isinstance(entry, Recorded) and _came(entry)}
    return made | {entry.seq + 1 for entry in log if isinstance(entry, StateChange) and _leaves(entry)}


def moves_in(log: Iterable[LogEntry]) -> list[tuple[Recorded, Recorded]]:
    """Return the moves between scopes in a log: of each, the last revision that it left, and the one that it made.

    A move retracts a record, and directly after that it appends a revision elsewhere.
    """
    entries = {entry.id: entry for entry in log if isinstance(entry, Recorded)}
    leaving = sorted((it for it in log if isinstance(it, StateChange) and _leaves(it)), key=lambda it: it.seq)
    moves = []
    for came in filter(_came, entries.values()):
        before = bisect.bisect(leaving, came.seq, key=lambda it: it.seq)
        left = entries.get(leaving[before - 1].assertion_id) if before else None
        if left and left.record_id != came.record_id and leaving[before - 1].recorded_at == came.recorded_at:
            moves.append((left, came))
    return moves


def _leaves(change: StateChange) -> bool:
    return change.state is AssertionState.RETRACTED and change.reason == MOVED


def _came(entry: Recorded) -> bool:
    """Return whether a revision was made by a move: it follows one of another record, with retractions between."""
    said = entry.assertion
    follows = said.revises is None and said.revised is not None and said.revised < entry.seq - 1
    return follows and said.state is AssertionState.ACTIVE


def left_by_moves(log: Sequence[LogEntry], record_ids: Collection[str]) -> list[Recorded]:
    """Return the revisions of records, with those that moves, or their undoing, have left elsewhere.

    Args:
        log: Log of the records, and of those that moves link with them.
        record_ids: Ids of the records.
    """
    entries, states = [entry for entry in log if isinstance(entry, Recorded)], states_of(log)
    records = grouped(entries, lambda entry: entry.record_id)
    last = {it.assertion_id: it for it in log if isinstance(it, StateChange)}
    standing = {entry.id for entry in entries if entry.assertion.counts(states[entry.id])}
    parts = list[tuple[set[str], set[str]]]()  # what a move has left, and the rest of the record
    for left, came in moves_in(log):
        there, here = records[left.record_id], [it for it in records[came.record_id] if it.seq >= came.seq]
        for end, part, rest in ((left, there, here), (came, here, there)):
            change = last.get(end.id)
            if end.id not in standing and change is not None and (change.reason or "").startswith(MOVED):
                gone = {entry.id for entry in part if entry.seq < change.seq} - standing
                parts.append((gone, {entry.id for entry in rest}))
    found = {entry.id for entry in entries if entry.record_id in record_ids}
    while more := set[str]().union(*(part for part, rest in parts if not rest.isdisjoint(found))) - found:
        found |= more
    return [entry for entry in entries if entry.id in found]


class _Turn(NamedTuple):
    """An event by which a revision began to count, or counts no longer, and its state before."""

    event: Recorded | StateChange
    entry: Recorded
    before: AssertionState

    @property
    def shows(self) -> bool:
        return not self.entry.assertion.counts(self.before)

    @property
    def moves(self) -> bool:
        return _came(self.event) if isinstance(self.event, Recorded) else (self.event.reason or "").startswith(MOVED)

    def is_one_with(self, later: Sequence[_Turn]) -> bool:
        """Return whether a change of state was made with later ones of its record.

        A transaction changes each revision once, in the order of their numbers: so one ends where these begin anew,
        also where the clock stands still.
        """
        one, other = self.event, later[-1].event
        if isinstance(one, Recorded) or isinstance(other, Recorded) or self.entry.seq >= later[-1].entry.seq:
            return False
        decides, decided = (
            AssertionState.QUARANTINED in it for it in ((self.before, one.state), (later[-1].before, other.state))
        )
        return decides is decided and (one.recorded_at, one.reason, one.actor) == (
            other.recorded_at,
            other.reason,
            other.actor,
        )


def _turns(events: Sequence[Recorded | StateChange]) -> list[_Turn]:
    """Return the turns of a record, oldest first, without the ends of words that were read as its next revision."""
    entries = {event.id: event for event in events if isinstance(event, Recorded)}
    states = dict[str, AssertionState]()
    turns = list[_Turn]()
    for event in events:
        entry = entries[event.assertion_id]
        before = states.get(entry.id, AssertionState.RETRACTED)
        states[entry.id] = event.assertion.state if isinstance(event, Recorded) else event.state
        if entry.assertion.counts(states[entry.id]) == entry.assertion.counts(before):
            continue
        if before is AssertionState.PENDING:
            before, newest = AssertionState.ACTIVE, turns[-1]
            read = isinstance(newest.event, Recorded) and newest.event.recorded_at == event.recorded_at
            if read and newest.entry is not entry:
                continue
        turns.append(_Turn(event, entry, before))
    return turns or [_Turn(it, it, AssertionState.ACTIVE) for it in entries.values() if began_retracted(it.assertion)]


def _last(turns: Sequence[_Turn]) -> list[_Turn]:
    """Return the turns of the last transaction of a record, newest first."""
    last = list(turns[-1:])
    for turn in reversed(turns[:-1]):
        if not turn.is_one_with(last):
            break
        last.append(turn)
    return last


def _is_half(last: Sequence[_Turn]) -> bool:
    """Return whether turns are those of one of the two records of a move, or of its undoing."""
    return any(turn.moves for turn in last) and len({turn.shows for turn in last}) == 1


def last_changes(log: Sequence[LogEntry], record_ids: Iterable[str]) -> list[Change]:
    """Return the last change of each of some records; one that moved a record, or moved it back, is of two of them.

    Args:
        log: Log of the records, and of those that moves link with them.
        record_ids: Ids of the records.

    Raises:
        RecordNotFoundError: No record has an id, or it was never accepted, or only one record of a move is in the log.
        StateConflictError: It was moved, and the other record has changed since.
    """
    turns = {id: _turns(events) for id, events in by_record(log).items()}
    links = [{left.record_id, came.record_id} for left, came in moves_in(log)]
    states = states_of(log)
    found: dict[int, Change] = {}  # by the number of the first event, for two ids may be of one move
    for id in record_ids:
        last = _last(turns.get(id, ()))
        if not last:
            raise RecordNotFoundError(
                "some of the ids name no visible record, or an erased one, or one never accepted: see list_records()"
            )
        other = _other_half(id, turns, links) if _is_half(last) else []
        records = [
            shown_record(entry, {}, state=states[entry.id])
            for half in sorted((last, other), key=lambda half: not (half and half[0].shows))
            for entry in sorted((turn.entry for turn in half), key=deciding_order)[-1:]
        ]
        found[min(turn.event.seq for turn in (*last, *other))] = Change(
            kind=ChangeKind.UNCHANGED,
            record=records[0],
            previous=records[-1],
            states_before={turn.entry.seq: turn.before for turn in (*last, *other)},
        )
    return list(found.values())


def _other_half(id: str, turns: Mapping[str, Sequence[_Turn]], links: Collection[set[str]]) -> list[_Turn]:
    """Return the turns that were made with the last ones of a record, at the place where it was moved from or to."""
    linked = {id}
    while more := set[str]().union(*(pair for pair in links if not linked.isdisjoint(pair))) - linked:
        linked |= more
    last, numbers = _last(turns[id]), sorted(turn.event.seq for it in linked for turn in turns[it])
    for other in (half for it in linked - {id} if _is_half(half := _last(turns[it]))):
        both = sorted(turn.event.seq for turn in (*last, *other))
        together = both == numbers[numbers.index(both[0]) :][: len(both)]  # nothing was done between
        if together and other[0].shows != last[0].shows and other[0].event.recorded_at == last[0].event.recorded_at:
            return other
    newest = max(linked, key=lambda it: turns[it][-1].event.seq)
    if newest == id:
        raise _half_seen()
    raise StateConflictError(
        f"the record was moved, and has changed since, as {newest}: undo or retract that one first, or restore() this "
        "one beside it"
    )


def in_order_of(reverted: Iterable[Change], made: dict[str, Change], log: Sequence[LogEntry]) -> list[Change]:
    """Return the changes that reverting others made, in the order of these; both records of a move are one change."""
    record_ids = {entry.id: entry.record_id for entry in log if isinstance(entry, Recorded)}
    done = list[Change]()
    for change in reverted:
        shown = (change.record, change.previous or change.record)
        left, back = (made.pop(record_ids.get(record.id, record.id), None) for record in shown)
        if left and back and (left.kind, back.kind) == (ChangeKind.DELETED, ChangeKind.CREATED):
            states = {**left.states_before, **back.states_before}
            back = attrs.evolve(back, kind=ChangeKind.UPDATED, previous=left.record, states_before=states)
            left = None
        done += filter(None, (left, back))
    return done


def _check_current(record_ids: Collection[str], log: Sequence[LogEntry], moment: Moment) -> None:
    """Check that records are current by a log.

    Raises:
        RecordNotFoundError: One is not.
    """
    current = {row.recorded.record_id for row in fold(log, moment)}
    if missing := sum(id not in current for id in record_ids):
        raise RecordNotFoundError(
            f"{missing} of the records would still not be current: they have expired, or another record "
            "has their value by now; save them anew"
        )


def restore_requests(
    log: Sequence[LogEntry], record_ids: Collection[str], moment: Moment, reason: str | None
) -> list[StateRequest]:
    """Return the changes of state that bring records back after a retraction or a removal.

    A removal at the end of a record, as "forget that …" leaves it, is retracted: the value before it counts again. The
    revisions of the last retraction of a record are restored, unless a value counts already.

    Args:
        log: Log that the viewer may see.
        record_ids: Ids of the records.
        moment: The present.
        reason: Reason, for the audit trail.

    Raises:
        RecordNotFoundError: There is no such record, it is neither retracted nor removed, or it would still not be
            current.
    """
    states, logs = states_of(log), by_record(log)
    if missing := sum(id not in logs for id in record_ids):
        raise RecordNotFoundError(f"{missing} of the ids name no visible record, or an erased one: see list_records()")
    removals: list[StateRequest] = []
    restored: list[StateRequest] = []
    for id in record_ids:
        of_record = logs[id]
        taken, (ends, has_value) = _last_taken(of_record), _end(of_record, states)
        missing += not (taken or ends)
        removals += [_request(entry, states[entry.id], AssertionState.RETRACTED, reason) for entry in ends]
        if not (ends and has_value):
            retracted = AssertionState.RETRACTED
            restored += [_request(entry, retracted, AssertionState.ACTIVE, reason) for entry in taken]
    if missing:
        raise RecordNotFoundError(f"{missing} of the records have nothing that is retracted or removed: see history()")
    requests = [*removals, *restored]
    _check_current(record_ids, changed_log(log, requests, moment), moment)
    return requests


def _end(
    log: Sequence[Recorded | StateChange], states: Mapping[str, AssertionState]
) -> tuple[Sequence[Recorded], bool]:
    """Return the removals that count and decide before any value of a record, and whether a value counts."""
    counting = _counting(log, states)
    removals = list(itertools.takewhile(lambda entry: entry.assertion.removed, reversed(counting)))
    return removals, len(counting) > len(removals)


def _last_taken(log: Sequence[Recorded | StateChange]) -> list[Recorded]:
    """Return the revisions that the last retraction of a record took and that are still retracted.

    A retraction takes all that counts at the time, so nothing is said or restored between two of its changes. They are
    made at one time, for one reason, in the order of the revisions: what an undo took before is not among them.
    """
    entries = {entry.id: entry for entry in log if isinstance(entry, Recorded)}
    states = {id: entry.assertion.state for id, entry in entries.items()}
    taken: list[str] = []
    began: tuple[dt.datetime, str | None] | None = None
    over = True
    for event in log:
        match event:
            case Recorded(id=id, assertion=said) if began_retracted(said):
                taken, began, over = [id] if over else [*taken, id], None, False
            case Recorded(assertion=said):
                over = over or said.counts(said.state)
            case StateChange(assertion_id=id, state=state):
                said = entries[id].assertion
                if state is AssertionState.RETRACTED and said.counts(states[id]):
                    now = (event.recorded_at, event.reason)
                    in_order = taken != [] and entries[id].seq > entries[taken[-1]].seq
                    goes_on = not over and now == began and in_order
                    taken = [*taken, id] if goes_on else [id]
                    began, over = now, False
                else:
                    over = over or said.counts(state)
                states[id] = state
            case _:
                assert_never(event)
    return [entries[id] for id in taken if states[id] is AssertionState.RETRACTED]


def _request(recorded: Recorded, before: AssertionState, after: AssertionState, reason: str | None) -> StateRequest:
    return StateRequest.of(recorded, state=after, reason=reason, expected=before)


def state_requests(
    entries: Iterable[Recorded], before: AssertionState, after: AssertionState, reason: str
) -> list[StateRequest]:
    """Return the requests that change the states of assertions from one to another."""
    return [_request(entry, before, after, reason) for entry in entries]


def changed_log(log: Sequence[LogEntry], requests: Sequence[StateRequest], moment: Moment) -> list[LogEntry]:
    """Return a log as it will be after some changes of state."""
    newest = max((entry.seq for entry in log), default=0)
    return [
        *log,
        *(
            StateChange(
                assertion_id=request.assertion_id,
                state=request.state,
                seq=newest + number,
                recorded_at=moment.now,
                reason=request.reason,
            )
            for number, request in enumerate(requests, start=1)
        ),
    ]


def changes_by(
    requests: Sequence[StateRequest], log: Sequence[LogEntry], moment: Moment, concepts: Mapping[str, Concept[Any, Any]]
) -> dict[str, Change]:
    """Return the changes of records that changes of state make, by record id.

    Args:
        requests: Changes of state.
        log: Log before them.
        moment: The present.
        concepts: Declared concepts by keyword.
    """
    later = changed_log(log, requests, moment)
    before, after = ({row.recorded.record_id: row for row in fold(entries, moment)} for entries in (log, later))
    became = {entry.seq: (entry, state) for entry, state in revisions(later, moment)}

    def unchanged(stays: Current | None, states: Mapping[int, AssertionState]) -> Change:
        entry, state = became[max(states)]
        waits = state is AssertionState.QUARANTINED
        record = as_kept_apart(entry, state, concepts) if waits else shown_record(entry, concepts, state=state)
        previous = None if stays is None else hydrate(stays, concepts)
        return Change(kind=ChangeKind.UNCHANGED, record=record, previous=previous, states_before=states)

    return {
        id: change_of(before.get(id), after.get(id), concepts, states) or unchanged(before.get(id), states)
        for id, states in changed_states(log, later).items()
    }
