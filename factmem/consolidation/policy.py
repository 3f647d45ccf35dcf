"""How new facts are compared with known ones, and when a plan needs approval."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs

from factmem.records import MetadataMerge
from factmem.validators import fraction, instance_of, positive

__all__ = ["Approve", "ConsolidationPolicy", "Proposal"]


@attrs.frozen(kw_only=True)
class Proposal:
    """Deletions that are too many to be made without being asked about. It holds no word of what is deleted.

    Attributes:
        record_ids: the records that would be retracted.
        deletions: how many facts would go; newcomers of the same batch that are taken back are among them.
        among: the number of records that this is measured against: those that the model was shown, or for
            a wish to forget everything that is known behind the walls it was uttered in.
        removal: whether somebody asked to forget, or the model thinks them superseded.
    """

    record_ids: tuple[str, ...]
    deletions: int
    among: int
    removal: bool


Approve: TypeAlias = Callable[[Proposal], Awaitable[bool]]
"""Says whether a proposal may be carried out."""


@attrs.frozen(kw_only=True)
class ConsolidationPolicy:
    """How new statements are compared with known ones.

    Similarity is the cosine of two embeddings, from -1 to 1, whatever their length and whatever the
    store measures distances by. How close two texts of one meaning are differs from embedder to embedder:
    look at yours before you lower a threshold.

    Attributes:
        threshold: from this cosine on, a known statement is similar to a new one, and a model is asked.
        limit: at most this many known records are shown in a question.
        duplicate: from this cosine on, two statements of one batch are the same, and no model is asked.
        max_deleted_share: a plan that deletes more than this share, and more than one, needs approval. The
            share is that of the records shown; for wishes to forget, of everything known behind their walls.
        concurrency: how many questions are asked at a time.
        approve: is asked about such a plan. None refuses: nothing is deleted, and every newcomer is kept.
        metadata: what becomes of a record's metadata when a newcomer updates it.

    Raises:
        InvalidDataError: a number is out of range.
    """

    threshold: float = attrs.field(default=0.85, validator=fraction)
    limit: int = attrs.field(default=5, validator=positive)
    duplicate: float = attrs.field(default=0.98, validator=fraction)
    max_deleted_share: float = attrs.field(default=0.5, validator=fraction)
    concurrency: int = attrs.field(default=4, validator=positive)
    approve: Approve | None = None
    metadata: MetadataMerge = attrs.field(default=MetadataMerge.MERGE, validator=instance_of(MetadataMerge))

    def allows(self, deletions: int, among: int) -> bool:
        """Whether so many deletions among so many records need no approval."""
        return deletions <= max(1, self.max_deleted_share * among)
