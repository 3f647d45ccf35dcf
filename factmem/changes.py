"""Changes of records, and the changes between two folds."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from factmem.facts import Concept
from factmem.fold import Current
from factmem.records import FactRecord, shown_record


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
        previous: the previous revision, if UPDATED; the one that stays, if UNCHANGED; the same one as it waited, if
            `is_decision`.
    """

    kind: ChangeKind
    record: FactRecord[Any]
    previous: FactRecord[Any] | None = None

    @property
    def is_decision(self) -> bool:
        """Whether the revision is the same as before, and was accepted, rejected, or waits in quarantine again."""
        before = self.previous
        return before is not None and before.revision == self.record.revision and before.state is not self.record.state

    def __repr__(self) -> str:
        previous = f", previous={self.previous!r}" if self.previous else ""
        return f"Change({self.kind.value}, {self.record!r}{previous})"


def changes_between(
    before: Iterable[Current], after: Iterable[Current], concepts: Mapping[str, Concept[Any, Any]] | None = None
) -> list[Change]:
    """Return the change of each record between two folds of the same places, in the order first said.

    A record is UPDATED if it shows another assertion, or other evidence, than before.

    Args:
        before: the current records before, as a viewer sees them.
        after: the current records now, as the same viewer sees them.
        concepts: declared concepts by keyword, to read values with; others are read by their shapes.
    """
    was = {current.recorded.record_id: current for current in before}
    now = {current.recorded.record_id: current for current in after}
    everything = sorted((was | now).items(), key=lambda item: item[1].first_said)
    found = (_change(was.get(id), now.get(id), concepts or {}) for id, _ in everything)
    return [change for change in found if change is not None]


def _change(before: Current | None, after: Current | None, concepts: Mapping[str, Concept[Any, Any]]) -> Change | None:
    match before, after:
        case Current(), None:
            return Change(kind=ChangeKind.DELETED, record=_shown(before, concepts))
        case None, Current():
            return Change(kind=ChangeKind.CREATED, record=_shown(after, concepts))
        case Current(), Current() if before.recorded.id != after.recorded.id or before.details != after.details:
            shown, previous = _shown(after, concepts), _shown(before, concepts)
            return Change(kind=ChangeKind.UPDATED, record=shown, previous=previous)
        case _:
            return None


def _shown(current: Current, concepts: Mapping[str, Concept[Any, Any]]) -> FactRecord[Any]:
    return shown_record(current.recorded, concepts, details=current.details)
