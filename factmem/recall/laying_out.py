"""How records are laid out in a segment: in which order, and which rows hold which terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from factmem.recall.columns import Columns, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["conversation_keys", "lay_out", "leading_terms", "post", "with_neighbours"]

_MANY: Final = 250_000
"""So many terms are sorted in shares."""


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
    # By a part of the terms at a time: what sorting takes of memory besides stays small.
    shares = 16 if len(held) > _MANY else 1
    share = (held >> np.uint64(60)).astype(np.uint8) if shares > 1 else None
    parts = [_sorted(held, where, None if share is None else share == number) for number in range(shares)]
    terms = np.concatenate([part[0] for part in parts])
    sizes = np.concatenate([part[1] for part in parts])
    found = np.concatenate([part[2] for part in parts])
    often = np.concatenate([part[3] for part in parts])
    narrow = np.uint8 if not len(often) or often.max() < 256 else np.int32
    return terms, np.append(0, np.cumsum(sizes)), found, often.astype(narrow)


def leading_terms(columns: Columns, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return the first term of each row; 0 for a row without any."""
    leads = np.zeros(len(rows), np.uint64)
    inside = columns["terms_count"][rows] > 0
    leads[inside] = columns.terms[columns["terms_start"][rows[inside]]]
    return leads


def _of_rows(terms: NDArray[np.uint64], starts: NDArray[np.int64], counts: NDArray[np.int32]) -> NDArray[np.uint64]:
    ends = starts + counts
    if len(starts) and (starts[1:] == ends[:-1]).all():
        return terms[starts[0] : ends[-1]]
    return terms[spread(starts, ends)]


def _sorted(
    held: NDArray[np.uint64], where: NDArray[np.int32], taken: NDArray[np.bool_] | None
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Return distinct terms, how many rows each has, and rows and counts of all, of those that are taken."""
    if taken is not None:
        held, where = held[taken], where[taken]
    order = _by_term(held, where)
    held, where = held[order], where[order]
    new = np.append(True, (held[1:] != held[:-1]) | (where[1:] != where[:-1]))[: len(held)]
    firsts = np.flatnonzero(new)
    often = np.diff(np.append(firsts, len(held))).astype(np.int32)
    held, where = held[firsts], where[firsts]
    begins = np.flatnonzero(np.append(True, held[1:] != held[:-1])[: len(held)])
    return held[begins], np.diff(np.append(begins, len(held))), where, often


def _by_term(terms: NDArray[np.uint64], rows: NDArray[np.int32]) -> NDArray[np.intp]:
    """Return the order by term, then by row; the rows are ascending."""
    bits = np.uint64(max(int(rows[-1]), 1).bit_length() if len(rows) else 1)
    # One key for both is sorted much faster; that it has no room for all of a term's bits shows afterwards.
    keys = terms >> bits
    keys <<= bits
    keys |= rows.astype(np.uint64)
    order = np.argsort(keys)
    del keys
    ordered = terms[order]
    if ((ordered[1:] != ordered[:-1]) & (ordered[1:] >> bits == ordered[:-1] >> bits)).any():
        order = np.argsort(terms, kind="stable")
    return order
