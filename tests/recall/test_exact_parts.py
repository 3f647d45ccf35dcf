"""Parts of the exact result: sums that are independent of other rows, and cuts without loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from factmem import STATEMENT, Memory, MultipleFacts
from factmem.abc.capabilities import EmbedderIdentity
from factmem.recall.index import vector_slots
from factmem.recall.index.vector_slots import HeldVectors

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    query /= np.linalg.norm(query)
    assert np.abs(view.dots(query)[0][slots] - view.exact(slots, query)).max() < 1e-5


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 300),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.01, 1.0, 8.0]),
    st.lists(st.integers(0, 299), max_size=5),
)
def test_an_inner_product_is_as_exact_as_it_says(dimension: int, seed: int, spread: float, erased: list[int]) -> None:
    """Vectors of many kinds: all components alike, a few large ones, erased ones; in bytes and before."""
    numbers = np.random.default_rng(seed)
    rows = (1 + spread * numbers.standard_t(2, (300, dimension))).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    with mock.patch.multiple(vector_slots, _CODED=300, _ROOM=300):
        vectors = HeldVectors(dimension)
        slots = vectors.append(np.arange(300), rows.copy())
        errors = []
        for _ in range(4):
            dots, error = vectors.view().dots(rows[7])
            assert np.abs(dots[slots] - vectors.view().exact(slots, rows[7])).max() <= error
            errors.append(error)
            vectors.erase(slots[erased])
    assert errors[0] < 4e-5
    assert errors[-1] < 0.1
    assert errors[-1] > 100 * errors[0] or dimension < 10 or not spread


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
        assert len(before.dots(np.ones(2, np.float32))[0]) == 1 + sum(sizes[:number])
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


class CloseEmbedder:
    """Vectors so close to each other that bytes put them in another order."""

    async def identity(self) -> EmbedderIdentity:
        return EmbedderIdentity(name="close", dimension=64)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        numbers = np.array([int(text.rpartition(" ")[2]) for text in texts])
        rows = np.ones((len(texts), 64), np.float32)
        rows += 0.1 * np.sin(numbers[:, None] * np.arange(1, 65)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows


async def test_a_search_over_bytes_finds_what_one_over_floats_finds() -> None:
    """Large blocks are searched as floats once, and then as bytes."""
    with mock.patch.multiple(vector_slots, _CODED=256, _LEAST_ROOM=256):
        async with (
            Memory("memory:", embedder=CloseEmbedder()) as memory,
            Memory("memory:", embedder=CloseEmbedder()) as floats,
        ):
            for each in (memory, floats):
                await each.save(MultipleFacts(STATEMENT, [f"number {number}" for number in range(600)]))
            await memory.recall("0", lexical=False)
            for query in range(10):
                with mock.patch.object(vector_slots, "_CODED", 10_000):
                    wanted = await floats.recall(f"{query}", lexical=False, limit=20)
                found = await memory.recall(f"{query}", lexical=False, limit=20)
                assert [match.record.value for match in found] == [match.record.value for match in wanted]
