"""The embeddings of a mirror by slot: in memory, or in the store if they would take too much memory.

In memory they are float32, in the order added, and never moved. Slot 0 holds zeros, for records without an embedding.
"""

from __future__ import annotations

import abc
import functools
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from factmem.abc.capabilities import ScansVectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NO_VECTORS", "HeldVectors", "StoredVectors", "Vectors", "VectorsView"]

_ROOM: Final = 4096
"""Maximum size of a block that is filled vector by vector."""

_LEAST_ROOM: Final = 64
"""Minimum size of such a block."""

_FEW: Final = 32_768
"""Maximum number of vectors that one core multiplies; more are split among all cores."""

_TOGETHER: Final = 32


class VectorsView(abc.ABC):
    """A snapshot of vectors. Methods block: for worker threads only."""

    @abc.abstractmethod
    def dots(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the inner product of every slot with a query, to the precision of float32."""

    @abc.abstractmethod
    def take(self, slots: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the vectors of some slots, one a row."""

    def exact(self, slots: NDArray[np.int32], query: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return inner products in double precision, each a function of its vector and the query alone."""
        rows = self.take(slots).astype(np.float64)
        products: NDArray[np.float64] = np.einsum("ij,j->i", rows, query.astype(np.float64))
        return products


class Vectors(abc.ABC):
    """A place for vectors of one dimension.

    Args:
        dimension: Dimension of the vectors.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    @abc.abstractmethod
    def append(self, seqs: NDArray[np.int64], rows: NDArray[np.float32]) -> NDArray[np.int32]:
        """Add vectors of length 1 by the sequence numbers of their assertions, and return their slots."""

    @abc.abstractmethod
    def erase(self, slots: NDArray[np.int32]) -> None:
        """Erase vectors, also from the snapshots in use."""

    @abc.abstractmethod
    def view(self) -> VectorsView:
        """Return a snapshot, which later vectors do not change."""

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """The size in memory, in bytes."""


class StoredVectors(Vectors):
    """Vectors that stay in the store, and are read for each query.

    Args:
        dimension: Dimension of the vectors.
        store: The store.
        tenant: The tenant.
    """

    def __init__(self, dimension: int, store: ScansVectors, tenant: str | None) -> None:
        super().__init__(dimension)
        self._store = store
        self._tenant = tenant
        self._seqs = np.array([-1], np.int64)

    def append(self, seqs: NDArray[np.int64], rows: NDArray[np.float32]) -> NDArray[np.int32]:
        """See `Vectors.append`; the rows are in the store already."""
        start = len(self._seqs)
        self._seqs = np.append(self._seqs, seqs)
        return np.arange(start, len(self._seqs), dtype=np.int32)

    def erase(self, slots: NDArray[np.int32]) -> None:
        """See `Vectors.erase`; the store erases its own."""

    def view(self) -> VectorsView:
        """See `Vectors.view`."""
        return _StoredView(store=self._store, tenant=self._tenant, seqs=self._seqs, dimension=self.dimension)

    @property
    def nbytes(self) -> int:
        """See `Vectors.nbytes`."""
        return self._seqs.nbytes


@attrs.frozen(eq=False, kw_only=True)
class _StoredView(VectorsView):
    """A snapshot of a store's vectors: the sequence number of each slot."""

    store: ScansVectors
    tenant: str | None
    seqs: NDArray[np.int64]
    dimension: int

    def dots(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """See `VectorsView.dots`."""
        found = np.zeros(len(self.seqs), np.float32)
        numbers, products = self.store.products(self.tenant, query)
        order = self._order
        at = order[np.minimum(np.searchsorted(self.seqs, numbers, sorter=order), len(order) - 1)]
        there = self.seqs[at] == numbers
        found[at[there]] = products[there]
        return found

    def take(self, slots: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `VectorsView.take`."""
        return self.store.vectors_of(self.tenant, self.seqs[slots], self.dimension)

    @functools.cached_property
    def _order(self) -> NDArray[np.intp]:
        return np.argsort(self.seqs)


@attrs.frozen(eq=False)
class _HeldView(VectorsView):
    """A snapshot of vectors in memory.

    Attributes:
        blocks: Matrices of shape (filled, dimension), one slot a row.
        starts: The first slot of each block, and the end.
    """

    blocks: tuple[NDArray[np.float32], ...]
    starts: NDArray[np.intp]

    def dots(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """See `VectorsView.dots`."""
        found = np.empty(int(self.starts[-1]), np.float32)
        for block, start, end in zip(self.blocks, self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
            _multiply(block, query, found[start:end])
        return found

    def take(self, slots: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `VectorsView.take`."""
        block_of = np.searchsorted(self.starts, slots, "right") - 1
        first, last = (int(block_of.min()), int(block_of.max())) if len(slots) else (0, 0)
        rows: NDArray[np.float32]
        if first == last:
            rows = self.blocks[first][slots - self.starts[first]]
            return rows
        rows = np.empty((len(slots), self.blocks[0].shape[1]), np.float32)
        for number in range(first, last + 1):
            inside = block_of == number
            rows[inside] = self.blocks[number][slots[inside] - self.starts[number]]
        return rows


class HeldVectors(Vectors):
    """Vectors in memory.

    Args:
        dimension: Dimension of the vectors.
    """

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self._blocks: list[NDArray[np.float32]] = [np.zeros((1, dimension), np.float32)]
        self._filled: list[int] = [1]

    def append(self, seqs: NDArray[np.int64], rows: NDArray[np.float32]) -> NDArray[np.int32]:
        """See `Vectors.append`."""
        start = sum(self._filled)
        done = 0
        while done < len(rows):
            room = len(self._blocks[-1]) - self._filled[-1]
            if not room and len(rows) - done >= _ROOM:
                # A large batch becomes a block of its own, without a copy.
                self._blocks.append(rows[done:])
                self._filled.append(len(rows) - done)
                break
            if not room:
                # As many as there are, so that a small tenant takes little memory, and a large one has few blocks.
                room = min(_ROOM, max(_LEAST_ROOM, sum(self._filled), len(rows) - done))
                self._blocks.append(np.empty((room, self.dimension), np.float32))
                self._filled.append(0)
            taken = rows[done : done + room]
            self._blocks[-1][self._filled[-1] : self._filled[-1] + len(taken)] = taken
            self._filled[-1] += len(taken)
            done += len(taken)
        return np.arange(start, start + len(rows), dtype=np.int32)

    def erase(self, slots: NDArray[np.int32]) -> None:
        """See `Vectors.erase`; vectors are overwritten with zeros."""
        starts = np.cumsum([0, *self._filled])
        for slot in slots[slots > 0].tolist():
            number = int(np.searchsorted(starts, slot, "right")) - 1
            self._blocks[number][slot - starts[number]] = 0

    def view(self) -> VectorsView:
        """See `Vectors.view`."""
        filled = tuple(self._filled)  # without a block that is being added
        blocks = tuple(block[:count] for block, count in zip(self._blocks, filled, strict=False))
        return _HeldView(blocks, np.cumsum([0, *filled]))

    @property
    def nbytes(self) -> int:
        """See `Vectors.nbytes`."""
        return sum(block.nbytes for block in self._blocks)


def _multiply(block: NDArray[np.float32], query: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write the inner products of rows with a query, on one core unless there are many."""
    if len(block) > _FEW:
        np.dot(block, query, out=out)
        return
    # OpenBLAS splits a product of this size among all cores, and waits for each: half a millisecond's work takes ten if
    # another process has one of them. A stack of small products is as fast and stays on one core.
    whole = len(block) - len(block) % _TOGETHER
    np.matmul(block[:whole].reshape(-1, _TOGETHER, block.shape[1]), query, out=out[:whole].reshape(-1, _TOGETHER))
    np.dot(block[whole:], query, out=out[whole:])


NO_VECTORS: Final[VectorsView] = HeldVectors(1).view()
"""The vectors of a corpus without embeddings."""
