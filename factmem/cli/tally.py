"""What a language model's reading came to, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

import attrs

from factmem.abc import DropReason
from factmem.records import AssertionState, ChangeKind
from factmem.values import Json

if TYPE_CHECKING:
    from factmem.memory import Remembered, Unrepresented

__all__ = ["Tally", "counted"]


@attrs.frozen(kw_only=True)
class Tally:
    """What came of words that were read.

    Attributes:
        created: how many records are new.
        updated: how many were updated.
        deleted: how many were retracted.
        quarantined: how many are kept apart until somebody lets them in.
        dropped: how many findings were dropped, by why.
        unrepresented: how many findings the store could keep in part only, or not at all, by what it lacks.
        dead_letters: how often the model failed, so that words are kept as they were said.
    """

    created: int = 0
    updated: int = 0
    deleted: int = 0
    quarantined: int = 0
    dropped: Counter[DropReason] = attrs.field(factory=Counter)
    unrepresented: Counter[Unrepresented] = attrs.field(factory=Counter)
    dead_letters: int = 0

    @classmethod
    def of(cls, outcomes: Collection[Remembered]) -> Tally:
        """Count what came of hand-overs; what several of them brought about is counted once."""
        read = [outcome for outcome in outcomes if outcome.failure is None]
        changes = {(change.kind, change.record.id, change.record.revision) for item in read for change in item.changes}
        kinds = Counter(kind for kind, *_ in changes)
        lacking: Counter[Unrepresented] = Counter()
        for outcome in outcomes:
            lacking.update(outcome.unrepresented)
        records = {record.id: record.state for item in read for record in item.records}
        return cls(
            created=kinds[ChangeKind.CREATED],
            updated=kinds[ChangeKind.UPDATED],
            deleted=kinds[ChangeKind.DELETED],
            quarantined=list(records.values()).count(AssertionState.QUARANTINED),
            dropped=sum((Counter(item.dropped) for item in outcomes), Counter[DropReason]()),
            unrepresented=lacking,
            dead_letters=len(outcomes) - len(read),
        )

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {
            "created": self.created,
            "updated": self.updated,
            "deleted": self.deleted,
            "quarantined": self.quarantined,
            "dropped": {reason.name.lower(): count for reason, count in self.dropped.items()},
            "dead_letters": self.dead_letters,
        }

    def __str__(self) -> str:
        return (
            f"{counted(self.created, 'fact')} created, {self.updated} updated, {self.deleted} deleted, "
            f"{self.quarantined} quarantined"
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """Notices about findings that were dropped or kept in part, with the reason."""
        return (
            *(
                f"{counted(count, 'part' if reason is DropReason.NOT_TEXT else 'finding')} dropped: {reason.value}"
                for reason, count in self.dropped.most_common()
            ),
            *(f"{counted(count, 'finding')} {lack.value}" for lack, count in self.unrepresented.most_common()),
        )


def counted(count: int, what: str) -> str:
    """Return a number of things, in words: ``1 fact``, ``2 facts``."""
    return f"{count} {what}{'' if count == 1 else 's'}"
