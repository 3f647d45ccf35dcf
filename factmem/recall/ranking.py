"""Ranking: from a query to the exact best records of a corpus.

A search runs in two passes over the same evidence and the same formulas (`factmem.recall.scoring`).

1. The first pass scores every row in single precision, many vectors as bytes, with a bounded error.
2. The second pass scores the rows that may still be among the best, in double precision. Its scores are functions of
   the query, the record, its conversation and the statistics of what the caller sees, to the last bit. They depend
   neither on other records nor on the layout.

If a filter leaves few rows, the second pass scores them directly.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from factmem.facts import Concept
from factmem.fold import Current
from factmem.recall import scoring
from factmem.recall.conditions import RecallFilter
from factmem.recall.index.columns import among
from factmem.recall.index.corpus import Corpus, Rows, RowWeights, Seen
from factmem.recall.index.overtaking import NONE_UPDATED, Updated, united
from factmem.recall.index.selection import kept_rows
from factmem.recall.queries import CorpusQuery, Level, Query
from factmem.recall.results import RecallMatch, ScoreParts, hydrated
from factmem.recall.scoring import Evidence
from factmem.short_work import may_wait

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

_FEW: Final = 16
"""A filter leaves few rows if it keeps less than one row in this many."""

_SMALL: Final = 512
"""Number of rows up to which the second pass scores all rows that a filter keeps."""

_BLOCK: Final = 128
"""Number of rows whose best score stands for them when the cut of the first pass is estimated."""

_HIDDEN: Final = -1.0
"""Approximate score of a row that the caller does not see or that a filter leaves out."""

_FEW_RESULTS: Final = 64
"""Number of results that are made in a fraction of a millisecond."""

_POOL: Final = 8
"""Initial size of the pool for diverse results, as a multiple of the limit."""


# Evidence


def _evidence(corpus: Corpus, asked: CorpusQuery, rows: Rows | None, weights: RowWeights) -> Evidence[Floats]:
    """Return the evidence of rows.

    Args:
        corpus: The corpus.
        asked: The query.
        rows: The rows, in double precision; None for all rows, in single precision.
        weights: The weights of the rows.
    """
    query, of = asked.query, slice(None) if rows is None else rows
    own, exchange, conversation, question = _words(corpus, asked, rows)
    cosine, near, question_cosine = _meaning(corpus, asked, rows)
    lead = concept = named = other = None
    if asked.about is not None:
        lead, concept, named, other = asked.about.at(corpus, of, weights.context.dtype)
    dated = scoring.closeness(corpus.said_at[of], corpus.points_back[of], query.times) if query.times else None
    timed: Any = query.timed
    if dated is not None and asked.dated is not None:
        np.maximum(dated, names := asked.dated[of], out=dated)
        timed = np.where(names, min(timed / (scoring.TIMED or 1), 1), timed).astype(weights.context.dtype, copy=False)
    return Evidence(
        own=own,
        exchange=exchange,
        conversation=conversation,
        cosine=cosine,
        near=near,
        context=weights.context,
        unrelated=query.calibration.unrelated,
        words=weights.words,
        question=question,
        question_cosine=question_cosine,
        answered=weights.answered,
        little=weights.little,
        misfit=_misfit(corpus, query, of),
        lead=lead,
        concept=concept,
        named=named,
        dated=dated if dated is None else dated.astype(weights.context.dtype, copy=False),
        timed=timed,
        kind=(corpus.kinds[of] & query.kinds) != 0 if query.kinds else None,
        change=weights.change if query.asks_for_present and not query.times else None,
        other=other,
    )


def _misfit(corpus: Corpus, query: Query, of: Rows | slice) -> NDArray[np.bool_] | None:
    """Return whether rows are of a role that the query does not ask for; None if none are."""
    if corpus.assistant is None:
        return np.ones(1, np.bool_) if query.asks_assistant else None
    return corpus.assistant[of] != query.asks_assistant


def _words(corpus: Corpus, asked: CorpusQuery, rows: Rows | None) -> tuple[Floats, Floats, Floats, Floats | None]:
    """Return the attained shares of BM25 of rows at the three levels, and that of the text of the statement before."""
    layout = corpus.layout
    if not asked.levels:
        none = np.zeros(1, np.float32) if rows is None else np.zeros(len(rows))
        return none, none, none, none
    if corpus.single:
        only = asked.levels[0]
        lengths = corpus.short_lengths.own if rows is None else corpus.lengths.own
        alone: Floats = only.all_shares(lengths) if rows is None else only.exact_shares(rows, lengths)
        return alone, alone, alone, None
    if rows is None:
        own, exchange, conversation = map(Level.all_shares, asked.levels, corpus.short_lengths)
        question = None if corpus.answers is None else own[layout.before]
        return own, exchange, conversation[layout.session], question
    texts = rows if corpus.answers is None else np.concatenate([rows, np.maximum(layout.before[rows], 0)])
    documents = (texts, rows, layout.session[rows])
    of_texts, near, around = map(Level.exact_shares, asked.levels, documents, corpus.lengths)
    return of_texts[: len(rows)], near, around, None if texts is rows else of_texts[len(rows) :]


def _meaning(corpus: Corpus, asked: CorpusQuery, rows: Rows | None) -> tuple[Floats, Floats, Floats | None]:
    """Return the cosine of rows, the mean of their exchanges, and that of the statement before; none is negative."""
    vector, layout = asked.query.vector, corpus.layout
    if vector is None or (rows is None and (asked.dots is None or asked.query.lexical_weight == 1)):
        none = np.zeros(1, np.float32) if rows is None else np.zeros(len(rows))
        return none, none, none
    if rows is None:
        assert asked.dots is not None
        cosine = corpus.cosines(asked.dots)
        np.maximum(cosine, 0, out=cosine)
        return cosine, corpus.near(cosine), None if corpus.answers is None else cosine[layout.before]
    if corpus.single:
        exact = np.maximum(corpus.vectors.exact(np.maximum(corpus.slots[rows], 0), vector), 0)
        return exact, exact, None
    before, after = layout.before[rows], layout.after[rows]
    has_before, has_after = before >= 0, after >= 0
    # A row stands in for a missing neighbour.
    around = np.concatenate([np.where(has_before, before, rows), rows, np.where(has_after, after, rows)])
    cosines = np.maximum(corpus.vectors.exact(np.maximum(corpus.slots[around], 0), vector), 0).reshape(3, len(rows))
    together = cosines[0] * has_before + cosines[1] + cosines[2] * has_after
    return cosines[1], together / (1 + has_before + has_after), cosines[0]


# The two passes


@attrs.frozen(kw_only=True, eq=False)
class Scored:
    """Rows with their scores: arrays of one length; each score and part is from 0 to 1.

    Attributes:
        rows: The assertions, as rows of the columns.
        said_at: When each was said, in seconds since 1970.
        score: The composite; see `Ranker.search`.
        newest: Whether a statement that this one overtakes or follows answers better, and raises its score.
        similarity: See `ScoreParts`, as the others.
    """

    rows: Rows
    said_at: NDArray[np.float64]
    score: NDArray[np.float64]
    similarity: NDArray[np.float64]
    lexical: NDArray[np.float64]
    semantic: NDArray[np.float64]
    named: NDArray[np.float64]
    other: NDArray[np.float64]
    dated: NDArray[np.float64]
    cosine: NDArray[np.float64]
    recency: NDArray[np.float64]
    importance: NDArray[np.float64]
    newest: NDArray[np.bool_]

    def at(self, rows: Rows) -> Scored:
        """Return some of the rows."""
        return Scored(**{name: getattr(self, name)[rows] for name in _COLUMNS})


_COLUMNS: Final = tuple(field.name for field in attrs.fields(Scored))
_PARTS: Final = tuple(field.name for field in attrs.fields(ScoreParts) if field.name in _COLUMNS)


def _second_pass(corpus: Corpus, asked: CorpusQuery, rows: Rows) -> Scored:
    """Return rows with their exact scores."""
    query, weights = asked.query, corpus.weights(rows)
    evidence = _evidence(corpus, asked, rows, weights)
    alike = scoring.similarity(evidence, query.lexical_weight)
    said_at, none = corpus.said_at[rows], np.zeros(len(rows))
    recency = scoring.recency(query.now - said_at, query.settings.half_life_days)
    other = _of_others(corpus, asked, rows, evidence)
    lead = none if evidence.lead is None else evidence.lead > 0
    named = none if evidence.named is None else evidence.named > 0
    return Scored(
        rows=rows,
        said_at=said_at,
        score=query.settings.composite.score(alike, recency, weights.importance),
        similarity=alike,
        lexical=evidence.lexical,
        semantic=evidence.semantic,
        named=np.maximum(lead, named).astype(np.float64),
        other=none if other is None else other.astype(np.float64),
        dated=none if evidence.dated is None else evidence.dated,
        cosine=evidence.cosine,
        recency=recency,
        importance=weights.importance,
        newest=np.zeros(len(rows), np.bool_),
    )


def _of_others(corpus: Corpus, asked: CorpusQuery, rows: Rows, evidence: Evidence[Floats]) -> NDArray[np.bool_] | None:
    """Return whether rows are about others than the query names, or than the viewer; None if it asks about anybody.

    A statement is its person's, and about whom it mentions. A question about a relative is about others than what the
    speaker says of themselves, or of another relative, unless such a relative is mentioned there or in a statement
    beside it.
    """
    about = asked.about
    other: NDArray[np.bool_] | None = evidence.other
    if about is None:
        return None
    if about.mentions is None and about.kin is None:
        counts = asked.query.sight.viewer is not None or asked.query.asks_for_own or about.elsewhere is not None
        return other if counts else None
    other = np.zeros(len(rows), np.bool_) if other is None else other
    if about.mentions is not None:
        other = other | ~about.mentions[rows]
    if about.kin is not None:
        own, exchanges, _ = about.kin
        of_others: NDArray[np.bool_] = (corpus.columns["mine"][rows] != 0) | (own.among(rows)[1] > 0)
        other = other | (of_others & (exchanges.among(rows)[0] == 0))
    return other


def _lifted(scored: Scored, pairs: Updated) -> tuple[Scored, Rows, Rows]:
    """Score each later statement at least like the earlier ones; return the places of both as well."""
    there = among(pairs.older, scored.rows) & among(pairs.newer, scored.rows)
    older, newer = (scored.rows.searchsorted(rows[there]) for rows in (pairs.older, pairs.newer))
    score = scored.score.copy()
    np.maximum.at(score, newer, scored.score[older])
    return attrs.evolve(scored, score=score, newest=scored.newest | (score > scored.score)), older, newer


def _candidates(scores: NDArray[np.float32], limit: int, slack: float) -> tuple[float, Rows]:
    """Return the least score of the best, and the rows that may be among them.

    The scores have an error of at most half the slack.
    """
    blocks = len(scores) // _BLOCK
    # At least as many rows as blocks score as much as the best of their block.
    highest = np.maximum.reduceat(scores, np.arange(blocks) * _BLOCK) if blocks > 2 * limit else scores
    cut = max(_last_of_best(highest, limit) - slack, _HIDDEN / 2)
    (rows,) = (scores >= cut).nonzero()
    best = scores[rows]
    cut = _last_of_best(best, limit) - slack
    return cut, rows[best >= cut]


def _last_of_best(scores: Floats, limit: int) -> float:
    """Return the last of the best scores, or minus infinity if there are not more than these."""
    if limit >= len(scores):
        return -math.inf
    ordered = scores.copy()
    ordered.partition(-limit)
    return float(ordered[-limit])


# The order of results


@attrs.frozen(eq=False)
class _Ranking:
    """Results in order, with their records in full."""

    scored: Scored
    currents: Sequence[Current]

    def at(self, rows: Rows) -> _Ranking:
        """Return some of the results, in the order of ``rows``."""
        return _Ranking(self.scored.at(rows), [self.currents[row] for row in rows.tolist()])


@attrs.frozen(eq=False)
class Ranker:
    """The exact best records of a corpus for one query, by one filter or by several.

    What no filter changes is computed once: the weights of the query's words, and the scores of the first pass.

    Attributes:
        corpus: The corpus, as `Corpus.shown` to the caller.
        query: The query, with what its caller may see.
        concepts: The declared concepts by keyword.
    """

    corpus: Corpus
    query: Query
    concepts: Mapping[str, Concept[Any, Any]]

    @classmethod
    def of(cls, corpus: Corpus, query: Query, concepts: Mapping[str, Concept[Any, Any]]) -> Ranker:
        """Return the ranker of a query in a corpus."""
        return cls(corpus.shown(query.sight), query, concepts)

    @functools.cached_property
    def seen(self) -> Seen:
        """The part of the corpus that the caller sees."""
        return self.corpus.seen(self.query.sight)

    @functools.cached_property
    def _approximate(self) -> tuple[CorpusQuery, NDArray[np.float32], float]:
        """The query, weighed for all rows, their approximate scores, and the largest error of any of these."""
        corpus, query = self.corpus, self.query
        asked = CorpusQuery.of(corpus, query, self.seen, among=None)
        weights, by_words = corpus.short_weights, query.lexical_weight
        evidence = _evidence(corpus, asked, None, weights)
        recency = corpus.recency(query.settings.half_life_days, query.now)
        alike = scoring.similarity(evidence, by_words)
        scores: Any = query.settings.composite.score(alike, recency, weights.importance)
        steepness = scoring.steepness(evidence, by_words, query.settings)
        return asked, scores, steepness * asked.error + 6e-6 + 1e-6 * len(asked.terms)

    def ranked(
        self,
        wanted: RecallFilter,
        limit: int,
        *,
        min_score: float = 0.0,
        beside: Callable[[Rows], Sequence[int]] | None = None,
    ) -> Callable[[], list[RecallMatch]]:
        """Search for the best of all records that the caller sees and the filter keeps; read them when called.

        Equal scores are ordered by timestamp, newest first, then by a digest of the assertion, so that the order is the
        same in every store. With a `RecallSettings.diversity`, results that repeat others give way; see `_diverse`.

        Args:
            wanted: The filter; it never changes a score.
            limit: Maximum number of results.
            min_score: The least score.
            beside: Returns further rows that will be read for some results; a store that is far is asked for both at
                once.

        Returns:
            A function that returns the results, best first.
        """
        diversity = self.query.settings.diversity
        if limit > _FEW_RESULTS or diversity:
            may_wait()
        beside = beside if self.corpus.documents.far else None
        keep, first = kept_rows(self.corpus, self.query.sight, wanted), _POOL * limit if diversity else limit
        best = self._best(keep, first, min_score)

        def matches() -> list[RecallMatch]:
            ranking, size = self._read(keep, first, min_score, best, beside), first
            while ranking is not None and diversity:
                if (chosen := self._diverse(ranking.scored, limit, whole=len(ranking.currents) < size)) is not None:
                    return _matches(ranking.at(chosen), self.concepts)
                size *= _POOL
                ranking = self._read(keep, size, min_score, self._best(keep, size, min_score), beside)
            return [] if ranking is None else _matches(ranking, self.concepts)

        return matches

    def _best(self, keep: Rows | None, limit: int, min_score: float) -> Scored | None:
        """Search for the best rows, in order, with all that equal the last of them; None if there are none."""
        scored = self.search(keep, limit)
        best = None if scored is None else scored.at(_top(scored, limit, min_score))
        return best if best is not None and len(best.rows) else None

    def _read(
        self,
        keep: Rows | None,
        limit: int,
        min_score: float,
        best: Scored | None,
        beside: Callable[[Rows], Sequence[int]] | None,
    ) -> _Ranking | None:
        """Read the best rows that a search has found; None if there are none."""
        corpus = self.corpus
        while best is not None:
            read = corpus.currents(best.rows, beside=() if beside is None else beside(best.rows))
            currents = list(filter(None, read))
            if len(currents) == len(read):
                return _in_order(best, currents, limit)
            # Some were erased since the corpus was made: others take their places.
            left = self.seen.rows if keep is None else keep
            keep = left[~among(left, best.rows[[current is None for current in read]])]
            best = self._best(keep, limit, min_score)
        return None

    def _diverse(self, pool: Scored, limit: int, *, whole: bool) -> Rows | None:
        """Choose diverse results from a pool of the best; return None if a record outside it could gain more.

        Each is chosen for its gain over those before. This is maximal marginal relevance (Carbonell and Goldstein,
        1998) as a factor, so that a gain stays between 0 and the score: ``gain = score · (1 - d · overlap)``, with the
        `RecallSettings.diversity` as ``d`` and the largest ``overlap = ½ · cos + ½ · [same conversation]`` with a
        result before it. Records outside the pool gain at most the least score in it. While that could matter, the pool
        grows, so that the choice is that of the whole store.

        Args:
            pool: The best records, best first.
            limit: The number of results.
            whole: Whether there are no records outside the pool.
        """
        corpus, diversity = self.corpus, self.query.settings.diversity
        vectors = corpus.vectors.take(np.maximum(corpus.slots[pool.rows], 0)).astype(np.float64)
        talks = corpus.columns["talk"][pool.rows]
        overlap = np.zeros(len(pool.rows))
        left = np.ones(len(pool.rows), np.bool_)
        chosen: list[int] = []
        for _ in range(min(limit, len(pool.rows))):
            gains = np.where(left, pool.score * (1 - diversity * overlap), -1)
            best = int(np.argmax(gains))
            if not whole and gains[best] < pool.score[-1]:
                return None
            chosen.append(best)
            left[best] = False
            cosines = np.maximum(np.einsum("ij,j->i", vectors, vectors[best]), 0)
            same = (talks == talks[best]) & (talks > 0)
            np.maximum(overlap, (cosines + same) / 2, out=overlap)
        return np.array(chosen, np.intp)

    def search(self, keep: Rows | None, limit: int) -> Scored | None:
        """Return the best rows and all that equal the last of them, in no order; None if there are none.

        A statement scores at least like those that it follows, if the query asks for the present. One that overtakes
        others scores like the best of them, and they score just below it. Both hold whatever the filter; if the query
        names a time, what was said then is asked for, and every statement keeps its own score.

        Args:
            keep: The rows that a filter keeps, ascending; None for all that the caller sees.
            limit: Number of best rows.
        """
        corpus, query, seen = self.corpus, self.query, self.seen
        keep = seen.few if keep is None else keep
        overtaken = NONE_UPDATED if query.times else seen.overtaken
        followed = seen.followed if query.asks_for_present and not query.times else NONE_UPDATED
        if keep is not None and (len(keep) * _FEW <= len(corpus.layout) or len(corpus.layout) <= _SMALL):
            chosen, scored = keep, followed.whole(overtaken.whole(keep))
            asked = CorpusQuery.of(corpus, query, seen, among=corpus.around(scored))
        else:
            (asked, scores, error), mask = self._approximate, seen.mask
            lifted = scores.copy() if len(followed.older) or len(overtaken.older) else scores
            for pairs in (followed, overtaken):
                np.maximum.at(lifted, pairs.newer, lifted[pairs.older])
            if keep is not None:
                mask = np.zeros(len(scores), np.bool_)
                mask[keep] = True
            if mask is not None:
                scores = np.where(mask, scores, np.float32(_HIDDEN))
            cut, chosen = _candidates(scores, limit, 2 * error)
            newer = np.concatenate([followed.newer, overtaken.newer])
            raised = newer[lifted[newer] >= cut]
            chosen = united(chosen, raised if mask is None else raised[mask[raised]])
            scored = followed.whole(overtaken.whole(chosen))
        if not len(scored):
            return None
        found = _second_pass(corpus, asked, scored)
        if len(followed.older):
            found, _, _ = _lifted(found, followed)
        if len(overtaken.older):
            found, older, newer = _lifted(found, overtaken)
            found.score[older] = scoring.outranked(found.score[older], found.score[newer])
        return found if scored is chosen else found.at(among(found.rows, chosen).nonzero()[0])


def _top(scored: Scored, limit: int, min_score: float) -> Rows:
    """Return the places of the first rows by score and time, with all that equal the last of them in both."""
    score, said_at = scored.score, scored.said_at
    min_score = max(min_score, _last_of_best(score, limit))
    (rows,) = (score >= min_score).nonzero()
    order: Rows = rows[np.lexsort((-said_at[rows], -score[rows]))]
    if limit >= len(order):
        return order
    last, rest = order[limit - 1], order[limit:]
    equal = (score[rest] == score[last]) & (said_at[rest] == said_at[last])
    return np.concatenate([order[:limit], rest[equal]])


def _in_order(best: Scored, currents: Sequence[Current], limit: int) -> _Ranking:
    """Order rows of equal scores and times by the digests of the assertions, and cut at the limit."""
    score, said_at = best.score, best.said_at
    if ((score[1:] == score[:-1]) & (said_at[1:] == said_at[:-1])).any():
        digests = [current.recorded.assertion.fingerprint for current in currents]
        order = sorted(range(len(currents)), key=lambda row: (-score[row], -said_at[row], digests[row]))
        return _Ranking(best, currents).at(np.array(order[:limit]))
    return _Ranking(best, currents)


def _matches(ranking: _Ranking, concepts: Mapping[str, Concept[Any, Any]]) -> list[RecallMatch]:
    scored = ranking.scored
    columns = [getattr(scored, name).tolist() for name in ("score", "newest", *_PARTS)]
    found: list[RecallMatch] = []
    for record, score, newest, *values in zip(hydrated(ranking.currents, concepts), *columns, strict=True):
        parts = ScoreParts(**dict(zip(_PARTS, values, strict=True)))
        reasons = _reasons(
            parts.lexical > 0,
            parts.cosine >= 0.3,
            parts.named > 0,
            parts.dated == 1,
            parts.recency > 0.5,
            parts.importance > 0.5,
            newest,
        )
        found.append(RecallMatch(record=record, score=score, parts=parts, reasons=reasons))
    return found


@functools.cache
def _reasons(*held: bool) -> tuple[str, ...]:
    """Return the reasons that hold, of those in the order of `RecallMatch.reasons`."""
    names = ("lexical", "semantic", "named", "dated", "recent", "important", "newest")
    return tuple(name for name, holds in zip(names, held, strict=True) if holds)
