"""Changes of records, and the changes between two folds."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from factmem.facts import Concept
from factmem.fold import Current, states_of
from factmem.records import AssertionState, FactRecord, LogEntry, Recorded, shown_record


class ChangeKind(enum.Enum):
    """Kind of a change to one record.

    UNCHANGED: what is current stays as it is. The words of the change wait in quarantine, or stand in the history.
    """

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"
    UNCHANGED = "unchanged"


@attrs.frozen(kw_only=True)
class Change:
    """A change of one record.

    Attributes:
        kind: CREATED, UPDATED, DELETED or UNCHANGED.
        record: the record as it is now; a DELETED one as it was; if UNCHANGED, the words, QUARANTINED or SUPERSEDED.
        previous: the previous revision, if UPDATED; the one that stays, if UNCHANGED; the same one as it waited, if it
            was accepted or rejected.
        states_before: the state before of each revision whose state changed, by its number: `Memory.undo` returns to
            it. RETRACTED stands for a new revision; by default, that of the record is new.
    """

    kind: ChangeKind
    record: FactRecord[Any]
    previous: FactRecord[Any] | None = None
    states_before: Mapping[int, AssertionState] = attrs.field(
        default=attrs.Factory(lambda self: {self.record.revision: AssertionState.RETRACTED}, takes_self=True), eq=False
    )

    def __repr__(self) -> str:
        previous = f", previous={self.previous!r}" if self.previous else ""
        return f"Change({self.kind.value}, {self.record!r}{previous})"


def changes_between(
    before: Iterable[Current],
    after: Iterable[Current],
    concepts: Mapping[str, Concept[Any, Any]] | None = None,
    states_before: Mapping[str, Mapping[int, AssertionState]] | None = None,
) -> list[Change]:
    """Return the change of each record between two folds of the same places, in the order first said.

    A record is UPDATED if it shows another assertion, or other evidence, than before.

    Args:
        before: the current records before, as a viewer sees them.
        after: the current records now, as the same viewer sees them.
        concepts: declared concepts by keyword, to read values with; others are read by their shapes.
        states_before: `Change.states_before` by record id; see `changed_states`.
    """
    was = {current.recorded.record_id: current for current in before}
    now = {current.recorded.record_id: current for current in after}
    everything = sorted((was | now).items(), key=lambda item: item[1].first_said)
    states = states_before or {}
    found = (change_of(was.get(id), now.get(id), concepts or {}, states.get(id, {})) for id, _ in everything)
    return [change for change in found if change is not None]


def changed_states(before: Iterable[LogEntry], after: Sequence[LogEntry]) -> dict[str, dict[int, AssertionState]]:
    """Return `Change.states_before` of all records whose revisions changed between two logs, by record id.

    New revisions that do not count are left out.

    Args:
        before: the log before.
        after: the log now.
    """
    were, are = states_of(before), states_of(after)
    found: dict[str, dict[int, AssertionState]] = {}
    for entry in after:
        if isinstance(entry, Recorded) and (now := are.get(entry.id)) is not None:
            was = were.get(entry.id, AssertionState.RETRACTED)
            if was is not now and (entry.id in were or entry.assertion.counts(now)):
                found.setdefault(entry.record_id, {})[entry.seq] = was
    return found


def change_of(
    before: Current | None,
    after: Current | None,
    concepts: Mapping[str, Concept[Any, Any]],
    states_before: Mapping[int, AssertionState],
) -> Change | None:
    """Return the change of a record, or None if it shows the same as before.

    Args:
        before: the record before, if it was current.
        after: the record now, if it is current.
        concepts: declared concepts by keyword, to read values with; others are read by their shapes.
        states_before: see `Change.states_before`.
    """
    match before, after:
        case Current(), None:
            kind, record, previous = ChangeKind.DELETED, _shown(before, concepts), None
        case None, Current():
            kind, record, previous = ChangeKind.CREATED, _shown(after, concepts), None
        case Current(), Current() if before.recorded.id != after.recorded.id or before.details != after.details:
            kind, record, previous = ChangeKind.UPDATED, _shown(after, concepts), _shown(before, concepts)
        case _:
            return None
    return Change(kind=kind, record=record, previous=previous, states_before=states_before)


def _shown(current: Current, concepts: Mapping[str, Concept[Any, Any]]) -> FactRecord[Any]:
    return shown_record(current.recorded, concepts, details=current.details)
