"""A query as one corpus understands it: its words weighed, its names found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from factmem.recall.corpus import Corpus
from factmem.recall.related_words import Term
from factmem.recall.scoring import B_CONTEXT, B_OWN, K1, RecallSettings, idf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from factmem.recall.segments import Hits

__all__ = ["Asked", "Query", "WeighedTerm", "asked_of", "length_norm"]

_B = (B_OWN, B_CONTEXT, B_CONTEXT)


@attrs.frozen(kw_only=True, eq=False)
class Query:
    """What is looked for, and how it is weighed.

    Attributes:
        terms: the distinct terms.
        vector: the embedding of length 1, or None to go by words alone.
        times: the stretches of time that it names, in seconds since 1970; the first number of one that has no
            beginning is minus infinity.
        viewer: who asks.
        now: what ages are counted from, in seconds since 1970.
        settings: what weighs.
    """

    terms: Sequence[Term]
    vector: NDArray[np.float32] | None
    times: Sequence[tuple[float, float]] = ()
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
        levels: where it occurs; see `factmem.recall.corpus.Occurrences`.
    """

    term: Term
    shares: tuple[float, ...]
    levels: Sequence[tuple[Hits, Hits, Hits]]


@attrs.frozen(kw_only=True, eq=False)
class Asked:
    """What is asked of one corpus.

    Attributes:
        query: the query.
        terms: those that the viewer's documents hold.
        concepts: of each head, whether its concept is named; None if none is.
        dots: the inner products of all vectors with the query's, or None where they are not needed.
    """

    query: Query
    terms: Sequence[WeighedTerm]
    concepts: NDArray[np.bool_] | None
    dots: NDArray[np.float32] | None


def asked_of(corpus: Corpus, query: Query, *, among: Sequence[NDArray[np.bool_]] | None) -> Asked:
    """Return what a query asks of a corpus.

    Args:
        corpus: of which.
        query: what is looked for.
        among: of each part, which rows matter, whole conversations; all of them if None.
    """
    return Asked(
        query=query,
        terms=_weighed(corpus, query, among) if query.lexical_weight else (),
        concepts=_named(corpus, query) if query.lexical_weight else None,
        dots=corpus.vectors.dots(query.vector) if among is None and query.vector is not None else None,
    )


def length_norm(level: int, averages: tuple[float, float, float]) -> tuple[float, float]:
    """Return BM25's ``k1 · (1 - b + b · length / average)`` as a constant and a factor of the length."""
    return K1 * (1 - _B[level]), K1 * _B[level] / (averages[level] or 1.0)


def _weighed(corpus: Corpus, query: Query, among: Sequence[NDArray[np.bool_]] | None) -> list[WeighedTerm]:
    """The terms that the viewer's documents hold; the others count in what could be attained."""
    counts = corpus.seen(query.viewer).counts
    found = [corpus.term(term, query.viewer, among) for term in query.terms]
    weights = [
        tuple(idf(df, count) * (K1 + 1) for df, count in zip(known.documents, counts, strict=True)) for known in found
    ]
    attainable = [sum(of_level) + 1e-9 for of_level in zip(*weights, strict=True)]
    return [
        WeighedTerm(term, tuple(part / total for part, total in zip(of, attainable, strict=True)), known.levels)
        for term, known, of in zip(query.terms, found, weights, strict=True)
        if known.documents[0]
    ]


def _named(corpus: Corpus, query: Query) -> NDArray[np.bool_] | None:
    columns = corpus.columns
    keywords = columns.concept_names.named(columns.keywords.texts, [term.number for term in query.terms])
    return np.isin(columns.of_heads("keyword"), keywords) if keywords else None
