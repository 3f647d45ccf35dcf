"""Outcomes of submitted words."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from factmem.abc import DropReason
from factmem.changes import Change
from factmem.records import AssertionState, FactRecord

__all__ = ["Remembered", "Unrepresented"]


class Unrepresented(enum.Enum):
    """A part of a finding that a provider with only the four verbs cannot keep."""

    EVIDENCE = "kept without the words it came from"
    DETAILS = "kept without its importance, categories, topics, metadata or flags"
    COMPARISON = "kept without a comparison with similar statements"
    ORIGIN = "not kept: somebody else than the user said it, and the provider cannot tell who"
    QUARANTINE = "not kept: it belongs into quarantine, and the provider has none"
    REMOVAL = "not kept: it takes back what is known, and the provider cannot"


@attrs.frozen(kw_only=True)
class Remembered:
    """Outcome of submitted words or facts. Iterating yields the records.

    Attributes:
        records: The records that hold them, as they are in the store; none if there was nothing to remember.
        changes: The changes of records; none if all of it was known.
        dropped: Number of findings of the model that were dropped, by reason. `DropReason.ONLY_SECRETS` counts messages
            of which nothing was kept, `DropReason.NOT_TEXT` the images, audio and files in messages,
            `DropReason.DUPLICATE` a text that was not kept beside another one of the same batch: the record is that of
            the other one.
        unrepresented: Number of findings that the provider could keep in part only, or not at all, by what it lacks.
            Empty unless the provider has the four verbs only.
        failure: Name of the error that kept the model from reading them, or None. The words are kept as they were said,
            and can be read again; see `Inbox.dead_letters`.
    """

    records: tuple[FactRecord[Any], ...] = ()
    changes: tuple[Change, ...] = ()
    dropped: Mapping[DropReason, int] = attrs.field(factory=dict)
    unrepresented: Mapping[Unrepresented, int] = attrs.field(factory=dict)
    failure: str | None = None

    @property
    def waiting(self) -> tuple[FactRecord[Any], ...]:
        """The records that wait in quarantine, each with its id there and its `FactRecord.quarantine_reason`.

        A doubtful value that waited before, or was rejected, is counted in `dropped` instead.
        """
        return tuple(record for record in self.records if record.state is AssertionState.QUARANTINED)

    def __iter__(self) -> Iterator[FactRecord[Any]]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def with_others(self, others: Sequence[Remembered]) -> Remembered:
        """Return this outcome and others of the same call as one."""
        together = self
        for other in others:
            together = attrs.evolve(
                together,
                records=(*together.records, *other.records),
                changes=(*together.changes, *other.changes),
                dropped=dict(Counter(together.dropped) + Counter(other.dropped)),
                unrepresented=dict(Counter(together.unrepresented) + Counter(other.unrepresented)),
                failure=together.failure or other.failure,
            )
        return together

    def without(self, reason: DropReason, number: int) -> Remembered:
        """Return this outcome with a higher count of dropped parts."""
        if not number:
            return self
        return attrs.evolve(self, dropped={**self.dropped, reason: self.dropped.get(reason, 0) + number})
