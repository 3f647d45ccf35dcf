"""Postings: the rows that hold each term, in blocks that are appended as the columns grow.

A block holds the postings of successive rows, whether they are current or not. Small blocks at the end are made anew
together with new rows, so that each row is posted a few times only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from factmem.recall.index.columns import Columns, spread
from factmem.recall.text.related_words import Term

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NO_HITS", "Block", "Hits", "extended", "occurrences", "summed"]

_GROWTH: Final = 24
"""New rows are posted together with a block before them that is at most this many times as large."""

_ROWS_AT_ONCE: Final = 4096
"""Number of rows whose terms are read at a time, so that they stay in the processor's cache."""

_DENSE: Final = 16
"""Occurrences are counted in a dense array if there is at least one to this many rows."""


@attrs.frozen(eq=False)
class Hits:
    """The occurrences of a term, ascending.

    Attributes:
        rows: Rows of the columns; of a conversation, its first row.
        counts: Number of occurrences in each; multiples of 1/256, so that sums of them are exact.
    """

    rows: NDArray[np.intp]
    counts: NDArray[np.float32]

    def of(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the number of occurrences in each of some rows."""
        if not len(self.rows):
            return np.zeros(len(rows))
        at = self.rows.searchsorted(rows)
        np.minimum(at, len(self.rows) - 1, out=at)
        counts = self.counts[at].astype(np.float64)
        counts *= self.rows[at] == rows
        return counts


NO_HITS: Final = Hits(np.empty(0, np.intp), np.empty(0, np.float32))


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
        new = _new(keys)
        rows = keys.astype(np.uint32)
        rows &= np.uint32((1 << bits) - 1)
        found: NDArray[np.int32] = rows[new].view(np.int32)
        counts = _lengths_of_runs(new)
        keys >>= bits
        starts = np.flatnonzero(_new(keys)[new])
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


def occurrences(blocks: Sequence[Block], term: Term, among: NDArray[np.bool_] | None, size: int) -> Hits:
    """Return the rows that hold a term or a related one.

    Args:
        blocks: The postings.
        term: The term.
        among: Which rows to look at; None for all.
        size: Number of rows.
    """
    rows: NDArray[np.intp] = np.empty(0, np.intp)
    counts: NDArray[np.float32] = np.empty(0, np.float32)
    several = False
    for block in blocks:
        at = block.terms.searchsorted(term.numbers)
        held = block.terms.take(at, mode="clip") == term.numbers if len(block.terms) else np.zeros(len(at), np.bool_)
        starts, ends = block.starts[at[held]], block.starts[at[held] + 1]
        places = spread(starts, ends)
        often = block.counts[places] * term.weights[held].repeat(ends - starts)
        several |= len(starts) > 1
        there = block.rows[places].astype(np.intp)
        rows = np.concatenate([rows, there]) if len(rows) else there
        counts = np.concatenate([counts, often]) if len(counts) else often
    if among is not None:
        seen = among[rows]
        rows, counts = rows[seen], counts[seen]
    return summed(rows, counts, size) if several and len(rows) else Hits(rows, counts)


def summed(rows: NDArray[np.intp], counts: NDArray[np.float32], size: int) -> Hits:
    """Return occurrences with those of the same row added up.

    Args:
        rows: The rows, in any order.
        counts: Number of occurrences in each.
        size: Number of all rows.
    """
    if len(rows) * _DENSE >= size:
        dense = np.bincount(rows, counts, size)
        (rows,) = dense.nonzero()
        return Hits(rows, dense[rows].astype(np.float32))
    order = rows.argsort(kind="stable")
    rows = rows[order]
    (starts,) = _new(rows).nonzero()
    return Hits(rows[starts], np.add.reduceat(counts[order], starts) if len(starts) else counts)


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
        distinct.append(_distinct(held))
    return keys, distinct[0] if len(distinct) == 1 else _distinct(np.concatenate(distinct))


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
    new = _new(held) | _new(rows)
    return np.flatnonzero(_new(held[new])), rows[new], _lengths_of_runs(new)


def _distinct(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    ordered = np.sort(numbers)
    return ordered[_new(ordered)]


def _new(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which items differ from the one before."""
    new = np.empty(len(ordered), np.bool_)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new
