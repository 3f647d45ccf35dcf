"""The exact best of a corpus, in two passes.

The first pass scores every row of a segment at once, in float32 and with the error bounded; what could
still be among the best after that is scored again, each row by itself, in double precision and by
`factmem.recall.scoring`. Those scores are functions of the query, the record, its conversation and the
viewer's statistics alone, to the last bit: not of what else there is, nor of how it is laid out.
Where a filter leaves few rows, these are scored by the second pass at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from factmem.recall.columns import spread
from factmem.recall.corpus import Corpus
from factmem.recall.scoring import (
    B_CONTEXT,
    B_OWN,
    CONTEXT_COSINE,
    K1,
    SATURATION,
    RecallSettings,
    composite,
    idf,
    lexical,
    semantic,
    similarity,
)
from factmem.recall.segments import Hits, Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Found", "Query", "search"]

_FEW: Final = 16
"""A filter that keeps less than one row in so many leaves few."""

_BLOCK: Final = 512
_DAY: Final = 86_400.0
_B: Final = (B_OWN, B_CONTEXT, B_CONTEXT)


@attrs.frozen(kw_only=True, eq=False)
class Query:
    """What is looked for, and how it is weighed.

    Attributes:
        terms: the numbers of the distinct terms.
        vector: the embedding of length 1, or None to go by words alone.
        viewer: who asks.
        now: what ages are counted from, in seconds since 1970.
        settings: what weighs.
    """

    terms: Sequence[int]
    vector: NDArray[np.float32] | None
    viewer: str | None
    now: float
    settings: RecallSettings

    @property
    def lexical_weight(self) -> float:
        """How much words weigh; without a vector, all."""
        return self.settings.lexical_weight if self.vector is not None else 1.0


@attrs.frozen(kw_only=True, eq=False)
class Found:
    """Rows with their scores: arrays of one length; each score and part from 0 to 1.

    Attributes:
        rows: the assertions, as rows of the columns.
        firsts: see `Segment`.
        counts: see `Segment`.
        said_at: when each was said, in seconds since 1970.
        score: the composite.
        similarity: see `factmem.recall.scoring`, as the others.
        lexical: the evidence of words.
        semantic: the evidence of meaning.
        cosine: negative ones as 0.
        recency: 1 for now.
        importance: the record's own.
    """

    rows: NDArray[np.intp]
    counts: NDArray[np.intp]
    said_at: NDArray[np.float64]
    score: NDArray[np.float64]
    similarity: NDArray[np.float64]
    lexical: NDArray[np.float64]
    semantic: NDArray[np.float64]
    cosine: NDArray[np.float64]
    recency: NDArray[np.float64]
    importance: NDArray[np.float64]

    def at(self, rows: NDArray[np.intp]) -> Found:
        """Return some of the rows."""
        return Found(**{field.name: getattr(self, field.name)[rows] for field in attrs.fields(Found)})


@attrs.frozen(eq=False)
class _Term:
    """A term with its weight at each level, as a share of the attainable score."""

    number: int
    shares: tuple[float, float, float]


def search(corpus: Corpus, query: Query, keep: Sequence[NDArray[np.intp] | None], limit: int) -> Found | None:
    """Return the best rows and all that score as the last of them does, in no order; None if there is none.

    Args:
        corpus: what there is.
        query: what is looked for.
        keep: of each part, the rows that a filter keeps, ascending; None for all that the viewer sees.
        limit: how many.
    """
    terms = _weighed(corpus, query) if query.lexical_weight else []
    dots = _dots(corpus, query, keep)
    chosen: list[tuple[int, NDArray[np.intp]]] = []
    firsts: list[tuple[int, NDArray[np.float32], NDArray[np.bool_] | None]] = []
    for number, part in enumerate(corpus.parts):
        rows = keep[number]
        if rows is not None and _few(rows, part.segment):
            chosen.append((number, rows))
            continue
        scores = _approximate(corpus, number, query, terms, dots)
        mask = corpus.seen(query.viewer).masks[number]
        if rows is not None:
            mask = np.zeros(len(scores), np.bool_)
            mask[rows] = True
        if mask is not None:
            scores[~mask] = -1
        firsts.append((number, scores, mask))
    chosen += _candidates(firsts, limit, _slack(query, len(terms)))
    scored = [_scored(corpus, number, query, terms, rows, dots) for number, rows in chosen if len(rows)]
    if not scored:
        return None
    found = Found(
        **{field.name: np.concatenate([getattr(item, field.name) for item in scored]) for field in attrs.fields(Found)}
    )
    if limit < len(found.rows):
        cut = np.partition(found.score, len(found.rows) - limit)[len(found.rows) - limit]
        found = found.at(np.flatnonzero(found.score >= cut))
    return found


def _few(rows: NDArray[np.intp], segment: Segment) -> bool:
    return len(rows) * _FEW <= len(segment) or len(segment) <= _BLOCK


def _dots(corpus: Corpus, query: Query, keep: Sequence[NDArray[np.intp] | None]) -> NDArray[np.float32] | None:
    """The inner products of everything, if anything needs them all."""
    if query.vector is None:
        return None
    sizes = [
        0 if rows is not None and _few(rows, part.segment) else len(part.segment)
        for part, rows in zip(corpus.parts, keep, strict=True)
    ]
    return corpus.vectors.dots(query.vector) if any(sizes) else None


def _weighed(corpus: Corpus, query: Query) -> list[_Term]:
    """The terms that the viewer's documents hold; the others count in what could be attained."""
    counts = corpus.seen(query.viewer).counts
    attainable = [1e-9, 1e-9, 1e-9]
    weights = []
    for number in query.terms:
        known = corpus.term(number, query.viewer)
        of_levels = [
            idf(df, count) * (K1 + 1)
            for df, count in zip((known.own, known.exchange, known.session), counts, strict=True)
        ]
        attainable = [total + weight for total, weight in zip(attainable, of_levels, strict=True)]
        if known.own:
            weights.append((number, of_levels))
    return [
        _Term(number, tuple(weight / total for weight, total in zip(of_levels, attainable, strict=True)))  # type: ignore[arg-type]
        for number, of_levels in weights
    ]


