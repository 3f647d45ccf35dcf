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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
import numpy as np

from factmem.facts import Concept
from factmem.fold import Current
from factmem.recall import scoring
from factmem.recall.conditions import RecallFilter
from factmem.recall.index.column_fold import CurrentRows
from factmem.recall.index.columns import among
from factmem.recall.index.corpus import Corpus, Occurrences, RowWeights, Seen
from factmem.recall.index.names_in_query import relation_terms
from factmem.recall.index.outline_codec import term_numbers
from factmem.recall.index.overtaking import Overtaken, united
from factmem.recall.index.postings import Hits
from factmem.recall.index.selection import kept_rows
from factmem.recall.results import RecallMatch, ScoreParts, hydrate
from factmem.recall.scoring import Calibration, Evidence, RecallSettings
from factmem.recall.text.analysis import analyse
from factmem.recall.text.related_words import Term
from factmem.recall.text.signs import Kind, asking_words, capitalized, naming_words
from factmem.recall.text.times import TimeSpan
from factmem.views import Sight

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.intp]
    Floats = NDArray[Any]

__all__ = [
    "CorpusQuery",
    "Level",
    "Query",
    "Scored",
    "less_named",
    "ranked",
    "search",
]

_FEW: Final = 16
"""A filter leaves few rows if it keeps less than one row in this many."""

_SMALL: Final = 512
"""Number of rows up to which the second pass scores all rows that a filter keeps."""

_BLOCK: Final = 128
"""Number of rows whose best score stands for them when the cut of the first pass is estimated."""

_HIDDEN: Final = -1.0
"""Approximate score of a row that the caller does not see or that a filter leaves out."""

_POOL: Final = 8
"""Initial size of the pool for diverse results, as a multiple of the limit."""


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
        people: The terms that stand for somebody else than the speaker; see `people_terms`.
        asks_whom: Whether it asks of whom something holds.
        asks_for_own: Whether it asks for what is the speaker's alone.
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
    people: Mapping[int, int] = attrs.field(factory=dict)
    asks_whom: bool = False
    asks_for_own: bool = False
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
    _, names = corpus.shown(query.sight).named([term.number for term in query.terms], {}, query.sight)
    if not size or not names or not names.keys() >= set(term_numbers(analyse(" ".join(capitalized(text))))):
        return query
    return attrs.evolve(query, vector=(both / size).astype(np.float32))


