"""Where a mirror has the assertions themselves from, by the rows of its columns."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Self

import attrs
import numpy as np

from factmem.abc import KeepsOutlines, Outline, number_of_id
from factmem.recall.columns import Rows
from factmem.recall.outlines import microseconds
from factmem.records import Recorded

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Held", "Library", "Stored", "rows_in_order", "rows_in_outline"]

_KNOWN: Final = 1024
"""How many assertions that were asked for are kept for the next time."""


class Library(abc.ABC):
    """The assertions in full.

    Attributes:
        seqs: the numbers of the assertions, by their rows.
    """

    def __init__(self) -> None:
        self.seqs: NDArray[np.int64] = np.empty(0, np.int64)

    @abc.abstractmethod
    def read(self, rows: Sequence[int]) -> list[Recorded | None]:
        """See `factmem.recall.corpus.Documents.read`."""

    @abc.abstractmethod
    def add(self, recorded: Sequence[Recorded]) -> None:
        """Take in assertions of the next rows, where they are kept here."""

    @abc.abstractmethod
    def without(self, left: NDArray[np.intp]) -> Library:
        """Return a library of the rows that are left, in this order."""


class Held(Library):
    """Assertions that are held in memory."""

    def __init__(self, recorded: Sequence[Recorded] = ()) -> None:
        super().__init__()
        self._recorded = list(recorded)

    def read(self, rows: Sequence[int]) -> list[Recorded | None]:
        """See `Library.read`."""
        return [self._recorded[row] for row in rows]

    def add(self, recorded: Sequence[Recorded]) -> None:
        """See `Library.add`."""
        self._recorded.extend(recorded)

    def without(self, left: NDArray[np.intp]) -> Held:
        """See `Library.without`."""
        return Held([self._recorded[row] for row in left.tolist()])


class Stored(Library):
    """Assertions that stay in the store, and are read when they are shown.

    Args:
        store: where they are.
        tenant: whose they are.
    """

    def __init__(self, store: KeepsOutlines, tenant: str | None) -> None:
        super().__init__()
        self._store = store
        self._tenant = tenant
        self._known: dict[int, Recorded] = {}

    def read(self, rows: Sequence[int]) -> list[Recorded | None]:
        """See `Library.read`."""
        seqs = self.seqs[np.asarray(rows, np.intp)].tolist()
        known = self._known
        found = {seq: known[seq] for seq in seqs if seq in known}
        new = [seq for seq in seqs if seq not in found]
        if not new:
            return [found[seq] for seq in seqs]
        read = {item.seq: item for item in self._store.recorded(self._tenant, new) if item is not None}
        if len(read) < _KNOWN // 8:
            self._known = (known if len(known) + len(read) <= _KNOWN else {}) | read
        found |= read
        return [found.get(seq) for seq in seqs]

    def add(self, recorded: Sequence[Recorded]) -> None:
        """See `Library.add`; the store has them."""

    def without(self, left: NDArray[np.intp]) -> Self:
        """See `Library.without`."""
        return type(self)(self._store, self._tenant)


def rows_in_outline(recorded: Sequence[Recorded], outlines: Sequence[Outline]) -> Rows:
    """Return assertions as columns take them in.

    Args:
        recorded: the assertions.
        outlines: their outlines.
    """
    return Rows(
        seqs=[item.seq for item in recorded],
        ids=[number_of_id(item.id) for item in recorded],
        records=[number_of_id(item.record_id) for item in recorded],
        recorded_at=[microseconds(item.recorded_at) for item in recorded],
        shared=[outline.shared for outline in outlines],
        own=[outline.own for outline in outlines],
    )


def rows_in_order(several: Sequence[Rows]) -> Rows:
    """Return rows as one, by their numbers."""
    if len(several) == 1:
        return several[0]
    joined = {
        field.name: [item for rows in several for item in getattr(rows, field.name)] for field in attrs.fields(Rows)
    }
    order = sorted(range(len(joined["seqs"])), key=joined["seqs"].__getitem__)
    return Rows(**{name: [items[at] for at in order] for name, items in joined.items()})