def _norm(level: int, averages: tuple[float, float, float]) -> tuple[float, float]:
    """BM25's ``k1 · (1 - b + b · length / average)`` as a constant and a factor of the length."""
    return K1 * (1 - _B[level]), K1 * _B[level] / (averages[level] or 1.0)


def _slack(query: Query, terms: int) -> float:
    """Twice the most by which a score of the first pass may be wrong."""
    words, size = query.lexical_weight, 0 if query.vector is None else len(query.vector)
    wrong = (1 - words) * size * 1e-7 + words * (1 + 1 / SATURATION) * (2e-6 + 1e-6 * terms)
    return 2 * (wrong * query.settings.weights[0] + 1e-6)


def _approximate(
    corpus: Corpus, number: int, query: Query, terms: Sequence[_Term], dots: NDArray[np.float32] | None
) -> NDArray[np.float32]:
    """Score every row of a part at once."""
    segment = corpus.parts[number].segment
    w_s, w_r, w_i = query.settings.weights
    scores = segment.timeless(query.settings.half_life_days, query.now, w_r, w_i)
    words = query.lexical_weight
    if terms:
        share = _shares(corpus, number, query, terms)
        # The evidence of words is (1 + c) · share / (share + c).
        lower = share + np.float32(SATURATION)
        share *= np.float32(w_s * words * (1 + SATURATION))
        share /= lower
        scores += share
    if dots is not None and words < 1:
        meaning = segment.of_slots(dots)
        np.maximum(meaning, 0, out=meaning)
        alone = segment.alone
        if alone < len(segment):
            best = np.maximum.reduceat(meaning[alone:], segment.starts[:-1] - alone)
            meaning[alone:] += np.float32(CONTEXT_COSINE) * np.repeat(best, np.diff(segment.starts))
            meaning[alone:] /= np.float32(1 + CONTEXT_COSINE)
        meaning *= np.float32(w_s * (1 - words))
        scores += meaning
    return scores


def _shares(corpus: Corpus, number: int, query: Query, terms: Sequence[_Term]) -> NDArray[np.float32]:
    """The share of the attainable BM25 that each row attains, on the average of the three levels."""
    segment = corpus.parts[number].segment
    averages = corpus.seen(query.viewer).averages
    norms = [_norm(level, averages) for level in range(3)]
    lengths = segment.short_lengths
    share = np.zeros(len(segment), np.float32)
    sessions = np.zeros(len(segment.keys), np.float32)
    for term in terms:
        own = corpus.hits(number, term.number, query.viewer)
        if not len(own.rows):
            continue
        weights = [np.float32(item / 3) for item in term.shares]
        cut = int(np.searchsorted(own.rows, segment.alone))
        rows, counts = own.rows[:cut], own.counts[:cut]
        length = lengths[0][rows]
        total = np.zeros(cut, np.float32)
        for level, (fixed, factor) in enumerate(norms):
            total += weights[level] * counts / (counts + (np.float32(fixed) + np.float32(factor) * length))
        share[rows] += total
        if cut == len(own.rows):
            continue
        near, whole = segment.exchanges(own), segment.sessions(own)
        inside = int(np.searchsorted(whole.rows, segment.alone))
        for level, (hits, start) in enumerate(((own, cut), (near, cut), (whole, inside))):
            rows, counts = hits.rows[start:], hits.counts[start:]
            fixed, factor = norms[level]
            gained = (
                weights[level] * counts / (counts + (np.float32(fixed) + np.float32(factor) * lengths[level][rows]))
            )
            if level < 2:
                share[rows] += gained
            else:
                sessions[rows - segment.alone] += gained
    if len(segment.keys):
        share[segment.alone :] += np.repeat(sessions, np.diff(segment.starts))
    return share


