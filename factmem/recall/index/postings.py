"""Postings: the rows that hold each term, in blocks that are appended as the columns grow.

A block holds the postings of successive rows, whether they are current or not. Small blocks at the end are made anew
together with new rows, so that each row is posted a few times only.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from factmem.recall.index.columns import Columns, begins, spread
from factmem.recall.text.related_words import Term
from factmem.short_work import may_wait

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GROWTH: Final = 24
"""New rows are posted together with a block before them that is at most this many times as large."""

FEW_HITS: Final = 4096
"""Number of occurrences that are counted in less than half a millisecond."""

_ROWS_AT_ONCE: Final = 4096
"""Number of rows whose terms are read at a time, so that they stay in the processor's cache."""


@attrs.frozen(eq=False)
class Hits:
    """The occurrences of several terms in documents.

    Attributes:
        keys: The place of the term times the size, plus the row of the document; ascending.
        counts: Number of occurrences in each; multiples of 1/256, so that sums of them are exact.
        size: Number of all rows.
        bounds: Where the occurrences of each term begin, and the end.
    """

    keys: NDArray[np.intp]
    counts: NDArray[np.float32]
    size: int
    bounds: NDArray[np.intp]

    @classmethod
    def of(cls, keys: NDArray[np.intp], counts: NDArray[np.float32], size: int, terms: int) -> Hits:
        """Add up the occurrences of the same key.

        Args:
            keys: The keys, in any order.
            counts: Number of occurrences in each.
            size: Number of all rows.
            terms: Number of terms.
        """
        if len(keys) > FEW_HITS:
            may_wait()
        order = keys.argsort(kind="stable")  # keys in a few ascending runs take a sixth of the time
        keys = keys[order]
        (starts,) = begins(keys).nonzero()
        keys, counts = keys[starts], np.add.reduceat(counts[order], starts) if len(starts) else counts
        return cls(keys, counts, size, keys.searchsorted(np.arange(terms + 1) * size))

    @functools.cached_property
    def rows(self) -> NDArray[np.intp]:
        """The rows, ascending for each term: of the columns, or of a conversation its first one."""
        return self.keys - self.of_terms(np.arange(len(self.bounds) - 1) * self.size)

    def of_terms(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the value of the term of each occurrence, by those of the terms."""
        return values.repeat(self.bounds[1:] - self.bounds[:-1])

    def documents(self) -> NDArray[np.float64]:
        """Return the document frequency of each term; one that holds a part of an occurrence counts as that part."""
        terms = len(self.bounds) - 1
        parts = np.minimum(self.counts, 1)
        return np.bincount(self.of_terms(np.arange(terms)), parts, terms).astype(np.float64, copy=False)

    def of_term(self, place: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Return the rows that hold one term, and the number of occurrences in each."""
        of = slice(self.bounds[place], self.bounds[place + 1])
        return self.keys[of] - place * self.size, self.counts[of]

    def among(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Return the number of occurrences of each term in each of some rows, of shape (terms, rows)."""
        wanted = np.arange(len(self.bounds) - 1)[:, None] * self.size + rows
        if not len(self.keys):
            return np.zeros(wanted.shape)
        at = self.keys.searchsorted(wanted)
        np.minimum(at, len(self.keys) - 1, out=at)
        counts = self.counts[at].astype(np.float64)
        counts *= self.keys[at] == wanted
        return counts


@attrs.frozen(kw_only=True, eq=False)
class Block:
    """The postings of successive rows.

    Attributes:
        first: The first row.
        end: The row after the last one.
        terms: The distinct terms, ascending.
        starts: The beginning of each term's posting, and the end.
        rows: The rows of all postings, ascending in each.
        counts: The number of occurrences in each.
    """

    first: int
    end: int
    terms: NDArray[np.uint64]
    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    counts: NDArray[np.integer[Any]]

    @classmethod
    def build(cls, columns: Columns, first: int, end: int) -> Block:
        """Post some rows."""
        # One number for a term and a row is sorted several times as fast as an order of two.
        bits = max(end - first - 1, 1).bit_length()
        keys, terms = _keys(columns, first, end, bits)
        keys.sort()
        new = begins(keys)
        rows = keys.astype(np.uint32)
        rows &= np.uint32((1 << bits) - 1)
        found: NDArray[np.int32] = rows[new].view(np.int32)
        counts = _lengths_of_runs(new)
        keys >>= bits
        starts = np.flatnonzero(begins(keys)[new])
        if len(starts) < len(terms):  # the bits of a term that fit are those of another one as well
            starts, found, counts = _posted(columns, first, end)
        found += np.int32(first)
        return cls(first=first, end=end, terms=terms, starts=np.append(starts, len(found)), rows=found, counts=counts)


def extended(blocks: Sequence[Block], columns: Columns, size: int) -> tuple[Block, ...]:
    """Return the postings of the first rows; only new rows, and small blocks before them, take work."""
    left = list(blocks)
    first = left[-1].end if left else 0
    if first == size:
        return tuple(left)
    while left and left[-1].end - left[-1].first <= _GROWTH * (size - first):
        first = left.pop().first
    return (*left, Block.build(columns, first, size))


def occurrences(blocks: Sequence[Block], terms: Sequence[Term], among: NDArray[np.bool_] | None, size: int) -> Hits:
    """Return the rows that hold some terms or related ones.

    Args:
        blocks: The postings.
        terms: The terms.
        among: Which rows to look at; None for all.
        size: Number of rows.
    """
    numbers = np.concatenate([term.numbers for term in terms])
    weights = np.concatenate([term.weights for term in terms])
    begins = (np.arange(len(terms)) * size).repeat([len(term.numbers) for term in terms])
    keys: list[NDArray[np.intp]] = []
    counts: list[NDArray[np.float32]] = []
    for block in blocks:
        at = block.terms.searchsorted(numbers)
        (held,) = (block.terms.take(at, mode="clip") == numbers).nonzero() if len(block.terms) else (at[:0],)
        starts = block.starts[at[held]]
        several = block.starts[at[held] + 1] - starts
        places = spread(starts, starts + several)
        rows = block.rows[places]
        keys.append(begins[held].repeat(several) + rows)
        counts.append(block.counts[places] * weights[held].repeat(several))
        if among is not None:
            (seen,) = among[rows].nonzero()
            keys[-1], counts[-1] = keys[-1][seen], counts[-1][seen]
    if not blocks:
        return Hits.of(begins[:0], weights[:0], size, len(terms))
    return Hits.of(np.concatenate(keys), np.concatenate(counts), size, len(terms))


def _keys(columns: Columns, first: int, end: int, bits: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return all terms of some rows with their lowest bits replaced by the row's number, and the distinct terms."""
    counts = columns["terms_count"][first:end]
    keys = np.empty(int(counts.sum(dtype=np.int64)), np.uint64)
    distinct: list[NDArray[np.uint64]] = []
    done = 0
    for start in range(first, end, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, end)
        held = columns.terms_of(start, stop)
        numbers = np.arange(start - first, stop - first, dtype=np.uint64)
        keys[done : done + len(held)] = held >> bits << bits | numbers.repeat(counts[start - first : stop - first])
        done += len(held)
        distinct.append(np.unique(held))
    return keys, np.unique(np.concatenate(distinct))


def _lengths_of_runs(new: NDArray[np.bool_]) -> NDArray[np.integer[Any]]:
    """Return the length of each run of equal items, as bytes if no run is long.

    Args:
        new: Which items begin a run.
    """
    lengths = np.diff(np.flatnonzero(new), append=len(new))
    return lengths.astype(np.uint8 if lengths.max(initial=0) < 256 else np.int32)


def _posted(
    columns: Columns, first: int, end: int
) -> tuple[NDArray[np.intp], NDArray[np.int32], NDArray[np.integer[Any]]]:
    """Return the beginning of each term's posting, and the rows and counts of all postings."""
    held = columns.terms_of(first, end)
    rows = np.arange(end - first, dtype=np.int32).repeat(columns["terms_count"][first:end])
    order = np.lexsort((rows, held))
    held, rows = held[order], rows[order]
    new = begins(held) | begins(rows)
    return np.flatnonzero(begins(held[new])), rows[new], _lengths_of_runs(new)
