"""Pairs of statements of which the later one stands for the earlier one, found once when they enter the log.

A statement may *overtake* an earlier one of the same place, owner and speaker, from another message, by the matter of
both; see `factmem.recall.text.updates`. Or it may *follow* it: it tells of a change or of what is so now, with a name
or a figure of its own, and holds a quarter of the earlier one's words, each of which hardly any statement before it
holds. "Giulia has a baby, so I'm with Matteo now." follows "My teacher is Giulia."; "Giulia has a dog now." does not.
What follows need not replace anything, and so hides and marks nothing.

A pair counts at any moment, for any caller, where both are current and visible; so nothing that is hidden shows.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
import numpy as np

from factmem.recall.index.columns import Columns, Finder, Growing, among, begins, spread
from factmem.recall.index.outline_codec import BEGINS, MATTER_FIELDS, TELLS_NEWS, read_matter
from factmem.recall.text.updates import Matter, overtakes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.intp]

_MOST_ALIKE: Final = 64
"""Maximum number of statements of the same frame that a new one is compared with, the last ones."""

_RARE: Final = 3
"""Maximum number of statements that held a word before, where a statement that holds it may follow them."""

_SHARE: Final = 0.25
"""Least share of a statement's words that one that follows it holds."""

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


class Updates(NamedTuple):
    """The pairs of a log."""

    overtaken: Updated
    followed: Updated


class UpdateFinder:
    """Finds the pairs of a log, from its columns alone."""

    def __init__(self) -> None:
        self._done = 0
        self._overtaken, self._followed = (Growing({"older": np.int32, "newer": np.int32}) for _ in range(2))
        self._keys = Growing({"key": np.uint64, "row": np.int32})
        self._finder = Finder()

    def of(self, columns: Columns) -> Updates:
        """Return the pairs among all rows; only new rows take work."""
        first, self._done = self._done, len(columns)
        if first < self._done:
            self._find_overtaken(columns, first)
            self._find_followed(columns, first)
        found = (pairs.together("older", "newer") for pairs in (self._overtaken, self._followed))
        return Updates(*[Updated(*pairs) for pairs in found])

    def _find_overtaken(self, columns: Columns, first: int) -> None:
        found = []
        for name in ("held", "counted"):
            rows = np.flatnonzero(columns[name][first:]) + first
            keys, of = self._with(columns[name][rows] ^ _said_by(columns, rows), rows)
            self._keys.append(key=keys[of >= first], row=of[of >= first])
            found.append(_neighbours(keys, of, first, _MOST_ALIKE))
        older, newer, _ = _distinct(*_in_order(columns, *np.concatenate(found, axis=1)))
        matter = functools.cache(functools.partial(_matter, columns))
        pairs = zip(older.tolist(), newer.tolist(), strict=True)
        held = np.array([overtakes(matter(new), matter(old)) for old, new in pairs], np.bool_)
        self._overtaken.append(older=older[held], newer=newer[held])

    def _find_followed(self, columns: Columns, first: int) -> None:
        rows = np.flatnonzero(columns["begins"][first:]) + first
        counts, ends = _own_words(columns, rows), columns["terms_start"][rows] + columns["terms_count"][rows]
        of = rows.repeat(counts)
        keys, of = self._with(columns.terms[spread(ends - counts, ends)] ^ _said_by(columns, of), of)
        (starts,) = begins(keys).nonzero()
        rare = np.arange(len(keys)) - starts.repeat(np.diff(starts, append=len(keys))) <= _RARE
        keys, of = keys[rare], of[rare]  # more rows than these never count
        self._keys.append(key=keys[of >= first], row=of[of >= first])
        older, newer = _in_order(columns, *_neighbours(keys, of, first, _RARE))
        news = columns["begins"][newer] & TELLS_NEWS != 0
        older, newer, shared = _distinct(older[news], newer[news])
        held = shared >= _SHARE * _own_words(columns, older)
        older, newer = older[held], newer[held]
        pairs = zip(older.tolist(), newer.tolist(), strict=True)
        named = np.array([_names_more(columns, new, old) for old, new in pairs], np.bool_)
        self._followed.append(older=older[named], newer=newer[named])

    def _with(self, keys: NDArray[np.uint64], rows: Rows) -> tuple[NDArray[np.uint64], Rows]:
        """Return new rows and known ones with any of their keys: the keys in order, the rows of each ascending."""
        known, of = self._keys.together("key", "row")
        found = self._finder.find(known, keys)
        keys, rows = np.concatenate([known[found], keys]), np.concatenate([of[found].astype(np.intp), rows])
        order = np.lexsort((rows, keys))
        keys, rows = keys[order], rows[order]
        once = begins(keys) | begins(rows)
        return keys[once], rows[once]


