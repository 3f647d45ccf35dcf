"""The embeddings of a mirror by slot: in memory, or in the store if they would take too much memory.

In memory they are float32, in the order added, and never moved. Slot 0 holds zeros, for records without an embedding.
Large blocks that are searched again are encoded as one byte for each component, too: a search then reads a quarter of
the memory, with a larger error, which is known.
"""

from __future__ import annotations

import abc
import functools
import threading
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import simsimd

from factmem.abc.capabilities import ScansVectors
from factmem.short_work import may_wait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_ROOM: Final = 4096
"""Maximum size of a block that is filled vector by vector."""

_LEAST_ROOM: Final = 64
"""Minimum size of such a block."""

_MOST_ROOM: Final = 16_384
"""Maximum size of any block; a search encodes one block at most."""

_TOGETHER: Final = 32

_CODED: Final = 4096
"""Minimum size of a block that is encoded."""

_STEP: Final = 1024
"""Number of vectors that are encoded at a time, so that they stay in the processor's cache."""

_FEW: Final = 4_000_000
"""Number of components that are multiplied in half a millisecond."""

_EXACTLY: Final = 40
"""Number of components that are multiplied in the time of one in double precision, which is taken from its place."""

_TINY: Final = np.finfo(np.float32).tiny


class VectorsView(abc.ABC):
    """A snapshot of vectors. Methods block; see `factmem.short_work`."""

    @abc.abstractmethod
    def dots(self, query: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
        """Return the inner product of every slot with a query of length 1, and the largest error of any of them."""

    @abc.abstractmethod
    def take(self, slots: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the vectors of some slots, one a row."""

    def exact(self, slots: NDArray[np.int32], query: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return inner products in double precision, each a function of its vector and the query alone."""
        if _EXACTLY * len(slots) * len(query) > _FEW:
            may_wait()
        rows = self.take(slots).astype(np.float64)
        rows *= query
        return np.add.reduce(rows, axis=1)


class StoredVectors:
    """Vectors that stay in the store, and are read for each query.

    Args:
        dimension: Dimension of the vectors.
        store: The store.
        tenant: The tenant.
    """

    def __init__(self, dimension: int, store: ScansVectors, tenant: str | None) -> None:
        self.dimension = dimension
        self._view = _StoredView(store=store, tenant=tenant, seqs=np.array([-1], np.int64), dimension=dimension)

    def append(self, seqs: NDArray[np.int64], rows: NDArray[np.float32]) -> NDArray[np.int32]:
        """See `HeldVectors.append`; the rows are in the store already."""
        start = len(self._view.seqs)
        self._view = attrs.evolve(self._view, seqs=np.append(self._view.seqs, seqs))
        return np.arange(start, len(self._view.seqs), dtype=np.int32)

    def erase(self, slots: NDArray[np.int32]) -> None:
        """See `HeldVectors.erase`; the store erases its own."""

    def view(self) -> VectorsView:
        """See `HeldVectors.view`."""
        return self._view


@attrs.frozen(eq=False, kw_only=True)
class _StoredView(VectorsView):
    """A snapshot of a store's vectors: the sequence number of each slot."""

    store: ScansVectors
    tenant: str | None
    seqs: NDArray[np.int64]
    dimension: int

    def dots(self, query: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
        """See `VectorsView.dots`."""
        may_wait()
        found = np.zeros(len(self.seqs), np.float32)
        numbers, products = self.store.products(self.tenant, query)
        order = self._order
        at = order[np.minimum(np.searchsorted(self.seqs, numbers, sorter=order), len(order) - 1)]
        there = self.seqs[at] == numbers
        found[at[there]] = products[there]
        return found, _rounding(query)

    def take(self, slots: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `VectorsView.take`."""
        may_wait()
        return self.store.vectors_of(self.tenant, self.seqs[slots], self.dimension)

    @functools.cached_property
    def _order(self) -> NDArray[np.intp]:
        return np.argsort(self.seqs)


class _Block:
    """Consecutive slots.

    Args:
        rows: A matrix of shape (capacity, dimension), one slot a row.
        filled: Number of rows that hold vectors.
    """

    def __init__(self, rows: NDArray[np.float32], filled: int) -> None:
        self.rows = rows
        self.filled = filled
        self._searched = False
        self._codes: _Codes | None = None
        self._lock = threading.Lock()

    @property
    def room(self) -> int:
        """Number of rows that are free."""
        return len(self.rows) - self.filled

    def add(self, rows: NDArray[np.float32]) -> None:
        """Add vectors, as many as there is room for at most."""
        self.rows[self.filled : self.filled + len(rows)] = rows
        self.filled += len(rows)

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""
        return self.rows.nbytes + (0 if self._codes is None else self._codes.nbytes)

    def erase(self, row: int) -> None:
        """Overwrite a vector with zeros."""
        with self._lock:
            self.rows[row] = 0
            if self._codes is not None:
                self._codes.erase(row)

    def encode(self) -> bool:
        """Encode the vectors if they are many and were searched before; return whether that took any work."""
        if self._codes is not None or not self._searched or len(self.rows) < _CODED or self.room:
            return False
        may_wait()
        with self._lock:
            self._codes = self._codes or _Codes(self.rows)
        return True

    def dots(self, query: NDArray[np.float32], out: NDArray[np.float32]) -> float:
        """Write the inner products of the first rows with a query, and return their largest error beside rounding."""
        self._searched = True
        if self._codes is not None and len(out) == len(self.rows):
            return self._codes.dots(query, out)
        # OpenBLAS splits a product of this size among all cores, and waits for each: half a millisecond's work takes
        # ten if another process has one of them. A stack of small products is as fast and stays on one core.
        whole = len(out) - len(out) % _TOGETHER
        stack = self.rows[:whole].reshape(-1, _TOGETHER, len(query))
        np.matmul(stack, query, out=out[:whole].reshape(-1, _TOGETHER))
        np.dot(self.rows[whole : len(out)], query, out=out[whole:])
        return 0.0


class _Codes:
    """Vectors as bytes: each is its scale times a code, whose components are whole numbers from -127 to 127.

    By the Cauchy–Schwarz inequality, the inner product of two such approximations is off by no more than the lengths of
    what they leave out, as the vectors themselves have length 1.

    Args:
        rows: The vectors.
    """

    def __init__(self, rows: NDArray[np.float32]) -> None:
        self._codes = np.empty(rows.shape, np.int8)
        self._scales = np.empty(len(rows), np.float32)
        self._left_out = 0.0
        for start in range(0, len(rows), _STEP):
            several = slice(start, start + _STEP)
            self._codes[several], self._scales[several], left_out = _encoded(rows[several])
            self._left_out = max(self._left_out, left_out)

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""
        return self._codes.nbytes + self._scales.nbytes

    def erase(self, row: int) -> None:
        """Overwrite a vector with zeros."""
        self._codes[row], self._scales[row] = 0, 0

    def dots(self, query: NDArray[np.float32], out: NDArray[np.float32]) -> float:
        """See `_Block.dots`."""
        code, scale, left_out = _encoded(query[None])
        np.multiply(np.asarray(simsimd.dot(code, self._codes)).ravel(), self._scales * scale, out=out)
        return self._left_out + (1 + self._left_out) * left_out


def _encoded(rows: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32], float]:
    """Return the codes and scales of vectors, and the largest length of what any of them leaves out."""
    scales = np.maximum.reduce(np.abs(rows), axis=1) / 127
    np.maximum(scales, _TINY, out=scales)
    wholes = np.rint(rows / scales[:, None])
    left_out = rows - wholes * scales[:, None]
    return wholes.astype(np.int8), scales, float(np.maximum.reduce(np.add.reduce(left_out * left_out, axis=1))) ** 0.5


def _rounding(query: NDArray[np.float32]) -> float:
    """Return the largest error of an inner product in single precision."""
    return len(query) * 1e-7


@attrs.frozen(eq=False)
class _HeldView(VectorsView):
    """A snapshot of vectors in memory.

    Attributes:
        blocks: The blocks.
        starts: The first slot of each block, and the end.
    """

    blocks: tuple[_Block, ...]
    starts: NDArray[np.intp]

    def dots(self, query: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
        """See `VectorsView.dots`."""
        if self.starts[-1] * len(query) > _FEW:
            may_wait()
        for block in self.blocks:
            if block.encode():  # one at most, so that no search takes long
                break
        found = np.empty(int(self.starts[-1]), np.float32)
        bounds = zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)
        errors = [block.dots(query, found[start:end]) for block, (start, end) in zip(self.blocks, bounds, strict=True)]
        return found, max(errors) + _rounding(query)

    def take(self, slots: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `VectorsView.take`."""
        block_of = self.starts.searchsorted(slots, "right") - 1
        first, last = (int(block_of.min()), int(block_of.max())) if len(slots) else (0, 0)
        if first == last:
            rows: NDArray[np.float32] = self.blocks[first].rows[slots - self.starts[first]]
            return rows
        rows = np.empty((len(slots), self.blocks[0].rows.shape[1]), np.float32)
        for number in range(first, last + 1):
            inside = block_of == number
            rows[inside] = self.blocks[number].rows[slots[inside] - self.starts[number]]
        return rows


class HeldVectors:
    """Vectors in memory.

    Args:
        dimension: Dimension of the vectors.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._blocks = [_Block(np.zeros((1, dimension), np.float32), 1)]

    def append(self, seqs: NDArray[np.int64], rows: NDArray[np.float32]) -> NDArray[np.int32]:
        """Add vectors of length 1 by the sequence numbers of their assertions, and return their slots."""
        start = sum(block.filled for block in self._blocks)
        done = 0
        while done < len(rows):
            if not self._blocks[-1].room and len(rows) - done >= _ROOM:
                # Parts of a large batch become blocks of their own, without a copy.
                taken = rows[done : done + _MOST_ROOM]
                self._blocks.append(_Block(taken, len(taken)))
            else:
                if not self._blocks[-1].room:
                    # As many as there are, so that a small tenant takes little memory, and a large one has few blocks.
                    room = min(_ROOM, max(_LEAST_ROOM, start + done, len(rows) - done))
                    self._blocks.append(_Block(np.empty((room, self.dimension), np.float32), 0))
                taken = rows[done : done + self._blocks[-1].room]
                self._blocks[-1].add(taken)
            done += len(taken)
        return np.arange(start, start + len(rows), dtype=np.int32)

    def erase(self, slots: NDArray[np.int32]) -> None:
        """Overwrite vectors with zeros, also in the snapshots in use."""
        starts = self._starts(self._blocks)
        for slot in slots[slots > 0].tolist():
            number = int(np.searchsorted(starts, slot, "right")) - 1
            self._blocks[number].erase(int(slot - starts[number]))

    def view(self) -> VectorsView:
        """Return a snapshot, which later vectors do not change."""
        blocks = tuple(self._blocks)
        return _HeldView(blocks, self._starts(blocks))

    @staticmethod
    def _starts(blocks: Sequence[_Block]) -> NDArray[np.intp]:
        return np.cumsum([0, *[block.filled for block in blocks]])


NO_VECTORS: Final[VectorsView] = HeldVectors(1).view()
"""The vectors of a corpus without embeddings."""
