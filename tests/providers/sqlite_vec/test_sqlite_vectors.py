"""Vectors: accepted and refused input, and output equal to the reference."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.abc.capabilities import Append, EmbedderIdentity
from factmem.errors import CapabilityError, EmbedderMismatchError
from factmem.testing.conformance.samples import LANGUAGES, PLANNER, said

DIMENSION = 8
ONE = EmbedderIdentity(name="one", dimension=DIMENSION)
TWO = EmbedderIdentity(name="two", dimension=DIMENSION)
GOOD = np.arange(1, DIMENSION + 1, dtype=np.float32)


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[SqliteVecMemoryProvider]:
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as opened:
        await opened.use_embedder(ONE)
        yield opened


async def test_more_dimensions_than_sqlite_vec_takes_are_refused(tmp_path: Path) -> None:
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        with pytest.raises(CapabilityError, match="8192"):
            await provider.use_embedder(EmbedderIdentity(name="huge", dimension=8193))


async def test_vectors_of_a_process_that_missed_a_new_embedder_are_refused(tmp_path: Path) -> None:
    """Vectors of two embedders never mix, even if their dimensions are the same."""
    async with (
        SqliteVecMemoryProvider(tmp_path / "facts.db") as late,
        SqliteVecMemoryProvider(tmp_path / "facts.db") as early,
    ):
        await late.use_embedder(ONE)
        await early.use_embedder(TWO, replace=True)
        with pytest.raises(EmbedderMismatchError):
            await late.append([Append(assertion=said(LANGUAGES, "Latein"), vector=GOOD)])
        assert await late.version(None) == 0


async def test_products_are_inner_products_with_the_vectors_of_one_tenant(provider: SqliteVecMemoryProvider) -> None:
    rows = np.random.default_rng(7).standard_normal((40, DIMENSION)).astype(np.float32)
    await provider.append(
        [
            Append(
                assertion=said(LANGUAGES, f"language {number}", scope=PLANNER.within([None, "acme"][number % 3 == 0])),
                vector=row,
            )
            for number, row in enumerate(rows)
        ]
    )
    apart = np.arange(len(rows)) % 3 == 0
    everything = rows / np.linalg.norm(rows, axis=1)[:, None]
    for tenant, units in ((None, everything[~apart]), ("acme", everything[apart]), ("nobody", everything[:0])):
        seqs, _ = await provider.vectors(tenant)
        assert provider.vector_numbers(tenant).tolist() == list(seqs)
        for query in rows[:5] * 3:
            numbers, dots = provider.products(tenant, query)
            assert sorted(numbers.tolist()) == list(seqs)
            np.testing.assert_allclose(dots, units[numbers - 1] @ query, atol=1e-5)
        found = provider.vectors_of(tenant, np.array([3, 1, 99]), DIMENSION)
        expected = [units[seq - 1] if seq in seqs else np.zeros(DIMENSION) for seq in (3, 1, 99)]
        np.testing.assert_allclose(found, expected, atol=1e-6)


async def test_many_vectors_are_read_whole(provider: SqliteVecMemoryProvider, big: bool) -> None:
    """There are more than a chunk of sqlite-vec holds, and some were erased."""
    count = 100_000 if big else 700
    rows = np.random.default_rng(3).standard_normal((count, DIMENSION)).astype(np.float32)
    receipts = await provider.append(
        [Append(assertion=said(LANGUAGES, f"language {number}"), vector=row) for number, row in enumerate(rows)]
    )
    gone = {300, 301, count}
    await provider.erase([receipts[seq - 1].recorded.record_id for seq in gone], tenant=None)
    seqs, matrix = await provider.vectors(None)
    kept = [seq for seq in range(1, count + 1) if seq not in gone]
    assert list(seqs) == kept
    expected = rows[[seq - 1 for seq in kept]]
    expected /= np.linalg.norm(expected, axis=1)[:, None]
    np.testing.assert_allclose(matrix, expected, rtol=1e-5, atol=1e-6)
