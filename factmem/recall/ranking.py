"""Ranking: from a query to the exact best records of a corpus.

A search runs in two passes over the same evidence and the same formulas (`factmem.recall.scoring`).

1. The first pass scores every row of a segment in single precision, with a bounded error.
2. The second pass scores the rows that may still be among the best, in double precision. Its scores are functions of
   the query, the record, its conversation and the statistics of what the caller sees, to the last bit. They depend
   neither on other records nor on the layout.

If a filter leaves few rows, the second pass scores them directly.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from factmem.facts import STATEMENT, Concept
from factmem.fold import Current
from factmem.recall import scoring
from factmem.recall.filters import RecallFilter
from factmem.recall.index.column_fold import CurrentRows
from factmem.recall.index.corpus import Corpus, Seen
from factmem.recall.index.matters import Overtaken, among
from factmem.recall.index.outline_codec import term_numbers
from factmem.recall.index.segments import Hits, RowWeights, Segment, conversation_keys, row_before
from factmem.recall.index.selection import kept_by_part, without
from factmem.recall.results import RecallMatch, ScoreParts, hydrate
from factmem.recall.scoring import Calibration, Evidence, RecallSettings
from factmem.recall.text.analysis import analyse
from factmem.recall.text.related_words import Term
from factmem.recall.text.signs import Kind, asking_words, capitalized
from factmem.recall.text.times import TimeSpan
from factmem.records import FactRecord
from factmem.views import Sight

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.intp]
    Floats = NDArray[Any]

__all__ = [
    "CorpusQuery",
    "Query",
    "QueryTerm",
    "Scored",
    "less_named",
    "ranked",
    "search",
]

_FEW: Final = 16
"""A filter leaves few rows if it keeps less than one row in this many."""

_SMALL: Final = 512
"""Number of rows up to which the second pass scores all rows of a segment."""

_BLOCK: Final = 128
"""Number of rows whose best score stands for them when the cut of the first pass is estimated."""

_HIDDEN: Final = -1.0
"""Approximate score of a row that the caller does not see or that a filter leaves out."""

_POOL: Final = 8
"""Initial size of the pool for diverse results, as a multiple of the limit."""

_LEAST_COVERED: Final = 1e-6
"""Least share of the query that a named concept covers."""


# The query


@attrs.frozen(kw_only=True, eq=False)
class Query:
    """A query, independent of any corpus.

    Attributes:
        terms: The distinct terms.
        vector: The embedding of length 1, or None to go by words alone.
        times: The intervals that the query names, in seconds since 1970; an open beginning is minus infinity.
        timed: The part of the evidence of words that is the closeness to a time.
        asks_assistant: Whether it asks for the assistant's own words.
        kinds: The kinds of values that would answer it.
        sight: What the caller may see, on which all statistics depend.
        now: The moment that ages are counted from, in seconds since 1970.
        settings: The weights.
        calibration: How cosines are read.
    """

    terms: Sequence[Term]
    vector: NDArray[np.float32] | None
    times: Sequence[tuple[float, float]] = ()
    timed: float = 0.0
    asks_assistant: bool = False
    kinds: Kind = Kind.NONE
    sight: Sight
    now: float
    settings: RecallSettings
    calibration: Calibration = attrs.field(factory=Calibration)

    @property
    def lexical_weight(self) -> float:
        """The weight of words: 1 without a vector."""
        return self.calibration.lexical_weight if self.vector is not None else 1.0

    def at(self, times: Iterable[TimeSpan], rest: str) -> Query:
        """Return the query with times, whose words do not count besides.

        Args:
            times: The times.
            rest: The text of the query without the words of the times.
        """
        kept = set(term_numbers(analyse(rest)))
        terms = [term for term in self.terms if term.number in kept]
        timed = scoring.TIMED * (1 - len(terms) / max(len(self.terms), 1))
        seconds = (*self.times, *(span.seconds for span in times))
        return attrs.evolve(self, terms=terms, times=seconds, timed=self.timed + (1 - self.timed) * timed)


def less_named(corpus: Corpus, query: Query, text: str, nameless: NDArray[np.float32] | None) -> Query:
    """Return a query in whose embedding names count half; the same one if not all of its capitalized words are names.

    Names count as words. Embeddings of records are without them, so that those of a question blur what it means.

    Args:
        corpus: The corpus, whose speakers and subjects are the names.
        query: The query.
        text: Its text.
        nameless: The embedding of `factmem.recall.text.signs.nameless` of it.
    """
    if query.vector is None or nameless is None or nameless is query.vector:
        return query
    both = query.vector + nameless
    size = float(np.linalg.norm(both))
    names = corpus.shown(query.sight).names_in([term.number for term in query.terms], query.sight)
    if not size or not names or not names.issuperset(term_numbers(analyse(" ".join(capitalized(text))))):
        return query
    return attrs.evolve(query, vector=(both / size).astype(np.float32))


@attrs.frozen(eq=False)
class QueryTerm:
    """A term of a query, weighed against one corpus.

    Attributes:
        term: The term.
        shares: Its weight at each level, as a share of the attainable score.
        covers: Its weight as a share of the query's; a word that no document holds counts as the mean of the others.
        levels: Its occurrences by part and level; see `factmem.recall.index.corpus.Occurrences`.
    """

    term: Term
    shares: tuple[float, ...]
    covers: float = attrs.field(kw_only=True)
    levels: Sequence[tuple[Hits, Hits, Hits]] = attrs.field(kw_only=True)


@attrs.frozen(kw_only=True, eq=False)
class CorpusQuery:
    """A query, weighed against one corpus.

    Attributes:
        query: The query.
        terms: The terms that visible documents hold.
        norms: BM25's norm of length at each level; see `scoring.length_norm`.
        concepts: By head, the share of the query that the words of its concept cover; 0 if the query does not name
            the concept. None if it names no concept.
        dots: The inner products of all vectors with the query's, or None if they are not needed.
        others: By head, whether it is of facts about others, unless the query names their subject; None if none is.
    """

    query: Query
    terms: Sequence[QueryTerm]
    norms: Sequence[tuple[float, float]]
    concepts: NDArray[np.float32] | None
    dots: NDArray[np.float32] | None
    others: NDArray[np.bool_] | None

    @classmethod
    def of(cls, corpus: Corpus, query: Query, *, among: Sequence[NDArray[np.bool_]] | None) -> CorpusQuery:
        """Weigh a query against a corpus.

        Args:
            corpus: The corpus.
            query: The query.
            among: By part, the rows that matter, whole conversations; None for all rows.
        """
        seen = corpus.seen(query.sight)
        terms = _weighed(corpus, query, seen, among) if query.lexical_weight else []
        return cls(
            query=query,
            terms=terms,
            norms=[scoring.length_norm(average) for average in seen.averages],
            concepts=_named_concepts(corpus, query, terms) if query.lexical_weight else None,
            dots=corpus.vectors.dots(query.vector) if among is None and query.vector is not None else None,
            others=_about_others(corpus, query) if query.lexical_weight else None,
        )


def _weighed(corpus: Corpus, query: Query, seen: Seen, among: Sequence[NDArray[np.bool_]] | None) -> list[QueryTerm]:
    """Weigh the terms that visible documents hold; the other terms only raise the attainable score."""
    found = [corpus.term(term, seen, among) for term in query.terms]
    weights = [
        tuple(
            _asking_weight(term) * scoring.idf(df, count)
            for df, count in zip(known.documents, seen.counts, strict=True)
        )
        for term, known in zip(query.terms, found, strict=True)
    ]
    attainable = [sum(of_level) + 1e-9 for of_level in zip(*weights, strict=True)]
    held = [of[0] for known, of in zip(found, weights, strict=True) if known.documents[0]]
    whole = sum(held) / max(len(held), 1) * len(found)
    return [
        QueryTerm(
            term,
            tuple(part / total for part, total in zip(of, attainable, strict=True)),
            covers=of[0] / whole,
            levels=known.levels,
        )
        for term, known, of in zip(query.terms, found, weights, strict=True)
        if known.documents[0]
    ]


def _asking_weight(term: Term) -> float:
    return scoring.ASKING if term.number in _asking_terms() else 1.0


@functools.cache
def _asking_terms() -> frozenset[int]:
    return frozenset(term_numbers(asking_words()))


def _about_others(corpus: Corpus, query: Query) -> NDArray[np.bool_] | None:
    """Return which heads are of facts about others than the query asks about, unless it names their subject.

    These are all facts if it names somebody, and those about other individuals than the viewer if it names nobody.
    """
    columns = corpus.columns
    statement = columns.keywords.find(STATEMENT.keyword)
    heads = columns.all_of_heads()  # of one length, while others append
    typed: NDArray[np.bool_] = heads["keyword"] != (-1 if statement is None else statement)
    if not typed.any():
        return None
    if corpus.names_in([term.number for term in query.terms], query.sight):
        return typed
    about_others: NDArray[np.bool_] = columns.other_individuals(query.sight.viewer)[heads["subject"]]
    return typed & about_others


def _named_concepts(corpus: Corpus, query: Query, weighed: Sequence[QueryTerm]) -> NDArray[np.float32] | None:
    columns = corpus.columns
    heads = columns.of_heads("keyword")
    named = columns.concept_names.named(columns.keywords.texts, [term.number for term in query.terms])
    if not named:
        return None
    covers = {item.term.number: item.covers for item in weighed}
    covered = np.zeros(len(columns.keywords), np.float32)
    for keyword, words in named.items():
        covered[keyword] = max(sum(covers.get(word, 0.0) for word in words), _LEAST_COVERED)
    of_heads: NDArray[np.float32] = covered[heads]
    return of_heads


# Evidence


def _evidence(
    corpus: Corpus, number: int, asked: CorpusQuery, rows: Rows | None, weights: RowWeights
) -> Evidence[Floats]:
    """Return the evidence of rows of a part.

    Args:
        corpus: The corpus.
        number: The part.
        asked: The query.
        rows: The rows, in double precision; None for all rows, in single precision.
        weights: The weights of the rows.
    """
    segment, query = corpus.parts[number].segment, asked.query
    own, exchange, conversation = _shares(corpus, number, asked, rows)
    cosine, near = _cosines(corpus, segment, asked, rows)
    lead, concept, covered = _names(segment, asked, rows)
    question, question_cosine = (
        (None, None) if weights.answered is None else _questions(corpus, number, asked, rows, own, cosine)
    )
    dated = scoring.closeness(_of(segment.said_at, rows), query.times) if query.times else None
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
        misfit=_misfit(segment, query, rows),
        lead=lead,
        concept=concept,
        covered=covered,
        dated=dated if dated is None else dated.astype(weights.context.dtype, copy=False),
        timed=query.timed,
        kind=(_of(segment.kinds, rows) & query.kinds) != 0 if query.kinds else None,
        other=_others(segment, asked, rows, lead),
    )


def _of(values: NDArray[Any], rows: Rows | None) -> NDArray[Any]:
    return values if rows is None else values[rows]


def _misfit(segment: Segment, query: Query, rows: Rows | None) -> NDArray[np.bool_] | None:
    """Return whether rows are of a role that the query does not ask for; None if none are."""
    if not query.asks_assistant and not segment.has_assistant:
        return None
    misfit: NDArray[np.bool_] = _of(segment.assistant, rows) != query.asks_assistant
    return misfit


def _others(
    segment: Segment, asked: CorpusQuery, rows: Rows | None, lead: NDArray[np.bool_] | None
) -> NDArray[np.bool_] | None:
    """Return whether rows are facts about somebody whom the query does not ask about; None if none are."""
    if asked.others is None:
        return None
    others: NDArray[np.bool_] = asked.others[_of(segment.heads, rows)]
    return others if lead is None else others & ~lead


def _names(
    segment: Segment, asked: CorpusQuery, rows: Rows | None
) -> tuple[NDArray[np.bool_] | None, Floats | None, Floats | None]:
    """Return whether the query names the speaker or subject of rows, and their concept, and how much names cover."""
    lead, covered_by_lead = None, None
    found = segment.leading([item.term.number for item in asked.terms])
    if found:
        covers = np.zeros(len(segment.speakers[0]))
        for place, speaker in found:
            covers[speaker] = asked.terms[place].covers
        named = np.zeros(len(covers), np.bool_)
        named[[speaker for _, speaker in found]] = True
        speakers = _of(segment.speakers[1], rows)
        lead, covered_by_lead = named[speakers], covers[speakers]
    if asked.concepts is None:
        return lead, None, None
    covered = asked.concepts[_of(segment.heads, rows)].astype(np.float64)
    concept = (covered > 0).astype(np.float64)
    if covered_by_lead is not None:
        covered += covered_by_lead
    np.minimum(covered, 1, out=covered)
    return (
        (lead, concept, covered) if rows is not None else (lead, concept.astype(np.float32), covered.astype(np.float32))
    )


def _questions(
    corpus: Corpus, number: int, asked: CorpusQuery, rows: Rows | None, own: Floats, cosine: Floats
) -> tuple[Floats, Floats]:
    """Return the evidence of the statement before each row; that of rows that answer no question is arbitrary."""
    if rows is None:
        return row_before(own), row_before(cosine)
    segment = corpus.parts[number].segment
    answers = segment.answers[rows]
    questions = rows[answers] - 1
    question, question_cosine = np.zeros((2, len(rows)))
    question[answers] = _share(segment, number, asked, questions, 0)
    question_cosine[answers] = _cosine(corpus, segment, asked, questions)
    return question, question_cosine


def _cosines(corpus: Corpus, segment: Segment, asked: CorpusQuery, rows: Rows | None) -> tuple[Floats, Floats]:
    """Return the cosine of rows, and the mean cosine of their exchanges; negative cosines count as 0."""
    if rows is None:
        if asked.dots is None or asked.query.lexical_weight == 1:
            none: Floats = np.zeros(1, np.float32)
            return none, none
        cosine = segment.of_slots(asked.dots)
        np.maximum(cosine, 0, out=cosine)
        return cosine, segment.near(cosine)
    if segment.single or asked.query.vector is None:
        cosine = _cosine(corpus, segment, asked, rows)
        return cosine, cosine
    before, after = segment.beside(rows)
    around = np.stack([rows - before, rows, rows + after])  # a row stands in for a missing neighbour
    cosines = _cosine(corpus, segment, asked, around.ravel()).reshape(around.shape)
    together = cosines[0] * before + cosines[1] + cosines[2] * after
    return cosines[1], together / (1 + before + after)


def _cosine(corpus: Corpus, segment: Segment, asked: CorpusQuery, rows: Rows) -> Floats:
    """Return the cosine of rows; a negative one counts as 0."""
    vector = asked.query.vector
    return np.zeros(len(rows)) if vector is None else np.maximum(corpus.vectors.exact(segment.slots[rows], vector), 0)


def _shares(corpus: Corpus, number: int, asked: CorpusQuery, rows: Rows | None) -> tuple[Floats, Floats, Floats]:
    """Return the attained shares of BM25 at the three levels; those of context are 0 outside conversations."""
    if not asked.terms:
        none = np.zeros(1, np.float32) if rows is None else np.zeros(len(rows))
        return none, none, none
    segment = corpus.parts[number].segment
    if rows is None:
        return _all_shares(segment, number, asked)
    own, exchange, conversation = (_share(segment, number, asked, rows, level) for level in range(3))
    exchange[rows < segment.alone] = conversation[rows < segment.alone] = 0
    return own, exchange, conversation


def _all_shares(segment: Segment, number: int, asked: CorpusQuery) -> tuple[Floats, Floats, Floats]:
    shares = [np.zeros(len(segment), np.float32), np.zeros(len(segment), np.float32)]
    conversations = np.zeros(len(segment.keys), np.float32)
    for weighed in asked.terms:
        for level, hits in enumerate(weighed.levels[number]):
            start = int(hits.rows.searchsorted(segment.alone)) if level else 0
            rows, counts = hits.rows[start:], hits.counts[start:]
            fixed, factor = asked.norms[level]
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


def _share(segment: Segment, number: int, asked: CorpusQuery, rows: Rows, level: int) -> Floats:
    """Return the attained shares of rows at a level, in double precision."""
    documents = segment.session[rows] if level == 2 else rows
    fixed, factor = asked.norms[level]
    norm = fixed + factor * segment.lengths[level][documents]
    shares = np.zeros(len(rows))
    for weighed in asked.terms:
        shares += weighed.shares[level] * scoring.term_share(weighed.levels[number][level].of(documents), norm)
    return shares


# The two passes


@attrs.frozen(kw_only=True, eq=False)
class Scored:
    """Rows with their scores: arrays of one length; each score and part is from 0 to 1.

    Attributes:
        rows: The assertions, as rows of the columns.
        counts: See `Segment`.
        slots: See `Segment`.
        said_at: When each was said, in seconds since 1970.
        score: The composite; see `search`.
        newest: Whether a statement that this one overtakes answers better, and raises its score.
        similarity: See `ScoreParts`, as the others.
    """

    rows: Rows
    counts: Rows
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
    newest: NDArray[np.bool_]

    def at(self, rows: Rows) -> Scored:
        """Return some of the rows."""
        return Scored(**{name: getattr(self, name)[rows] for name in _COLUMNS})


_COLUMNS: Final = tuple(field.name for field in attrs.fields(Scored))
_PARTS: Final = tuple(field.name for field in attrs.fields(ScoreParts) if field.name in _COLUMNS)


def _first_pass(corpus: Corpus, number: int, asked: CorpusQuery) -> NDArray[np.float32]:
    """Return approximate scores of all rows of a part; see `_slack` for their error."""
    segment, query = corpus.parts[number].segment, asked.query
    weights = segment.short_weights
    alike = scoring.similarity(_evidence(corpus, number, asked, None, weights), query.lexical_weight)
    recency = segment.recency(query.settings.half_life_days, query.now)
    scores: Any = scoring.composite(alike, recency, weights.importance, query.settings)
    approximate: NDArray[np.float32] = scores
    return approximate


def _slack(asked: CorpusQuery) -> float:
    """Return twice the largest error of a score of `_first_pass`."""
    query = asked.query
    words, size = query.lexical_weight, 0 if query.vector is None else len(query.vector)
    far = 1 / (1 - query.calibration.unrelated)
    wrong = (1 - words) * far * size * 1e-7 + (2e-6 + 1e-6 * len(asked.terms))
    return 2 * (wrong + 4e-6)


def _second_pass(corpus: Corpus, number: int, asked: CorpusQuery, rows: Rows) -> Scored:
    """Return rows of a part with their exact scores."""
    segment, query = corpus.parts[number].segment, asked.query
    weights = segment.weights(rows)
    evidence = _evidence(corpus, number, asked, rows, weights)
    alike = scoring.similarity(evidence, query.lexical_weight)
    said_at, none = segment.said_at[rows], np.zeros(len(rows))
    recency = scoring.recency(query.now - said_at, query.settings.half_life_days)
    lead, concept = (none if sign is None else sign for sign in (evidence.lead, evidence.concept))
    return Scored(
        rows=segment.rows[rows].astype(np.intp),
        counts=segment.counts[rows].astype(np.intp),
        slots=segment.slots[rows],
        said_at=said_at,
        score=scoring.composite(alike, recency, weights.importance, query.settings),
        similarity=alike,
        lexical=evidence.lexical,
        semantic=evidence.semantic,
        named=np.maximum(lead, concept).astype(np.float64),
        dated=none if evidence.dated is None else evidence.dated,
        cosine=evidence.cosine,
        recency=recency,
        importance=weights.importance,
        newest=np.zeros(len(rows), np.bool_),
    )


def search(corpus: Corpus, query: Query, keep: Sequence[Rows | None], limit: int) -> Scored | None:
    """Return the best rows and all that equal the last of them, in no order; None if there are none.

    A statement that overtakes others scores like the best of them, and they score just below it, whatever the filter.
    If the query names a time, what was said then is asked for, and every statement keeps its own score.

    Args:
        corpus: The corpus, as `Corpus.shown` to the caller.
        query: The query.
        keep: By part, the rows that a filter keeps, ascending; None for all that the caller sees.
        limit: Number of best rows.
    """
    seen = corpus.seen(query.sight)
    keep = [few if rows is None else rows for rows, few in zip(keep, seen.rows, strict=True)]
    few = [rows is not None and _is_few(rows, part.segment) for part, rows in zip(corpus.parts, keep, strict=True)]
    chosen = {number: rows for number, rows in enumerate(keep) if rows is not None and few[number]}
    groups = seen.overtaken.none() if query.times else seen.overtaken
    if all(few):
        scored = groups.whole(chosen)
        asked = CorpusQuery.of(corpus, query, among=_around(corpus, scored))
    else:
        asked = CorpusQuery.of(corpus, query, among=None)
        approximate: list[tuple[int, NDArray[np.float32]]] = []
        best = np.full(len(groups), np.inf, np.float32)
        for number, rows in enumerate(keep):
            if number in chosen:
                continue
            scores, mask = _first_pass(corpus, number, asked), seen.masks[number]
            groups.read(number, scores, best)
            if rows is not None:
                mask = np.zeros(len(scores), np.bool_)
                mask[rows] = True
            if mask is not None:
                scores[~mask] = _HIDDEN
            approximate.append((number, scores))
        cut, candidates = _candidates(approximate, limit, _slack(asked))
        chosen |= groups.with_newest(dict(candidates), best >= cut, keep)
        scored = groups.whole(chosen)
    parts = [_second_pass(corpus, number, asked, rows) for number, rows in scored.items() if len(rows)]
    if not parts:
        return None
    found = parts[0] if len(parts) == 1 else _joined(parts)
    return found if not len(groups) else _newest_first(found, groups, _of_columns(corpus, chosen))


def _newest_first(scored: Scored, overtaken: Overtaken, kept: Rows) -> Scored:
    """Return the kept rows, the newest statement of each matter scored like the best one; see `scoring.outranked`."""
    order = np.argsort(scored.rows)
    known = scored.rows[order]
    there = among(overtaken.older, known)
    if not there.any():
        return scored
    older, newest = (order[known.searchsorted(rows[there])] for rows in (overtaken.older, overtaken.newest))
    score = scored.score.copy()
    np.maximum.at(score, newest, scored.score[older])
    raised = score > scored.score
    score[older] = scoring.outranked(score[older], score[newest])
    left = among(scored.rows, kept)
    return attrs.evolve(scored, score=score, newest=raised).at(np.flatnonzero(left))


def _of_columns(corpus: Corpus, chosen: Mapping[int, Rows]) -> Rows:
    found = [corpus.parts[number].segment.rows[rows].astype(np.intp) for number, rows in chosen.items()]
    return np.concatenate([np.empty(0, np.intp), *found])


def _around(corpus: Corpus, scored: Mapping[int, Rows]) -> list[NDArray[np.bool_]]:
    return [corpus.parts[number].segment.around(rows) for number, rows in sorted(scored.items())]


def _joined(parts: Sequence[Scored]) -> Scored:
    return Scored(**{name: np.concatenate([getattr(item, name) for item in parts]) for name in _COLUMNS})


def _is_few(rows: Rows, segment: Segment) -> bool:
    return len(rows) * _FEW <= len(segment) or len(segment) <= _SMALL


def _candidates(
    approximate: Sequence[tuple[int, NDArray[np.float32]]], limit: int, slack: float
) -> tuple[float, list[tuple[int, Rows]]]:
    """Return the least score of the best, and the rows of each part that may be among them.

    The scores have an error of at most half the slack.
    """
    cut = max(_last_of_best([_highest(scores, limit) for _, scores in approximate], limit) - slack, _HIDDEN / 2)
    found = [(number, scores, np.flatnonzero(scores >= cut)) for number, scores in approximate]
    cut = _last_of_best([scores[rows] for _, scores, rows in found], limit) - slack
    return cut, [(number, rows[scores[rows] >= cut]) for number, scores, rows in found]


def _last_of_best(several: Sequence[NDArray[np.float32]], limit: int) -> float:
    """Return the last of the best scores, or minus infinity if there are not more than these."""
    scores = np.concatenate([np.empty(0, np.float32), *several])
    return float(np.partition(scores, -limit)[-limit]) if limit < len(scores) else -math.inf


def _highest(scores: NDArray[np.float32], limit: int) -> NDArray[np.float32]:
    """Return scores of which at least ``limit + 1`` are among the highest, if there are enough rows."""
    blocks = len(scores) // _BLOCK
    if blocks > 2 * limit:  # at least as many rows as blocks score as much as the best of their block
        return np.maximum.reduceat(scores, np.arange(blocks) * _BLOCK)
    return scores


# The order of results


@attrs.frozen(eq=False)
class _Ranking:
    """Results in order, with their records in full."""

    scored: Scored
    currents: Sequence[Current]

    def at(self, rows: Rows) -> _Ranking:
        """Return some of the results, in the order of ``rows``."""
        return _Ranking(self.scored.at(rows), [self.currents[row] for row in rows.tolist()])


def ranked(
    corpus: Corpus,
    query: Query,
    *,
    wanted: RecallFilter,
    limit: int,
    min_score: float = 0.0,
    concepts: Mapping[str, Concept[Any, Any]],
    beside: Callable[[Rows], Sequence[int]] | None = None,
) -> list[RecallMatch]:
    """Return the exact best of all records that the caller sees and the filter keeps, best first.

    Equal scores are ordered by timestamp, newest first, then by a digest of the assertion, so that the order is the
    same in every store. With a `RecallSettings.diversity`, results that repeat others give way; see `_diverse`.

    Args:
        corpus: The corpus.
        query: The query, with what its caller may see.
        wanted: The filter; it never changes a score.
        limit: Maximum number of results.
        min_score: The least score.
        concepts: The declared concepts by keyword.
        beside: Returns further rows that will be read for some results; a store that is far is asked for both at once.
    """
    corpus = corpus.shown(query.sight)
    beside = beside if corpus.documents.far else None
    best = functools.partial(_best, corpus, query, kept_by_part(corpus, query.sight, wanted), min_score, beside)
    diversity = query.settings.diversity
    ranking = _diverse(corpus, best, limit, diversity) if diversity else best(limit)
    return [] if ranking is None else _matches(ranking, concepts)


def _best(
    corpus: Corpus,
    query: Query,
    keep: Sequence[Rows | None],
    min_score: float,
    beside: Callable[[Rows], Sequence[int]] | None,
    limit: int,
) -> _Ranking | None:
    """Return the best of some rows of each part; None if there are none."""
    while (scored := search(corpus, query, keep, limit)) is not None:
        best = scored.at(_top(scored, limit, min_score))
        if not len(best.rows):
            return None
        found = CurrentRows(best.rows, best.rows, counts=best.counts)
        read = corpus.currents(found, beside=() if beside is None else beside(best.rows))
        currents = [current for current in read if current is not None]
        if len(currents) == len(read):
            return _in_order(best, currents, limit)
        # Some were erased since the corpus was made: others take their places.
        keep = without(corpus, query.sight, keep, best.rows[[current is None for current in read]])
    return None


def _top(scored: Scored, limit: int, min_score: float) -> Rows:
    """Return the places of the first rows by score and time, with all that equal the last of them in both."""
    score, said_at = scored.score, scored.said_at
    if limit < len(score):
        min_score = max(min_score, float(np.partition(score, len(score) - limit)[len(score) - limit]))
    rows = np.flatnonzero(score >= min_score)
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
    columns = [getattr(ranking.scored, name).tolist() for name in _PARTS]
    scores = ranking.scored.score.tolist()
    parts = [ScoreParts(**dict(zip(_PARTS, of_one, strict=True))) for of_one in zip(*columns, strict=True)]
    records = [hydrate(current, concepts) for current in ranking.currents]
    newest = ranking.scored.newest.tolist()
    return [_match(*found) for found in zip(records, scores, parts, newest, strict=True)]


def _match(record: FactRecord[Any], score: float, parts: ScoreParts, newest: bool) -> RecallMatch:
    reasons = (
        ("lexical", parts.lexical > 0),
        ("semantic", parts.cosine >= 0.3),
        ("named", parts.named > 0),
        ("dated", parts.dated == 1),
        ("recent", parts.recency > 0.5),
        ("important", parts.importance > 0.5),
        ("newest", newest),
    )
    held = tuple(name for name, holds in reasons if holds)
    return RecallMatch(record=record, score=score, parts=parts, reasons=held)


def _diverse(corpus: Corpus, best: Callable[[int], _Ranking | None], limit: int, diversity: float) -> _Ranking | None:
    """Return diverse results, each chosen for its gain over those before; None if there are none.

    This is maximal marginal relevance (Carbonell and Goldstein, 1998) as a factor, so that a gain stays between 0 and
    the score: ``gain = score · (1 - d · overlap)``, with the largest ``overlap = ½ · cos + ½ · [same conversation]``
    with a result before it. Records outside the pool of the best gain at most the least score in it. While that could
    matter, the pool grows, so that the choice is that of the whole store.

    Args:
        corpus: The corpus.
        best: Returns the best results up to a number.
        limit: The number of results.
        diversity: ``d``, from 0 to 1.
    """
    size = _POOL * limit
    while (pool := best(size)) is not None:
        chosen = _chosen(corpus, pool.scored, limit, diversity, whole=len(pool.currents) < size)
        if chosen is not None:
            return pool.at(chosen)
        size *= _POOL
    return None


def _chosen(corpus: Corpus, pool: Scored, limit: int, diversity: float, *, whole: bool) -> Rows | None:
    """Choose from a pool; return None if a record outside it could gain more."""
    vectors = corpus.vectors.take(pool.slots).astype(np.float64)
    talks = conversation_keys(corpus.columns, pool.rows)
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
