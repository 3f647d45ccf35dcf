"""Parts of the exact result: sums that are independent of other rows, and cuts without loss."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from factmem.recall.index.vector_slots import HeldVectors


def test_an_inner_product_is_the_same_whatever_stands_beside_it() -> None:
    """Double precision, row by row: alone, among few or among many, in one block or in several."""
    rows = np.random.default_rng(0).standard_normal((9000, 256)).astype(np.float32)
    query = rows[5] / np.float32(16)
    vectors = HeldVectors(256)
    slots = np.concatenate([vectors.append(np.arange(len(part)), part) for part in np.split(rows, [3, 700, 5200])])
    view = vectors.view()
    together = view.exact(slots, query)
    for row in (0, 2, 3, 699, 700, 5199, 5200, 8999):
        assert view.exact(slots[row : row + 1], query)[0] == together[row]
        assert view.exact(slots[max(row - 2, 0) : row + 1], query)[-1] == together[row]
    assert np.abs(view.dots(query)[slots] - together).max() < 1e-4


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4200), min_size=1, max_size=6))
def test_vectors_keep_their_slots(sizes: list[int]) -> None:
    """Each vector is found again, in batches of any size; later ones change no snapshot."""
    vectors, slots, all_rows = HeldVectors(2), [], []
    for number, size in enumerate(sizes):
        rows = np.full((size, 2), number + 1, np.float32)
        before = vectors.view()
        slots.append(vectors.append(np.arange(size), rows))
        all_rows.append(rows)
        assert len(before.dots(np.ones(2, np.float32))) == 1 + sum(sizes[:number])
    view = vectors.view()
    assert np.array_equal(view.take(np.concatenate(slots)), np.concatenate(all_rows))
    assert not view.take(np.zeros(1, np.int32)).any()


def test_an_erased_vector_is_gone_from_every_view() -> None:
    vectors = HeldVectors(4)
    slots = vectors.append(np.arange(3), np.ones((3, 4), np.float32))
    view = vectors.view()
    vectors.erase(slots[1:2])
    assert not view.take(slots[1:2]).any()
    assert view.take(slots[[0, 2]]).all()
