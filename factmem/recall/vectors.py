"""The embeddings of a mirror: float32, in the order they came, appended to and never moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Vectors", "VectorsView"]

_ROOM: Final = 4096
"""How many vectors a block takes that is filled one by one."""


@attrs.frozen(eq=False)
class VectorsView:
    """The vectors that there were at one time; slot 0 holds zeros, for what has none.

    Attributes:
        blocks: matrices of shape (some, dimension), one slot a row, as much of each as was filled.
        starts: the first slot of each block, and the end.
    """

    blocks: tuple[NDArray[np.float32], ...]
    starts: NDArray[np.intp]

    def dots(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the inner product of every slot with a query, to the precision of float32."""
        found = np.empty(int(self.starts[-1]), np.float32)
        for block, start, end in zip(self.blocks, self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
            np.dot(block, query, out=found[start:end])
        return found

    def take(self, slots: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the vectors of some slots, one a row."""
        if len(self.blocks) == 1:
            return self.blocks[0][slots]
        rows = np.empty((len(slots), self.blocks[0].shape[1]), np.float32)
        block_of = np.searchsorted(self.starts, slots, "right") - 1
        for number in np.unique(block_of).tolist():
            inside = block_of == number
            rows[inside] = self.blocks[number][slots[inside] - self.starts[number]]
        return rows

    def exact(self, slots: NDArray[np.int32], query: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return inner products in double precision, each a function of its vector and the query alone."""
        rows = self.take(slots).astype(np.float64)
        products: NDArray[np.float64] = np.einsum("ij,j->i", rows, query.astype(np.float64))
        return products


class Vectors:
    """A place for vectors of one dimension.

    Args:
        dimension: of the vectors.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._blocks: list[NDArray[np.float32]] = []
        self._filled: list[int] = []
        self.append(np.zeros((1, dimension), np.float32))

    def append(self, rows: NDArray[np.float32]) -> NDArray[np.int32]:
        """Take in vectors of length 1, and return their slots."""
        start = sum(self._filled)
        done = 0
        while done < len(rows):
            room = len(self._blocks[-1]) - self._filled[-1] if self._blocks else 0
            if not room and len(rows) - done >= _ROOM:
                # So many at once make a block of their own, and are not copied.
                self._blocks.append(rows[done:])
                self._filled.append(len(rows) - done)
                break
            if not room:
                self._blocks.append(np.empty((_ROOM, self.dimension), np.float32))
                self._filled.append(0)
                room = _ROOM
            taken = rows[done : done + room]
            self._blocks[-1][self._filled[-1] : self._filled[-1] + len(taken)] = taken
            self._filled[-1] += len(taken)
            done += len(taken)
        return np.arange(start, start + len(rows), dtype=np.int32)

    def erase(self, slots: NDArray[np.int32]) -> None:
        """Overwrite vectors with zeros, also for those who are reading."""
        starts = np.cumsum([0, *self._filled])
        for slot in slots[slots > 0].tolist():
            number = int(np.searchsorted(starts, slot, "right")) - 1
            self._blocks[number][slot - starts[number]] = 0

    def view(self) -> VectorsView:
        """Return what there is now; what is appended later does not change it."""
        blocks = tuple(block[:filled] for block, filled in zip(self._blocks, self._filled, strict=True))
        return VectorsView(blocks, np.cumsum([0, *self._filled]))
