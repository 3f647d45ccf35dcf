"""The past of a record: its revisions, and the actions on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

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
