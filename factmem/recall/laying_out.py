"""How records are laid out in a segment: in which order, and which rows hold which terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from factmem.facts import STATEMENT
from factmem.recall.columns import Columns, subject_text
from factmem.recall.growing import spread
from factmem.subjects import MemorySubject

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["conversation_keys", "lay_out", "leading_terms", "post", "with_neighbours"]


def conversation_keys(columns: Columns, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return what identifies the conversation of each row: its id, place and owner; 0 for none.

    Words never cross a wall: what lies at another place or is somebody's own lends nothing.
    """
    conversation = columns["conversation"][rows].astype(np.uint64)
    place = columns.of_rows("place", rows).astype(np.uint64)
    return np.where(conversation > 0, (conversation << np.uint64(32)) | place, np.uint64(0))


def lay_out(
    columns: Columns, rows: NDArray[np.intp]
) -> tuple[NDArray[np.intp], int, NDArray[np.uint64], NDArray[np.intp]]:
    """Return the order of rows, how many stand alone, the conversations' keys and their first rows."""
    keys = conversation_keys(columns, rows)
    inside = np.flatnonzero(keys)
    outside = np.flatnonzero(keys == 0)
    outside = outside[np.argsort(rows[outside])]
    within = rows[inside]
    inside = inside[
        np.lexsort((columns["seq"][within], columns["start"][within], columns["position"][within], keys[inside]))
    ]
    ordered = keys[inside]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else inside
    alone = len(outside)
    return (
        np.concatenate([outside, inside]),
        alone,
        ordered[starts],
        np.append(starts + alone, len(rows)),
    )


def with_neighbours(own: NDArray[np.int32], alone: int, starts: NDArray[np.intp]) -> NDArray[np.int32]:
    """Return the lengths of exchanges, from those of rows."""
    total = own.copy()
    follows = np.ones(len(own), np.bool_)
    follows[: alone + 1] = False
    follows[starts[:-1]] = False
    behind = np.flatnonzero(follows)
    total[behind] += own[behind - 1]
    total[behind - 1] += own[behind]
    return total


def post(
    columns: Columns, rows: NDArray[np.intp]
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int32], NDArray[np.integer[Any]]]:
    """Return the distinct terms, where the posting of each begins, and the rows and counts of all postings."""
    counts = columns["terms_count"][rows]
    held = _of_rows(columns.terms, columns["terms_start"][rows], counts)
    where = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
    terms = _distinct(held)
    # One number for a term and a row is sorted several times as fast as an order of two.
    bits = np.uint64(max(len(rows) - 1, 1).bit_length())
    keys = held >> bits
    keys <<= bits
    keys |= where.astype(np.uint64)
    keys.sort()
    firsts = np.flatnonzero(_new(keys))
    often = np.diff(np.append(firsts, len(keys)))
    keys = keys[firsts]
    found = (keys & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int32)
    keys >>= bits
    begins = np.flatnonzero(_new(keys))
    if len(begins) < len(terms):  # it has no room for all of a term's bits, and those that it has are the same of two
        begins, found, often = _posted(held, where)
    narrow = np.uint8 if not len(often) or often.max() < 256 else np.int32
    return terms, np.append(begins, len(found)), found, often.astype(narrow)


def leading_terms(columns: Columns, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return the first term of each row, which says who speaks or whom it is about; 0 where none does."""
    leads = np.zeros(len(rows), np.uint64)
    inside = columns["terms_count"][rows] > 0
    everything = columns.subjects.find(subject_text(MemorySubject.EVERYTHING.name, None))
    if everything is not None:
        statement = columns.keywords.find(STATEMENT.keyword)
        inside &= (columns.of_rows("subject", rows) != everything) | (columns.of_rows("keyword", rows) == statement)
    leads[inside] = columns.terms[columns["terms_start"][rows[inside]]]
    return leads


def _of_rows(terms: NDArray[np.uint64], starts: NDArray[np.int64], counts: NDArray[np.int32]) -> NDArray[np.uint64]:
    ends = starts + counts
    if len(starts) and (starts[1:] == ends[:-1]).all():
        return terms[starts[0] : ends[-1]]
    return terms[spread(starts, ends)]


def _posted(
    held: NDArray[np.uint64], where: NDArray[np.int32]
) -> tuple[NDArray[np.intp], NDArray[np.int32], NDArray[np.intp]]:
    """Return where the posting of each term begins, and the rows and counts of all postings."""
    order = np.lexsort((where, held))
    held, where = held[order], where[order]
    firsts = np.flatnonzero(_new(held) | _new(where))
    often = np.diff(np.append(firsts, len(held)))
    held, where = held[firsts], where[firsts]
    return np.flatnonzero(_new(held)), where, often


def _distinct(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    ordered = np.sort(numbers)
    return ordered[_new(ordered)]


def _new(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which items differ from the one before."""
    return np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
