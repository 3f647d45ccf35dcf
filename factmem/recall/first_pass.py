"""The first pass of a search: every row of a segment at once, in single precision, with the error bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from factmem.recall import scoring
from factmem.recall.asking import Asked
from factmem.recall.corpus import Corpus
from factmem.recall.segments import Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

__all__ = ["approximate", "slack"]


def slack(asked: Asked) -> float:
    """Return twice the most by which a score of `approximate` may be wrong."""
    query = asked.query
    words, size = query.lexical_weight, 0 if query.vector is None else len(query.vector)
    wrong = (1 - words) * size * 1e-7 + words * (1 + 1 / scoring.SATURATION) * (2e-6 + 1e-6 * len(asked.terms))
    return 2 * (wrong + 4e-6)


def approximate(corpus: Corpus, number: int, asked: Asked) -> Array:
    """Return the scores of all rows of a part.

    Args:
        corpus: what there is.
        number: of the part.
        asked: what is looked for.
    """
    segment, query = corpus.parts[number].segment, asked.query
    none = np.zeros(1, np.float32)
    own, exchange, conversation = _shares(corpus, number, asked) if asked.terms else (none, none, none)
    cosine, near = (none, none) if asked.dots is None or query.lexical_weight == 1 else _cosines(segment, asked.dots)
    lead, concept, covered = _names(segment, asked, number)
    length = segment.short_lengths[0]
    evidence = scoring.Evidence(
        own=own,
        exchange=exchange,
        conversation=conversation,
        cosine=cosine,
        near=near,
        grouped=segment.grouped,
        length=length,
        says=segment.says,
        answers=segment.answers,
        question=_before(own),
        question_cosine=_before(cosine),
        question_length=_before(length),
        kind=((segment.kinds & query.kinds) != 0).astype(np.float32) if query.kinds else none,
        fits=(segment.assistant == query.asks_assistant).astype(np.float32),
        lead=lead,
        concept=concept,
        covered=covered,
        dated=scoring.closeness(segment.said_at, query.times).astype(np.float32) if query.times else none,
    )
    alike = scoring.similarity(evidence, query.lexical_weight)
    recency = segment.recency(query.settings.half_life_days, query.now)
    return scoring.composite(alike, recency, segment.importance.astype(np.float32), query.settings)


def _before(values: Array) -> Array:
    """Return the value of the row before each."""
    return np.roll(values, 1)


def _names(segment: Segment, asked: Asked, number: int) -> tuple[Array, Array, Array]:
    """Return whether the query names the speaker or subject of rows, and their concepts, and what names cover."""
    none = np.zeros(1, np.float32)
    lead, covered = none, none
    for weighed in asked.terms:
        led = segment.led_by(weighed.term, weighed.levels[number][0])
        if len(led):
            lead = np.zeros(len(segment), np.float32) if lead is none else lead
            lead[led] = 1
    if asked.concepts is None:
        return lead, none, none
    covered = asked.concepts[segment.heads]
    concept = (covered > 0).astype(np.float32)
    rows = covered.nonzero()[0]
    leads = segment.leads[rows]
    for weighed in asked.terms:
        covered[rows[leads == np.uint64(weighed.term.number)]] += np.float32(weighed.covers)
    return lead, concept, np.minimum(covered, 1)


def _cosines(segment: Segment, dots: Array) -> tuple[Array, Array]:
    """Return the cosine of each row, and the mean of its exchange's."""
    cosine = segment.of_slots(dots)
    np.maximum(cosine, 0, out=cosine)
    near = cosine.copy()
    if segment.alone < len(segment):
        near[segment.alone :] = segment.near(cosine[segment.alone :])
    return cosine, near


def _shares(corpus: Corpus, number: int, asked: Asked) -> tuple[Array, Array, Array]:
    """Return the attained shares of the three levels; those of context are 0 for rows outside conversations."""
    segment = corpus.parts[number].segment
    averages = corpus.seen(asked.query.viewer).averages
    shares = [np.zeros(len(segment), np.float32), np.zeros(len(segment), np.float32)]
    conversations = np.zeros(len(segment.keys), np.float32)
    for weighed in asked.terms:
        for level, hits in enumerate(weighed.levels[number]):
            start = int(hits.rows.searchsorted(segment.alone)) if level else 0
            rows, counts = hits.rows[start:], hits.counts[start:]
            fixed, factor = scoring.length_norm(averages[level])
            norm = np.float32(fixed) + np.float32(factor) * segment.short_lengths[level][rows]
            gained = np.float32(weighed.shares[level]) * scoring.term_share(counts, norm)
            if level < 2:
                shares[level][rows] += gained
            else:
                conversations[rows - segment.alone] += gained
    whole = np.zeros(len(segment), np.float32)
    if len(segment.keys):
        whole[segment.alone :] = np.repeat(conversations, np.diff(segment.starts))
    return shares[0], shares[1], whole
