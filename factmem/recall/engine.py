"""Recall: from a query to the best records of the whole store."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from factmem.abc import Embedder
from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.fold import Current
from factmem.recall.choosing import selected
from factmem.recall.corpus import Corpus
from factmem.recall.filters import RecallFilter
from factmem.recall.mirror import embedded
from factmem.recall.scoring import RecallSettings, composite, similarity
from factmem.records import FactRecord, record_of
from factmem.values import accepts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["RecallMatch", "ScoreParts", "embed_query", "hydrate", "ranked"]


@attrs.frozen(kw_only=True)
class ScoreParts:
    """What a score is made of; each from 0 to 1.

    Attributes:
        similarity: of the query and the record; see `factmem.recall.scoring`.
        lexical: the evidence of words.
        semantic: the evidence of meaning.
        cosine: the raw cosine of the two embeddings, negative ones as 0; alone good for thresholds.
        recency: 1 for now, halved each half-life.
        importance: the record's own.
    """

    similarity: float
    lexical: float
    semantic: float
    cosine: float
    recency: float
    importance: float


@attrs.frozen(kw_only=True)
class RecallMatch:
    """One result of recall.

    Attributes:
        record: the record.
        score: the composite, from 0 to 1.
        parts: what the score is made of.
        reasons: why it was found, in words: ``lexical``, ``semantic``, ``recent``, ``important``.
    """

    record: FactRecord[Any]
    score: float
    parts: ScoreParts
    reasons: tuple[str, ...]


def hydrate(current: Current, concepts: Mapping[str, Concept[Any, Any]]) -> FactRecord[Any]:
    """Show a current record as people see it, read as its declared concept where there is one that fits."""
    said = current.recorded.assertion
    declared = concepts.get(said.keyword)
    if declared is not None and declared.fact_type is said.fact_type and accepts(said.shape, declared.shape):
        # Its class may be stricter than the shape: one value that it refuses must not hide all the others.
        with contextlib.suppress(InvalidDataError):
            return record_of(current.recorded, declared, details=current.details)
    return record_of(current.recorded, details=current.details)


async def embed_query(embedder: Embedder, query: str) -> NDArray[np.float32] | None:
    """Embed a query, or return None where there is nothing in it to embed.

    Raises:
        EmbedderError: the embedder failed.
    """
    (vector,) = await embedded(embedder, [query])
    return vector


def ranked(
    corpus: Corpus,
    terms: Sequence[int | None],
    vector: NDArray[np.float32] | None,
    *,
    wanted: RecallFilter,
    viewer: str | None,
    limit: int,
    now: dt.datetime,
    settings: RecallSettings,
    concepts: Mapping[str, Concept[Any, Any]],
) -> list[RecallMatch]:
    """Return the true best of all records that the viewer sees and the filter keeps, best first.

    Equal scores are ordered by timestamp, newest first, then by a digest of what is said, so that the order
    is the same in every store.

    Args:
        corpus: everything current.
        terms: the numbers of the query's distinct terms; None for one that no record holds.
        vector: the query's embedding of length 1, or None to go by words alone.
        wanted: which records count.
        viewer: who asks.
        limit: how many results at the most.
        now: what ages are counted from.
        settings: what weighs.
        concepts: the declared concepts by keyword.
    """
    import numpy as np

    candidates = np.flatnonzero(selected(corpus, viewer, wanted))
    if not len(candidates):
        return []
    found = corpus.evidences(terms, vector, viewer)
    weight = settings.lexical_weight if vector is not None else 1.0
    similar = similarity(found.lexical, found.semantic, weight)
    age = np.maximum(now.timestamp() - corpus.timestamps, 0)
    recency = 0.5 ** (age / 86_400 / settings.half_life_days)
    scores = composite(similar, recency, corpus.importance, settings)
    best = _top(scores, corpus, candidates, limit)
    return [
        _match(
            hydrate(corpus.rows[row], concepts),
            float(scores[row]),
            ScoreParts(
                similarity=float(similar[row]),
                lexical=float(found.lexical[row]),
                semantic=float(found.semantic[row]),
                cosine=float(found.cosine[row]),
                recency=float(recency[row]),
                importance=float(corpus.importance[row]),
            ),
        )
        for row in best
    ]


def _top(scores: NDArray[np.float64], corpus: Corpus, candidates: NDArray[np.int64], limit: int) -> Sequence[int]:
    import numpy as np

    if limit < len(candidates):
        cut = np.partition(scores[candidates], len(candidates) - limit)[len(candidates) - limit]
        candidates = candidates[scores[candidates] >= cut]
    rows = [int(row) for row in candidates]
    rows.sort(key=lambda row: (-scores[row], -corpus.timestamps[row], corpus.rows[row].recorded.assertion.fingerprint))
    return rows[:limit]


def _match(record: FactRecord[Any], score: float, parts: ScoreParts) -> RecallMatch:
    reasons = [
        name
        for name, holds in (
            ("lexical", parts.lexical > 0),
            ("semantic", parts.cosine >= 0.3),
            ("recent", parts.recency > 0.5),
            ("important", parts.importance > 0.5),
        )
        if holds
    ]
    return RecallMatch(record=record, score=score, parts=parts, reasons=tuple(reasons))
