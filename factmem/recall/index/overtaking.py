"""Pairs of statements of which one overtakes the other, found once when they enter the log.

The matter of a statement is a part of its outline, as numbers of words. A pair says that a statement overtakes an
earlier one of the same speaker, place and owner, from another message. It counts at any moment, for any caller, where
both are current and visible; so nothing that is hidden shows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np

from factmem.recall.index.columns import Columns, Finder, Growing, among, begins
from factmem.recall.index.outline_codec import MATTER_FIELDS, read_matter
from factmem.recall.text.updates import Matter, overtakes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.intp]

_MOST_ALIKE: Final = 64
"""Maximum number of statements of the same frame that a new one is compared with, the last ones."""

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)

Pairs: TypeAlias = "tuple[NDArray[Any], NDArray[Any]]"
"""Rows of older statements, and of those that overtake them."""

NO_PAIRS: Final[Pairs] = (np.empty(0, np.int32), np.empty(0, np.int32))


class Updates:
    """The pairs of a log; derived from its columns alone."""

    def __init__(self) -> None:
        self._done = 0
        self._pairs = Growing({"older": np.int32, "newer": np.int32})
        self._keys = Growing({"key": np.uint64, "row": np.int32})
        self._finder = Finder()

    def of(self, columns: Columns) -> Pairs:
        """Return the pairs among all rows; only new rows take work."""
        first, self._done = self._done, len(columns)
        if first < self._done and (near := set(self._near(columns, first))):
            self._add(columns, near)
        older, newer = self._pairs.together("older", "newer")
        return older, newer

    def _near(self, columns: Columns, first: int) -> Iterator[tuple[int, int]]:
        """Yield pairs of statements with the same key, of which one is new."""
        known = self._keys.length
        for name in ("held", "counted"):
            rows = np.flatnonzero(columns[name][first:]) + first
            if len(rows):
                self._keys.append(key=columns[name][rows] ^ _said_by(columns, rows), row=rows)
        keys, rows = self._keys.together("key", "row")
        for group in _groups(keys, self._finder.find(keys, keys[known:])):
            yield from _new_pairs(rows[group].tolist(), first)

    def _add(self, columns: Columns, near: set[tuple[int, int]]) -> None:
        one, other = np.array(sorted(near), np.intp).T
        apart = ~_of_one_message(columns, one, other)
        one, other = one[apart], other[apart]
        said_at, seq = columns["said_at"], columns["seq"]
        later = (said_at[one] > said_at[other]) | ((said_at[one] == said_at[other]) & (seq[one] > seq[other]))
        older, newer = np.where(later, other, one), np.where(later, one, other)
        matter = functools.cache(functools.partial(_matter, columns))
        pairs = zip(older.tolist(), newer.tolist(), strict=True)
        held = np.array([overtakes(matter(new), matter(old)) for old, new in pairs], np.bool_)
        self._pairs.append(older=older[held], newer=newer[held])


def _new_pairs(rows: list[int], first: int) -> Iterator[tuple[int, int]]:
    """Yield each new row with the last ones before it."""
    for place, row in enumerate(rows):
        if row >= first:
            yield from ((before, row) for before in rows[max(place - _MOST_ALIKE, 0) : place])


def _groups(keys: NDArray[np.uint64], items: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """Yield the items of each key, in their order; an item that stands alone is left out."""
    order = np.argsort(keys[items], kind="stable")
    ordered = keys[items[order]]
    (starts,) = begins(ordered).nonzero()
    counts = np.diff(starts, append=len(ordered))
    for start, count in zip(starts[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True):
        yield items[order[start : start + count]]


def _said_by(columns: Columns, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    place, speaker = columns["head"][rows].astype(np.uint64), columns["speaker"][rows].astype(np.uint64)
    return ((place + np.uint64(1)) << np.uint64(32) | speaker) * _ODD


def _of_one_message(columns: Columns, one: NDArray[np.intp], other: NDArray[np.intp]) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = columns["conversation"][one] > 0
    for name in ("conversation", "said_at", "position"):
        same &= columns[name][one] == columns[name][other]
    return same


def _matter(columns: Columns, row: int) -> Matter[int]:
    """Return the matter of a row."""
    fields = {name: int(columns[name][row]) for name, _ in MATTER_FIELDS}
    return read_matter(fields, columns.terms_of(row, row + 1).tolist())


@attrs.frozen(eq=False)
class Overtaken:
    """Statements that others overtake: rows of the columns.

    A statement is scored with its group: those that the same one overtakes, and that one.

    Attributes:
        older: The statements, ascending.
        newest: The statement that overtakes each, and that none overtakes.
    """

    older: Rows
    newest: Rows

    @classmethod
    def of(cls, columns: Columns, pairs: Pairs, current: NDArray[np.bool_]) -> Overtaken:
        """Return the overtaken ones among the rows of a corpus.

        Args:
            columns: The assertions.
            pairs: All pairs.
            current: Which rows are current.
        """
        older, newer = (rows.astype(np.intp) for rows in pairs)
        there = current[older] & current[newer]
        older, newer = older[there], newer[there]
        order = np.lexsort((columns["seq"][newer], columns["said_at"][newer], older))
        older, newer = older[order], newer[order]
        last = np.append(older[1:] != older[:-1], True)[: len(older)]
        older, newer = older[last], newer[last]
        while len(older):
            at = np.minimum(older.searchsorted(newer), len(older) - 1)
            further = older[at] == newer
            if not further.any():
                break
            newer = np.where(further, newer[at], newer)
        return cls(older, newer)

    def __len__(self) -> int:
        return len(self.older)

    def at(self, which: NDArray[np.bool_] | slice) -> Overtaken:
        """Return some of them."""
        return Overtaken(self.older[which], self.newest[which])

    def whole(self, chosen: Rows) -> Rows:
        """Return chosen rows with all of their groups."""
        touched = among(self.older, chosen) | among(self.newest, chosen)
        if not touched.any():
            return chosen
        touched = among(self.newest, self.newest[touched])
        return united(chosen, np.concatenate([self.older[touched], self.newest[touched]]))


def united(rows: Rows, others: Rows) -> Rows:
    """Return the rows that are in either, ascending."""
    return np.union1d(rows, others) if len(others) else rows
