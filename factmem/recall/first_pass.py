"""The first pass of a search: every row of a segment at once, in single precision, with the error bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from factmem.recall.asking import Asked, length_norm
from factmem.recall.corpus import Corpus
from factmem.recall.scoring import (
    BEST_COSINE,
    BOTH,
    CONCEPT,
    DATED,
    LEAD,
    LEVELS,
    MEAN_COSINE,
    NEAR_COSINE,
    SATURATION,
    asked_for,
    closeness,
)
from factmem.recall.segments import Segment, decayed

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["approximate", "slack"]


def slack(asked: Asked) -> float:
    """Return twice the most by which a score of `approximate` may be wrong."""
    query = asked.query
    words, size = query.lexical_weight, 0 if query.vector is None else len(query.vector)
    wrong = (1 - words) * size * 1e-7 + words * (1 + 1 / SATURATION) * (2e-6 + 1e-6 * len(asked.terms))
    return 2 * (wrong * query.settings.weights[0] + 1e-6)


def approximate(corpus: Corpus, number: int, asked: Asked) -> NDArray[np.float32]:
    """Return the scores of all rows of a part.

    Args:
        corpus: what there is.
        number: of the part.
        asked: what is looked for.
    """
    segment, query = corpus.parts[number].segment, asked.query
    w_s, w_r, w_i = query.settings.weights
    words = query.lexical_weight
    dots = asked.dots if words < 1 else None
    alike = np.zeros(len(segment), np.float32) if dots is None else _meaning(segment, dots, 1 - words)
    if asked.terms:
        share = _shares(corpus, number, asked)
        # The evidence of words is (1 + c) · share / (share + c).
        lower = share + np.float32(SATURATION)
        share *= np.float32(words * (1 + SATURATION))
        share /= lower
        alike += share
    _add(alike, corpus, number, asked)
    named, wanted = _wanted(segment, asked)
    alike[named] += (1 - alike[named]) * (1 - (1 - np.float32(CONCEPT)) * (1 - wanted))
    alike *= np.float32(w_s)
    alike += segment.timeless(query.settings.half_life_days, query.now, w_r, w_i)
    if w_r and len(named):
        recency = decayed(query.now - segment.said_at[named], query.settings.half_life_days)
        alike[named] += np.float32(w_r) * (1 - recency) * wanted
    return alike


def _add(alike: NDArray[np.float32], corpus: Corpus, number: int, asked: Asked) -> None:
    """Take into account what only adds to the similarity, in place."""
    segment = corpus.parts[number].segment
    for weighed in asked.terms:
        led = segment.led_by(weighed.term, weighed.levels[number][0])
        alike[led] += np.float32(LEAD) * (1 - alike[led])
        if asked.concepts is not None:
            both = led[asked.concepts[segment.heads[led]] > 0]
            alike[both] += np.float32(BOTH) * (1 - alike[both])
    if asked.query.times:
        close = closeness(segment.said_at, asked.query.times).astype(np.float32)
        alike += np.float32(DATED) * close * (1 - alike)


def _wanted(segment: Segment, asked: Asked) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Return the rows whose concept the query names, and how far it asks for each."""
    if asked.concepts is None:
        return np.empty(0, np.intp), np.empty(0, np.float32)
    share = asked.concepts[segment.heads]
    rows = share.nonzero()[0]
    share, leads = share[rows], segment.leads[rows]
    for weighed in asked.terms:
        share[leads == np.uint64(weighed.term.number)] += np.float32(weighed.covers)
    return rows, asked_for(np.minimum(share, 1).astype(np.float64)).astype(np.float32)


def _meaning(segment: Segment, dots: NDArray[np.float32], weight: float) -> NDArray[np.float32]:
    """Return the evidence of meaning, times its weight."""
    meaning = segment.of_slots(dots)
    np.maximum(meaning, 0, out=meaning)
    alone = segment.alone
    if alone < len(segment):
        inside, starts = meaning[alone:], segment.starts[:-1] - alone
        sizes = np.diff(segment.starts)
        whole = np.maximum.reduceat(inside, starts) * np.float32(BEST_COSINE)
        whole += np.add.reduceat(inside, starts) * (np.float32(MEAN_COSINE) / sizes.astype(np.float32))
        near = segment.near(inside)
        near *= np.float32(NEAR_COSINE)
        inside += near
        inside += np.repeat(whole, sizes)
        inside /= np.float32(1 + BEST_COSINE + NEAR_COSINE + MEAN_COSINE)
    meaning *= np.float32(weight)
    return meaning


def _shares(corpus: Corpus, number: int, asked: Asked) -> NDArray[np.float32]:
    """The share of the attainable BM25 that each row attains, on the weighed average of the three levels."""
    segment = corpus.parts[number].segment
    averages = corpus.seen(asked.query.viewer).averages
    norms = [length_norm(level, averages) for level in range(3)]
    lengths = segment.short_lengths
    share = np.zeros(len(segment), np.float32)
    sessions = np.zeros(len(segment.keys), np.float32)
    for weighed in asked.terms:
        own, near, whole = weighed.levels[number]
        if not len(own.rows):
            continue
        weights = [np.float32(item * of / sum(LEVELS)) for item, of in zip(weighed.shares, LEVELS, strict=True)]
        cut = int(own.rows.searchsorted(segment.alone))
        rows, counts = own.rows[:cut], own.counts[:cut]
        length = lengths[0][rows]
        total = np.zeros(cut, np.float32)
        for level, (fixed, factor) in enumerate(norms):
            total += weights[level] * counts / (counts + (np.float32(fixed) + np.float32(factor) * length))
        share[rows] += total
        if cut == len(own.rows):
            continue
        inside = int(whole.rows.searchsorted(segment.alone))
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
