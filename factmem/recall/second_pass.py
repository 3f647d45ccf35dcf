"""The second pass of a search: some rows, each by itself, in double precision and by the formulas as written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from factmem.recall import scoring
from factmem.recall.asking import Asked
from factmem.recall.corpus import Corpus
from factmem.recall.segments import Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Found", "scored"]


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
        recency: 1 for now, halved each half-life.
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
    own, exchange, conversation = _attained(corpus, number, asked, rows)
    cosine, near = _cosines(corpus, segment, asked, rows)
    answers = segment.answers[rows]
    before = rows[answers] - 1
    question, question_cosine, question_length = np.zeros((3, len(rows)))
    if len(before):
        question[answers] = _attained(corpus, number, asked, before)[0]
        question_cosine[answers] = _cosines(corpus, segment, asked, before)[0]
        question_length[answers] = segment.lengths.own[before]
    lead, concept, covered = _names(segment, asked, rows)
    evidence = scoring.Evidence(
        own=own,
        exchange=exchange,
        conversation=conversation,
        cosine=cosine,
        near=near,
        grouped=segment.grouped[rows].astype(np.float64),
        length=segment.lengths.own[rows].astype(np.float64),
        says=segment.says[rows].astype(np.float64),
        answers=answers.astype(np.float64),
        question=question,
        question_cosine=question_cosine,
        question_length=question_length,
        kind=((segment.kinds[rows] & query.kinds) != 0).astype(np.float64),
        fits=(segment.assistant[rows] == query.asks_assistant).astype(np.float64),
        lead=lead,
        concept=concept,
        covered=covered,
        dated=scoring.closeness(segment.said_at[rows], query.times),
    )
    alike = scoring.similarity(evidence, query.lexical_weight)
    recency = scoring.recency(query.now - segment.said_at[rows], query.settings.half_life_days)
    importance = segment.importance[rows]
    return Found(
        rows=segment.rows[rows].astype(np.intp),
        counts=segment.counts[rows].astype(np.intp),
        slots=segment.slots[rows],
        said_at=segment.said_at[rows],
        score=scoring.composite(alike, recency, importance, query.settings),
        similarity=alike,
        lexical=scoring.lexical(evidence),
        semantic=scoring.semantic(evidence),
        named=np.maximum(lead, concept),
        dated=evidence.dated,
        cosine=cosine,
        recency=recency,
        importance=importance,
    )


def _names(
    segment: Segment, asked: Asked, rows: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return whether the query names the speaker or subject of rows, and their concepts, and what names cover."""
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
    return leads, concepts, np.minimum(share, 1)


def _attained(
    corpus: Corpus, number: int, asked: Asked, rows: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the attained shares of the three levels; those of context are 0 for rows outside conversations."""
    segment = corpus.parts[number].segment
    averages = corpus.seen(asked.query.viewer).averages
    conversation = segment.session[rows]
    lengths = (segment.lengths.own[rows], segment.lengths.exchange[rows], segment.lengths.session[conversation])
    norms = []
    for level, length in enumerate(lengths):
        fixed, factor = scoring.length_norm(averages[level])
        norms.append(fixed + factor * length)
    shares = (np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows)))
    for weighed in asked.terms:
        for level, hits in enumerate(weighed.levels[number]):
            counts = hits.of(conversation if level == 2 else rows)
            shares[level][:] += weighed.shares[level] * scoring.term_share(counts, norms[level])
    outside = rows < segment.alone
    shares[1][outside] = shares[2][outside] = 0
    return shares


def _cosines(
    corpus: Corpus, segment: Segment, asked: Asked, rows: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the cosine of rows, and the mean of their exchanges'."""
    vector = asked.query.vector
    if vector is None:
        return np.zeros(len(rows)), np.zeros(len(rows))
    before, after = segment.beside(rows)
    around = np.stack(
        [rows - before, rows, rows + after]
    )  # a row without a neighbour stands in for it, and is taken off
    cosines = np.maximum(corpus.vectors.exact(segment.slots[around.ravel()], vector), 0).reshape(around.shape)
    together = cosines[0] * before + cosines[1] + cosines[2] * after
    return cosines[1], together / (1 + before + after)