@attrs.frozen(eq=False)
class Level:
    """One level of documents, and how its occurrences of the terms of a query are weighed.

    Attributes:
        hits: The occurrences; see `factmem.recall.index.corpus.Occurrences`.
        shares: The weight of each term, as a share of the attainable score.
        norm: BM25's norm of length; see `scoring.length_norm`.
    """

    hits: Hits
    shares: NDArray[np.float64]
    norm: tuple[float, float]

    def all_shares(self, lengths: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the attained share of each document, by the lengths of all, in single precision."""
        fixed, factor = map(np.float32, self.norm)
        rows = self.hits.rows
        attained = scoring.term_share(self.hits.counts, fixed + factor * lengths[rows])
        attained *= self.hits.of_terms(self.shares.astype(np.float32))
        return np.bincount(rows, attained, len(lengths)).astype(np.float32)

    def exact_shares(self, documents: NDArray[np.integer[Any]], lengths: NDArray[Any]) -> NDArray[np.float64]:
        """Return the attained share of some documents, by the lengths of all, in double precision."""
        fixed, factor = self.norm
        attained = scoring.term_share(self.hits.among(documents), fixed + factor * lengths[documents])
        attained *= self.shares[:, None]
        shares = np.zeros(len(documents))
        for of_term in attained:  # one after the other, so that the sum does not depend on the number of documents
            shares += of_term
        return shares


@attrs.frozen(kw_only=True, eq=False)
class _About:
    """The concepts and the people that a query asks about.

    Attributes:
        names: The terms that name people; see `SubjectIndex.named`.
        called: By head, whether the query names its person; None if it names nobody.
        concepts: By head, how far the query asks for its concept; None if there are statements only.
        named: By head, how far it names its concept.
        others: By head, whether it is of facts about others than the query asks about.
        strange: By row, whether it is a typed fact without a word of the people whom the query asks about and of whom
            there are no facts; None if it asks about no such people.
        mentions: By row, whether it is a fact, or is of or holds a name in the query; None if that names nobody.
        kin: The occurrences of words for the relatives whom the query asks about, and for others; None if it asks about
            none.
        anybody: Whether the subject of a fact answers the query, unless the value is a person.
    """

    names: Mapping[int, int]
    called: NDArray[np.bool_] | None
    concepts: NDArray[np.float64] | None
    named: NDArray[np.float64]
    others: NDArray[np.bool_]
    strange: NDArray[np.bool_] | None
    mentions: NDArray[np.bool_] | None
    kin: tuple[Hits, Hits, Hits] | None
    anybody: bool

    def at(
        self, corpus: Corpus, of: Rows | slice, dtype: Any
    ) -> tuple[NDArray[np.bool_] | None, Floats | None, Floats | None, NDArray[np.bool_] | None]:
        """Return whether the query names the people of rows, how far it asks for and names concepts, which are others'.

        Each is None where it is so for no row.
        """
        heads = corpus.heads[of]
        lead = None if self.called is None else self.called[heads]
        if self.concepts is None:
            return lead, None, None, None
        named, other = self.named[heads], self.others[heads]
        if self.anybody:
            other = other & (corpus.kinds[of] & Kind.PERSON != 0)
        if self.strange is not None:
            strange = self.strange[of]
            named, other = np.where(strange, 0, named), strange if self.anybody else other | strange
        concept = np.where(other, 0, self.concepts[heads]).astype(dtype)
        return None if lead is None else lead & ~other, concept, named.astype(dtype), other


@attrs.frozen(kw_only=True, eq=False)
class CorpusQuery:
    """A query, weighed against one corpus.

    Attributes:
        query: The query.
        terms: The numbers of the terms that visible documents hold.
        levels: Their occurrences at the three levels; none if words do not count.
        dots: The inner products of all vectors with the query's, or None if they are not needed.
        error: The largest error of any of them.
        about: What it asks for, and about whom; None if words do not count.
    """

    query: Query
    terms: Sequence[int]
    levels: Sequence[Level]
    dots: NDArray[np.float32] | None
    error: float
    about: _About | None

    @classmethod
    def of(cls, corpus: Corpus, query: Query, *, among: NDArray[np.bool_] | None) -> CorpusQuery:
        """Weigh a query against a corpus.

        Args:
            corpus: The corpus.
            query: The query.
            among: The rows that matter, whole conversations; None for all rows.
        """
        seen = corpus.seen(query.sight)
        terms = query.terms if query.lexical_weight else ()
        found = corpus.occurrences(terms, seen, among) if terms else None
        held = [number for number, of in enumerate(found.figures) if of.documents[0] > 0] if found else []
        about = _asked_about(corpus, query, seen, found) if found else None
        dots, error = None, 0.0
        if among is None and query.vector is not None:
            dots, error = corpus.vectors.dots(query.vector)
        return cls(
            query=query,
            terms=[terms[number].number for number in held],
            levels=_levels(query, found, seen, about.names) if found and about and held else (),
            dots=dots,
            error=error,
            about=about,
        )


def _levels(query: Query, found: Occurrences, seen: Seen, names: Mapping[int, int]) -> list[Level]:
    """Weigh terms; those that no visible document holds only raise the attainable score, and a name counts as one."""
    pairs = zip(query.terms, _weights(query.terms), strict=True)
    beside = [[weight / names.get(term.number, 1)] for term, weight in pairs]
    weights = np.array([of.weights for of in found.figures]) * np.array(beside)
    shares = (weights / (np.add.reduce(weights) + 1e-9)).T
    return list(map(Level, found.levels, shares, map(scoring.length_norm, seen.averages)))


def _weights(terms: Iterable[Term]) -> list[float]:
    """Return the weights of terms beside their idf."""
    asking = _asking_terms()
    return [scoring.ASKING if term.number in asking else 1.0 for term in terms]


@functools.cache
def _asking_terms() -> frozenset[int]:
    return frozenset(term_numbers(asking_words()))


@functools.cache
def _naming_terms() -> frozenset[int]:
    return frozenset(term_numbers(naming_words()))


def _asked_about(corpus: Corpus, query: Query, seen: Seen, found: Occurrences) -> _About:
    """Return what a query asks for, and about whom.

    If it names people, facts about anybody else are about others. If it names none, those about other individuals
    than the viewer are, or about any individual where there is no viewer and some fact is about none; of whatever else,
    such as a project, those of which the viewer has one of the same keyword. Where the speaker asks for their own,
    a subject with a capitalized name counts as an individual, and without a viewer the only one is the speaker. The
    name in a fact such as `first_name` is the viewer's own.
    """
    columns, viewer = corpus.columns, query.sight.viewer
    heads = columns.all_of_heads()  # of one length, while others append
    numbers = [term.number for term in query.terms]
    people, names = corpus.named(numbers, query.people, query.sight)
    strangers = (query.people.keys() & numbers) - names.keys() - set(term_numbers(analyse(viewer or "")))
    own, individuals = columns.own_and_others(viewer, capitalized=query.asks_for_own)
    called = np.zeros(len(own), np.bool_)
    called[people] = True
    if people:
        about = called | own if own[people].any() else called
    else:
        about = ~individuals
        of_facts = np.unique(heads["subject"][seen.facts])
        if viewer is None and individuals[of_facts].all() and (len(of_facts) == 1 or not query.asks_for_own):
            about[:] = True
    unnamed = [term for term in query.terms if term.number not in names]
    terms = list(zip(unnamed, _weights(unnamed), strict=True))
    asked, named = columns.concept_index.asked(columns.concepts.texts, terms, seen.concepts)
    persons, of, typed = heads["person"], heads["concept"], seen.concepts.take(heads["concept"], mode="clip")
    others = ~about.take(persons, mode="clip") & typed
    if not people:
        is_own = own.take(heads["subject"], mode="clip")
        others |= typed & ~is_own & among(heads["keyword"], np.unique(heads["keyword"][seen.facts[is_own[seen.facts]]]))

    def names_viewer(name: Term) -> bool:
        told = np.unique(corpus.heads[corpus.occurrences([name], seen).levels[0].rows])
        concepts = np.unique(of[told[typed[told] & ~others[told]]]).tolist()
        return any(columns.concept_index.is_of(_naming_terms(), concept) for concept in concepts)

    def holding(words: set[int]) -> NDArray[np.bool_]:
        held = np.zeros(len(corpus.heads), np.bool_)
        for place, number in enumerate(numbers):
            if number in words:
                rows, counts = found.levels[0].of_term(place)
                in_name = among(persons[corpus.heads[rows]], columns.subject_index.called(number))
                held[rows[counts > in_name]] = True  # else it is said by somebody of the same name
        return held

    strangers -= {term.number for term in query.terms if term.number in strangers and names_viewer(term)}
    relatives = frozenset(related for term in strangers if (related := query.people[term]) > 0)
    kin = corpus.levels(relation_terms(relatives), seen.mask) if relatives else None
    facts, some = typed[corpus.heads], bool(seen.concepts.any())
    mentions = None
    if people or any(query.people[term] < 0 for term in strangers):
        mentions = holding(names.keys() | strangers)
        if people:
            told, session = about.take(persons, mode="clip")[corpus.heads], corpus.layout.session
            present = np.zeros(len(told), np.bool_)
            present[session[told & ~facts]] = True
            mentions = mentions & ~present[session] | told  # who is present is addressed
        mentions = mentions | facts if people or some or not mentions.any() else None
    return _About(
        names=names,
        called=called.take(persons, mode="clip") if people else None,
        concepts=asked.take(of, mode="clip") if some else None,
        named=named.take(of, mode="clip"),
        others=others,
        strange=facts & ~holding(strangers) if strangers and some else None,
        mentions=mentions,
        kin=kin,
        anybody=query.asks_whom and not people,
    )


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
    words, meaning = _words(corpus, asked, rows), _meaning(corpus, asked, rows)
    lead = concept = named = other = None
    if asked.about is not None:
        lead, concept, named, other = asked.about.at(corpus, of, weights.context.dtype)
    dated = scoring.closeness(corpus.said_at[of], corpus.points_back[of], query.times) if query.times else None
    return Evidence(
        own=words.own,
        exchange=words.exchange,
        conversation=words.conversation,
        cosine=meaning.own,
        near=meaning.near,
        context=weights.context,
        unrelated=query.calibration.unrelated,
        words=weights.words,
        question=words.question,
        question_cosine=meaning.question,
        answered=weights.answered,
        little=weights.little,
        misfit=_misfit(corpus, query, of),
        lead=lead,
        concept=concept,
        named=named,
        dated=dated if dated is None else dated.astype(weights.context.dtype, copy=False),
        timed=query.timed,
        kind=(corpus.kinds[of] & query.kinds) != 0 if query.kinds else None,
        other=other,
    )


def _misfit(corpus: Corpus, query: Query, of: Rows | slice) -> NDArray[np.bool_] | None:
    """Return whether rows are of a role that the query does not ask for; None if none are."""
    if corpus.assistant is None:
        return np.ones(1, np.bool_) if query.asks_assistant else None
    misfit: NDArray[np.bool_] = corpus.assistant[of] != query.asks_assistant
    return misfit


class _Words(NamedTuple):
    """The attained shares of BM25 of rows at the three levels, and that of the text of the statement before."""

    own: Floats
    exchange: Floats
    conversation: Floats
    question: Floats | None


class _Meaning(NamedTuple):
    """The cosine of rows, the mean cosine of their exchanges, and that of the statement before; none is negative."""

    own: Floats
    near: Floats
    question: Floats | None


def _words(corpus: Corpus, asked: CorpusQuery, rows: Rows | None) -> _Words:
    """Return the evidence of words; that of context counts in conversations only."""
    layout = corpus.layout
    if not asked.levels:
        none = np.zeros(1, np.float32) if rows is None else np.zeros(len(rows))
        return _Words(none, none, none, none)
    if corpus.single:
        only = asked.levels[0]
        lengths = corpus.short_lengths.own if rows is None else corpus.lengths.own
        alone: Floats = only.all_shares(lengths) if rows is None else only.exact_shares(rows, lengths)
        return _Words(alone, alone, alone, None)
    if rows is None:
        own, exchange, conversation = map(Level.all_shares, asked.levels, corpus.short_lengths)
        question = None if corpus.answers is None else own[layout.before]
        return _Words(own, exchange, conversation[layout.session], question)
    texts = rows if corpus.answers is None else np.concatenate([rows, np.maximum(layout.before[rows], 0)])
    documents = (texts, rows, layout.session[rows])
    of_texts, near, around = map(Level.exact_shares, asked.levels, documents, corpus.lengths)
    return _Words(of_texts[: len(rows)], near, around, None if texts is rows else of_texts[len(rows) :])


def _meaning(corpus: Corpus, asked: CorpusQuery, rows: Rows | None) -> _Meaning:
    """Return the evidence of meaning."""
    vector, layout = asked.query.vector, corpus.layout
    if vector is None or (rows is None and (asked.dots is None or asked.query.lexical_weight == 1)):
        none = np.zeros(1, np.float32) if rows is None else np.zeros(len(rows))
        return _Meaning(none, none, none)
    if rows is None:
        assert asked.dots is not None
        cosine = corpus.cosines(asked.dots)
        np.maximum(cosine, 0, out=cosine)
        return _Meaning(cosine, corpus.near(cosine), None if corpus.answers is None else cosine[layout.before])
    if corpus.single:
        exact = np.maximum(corpus.vectors.exact(np.maximum(corpus.slots[rows], 0), vector), 0)
        return _Meaning(exact, exact, None)
    before, after = layout.before[rows], layout.after[rows]
    has_before, has_after = before >= 0, after >= 0
    # A row stands in for a missing neighbour.
    around = np.concatenate([np.where(has_before, before, rows), rows, np.where(has_after, after, rows)])
    cosines = np.maximum(corpus.vectors.exact(np.maximum(corpus.slots[around], 0), vector), 0).reshape(3, len(rows))
    together = cosines[0] * has_before + cosines[1] + cosines[2] * has_after
    return _Meaning(cosines[1], together / (1 + has_before + has_after), cosines[0])


# The two passes


@attrs.frozen(kw_only=True, eq=False)
class Scored:
    """Rows with their scores: arrays of one length; each score and part is from 0 to 1.

    Attributes:
        rows: The assertions, as rows of the columns.
        counts: See `Layout`.
        slots: The slots of their vectors; 0 for none.
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


def _first_pass(corpus: Corpus, asked: CorpusQuery) -> tuple[NDArray[np.float32], float]:
    """Return approximate scores of all rows, and the largest error of any of them."""
    query, weights = asked.query, corpus.short_weights
    evidence = _evidence(corpus, asked, None, weights)
    alike = scoring.similarity(evidence, query.lexical_weight)
    recency = corpus.recency(query.settings.half_life_days, query.now)
    scores: Any = scoring.composite(alike, recency, weights.importance, query.settings)
    steepness = scoring.steepness(evidence, query.lexical_weight, query.settings)
    return scores, steepness * asked.error + 6e-6 + 1e-6 * len(asked.terms)


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
        counts=corpus.layout.counts[rows].astype(np.intp),
        slots=np.maximum(corpus.slots[rows], 0),
        said_at=said_at,
        score=scoring.composite(alike, recency, weights.importance, query.settings),
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
        return other if asked.query.sight.viewer is not None or asked.query.asks_for_own else None
    other = np.zeros(len(rows), np.bool_) if other is None else other
    if about.mentions is not None:
        other = other | ~about.mentions[rows]
    if about.kin is not None:
        own, exchanges, _ = about.kin
        of_others: NDArray[np.bool_] = (corpus.columns["mine"][rows] != 0) | (own.among(rows)[1] > 0)
        other = other | (of_others & (exchanges.among(rows)[0] == 0))
    return other


def search(corpus: Corpus, query: Query, keep: Rows | None, limit: int) -> Scored | None:
    """Return the best rows and all that equal the last of them, in no order; None if there are none.

    A statement that overtakes others scores like the best of them, and they score just below it, whatever the filter.
    If the query names a time, what was said then is asked for, and every statement keeps its own score.

    Args:
        corpus: The corpus, as `Corpus.shown` to the caller.
        query: The query.
        keep: The rows that a filter keeps, ascending; None for all that the caller sees.
        limit: Number of best rows.
    """
    seen = corpus.seen(query.sight)
    keep = seen.few if keep is None else keep
    groups = seen.overtaken.at(slice(0, 0 if query.times else None))
    if keep is not None and (len(keep) * _FEW <= len(corpus.layout) or len(corpus.layout) <= _SMALL):
        chosen, scored = keep, groups.whole(keep)
        asked = CorpusQuery.of(corpus, query, among=corpus.around(scored))
    else:
        asked = CorpusQuery.of(corpus, query, among=None)
        (scores, error), mask = _first_pass(corpus, asked), seen.mask
        best = scores[groups.older]
        if keep is not None:
            mask = np.zeros(len(scores), np.bool_)
            mask[keep] = True
        if mask is not None:
            scores[~mask] = _HIDDEN
        cut, chosen = _candidates(scores, limit, 2 * error)
        raised = groups.newest[best >= cut]
        chosen = united(chosen, raised if mask is None else raised[mask[raised]])
        scored = groups.whole(chosen)
    if not len(scored):
        return None
    found = _second_pass(corpus, asked, scored)
    return _newest_first(found, groups, chosen) if len(groups) else found


def _newest_first(scored: Scored, overtaken: Overtaken, kept: Rows) -> Scored:
    """Return the kept rows, the newest statement of each matter scored like the best one; see `scoring.outranked`."""
    there = among(overtaken.older, scored.rows)
    if not there.any():
        return scored
    older, newest = (scored.rows.searchsorted(rows[there]) for rows in (overtaken.older, overtaken.newest))
    score = scored.score.copy()
    np.maximum.at(score, newest, scored.score[older])
    raised = score > scored.score
    score[older] = scoring.outranked(score[older], score[newest])
    return attrs.evolve(scored, score=score, newest=raised).at(among(scored.rows, kept).nonzero()[0])


def _candidates(scores: NDArray[np.float32], limit: int, slack: float) -> tuple[float, Rows]:
    """Return the least score of the best, and the rows that may be among them.

    The scores have an error of at most half the slack.
    """
    cut = max(_last_of_best(_highest(scores, limit), limit) - slack, _HIDDEN / 2)
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
    best = functools.partial(_best, corpus, query, kept_rows(corpus, query.sight, wanted), min_score, beside)
    diversity = query.settings.diversity
    ranking = _diverse(corpus, best, limit, diversity) if diversity else best(limit)
    return [] if ranking is None else _matches(ranking, concepts)


def _best(
    corpus: Corpus,
    query: Query,
    keep: Rows | None,
    min_score: float,
    beside: Callable[[Rows], Sequence[int]] | None,
    limit: int,
) -> _Ranking | None:
    """Return the best of some rows; None if there are none."""
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
        left = corpus.seen(query.sight).rows if keep is None else keep
        keep = left[~among(left, best.rows[[current is None for current in read]])]
    return None


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
    columns = [getattr(scored, name).tolist() for name in _PARTS]
    parts = [ScoreParts(**dict(zip(_PARTS, of_one, strict=True))) for of_one in zip(*columns, strict=True)]
    held = np.array(
        [
            scored.lexical > 0,
            scored.cosine >= 0.3,
            scored.named > 0,
            scored.dated == 1,
            scored.recency > 0.5,
            scored.importance > 0.5,
            scored.newest,
        ]
    )
    return [
        RecallMatch(record=hydrate(current, concepts), score=score, parts=of_one, reasons=_reasons(*reasons))
        for current, score, of_one, reasons in zip(
            ranking.currents, scored.score.tolist(), parts, held.T.tolist(), strict=True
        )
    ]


@functools.cache
def _reasons(*held: bool) -> tuple[str, ...]:
    """Return the reasons that hold, of those in the order of `RecallMatch.reasons`."""
    names = ("lexical", "semantic", "named", "dated", "recent", "important", "newest")
    return tuple(name for name, holds in zip(names, held, strict=True) if holds)


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
