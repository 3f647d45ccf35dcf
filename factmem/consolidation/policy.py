"""Policy of consolidation: thresholds, limits and approval."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs

from factmem.details import MetadataMerge
from factmem.validators import fraction, instance_of, positive


@attrs.frozen(kw_only=True)
class Proposal:
    """Deletions that are too many to be made without approval. It holds no word of the deleted facts.

    Attributes:
        record_ids: the records to retract.
        deletions: number of facts to delete, candidates of the same batch among them.
        among: number of records that this is measured against: those shown to the model, or for a wish to forget
            all that is known in its partition. There, words and the facts that were found in them count once.
        removal: whether somebody asked to forget, or the model considers them superseded.
    """

    record_ids: tuple[str, ...]
    deletions: int
    among: int
    removal: bool


Approve: TypeAlias = Callable[[Proposal], bool | Awaitable[bool]]
"""Decides whether a proposal may be carried out; a plain function runs in a worker thread. One that fails refuses."""


@attrs.frozen(kw_only=True)
class ConsolidationPolicy:
    """Thresholds and limits of consolidation.

    Similarity is the cosine of two embeddings, from -1 to 1, whatever their lengths and whatever metric the store uses.
    The cosine of two texts of one meaning depends on the embedder: examine yours before you lower a threshold.

    Attributes:
        threshold: minimum cosine of a known statement to be compared with a new one by a model.
        limit: maximum number of known records in a question; ten times as many where the user asks to forget.
        duplicate: minimum cosine of two statements of one batch to be the same, without a model.
        max_deleted_share: a plan that deletes more than this share, and more than one record, needs approval. It is
            the share of the records shown; for wishes to forget, of all that is known in their partition, where words
            and the facts that were found in them count once.
        concurrency: maximum number of questions at a time.
        approve: decides about such a plan. None refuses: nothing is deleted, and every candidate is kept.
        metadata: effect of an update on a record's metadata.

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
        """Return whether a number of deletions among a number of records needs no approval."""
        return deletions <= max(1, self.max_deleted_share * among)
