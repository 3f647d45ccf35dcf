"""Rollback and restoration: the changes of state that bring back a revision or a record."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import attrs

from factmem.abc import StateRequest
from factmem.errors import InvalidDataError, RecordNotFoundError, StateConflictError
from factmem.fold import Current, Moment, deciding_order, fold, has_expired, record_key, states_of
from factmem.records import AssertionState, FactRecord, LogEntry, Recorded, StateChange

__all__ = ["changed_log", "current_of", "restore_requests", "revision_in", "rollback_requests"]

_ROLLED_BACK: Final = "rolled back"
"""Prefix of the reasons of rollbacks, by which `restore` distinguishes them from later retractions."""


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
            f"a revision is a record of a history or its number, not a {type(revision).__name__}: take one of "
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
        RecordNotFoundError: It has expired or was erased, or another record has its value by now.
        StateConflictError: Words that wait for a model would have to be retracted.
    """
    if has_expired(target.assertion, moment):
        raise RecordNotFoundError("the revision has expired: save its value anew")
    states = states_of(log)
    if target.id not in states:
        raise RecordNotFoundError("the revision was erased")
    reason = _ROLLED_BACK if reason is None else f"{_ROLLED_BACK}: {reason}"
    requests = [
        _request(item, states[item.id], AssertionState.RETRACTED, reason)
        for item in log
        if isinstance(item, Recorded)
        and record_key(item) == record_key(target)
        and deciding_order(item) > deciding_order(target)
        and item.id in states
        and item.assertion.counts(states[item.id])
    ]
    if any(request.expected is AssertionState.PENDING for request in requests):
        raise StateConflictError("words said since then wait for a model: let them be read before")
    if not target.assertion.counts(states[target.id]):
        requests.append(_request(target, states[target.id], AssertionState.ACTIVE, reason))
    if current_of(changed_log(log, requests, moment), target, moment) is None:
        raise RecordNotFoundError("another record has the value of this revision by now: retract that one before")
    return requests


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
        RecordNotFoundError: A record is neither retracted nor removed, or it would still not be current.
    """
    taken, ends = _last_taken(log, record_ids), _removals(log, record_ids)
    if missing := [id for id, entries in taken.items() if not entries and not ends[id].removals]:
        raise RecordNotFoundError(
            f"{len(missing)} of the ids name no visible record of which anything is retracted or removed: see history()"
        )
    requests = [
        _request(entry, ends[id].states[entry.id], AssertionState.RETRACTED, reason)
        for id in taken
        for entry in ends[id].removals
    ]
    requests += [
        _request(entry, AssertionState.RETRACTED, AssertionState.ACTIVE, reason)
        for id, entries in taken.items()
        if not (ends[id].removals and ends[id].value)
        for entry in entries
    ]
    current = {row.recorded.record_id for row in fold(changed_log(log, requests, moment), moment)}
    if missing := [id for id in taken if id not in current]:
        raise RecordNotFoundError(
            f"{len(missing)} of the records would still not be current: they have expired, or another record "
            "has their value by now; save them anew"
        )
    return requests


@attrs.frozen(kw_only=True)
class _End:
    """The end of a record: the removals that count and decide before any value that counts."""

    removals: tuple[Recorded, ...]
    value: bool
    states: Mapping[str, AssertionState]


def _removals(log: Sequence[LogEntry], record_ids: Collection[str]) -> dict[str, _End]:
    """Return the end of each record."""
    states = states_of(log)
    counting: dict[str, list[Recorded]] = {id: [] for id in record_ids}
    for entry in log:
        if not isinstance(entry, Recorded) or entry.record_id not in counting or entry.id not in states:
            continue
        if entry.assertion.counts(states[entry.id]):
            counting[entry.record_id].append(entry)
    return {id: _end(sorted(said, key=deciding_order), states) for id, said in counting.items()}


def _end(said: Sequence[Recorded], states: Mapping[str, AssertionState]) -> _End:
    newest_first = reversed(said)
    removals = tuple(itertools.takewhile(lambda entry: entry.assertion.removed, newest_first))
    return _End(removals=removals, value=len(said) > len(removals), states=states)


def _last_taken(log: Sequence[LogEntry], record_ids: Collection[str]) -> dict[str, list[Recorded]]:
    """Return the revisions that the last retraction of each record took and that are still retracted.

    A retraction takes all that counts at the time, so nothing is said or restored between two of its changes.
    """
    wanted = set(record_ids)
    entries = {entry.id: entry for entry in log if isinstance(entry, Recorded) and entry.record_id in wanted}
    states = {id: entry.assertion.state for id, entry in entries.items()}
    runs = {id: _Run() for id in wanted}
    for event in sorted(log, key=lambda item: item.seq):
        match event:
            case Recorded(id=id, assertion=said) if id in entries and said.counts(said.state):
                runs[event.record_id].over = True
            case StateChange(assertion_id=id, state=state) if id in entries:
                said, run = entries[id].assertion, runs[entries[id].record_id]
                if state is AssertionState.RETRACTED and said.counts(states[id]):
                    run.take(id, event.reason)
                elif said.counts(state):
                    run.over = True
                states[id] = state
            case _:
                pass
    retracted = {id for id, state in states.items() if state is AssertionState.RETRACTED}
    return {id: [entries[taken] for taken in runs[id].taken if taken in retracted] for id in record_ids}


@attrs.define
class _Run:
    """The last retraction of a record up to a point of the log."""

    taken: list[str] = attrs.field(factory=list)
    reason: str | None = None
    over: bool = True

    def take(self, id: str, reason: str | None) -> None:
        if self.over or reason != self.reason:
            self.taken = []
        self.taken.append(id)
        self.reason, self.over = reason, False


def _request(recorded: Recorded, before: AssertionState, after: AssertionState, reason: str | None) -> StateRequest:
    return StateRequest.of(recorded, state=after, reason=reason, expected=before)


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


def current_of(log: Sequence[LogEntry], target: Recorded, moment: Moment) -> Current | None:
    """Return the present state of the record of a revision, or None."""
    track = [
        entry for entry in log if not isinstance(entry, Recorded) or entry.assertion.track == target.assertion.track
    ]
    return next((row for row in fold(track, moment) if record_key(row.recorded) == record_key(target)), None)
