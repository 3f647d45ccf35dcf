"""Words that stand for others: related words and topics, the same for every store.

*Related words* mean much the same: a query for a *vehicle* also finds a *car*, at a lower weight. A table that ships
with factmem holds the digests of the 15,000 most frequent English stems and, for each, at most twenty others with near
vectors. ``.ci/make_related_words.py`` makes it. Weights are multiples of 1/256, so that sums of them are exact.

*Topics* relate the words by which people ask for a fact to those by which concepts are named and described: "Where does
Ann live?" asks for a `home_city`, and "Who is her boss?" for a `manager`. Beyond synonyms, a topic relates an activity
to its place, its cost or its people. A fact is indexed by the topics of its keyword and description beside its words; a
word of a query occurs wherever one of its topics does. Statements have no topics.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from factmem.recall.text.analysis import analyse
from factmem.toml_tables import table

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEP: Final = np.float32(1 / 256)
_ONE: Final = np.ones(1, np.float32)


@attrs.frozen(eq=False)
class Term:
    """A term of a query, with the terms that stand for it.

    Attributes:
        number: Its number; see `factmem.recall.index.outline_codec.term_numbers`.
        numbers: The numbers of itself, of related terms, of its topics and of names for the same relation.
        weights: Weight of an occurrence of each; 1 for the term itself.
    """

    number: int
    numbers: NDArray[np.uint64]
    weights: NDArray[np.float32]

    @classmethod
    def any_of(cls, numbers: Iterable[int]) -> Term:
        """Return a term for which any of some terms stands."""
        of = np.unique(np.array([*numbers], np.uint64))
        return cls(int(of[0]), of, np.ones(len(of), np.float32))


def term_of(number: int, equals: Sequence[int] = ()) -> Term:
    """Return a term with those that stand for it.

    Args:
        number: Its number.
        equals: The numbers of others that count as much as itself.
    """
    terms, own = _table()[0], np.array([number], np.uint64)
    at = int(terms.searchsorted(own[0]))
    term = _related(at) if at < len(terms) and terms[at] == own[0] else Term(number, own, _ONE)
    if not equals:
        return term
    numbers = dict(zip(term.numbers.tolist(), term.weights.tolist(), strict=True)) | dict.fromkeys(equals, 1.0)
    return Term(number, np.array([*numbers], np.uint64), np.array([*numbers.values()], np.float32))


@functools.lru_cache(maxsize=4096)
def _related(at: int) -> Term:
    """Return the term of a stem of the table; the cache holds nothing of any store."""
    terms, starts, related, weights = _table()
    part = slice(starts[at], starts[at + 1])
    numbers = np.concatenate([terms[at : at + 1], terms[related[part]]])
    return Term(int(terms[at]), numbers, np.concatenate([_ONE, weights[part] * _STEP]))


@functools.cache
def _table() -> tuple[NDArray[np.uint64], NDArray[np.intp], NDArray[np.uint16], NDArray[np.uint8]]:
    """Return the stems, ascending, the beginning of each one's related stems, and those with their weights."""
    file = resources.files("factmem.recall.text").joinpath("related_words.npz")
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as kept:
        starts = np.append(0, np.cumsum(kept["counts"], dtype=np.intp))
        return kept["terms"], starts, kept["related"], kept["weights"]


def topics_of(terms: Iterable[str]) -> list[str]:
    """Return the topics of terms, in order, without repetitions, each in a form that no term has."""
    return list(dict.fromkeys(topic for term in terms for topic in _topic_table().get(term, ())))


@functools.cache
def _topic_table() -> Mapping[str, tuple[str, ...]]:
    topics: dict[str, list[str]] = {}
    for topic, words in table("recall/text/topics").items():
        for term in dict.fromkeys(analyse(words)):
            topics.setdefault(term, []).append(f"#{topic}")
    return {term: tuple(of) for term, of in topics.items()}
