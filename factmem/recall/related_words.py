"""Which words mean much the same: a table of stems that ships with factmem, the same for every store.

A query that asks for a *vehicle* also finds what was said of a *car*, at a lower weight. The table holds the
digests of the 15,000 most frequent English stems and, of each, at most twenty others whose vectors lie near; it is
made by ``.ci/make_related_words.py``. Weights are multiples of 1/256, so that sums of them are exact.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Term", "term_of"]

_STEP: Final = np.float32(1 / 256)


@attrs.frozen(eq=False)
class Term:
    """A term of a query, with those that stand for it where it is missing.

    Attributes:
        number: its own; see `factmem.recall.outlines.term_numbers`.
        numbers: its own, the related ones and its topics, of shape (some,).
        weights: how much an occurrence of each counts; 1 for the term itself.
    """

    number: int
    numbers: NDArray[np.uint64]
    weights: NDArray[np.float32]


def term_of(number: int, topics: Sequence[int] = ()) -> Term:
    """Return a term with its relations.

    Args:
        number: its own.
        topics: the numbers of its topics, which count as much as itself; see `factmem.recall.topics`.
    """
    term = _known(number)
    if not topics:
        return term
    return Term(
        term.number,
        np.append(term.numbers, np.array(topics, np.uint64)),
        np.append(term.weights, np.ones(len(topics), np.float32)),
    )


def _known(number: int) -> Term:
    terms = _table().terms
    own = np.array([number], np.uint64)
    at = int(terms.searchsorted(own[0]))
    if at == len(terms) or terms[at] != own[0]:
        return Term(number, own, np.ones(1, np.float32))
    return _related(at)


@attrs.frozen(kw_only=True, eq=False)
class _Table:
    """The stems, ascending, and where the relations of each begin."""

    terms: NDArray[np.uint64]
    starts: NDArray[np.intp]
    related: NDArray[np.uint16]
    weights: NDArray[np.uint8]


@functools.lru_cache(maxsize=4096)
def _related(at: int) -> Term:
    """Return a term of the table; what is kept here tells nothing of what anybody said."""
    table = _table()
    part = slice(table.starts[at], table.starts[at + 1])
    return Term(
        int(table.terms[at]),
        np.append(table.terms[at], table.terms[table.related[part]]),
        np.append(np.float32(1), table.weights[part] * _STEP),
    )


@functools.cache
def _table() -> _Table:
    file = resources.files("factmem.recall").joinpath("related_words.npz")
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as kept:
        return _Table(
            terms=kept["terms"],
            starts=np.append(0, np.cumsum(kept["counts"], dtype=np.intp)),
            related=kept["related"],
            weights=kept["weights"],
        )
