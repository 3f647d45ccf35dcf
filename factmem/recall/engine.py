"""Recall: from a query to the best records of the whole store."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from factmem.facts import Concept
from factmem.fold import Current
from factmem.recall.asking import Query
from factmem.recall.corpus import Corpus
from factmem.recall.diversity import Ranking, diverse
from factmem.recall.filters import RecallFilter
from factmem.recall.folding import Standing
from factmem.recall.narrowing import kept_by_part, without
from factmem.recall.searching import search
from factmem.recall.second_pass import Found
from factmem.records import FactRecord
from factmem.showing import shown_record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RecallMatch", "ScoreParts", "hydrate", "ranked"]


@attrs.frozen(kw_only=True)
class ScoreParts:
    """What a score is made of; each from 0 to 1.

    Attributes:
        similarity: of the query and the record; see `factmem.recall.scoring`.
        lexical: the evidence of words.
        semantic: the evidence of meaning.
        named: 1 if the query names who speaks or whom it is about, or its concept.
        dated: how close it lies to the times that the query names; 0 where it names none.
        cosine: the raw cosine of the two embeddings, negative ones as 0; alone good for thresholds.
        recency: 1 for now, halved each half-life.
        importance: the record's own.
    """

    similarity: float
    lexical: float
    semantic: float
    named: float
    dated: float
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
        reasons: why it was found, in words: ``lexical``, ``semantic``, ``named``, ``dated``, ``recent``,
            ``important``.
        earlier: what was known before of the same record, newest first, with what became of it; empty unless
            it was asked for.
    """

    record: FactRecord[Any]
    score: float
    parts: ScoreParts
    reasons: tuple[str, ...]
    earlier: tuple[FactRecord[Any], ...] = ()


_PARTS: Final = tuple(field.name for field in attrs.fields(ScoreParts))


def hydrate(current: Current, concepts: Mapping[str, Concept[Any, Any]]) -> FactRecord[Any]:
    """Show a current record as people see it, read as its declared concept where that fits."""
    return shown_record(current.recorded, concepts, details=current.details)


def ranked(
    corpus: Corpus,
    query: Query,
    *,
    wanted: RecallFilter,
    limit: int,
    concepts: Mapping[str, Concept[Any, Any]],
) -> list[RecallMatch]:
    """Return the true best of all records that the viewer sees and the filter keeps, best first.

    With a `RecallSettings.diversity`, those that add most to the ones before; see `factmem.recall.diversity`.
    Equal scores are ordered by timestamp, newest first, then by a digest of what is said, so that the order
    is the same in every store.

    Args:
        corpus: everything current.
        query: what is looked for, and who asks.
        wanted: which records count.
        limit: how many results at the most.
        concepts: the declared concepts by keyword.
    """
    best = functools.partial(_best, corpus, query, kept_by_part(corpus, query.viewer, wanted))
    diversity = query.settings.diversity
    ranking = diverse(corpus, best, limit, diversity) if diversity else best(limit)
    if ranking is None:
        return []
    shown = enumerate(hydrate(current, concepts) for current in ranking.currents)
    return [_match(record, ranking.found, row) for row, record in shown]


def _best(corpus: Corpus, query: Query, keep: Sequence[NDArray[np.intp] | None], limit: int) -> Ranking | None:
    """Return the best of some rows of each part; None if there are none."""
    while (found := search(corpus, query, keep, limit)) is not None:
        best = found.at(_cut(found, np.lexsort((-found.said_at, -found.score)), limit))
        read = corpus.currents(Standing(best.rows, best.rows, counts=best.counts))
        gone = [current is None for current in read]
        if not any(gone):
            there = [(row, current) for row, current in enumerate(read) if current is not None]
            if _has_ties(best):
                there.sort(key=lambda pair: _order(best, *pair))
            ordered = there[:limit]
            return Ranking(best.at(np.array([row for row, _ in ordered])), [current for _, current in ordered])
        # Erased since the corpus was made: others take their places.
        keep = without(corpus, query.viewer, keep, best.rows[gone])
    return None


def _has_ties(best: Found) -> bool:
    """Whether any two rows that stand in order, but for the digests of what is said, have equal scores and times."""
    return bool(((best.score[1:] == best.score[:-1]) & (best.said_at[1:] == best.said_at[:-1])).any())


def _order(found: Found, row: int, current: Current) -> tuple[float, float, bytes]:
    return (-found.score[row], -found.said_at[row], current.recorded.assertion.fingerprint)


def _cut(found: Found, order: NDArray[np.intp], limit: int) -> NDArray[np.intp]:
    """The first rows in an order, with all that equal the last of them in score and time."""
    if limit >= len(order):
        return order
    last = order[limit - 1]
    rest = order[limit:]
    equal = (found.score[rest] == found.score[last]) & (found.said_at[rest] == found.said_at[last])
    return np.concatenate([order[:limit], rest[equal]])


def _match(record: FactRecord[Any], found: Found, row: int) -> RecallMatch:
    parts = ScoreParts(**{name: float(getattr(found, name)[row]) for name in _PARTS})
    reasons = [
        name
        for name, holds in (
            ("lexical", parts.lexical > 0),
            ("semantic", parts.cosine >= 0.3),
            ("named", parts.named > 0),
            ("dated", parts.dated == 1),
            ("recent", parts.recency > 0.5),
            ("important", parts.importance > 0.5),
        )
        if holds
    ]
    return RecallMatch(record=record, score=float(found.score[row]), parts=parts, reasons=tuple(reasons))
