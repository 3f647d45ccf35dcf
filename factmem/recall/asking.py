"""A query as one corpus understands it: its words weighed, its names found."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from factmem.recall import scoring
from factmem.recall.corpus import Corpus
from factmem.recall.outlines import term_numbers
from factmem.recall.related_words import Term
from factmem.recall.scoring import RecallSettings
from factmem.recall.signs import Kind, asking_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from factmem.recall.segments import Hits

__all__ = ["Asked", "Query", "WeighedTerm", "asked_of"]

_LEAST = 1e-6
"""A concept that is named has a share of the query."""


@attrs.frozen(kw_only=True, eq=False)
class Query:
    """What is looked for, and how it is weighed.

    Attributes:
        terms: the distinct terms.
        vector: the embedding of length 1, or None to go by words alone.
        times: the stretches of time that it names, in seconds since 1970; the first number of one that has no
            beginning is minus infinity.
        asks_assistant: whether it asks for the assistant's own words.
        kinds: the kinds of values that would answer it.
        viewer: who asks.
        now: what ages are counted from, in seconds since 1970.
        settings: what weighs.
    """

    terms: Sequence[Term]
    vector: NDArray[np.float32] | None
    times: Sequence[tuple[float, float]] = ()
    asks_assistant: bool = False
    kinds: Kind = Kind.NONE
    viewer: str | None
    now: float
    settings: RecallSettings

    @property
    def lexical_weight(self) -> float:
        """How much words weigh; without a vector, all."""
        return self.settings.lexical_weight if self.vector is not None else 1.0


@attrs.frozen(eq=False)
class WeighedTerm:
    """A term, and what it is worth.

    Attributes:
        term: the term.
        shares: its weight at each level, as a share of the attainable score.
        covers: its weight as a share of the query's, where words that no document holds count as the average of the
            others.
        levels: where it occurs; see `factmem.recall.corpus.Occurrences`.
    """

    term: Term
    shares: tuple[float, ...]
    covers: float = attrs.field(kw_only=True)
    levels: Sequence[tuple[Hits, Hits, Hits]] = attrs.field(kw_only=True)


@attrs.frozen(kw_only=True, eq=False)
class Asked:
    """What is asked of one corpus.

    Attributes:
        query: the query.
        terms: those that the viewer's documents hold.
        concepts: of each head, how much of the query's weight its concept's words have, as a share; 0 where the
            query does not name it. None if it names none.
        dots: the inner products of all vectors with the query's, or None where they are not needed.
    """

    query: Query
    terms: Sequence[WeighedTerm]
    concepts: NDArray[np.float32] | None
    dots: NDArray[np.float32] | None


def asked_of(corpus: Corpus, query: Query, *, among: Sequence[NDArray[np.bool_]] | None) -> Asked:
    """Return what a query asks of a corpus.

    Args:
        corpus: of which.
        query: what is looked for.
        among: of each part, which rows matter, whole conversations; all of them if None.
    """
    terms = _weighed(corpus, query, among) if query.lexical_weight else []
    return Asked(
        query=query,
        terms=terms,
        concepts=_named(corpus, query, terms) if query.lexical_weight else None,
        dots=corpus.vectors.dots(query.vector) if among is None and query.vector is not None else None,
    )


def _weighed(corpus: Corpus, query: Query, among: Sequence[NDArray[np.bool_]] | None) -> list[WeighedTerm]:
    """The terms that the viewer's documents hold; the others count in what could be attained."""
    counts = corpus.seen(query.viewer).counts
    found = [corpus.term(term, query.viewer, among) for term in query.terms]
    weights = [
        tuple(_weight(term) * scoring.idf(df, count) for df, count in zip(known.documents, counts, strict=True))
        for term, known in zip(query.terms, found, strict=True)
    ]
    attainable = [sum(of_level) + 1e-9 for of_level in zip(*weights, strict=True)]
    there = [of[0] for known, of in zip(found, weights, strict=True) if known.documents[0]]
    whole = sum(there) / max(len(there), 1) * len(found)
    return [
        WeighedTerm(
            term,
            tuple(part / total for part, total in zip(of, attainable, strict=True)),
            covers=of[0] / whole,
            levels=known.levels,
        )
        for term, known, of in zip(query.terms, found, weights, strict=True)
        if known.documents[0]
    ]


def _weight(term: Term) -> float:
    return scoring.ASKING if term.number in _asking_terms() else 1.0


@functools.cache
def _asking_terms() -> frozenset[int]:
    return frozenset(term_numbers(asking_words()))


def _named(corpus: Corpus, query: Query, weighed: Sequence[WeighedTerm]) -> NDArray[np.float32] | None:
    columns = corpus.columns
    heads = columns.of_heads("keyword")
    named = columns.concept_names.named(columns.keywords.texts, [term.number for term in query.terms])
    if not named:
        return None
    covers = {item.term.number: item.covers for item in weighed}
    covered = np.zeros(len(columns.keywords), np.float32)
    for keyword, words in named.items():
        covered[keyword] = max(sum(covers.get(word, 0.0) for word in words), _LEAST)
    of_heads: NDArray[np.float32] = covered[heads]
    return of_heads