def _candidates(
    firsts: Sequence[tuple[int, NDArray[np.float32], NDArray[np.bool_] | None]], limit: int, slack: float
) -> list[tuple[int, NDArray[np.intp]]]:
    """Return the rows of each part that may be among the best, by scores that may be wrong by half the slack."""
    highest = [_highest(scores, limit) for _, scores, _ in firsts]
    pooled = np.concatenate(highest) if highest else np.empty(0, np.float32)
    pooled = pooled[pooled >= 0]
    cut = -0.5
    if limit < len(pooled):
        cut = max(cut, float(np.partition(pooled, len(pooled) - limit)[len(pooled) - limit]) - slack)
    return [(number, np.flatnonzero(scores >= cut)) for number, scores, _ in firsts]


def _highest(scores: NDArray[np.float32], limit: int) -> NDArray[np.float32]:
    """Return scores of which at least ``limit + 1`` are among the highest, if there are so many."""
    blocks = len(scores) // _BLOCK
    if blocks > 2 * limit:
        # The best of each block: as many rows score at least so much.
        return np.maximum.reduceat(scores, np.arange(blocks) * _BLOCK)
    return scores


def _scored(
    corpus: Corpus,
    number: int,
    query: Query,
    terms: Sequence[_Term],
    rows: NDArray[np.intp],
    dots: NDArray[np.float32] | None,
) -> Found:
    """Score rows one by one."""
    segment = corpus.parts[number].segment
    settings = query.settings
    words = lexical(*_attained(corpus, number, query, terms, rows))
    cosine, best = _cosines(corpus, segment, query, rows, dots)
    meaning = semantic(cosine, best)
    similar = similarity(words, meaning, query.lexical_weight)
    age = np.maximum(query.now - segment.said_at[rows], 0)
    recency = 0.5 ** (age / _DAY / settings.half_life_days)
    importance = segment.importance[rows]
    return Found(
        rows=segment.rows[rows].astype(np.intp),
        counts=segment.counts[rows].astype(np.intp),
        said_at=segment.said_at[rows],
        score=composite(similar, recency, importance, settings),
        similarity=similar,
        lexical=words,
        semantic=meaning,
        cosine=cosine,
        recency=recency,
        importance=importance,
    )


def _attained(
    corpus: Corpus, number: int, query: Query, terms: Sequence[_Term], rows: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The share of the attainable BM25 that rows attain, by their own text, exchange and conversation."""
    segment = corpus.parts[number].segment
    averages = corpus.seen(query.viewer).averages
    session = segment.session[rows]
    lengths = (segment.lengths.own[rows], segment.lengths.exchange[rows], segment.lengths.session[session])
    norms = [
        fixed + factor * length
        for (fixed, factor), length in zip((_norm(level, averages) for level in range(3)), lengths, strict=True)
    ]
    shares = (np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows)))
    for term in terms:
        for level, counts in enumerate(_counts(segment, term.number, rows, session)):
            shares[level][:] += term.shares[level] * counts / (counts + norms[level])
    return shares


def _counts(
    segment: Segment, term: int, rows: NDArray[np.intp], session: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """How often a term occurs in rows, their exchanges and their conversations."""
    hits = segment.posting(term)
    own = _looked_up(hits, rows)
    inside = np.flatnonzero(rows >= segment.alone)
    if not len(inside):
        return own, own, own
    exchange, whole = own.copy(), own.copy()
    exchange[inside] += segment.beside(hits, rows[inside])
    starts, ends = segment.bounds(session[inside])
    sums = np.append(0.0, np.cumsum(hits.counts, dtype=np.float64))
    whole[inside] = sums[np.searchsorted(hits.rows, ends)] - sums[np.searchsorted(hits.rows, starts)]
    return own, exchange, whole


def _looked_up(hits: Hits, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    if not len(hits.rows):
        return np.zeros(len(rows))
    at = np.minimum(np.searchsorted(hits.rows, rows), len(hits.rows) - 1)
    return np.where(hits.rows[at] == rows, hits.counts[at], 0).astype(np.float64)


def _cosines(
    corpus: Corpus, segment: Segment, query: Query, rows: NDArray[np.intp], dots: NDArray[np.float32] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The cosine of rows and the best one in the conversation of each; negative ones as 0."""
    if query.vector is None:
        return np.zeros(len(rows)), np.zeros(len(rows))
    cosine = np.maximum(corpus.vectors.exact(segment.slots[rows], query.vector), 0)
    best = cosine.copy()
    inside = np.flatnonzero(rows >= segment.alone)
    if len(inside):
        sessions, back = np.unique(segment.session[rows[inside]], return_inverse=True)
        starts, ends = segment.bounds(sessions)
        together = spread(starts, ends)
        slots = segment.slots[together]
        rough = corpus.vectors.take(slots) @ query.vector if dots is None else dots[slots]
        offsets = np.cumsum(ends - starts) - (ends - starts)
        highest = np.repeat(np.maximum.reduceat(rough, offsets), ends - starts)
        near = rough >= highest - np.float32(2e-7 * len(query.vector))
        values = np.zeros(len(together))
        values[near] = corpus.vectors.exact(slots[near], query.vector)
        best[inside] = np.maximum(np.maximum.reduceat(values, offsets)[back], 0)
    return cosine, best
