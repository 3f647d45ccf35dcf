"""The past of a record: its revisions, the actions on it, and how to undo the last one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from factmem.changes import Change, ChangeKind
from factmem.errors import CapabilityError, RecordNotFoundError
from factmem.records import AssertionState, FactRecord

if TYPE_CHECKING:
    from factmem.memory.audit import AuditEntry
    from factmem.memory.facade import Memory


@attrs.frozen(kw_only=True)
class Biography:
    """A record with its past.

    Attributes:
        record: The record as it is now, or as it was last.
        revisions: Its revisions, oldest first.
        trail: The actions on it, oldest first.
    """

    record: FactRecord[Any]
    revisions: Sequence[FactRecord[Any]]
    trail: Sequence[AuditEntry]

    @property
    def unaccepted(self) -> bool:
        """Whether it was never accepted from quarantine: it can be accepted or rejected, and nothing else."""
        return not self.revisions


async def biography_of(memory: Memory, id: str) -> Biography:
    """Return a record with its past; a quarantined or retracted one as well.

    Args:
        memory: The memory.
        id: The id of the record, in full.

    Raises:
        RecordNotFoundError: No visible record has this id.
    """
    try:
        audit = await memory.admin.audit(id, descending=False, limit=None)
    except CapabilityError:  # what it was before is not kept
        record = await memory.get(id)
        return Biography(record=record, revisions=[record], trail=[])
    trail = [entry for entry in audit.entries if entry.record]
    try:
        revisions = await memory.history(id)
    except RecordNotFoundError:  # it was never accepted from quarantine
        revisions = []
    last = [entry.record for entry in trail if entry.record is not None][-1]
    current = [record for record in revisions if record.state is AssertionState.ACTIVE]
    return Biography(record=current[-1] if current else last, revisions=revisions, trail=trail)


async def undo_last(memory: Memory, id: str, *, reason: str | None = None) -> Sequence[Change]:
    """Undo the last change of a record; undone twice, it is made again.

    A new value gives way to the one before, a new record is retracted, and a retracted one restored.

    Args:
        memory: The memory.
        id: The id of the record, in full.
        reason: The reason, for the audit trail.

    Raises:
        RecordNotFoundError: No visible record has this id, or it was never accepted from quarantine.
    """
    revisions = await memory.history(id)
    states = [record.state for record in sorted(revisions, key=lambda record: record.revision)]
    if AssertionState.ACTIVE not in states or states[-1] is AssertionState.RETRACTED:  # by an undo or a rollback
        return await memory.restore(id, reason=reason)
    last = max(revisions, key=lambda record: record.revision)
    if last.state is AssertionState.SUPERSEDED:  # of a lower origin or said earlier: what is current stays
        return await memory.undo([Change(kind=ChangeKind.UNCHANGED, record=last)], reason=reason)
    earlier = [record for record in revisions if record.state is AssertionState.SUPERSEDED]
    if not earlier:
        return await memory.retract(id, reason=reason)
    return [await memory.rollback(earlier[-1], reason=reason)]
