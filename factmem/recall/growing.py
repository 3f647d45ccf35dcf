"""What `factmem.recall.columns.Columns` are made of: arrays and texts that are only ever appended to.

One thread at a time appends, and others read meanwhile without a lock. What one thing refers to is there before it:
who takes the length of a thing first, and then that of what it refers to, finds everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Finder", "Growing", "Numbered", "spread"]


class Numbered:
    """Texts and their numbers, from 0 in the order they came."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        for text in texts:
            self.number(text)

    def __len__(self) -> int:
        return len(self.texts)

    def number(self, text: str) -> int:
        """Return the number of a text, a new one for a text that is new."""
        known = self._numbers.get(text)
        if known is None:
            known = len(self.texts)
            self.texts.append(text)
            self._numbers[text] = known
        return known

    def find(self, text: str) -> int | None:
        """Return the number of a text, or None for one that never came."""
        return self._numbers.get(text)


class Growing:
    """Arrays of one length that grow together.

    Args:
        types: of each array.
    """

    def __init__(self, types: Mapping[str, Any]) -> None:
        self._types = types
        self._room = 0
        self.length: int = 0
        self._arrays: dict[str, NDArray[Any]] = {name: np.empty(0, kind) for name, kind in types.items()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return one array; of two that are asked for one by one, the second may be longer."""
        length = self.length
        return self._arrays[name][:length]

    def together(self, *names: str) -> list[NDArray[Any]]:
        """Return some arrays, as they were at one moment."""
        length = self.length
        return [self._arrays[name][:length] for name in names]

    def append(self, **items: Any) -> None:
        """Append to every array as many items."""
        count = len(next(iter(items.values())))
        self._make_room(self.length + count)
        for name, values in items.items():
            self._arrays[name][self.length : self.length + count] = values
        self.length += count  # last: whoever reads meanwhile sees all of an item or nothing

    def _make_room(self, wanted: int) -> None:
        if wanted <= self._room:
            return
        # Exactly what is needed at first: most stores are read more than they are written.
        self._room = wanted if not self._room else max(wanted, self._room + self._room // 4 + 1024)
        for name, old in self._arrays.items():
            new = np.empty(self._room, self._types[name])
            new[: self.length] = old[: self.length]
            self._arrays[name] = new


class Finder:
    """Finds rows by a 64-bit key: sorted, with a short tail that is not yet. Any thread may find."""

    def __init__(self) -> None:
        # One tuple, replaced as a whole: the keys and the rows of two sortings must never meet.
        self._sorted = (np.empty(0, np.uint64), np.empty(0, np.int32))

    def find(self, keys: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the rows that have one of some keys, ascending.

        Args:
            keys: those of all rows, or of fewer of the first of them than were sorted.
            wanted: which.
        """
        ordered, rows = self._sorted
        if len(keys) - len(ordered) > max(1024, len(ordered) // 16):
            order = np.argsort(keys)
            ordered, rows = self._sorted = keys[order], order.astype(np.int32)
        done, wanted = len(ordered), np.unique(wanted)
        low, high = (np.searchsorted(ordered, wanted, side) for side in ("left", "right"))
        found = np.sort(rows[spread(low, high)]).astype(np.intp)
        if done > len(keys):  # others sorted more, meanwhile
            return found[found < len(keys)]
        return np.concatenate([found, np.flatnonzero(np.isin(keys[done:], wanted)) + done])


def spread(starts: NDArray[Any], ends: NDArray[Any]) -> NDArray[np.intp]:
    """Return the numbers of all ranges from ``starts`` to ``ends``, one after the other."""
    counts = (ends - starts).astype(np.intp)
    behind = counts.cumsum()
    numbers: NDArray[np.intp] = (starts - behind + counts).repeat(counts)
    numbers += np.arange(len(numbers))
    return numbers