def _neighbours(keys: NDArray[np.uint64], rows: Rows, first: int, most: int) -> NDArray[np.intp]:
    """Return pairs of rows of the same key, in two rows: each new one and the last ones before it, up to a number.

    Args:
        keys: The keys, in order.
        rows: The rows, ascending for each key.
        first: The first new row.
        most: The number.
    """
    found: list[NDArray[np.intp]] = [np.empty((2, 0), np.intp)]
    for apart in range(1, min(most, len(keys) - 1) + 1):
        pairs = (keys[apart:] == keys[:-apart]) & (rows[apart:] >= first)
        if not pairs.any():
            break
        found.append(np.stack([rows[:-apart][pairs], rows[apart:][pairs]]))
    return np.concatenate(found, axis=1)


def _in_order(columns: Columns, one: Rows, other: Rows) -> tuple[Rows, Rows]:
    """Return the statements of pairs by the time when they were said, without those of one message."""
    apart = ~_of_one_message(columns, one, other)
    one, other = one[apart], other[apart]
    said_at, seq = columns["said_at"], columns["seq"]
    later = (said_at[one] > said_at[other]) | ((said_at[one] == said_at[other]) & (seq[one] > seq[other]))
    return np.where(later, other, one), np.where(later, one, other)


def _distinct(older: Rows, newer: Rows) -> tuple[Rows, Rows, NDArray[np.intp]]:
    """Return pairs without repetitions, and how often each occurred."""
    both, counts = np.unique(older << np.intp(32) | newer, return_counts=True)
    return both >> np.intp(32), both & np.intp(0xFFFFFFFF), counts


def _own_words(columns: Columns, rows: Rows) -> NDArray[Any]:
    """Return the number of each statement's terms behind those of its speaker."""
    number: NDArray[Any] = columns["terms_count"][rows] - (columns["begins"][rows] & BEGINS)
    return number


def _said_by(columns: Columns, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return a key of the place, owner and speaker of each statement."""
    track, speaker = columns.of_rows("track", rows).astype(np.uint64), columns["speaker"][rows].astype(np.uint64)
    return ((track + np.uint64(1)) << np.uint64(32) | speaker) * _ODD


def _of_one_message(columns: Columns, one: NDArray[np.intp], other: NDArray[np.intp]) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = columns["conversation"][one] > 0
    for name in ("conversation", "said_at", "position"):
        same &= columns[name][one] == columns[name][other]
    return same


def _names_more(columns: Columns, newer: int, older: int) -> bool:
    """Return whether a statement holds a name or a figure that an earlier one does not hold."""
    begins, names = int(columns["begins"][newer]) & BEGINS, int(columns["names"][newer])
    own = columns.terms_of(newer, newer + 1)[begins:].tolist()
    named = {term for place, term in enumerate(own[: names.bit_length()]) if names >> place & 1}
    return not named.issubset(columns.terms_of(older, older + 1).tolist())


def _matter(columns: Columns, row: int) -> Matter[int]:
    """Return the matter of a row."""
    fields = {name: int(columns[name][row]) for name, _ in MATTER_FIELDS}
    return read_matter(fields, columns.terms_of(row, row + 1).tolist())


@attrs.frozen(eq=False)
class Updated:
    """Statements with later ones that overtake or follow them: rows of the columns.

    Attributes:
        older: The earlier statement of each pair; ascending in what `present` returns.
        newer: The later one.
    """

    older: Rows
    newer: Rows

    def present(self, current: NDArray[np.bool_]) -> Updated:
        """Return the pairs whose statements are both current, by row."""
        older, newer = self.older.astype(np.intp), self.newer.astype(np.intp)
        there = np.flatnonzero(current[older] & current[newer])
        there = there[older[there].argsort(kind="stable")]
        return Updated(older[there], newer[there])

    def by_newest(self, columns: Columns) -> Updated:
        """Return each earlier statement once, with the newest one that stands for it and for which none stands."""
        order = np.lexsort((columns["seq"][self.newer], columns["said_at"][self.newer], self.older))
        older, newer = self.older[order], self.newer[order]
        last = np.append(older[1:] != older[:-1], True)[: len(older)]
        older, newer = older[last], newer[last]
        while len(older):
            at = np.minimum(older.searchsorted(newer), len(older) - 1)
            further = older[at] == newer
            if not further.any():
                break
            newer = np.where(further, newer[at], newer)
        return Updated(older, newer)

    def at(self, which: NDArray[np.bool_]) -> Updated:
        """Return some of them."""
        return Updated(self.older[which], self.newer[which])

    def whole(self, chosen: Rows) -> Rows:
        """Return chosen rows, those that stand for them, and all for which these and the chosen ones stand."""
        touched = among(self.older, chosen) | among(self.newer, chosen) if len(self.older) else None
        if touched is None or not touched.any():
            return chosen
        touched = among(self.newer, self.newer[touched])
        return united(chosen, np.concatenate([self.older[touched], self.newer[touched]]))


NONE_UPDATED: Final = Updated(*[np.empty(0, np.intp)] * 2)


def united(rows: Rows, others: Rows) -> Rows:
    """Return the rows that are in either, ascending."""
    return np.union1d(rows, others) if len(others) else rows
