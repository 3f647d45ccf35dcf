"""Reversals: the changes of state that bring former revisions back, and those of records that follow from them.

All of it follows from the log that the viewer may see; `Writer` commits the changes.
"""

from __future__ import annotations

import bisect
import datetime as dt
import itertools
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, assert_never

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
from factmem.recall.results import hydrate
from factmem.records import AssertionState, FactRecord, LogEntry, Recorded, StateChange, as_kept_apart, shown_record

_ROLLED_BACK: Final = "rolled back"
"""Prefix of the reasons of rollbacks, which retract the last revision first."""


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
    reason = _ROLLED_BACK if reason is None else f"{_ROLLED_BACK}: {reason}"
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
        RecordNotFoundError: One of them is undone already, or its record was erased.
        StateConflictError: Words that wait for a model would have to be retracted.
    """
    present, logs = states_of(log), by_record(log)
    entries = {entry.seq: entry for entry in log if isinstance(entry, Recorded)}
    states = dict(present)
    counting: dict[str, list[Recorded]] = {}  # by record, the one that decides last; those taken back are left there
    for change in last_first:
        ids = {change.record.id, (change.previous or change.record).id}
        known = ((entries[number], state) for number, state in change.states_before.items() if number in entries)
        named = [(entry, state) for entry, state in known if not ids.isdisjoint((entry.id, entry.record_id))]
        if not change.states_before.keys() <= entries.keys():
            raise RecordNotFoundError("a part of the change was erased, or is not visible here: see history()")
        if change.states_before and all(states[entry.id] is state for entry, state in named):
            raise RecordNotFoundError("one of the changes is undone already, or its record was erased: see history()")
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
        _request(entry, present[entry.id], states[entry.id], reason)
        for entry in entries.values()
        if states[entry.id] is not present[entry.id]
    ]


def moves_beside(log: Sequence[LogEntry]) -> set[int]:
    """Return the numbers of further revisions that moves may link a log with.

    A move retracts a record, and appends it at its new place directly after that; see `moves_in`.
    """
    entries = [entry for entry in log if isinstance(entry, Recorded)]
    numbers = {entry.assertion.revised for entry in entries} | {it.seq + 1 for it in log if isinstance(it, StateChange)}
    return {number for number in numbers if number}.difference(entry.seq for entry in entries)


def moves_in(log: Iterable[LogEntry]) -> list[tuple[Recorded, Recorded]]:
    """Return the moves between scopes in a log: the last revision at the old place, and the first at the new one."""
    entries = {entry.seq: entry for entry in log if isinstance(entry, Recorded)}
    revised = ((entries.get(entry.assertion.revised or 0), entry) for entry in entries.values())
    return [(left, came) for left, came in revised if left is not None and left.record_id != came.record_id]


def left_by_moves(log: Sequence[LogEntry], record_ids: Collection[str]) -> list[Recorded]:
    """Return the revisions that moves have left at other places: the former ones of records, and those of undone moves.

    Args:
        log: Log of the records, and of those that moves link with them.
        record_ids: Ids of the records.
    """
    states, logs, moves = states_of(log), by_record(log), moves_in(log)
    entries = {id: [entry for entry in of if isinstance(entry, Recorded)] for id, of in logs.items()}
    counting = {id for id, of in entries.items() if any(it.assertion.counts(states[it.id]) for it in of)}
    found = {entry.id: entry for id in record_ids for entry in entries.get(id, ())}
    own = set(found)
    size = 0
    while len(found) > size:
        size = len(found)
        for left, came in moves:
            if came.id in found:
                found |= {it.id: it for it in entries[left.record_id] if it.seq <= left.seq}
            if left.id in found and came.record_id not in counting:
                found |= {it.id: it for it in entries[came.record_id] if it.seq >= came.seq}
    return [entry for id, entry in found.items() if id not in own]


def last_changes(
    log: Sequence[LogEntry],
    record_ids: Collection[str],
    visible: Set[str],
    moment: Moment,
    concepts: Mapping[str, Concept[Any, Any]],
) -> list[Change]:
    """Return the last change of each of some records, in the order made; that of two records, by a move, once.

    Args:
        log: Whole log of the records, and of those that moves link with them.
        record_ids: Ids of the records.
        visible: Ids of those that the viewer may see.
        moment: The present.
        concepts: Declared concepts by keyword.

    Raises:
        RecordNotFoundError: There is no such record, the revision that its last change has replaced was erased, or it
            was moved from or to a place that the viewer may not see.
        StateConflictError: A record was moved, and the other of the two was changed since.
    """
    linked: dict[str, set[str]] = defaultdict(set)
    for left, came in moves_in(log):
        linked[left.record_id].add(came.record_id)
        linked[came.record_id].add(left.record_id)
    logs, found = by_record(log), dict[int, Sequence[Recorded | StateChange]]()
    _check_known(record_ids, visible)
    for id in record_ids:
        made = _last_transaction(id, logs, linked[id], visible)
        found[made[-1].seq] = made
    undone = {event.seq: event.assertion_id for made in found.values() for event in made}
    before = [entry for entry in log if entry.seq not in undone]
    # What a model has read goes with its reading, and does not wait for a model again.
    waited = {id for id, state in states_of(before).items() if state is AssertionState.PENDING}
    read = waited.intersection(undone.values())
    before = [entry for entry in before if not (isinstance(entry, Recorded) and entry.id in read)]
    changes = _changes_between(before, log, moment, concepts)
    records = {event.assertion_id: id for id, events in logs.items() for event in events}
    made_of = [dict.fromkeys(records[event.assertion_id] for event in made) for _, made in sorted(found.items())]
    return [change for ids in made_of for change in _united(changes[id] for id in ids if id in changes)]


def _last_transaction(
    record_id: str, logs: Mapping[str, Sequence[Recorded | StateChange]], linked: Set[str], visible: Set[str]
) -> Sequence[Recorded | StateChange]:
    """Return the events of the last transaction of a record, with those of the record that it was moved from or to.

    Args:
        record_id: Id of the record.
        logs: Events of all records, by their ids.
        linked: Ids of the records that moves link with it.
        visible: Ids of the records that the viewer may see.
    """
    own = {event.seq for event in logs[record_id]}
    events = sorted((event for id in (record_id, *linked) for event in logs[id]), key=lambda event: event.seq)
    *_, made = (it for it in _transactions(events) if not {event.seq for event in it}.isdisjoint(own))
    for id in (id for id in linked if any(event in made for event in logs[id])):
        if id not in visible:
            raise RecordNotFoundError("the last change was a move: undo it in a view that shows both scopes")
        if logs[id][-1].seq > made[-1].seq:
            raise StateConflictError(
                f"the record was moved, and {id} was changed since: undo the changes of that first"
            )
    known = {None, *(event.seq for event in events if isinstance(event, Recorded))}
    if any(isinstance(event, Recorded) and event.assertion.revised not in known for event in made):
        raise RecordNotFoundError("the revision that the last change has replaced was erased: see history()")
    return made


def _transactions(events: Sequence[Recorded | StateChange]) -> Iterator[list[Recorded | StateChange]]:
    """Return the transactions of a record, or of two that a move links, in order.

    Each is one revision, or changes of state of different revisions, which were recorded at one time and for one
    reason; that of a move ends with the first revision at the new place.
    """
    moves = {came.seq for _, came in moves_in(events)}
    made, revisions = list[Recorded | StateChange](), set[str]()
    for event in events:
        last = made[-1] if made else None
        joins = (
            isinstance(last, StateChange)
            and event.recorded_at == last.recorded_at
            and event.assertion_id not in revisions
            and (event.seq in moves if isinstance(event, Recorded) else event.reason == last.reason)
        )
        if made and not joins:
            yield made
            made, revisions = [], set()
        made.append(event)
        revisions.add(event.assertion_id)
    yield made


def in_order_of(reverted: Iterable[Change], made: dict[str, Change], log: Sequence[LogEntry]) -> list[Change]:
    """Return the changes that reverting others made, in the order of these; both records of a move are one change."""
    record_ids = {entry.id: entry.record_id for entry in log if isinstance(entry, Recorded)}
    done = list[Change]()
    for change in reverted:
        shown = (change.record, change.previous or change.record)
        done += _united(filter(None, [made.pop(record_ids.get(it.id, it.id), None) for it in shown]))
    return done


def _united(changes: Iterable[Change]) -> list[Change]:
    """Return the changes of one transaction, those of the two records of a move as one."""
    made = sorted(changes, key=lambda change: change.kind is ChangeKind.CREATED)
    if [change.kind for change in made] != [ChangeKind.DELETED, ChangeKind.CREATED]:
        return made
    left, came = made
    states = {**left.states_before, **came.states_before}
    return [attrs.evolve(came, kind=ChangeKind.UPDATED, previous=left.record, states_before=states)]


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


def _check_known(record_ids: Collection[str], known: Container[str]) -> None:
    """Check that ids name records that are known.

    Raises:
        RecordNotFoundError: One does not.
    """
    if missing := sum(id not in known for id in record_ids):
        raise RecordNotFoundError(f"{missing} of the ids name no visible record, or an erased one: see list_records()")


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
    _check_known(record_ids, logs)
    missing = 0
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
                    rolled_back = (event.reason or "").startswith(_ROLLED_BACK)  # from the last revision on
                    in_order = rolled_back or (taken != [] and entries[id].seq > entries[taken[-1]].seq)
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
    return _changes_between(log, changed_log(log, requests, moment), moment, concepts)


def _changes_between(
    log: Sequence[LogEntry], later: Sequence[LogEntry], moment: Moment, concepts: Mapping[str, Concept[Any, Any]]
) -> dict[str, Change]:
    """Return the changes of records between a log and a later one, by record id."""
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
