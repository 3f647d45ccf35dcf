"""The second pass of a search: some rows, each by itself, in double precision and by the formulas as written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from factmem.recall.asking import Asked, length_norm
from factmem.recall.corpus import Corpus
from factmem.recall.growing import spread
from factmem.recall.scoring import asked_for, closeness, composite, fused, lexical, semantic, similarity
from factmem.recall.segments import Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Found", "scored"]

_DAY: Final = 86_400.0


@attrs.frozen(kw_only=True, eq=False)
class Found:
    """Rows with their scores: arrays of one length; each score and part from 0 to 1.

    Attributes:
        rows: the assertions, as rows of the columns.
        counts: see `Segment`.
        slots: see `Segment`.
        said_at: when each was said, in seconds since 1970.
        score: the composite.
        similarity: see `factmem.recall.scoring`, as the others.
        lexical: the evidence of words.
        semantic: the evidence of meaning.
        named: whether the query names who speaks or whom it is about, or its concept.
        dated: how well it fits the times that the query names; 0 where it names none.
        cosine: negative ones as 0.
        recency: 1 for now, and for what is asked for.
        importance: the record's own.
    """

    rows: NDArray[np.intp]
    counts: NDArray[np.intp]
    slots: NDArray[np.int32]
    said_at: NDArray[np.float64]
    score: NDArray[np.float64]
    similarity: NDArray[np.float64]
    lexical: NDArray[np.float64]
    semantic: NDArray[np.float64]
    named: NDArray[np.float64]
    dated: NDArray[np.float64]
    cosine: NDArray[np.float64]
    recency: NDArray[np.float64]
    importance: NDArray[np.float64]

    def at(self, rows: NDArray[np.intp]) -> Found:
        """Return some of the rows."""
        return Found(**{field.name: getattr(self, field.name)[rows] for field in attrs.fields(Found)})


def scored(corpus: Corpus, number: int, asked: Asked, rows: NDArray[np.intp]) -> Found:
    """Return some rows of a part with their scores.

    Args:
        corpus: what there is.
        number: of the part.
        asked: what is looked for.
        rows: which.
    """
    segment, query = corpus.parts[number].segment, asked.query
    words = lexical(*_attained(corpus, number, asked, rows))
    cosine, *others = _cosines(corpus, segment, asked, rows)
    meaning = semantic(cosine, *others)
    lead, concept, wanted = _names(segment, asked, rows)
    dated = closeness(segment.said_at[rows], query.times)
    alike = similarity(fused(words, meaning, query.lexical_weight), lead, concept, dated, wanted)
    age = np.maximum(query.now - segment.said_at[rows], 0)
    recency = 1 - (1 - 0.5 ** (age / _DAY / query.settings.half_life_days)) * (1 - wanted)
    importance = segment.importance[rows]
    return Found(
        rows=segment.rows[rows].astype(np.intp),
        counts=segment.counts[rows].astype(np.intp),
        slots=segment.slots[rows],
        said_at=segment.said_at[rows],
        score=composite(alike, recency, importance, query.settings),
        similarity=alike,
        lexical=words,
        semantic=meaning,
        named=np.maximum(lead, concept),
        dated=dated,
        cosine=cosine,
        recency=recency,
        importance=importance,
    )


def _names(
    segment: Segment, asked: Asked, rows: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Whether the query holds the first word of rows, whether it names their concepts, and how far it asks for them."""
    none = np.zeros(len(rows))
    if not asked.terms:
        return none, none, none
    words = np.array([weighed.term.number for weighed in asked.terms], np.uint64)
    led = segment.leads[rows, np.newaxis] == words
    leads = led.any(axis=1).astype(np.float64)
    if asked.concepts is None:
        return leads, none, none
    share = asked.concepts[segment.heads[rows]].astype(np.float64)
    concepts = (share > 0).astype(np.float64)
    share += led @ np.array([weighed.covers for weighed in asked.terms])
    return leads, concepts, concepts * asked_for(np.minimum(share, 1))


def _attained(
    corpus: Corpus, number: int, asked: Asked, rows: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The share of the attainable BM25 that rows attain, by their own text, exchange and conversation."""
    segment = corpus.parts[number].segment
    averages = corpus.seen(asked.query.viewer).averages
    session = segment.session[rows]
    lengths = (segment.lengths.own[rows], segment.lengths.exchange[rows], segment.lengths.session[session])
    norms = [
        fixed + factor * length
        for (fixed, factor), length in zip((length_norm(level, averages) for level in range(3)), lengths, strict=True)
    ]
    shares = (np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows)))
    for weighed in asked.terms:
        for level, hits in enumerate(weighed.levels[number]):
            counts = hits.of(session if level == 2 else rows)
            shares[level][:] += weighed.shares[level] * counts / (counts + norms[level])
    return shares


def _cosines(corpus: Corpus, segment: Segment, asked: Asked, rows: NDArray[np.intp]) -> tuple[NDArray[np.float64], ...]:
    """The cosine of rows, and of what is around each the best, the exchange's mean and the conversation's mean."""
    vector = asked.query.vector
    if vector is None:
        return (np.zeros(len(rows)),) * 4
    inside = np.flatnonzero(rows >= segment.alone)
    if not len(inside):
        return (np.maximum(corpus.vectors.exact(segment.slots[rows], vector), 0),) * 4
    outside = np.flatnonzero(rows < segment.alone)
    cosines = np.empty((4, len(rows)))
    cosines[:, outside] = np.maximum(corpus.vectors.exact(segment.slots[rows[outside]], vector), 0)
    sessions, of_row = np.unique(segment.session[rows[inside]], return_inverse=True)
    starts, ends = segment.bounds(sessions)
    values = np.maximum(corpus.vectors.exact(segment.slots[spread(starts, ends)], vector), 0)
    sizes = ends - starts
    offsets = np.cumsum(sizes) - sizes
    at = offsets[of_row] + rows[inside] - starts[of_row]
    first, last = at == offsets[of_row], at == offsets[of_row] + sizes[of_row] - 1
    beside = np.where(first, 0, values[at - 1]) + np.where(last, 0, values[np.minimum(at + 1, len(values) - 1)])
    cosines[0, inside] = values[at]
    cosines[1, inside] = np.maximum.reduceat(values, offsets)[of_row]
    cosines[2, inside] = (values[at] + beside) / (3.0 - first - last)
    cosines[3, inside] = (np.add.reduceat(values, offsets) / sizes)[of_row]
    return tuple(cosines)
