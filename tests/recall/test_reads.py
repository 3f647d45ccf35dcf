"""Reads of the store by a recall or an update, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider
from typing_extensions import override

from factmem import Memory
from factmem.recall.ranking import _candidates
from factmem.records import Recorded
from factmem.testing import HashEmbedder


class Counting(SqliteVecMemoryProvider):
    """A provider that counts the reads of assertions and of the newest number."""

    counts: Counter[str]

    @override
    def newest(self, tenant: str | None) -> int:
        self.counts["newest"] += 1
        return super().newest(tenant)

    @override
    def recorded(self, tenant: str | None, seqs: Sequence[int]) -> tuple[Sequence[Recorded | None], int]:
        self.counts["reads"] += 1
        self.counts["assertions"] += len(seqs)
        return super().recorded(tenant, seqs)


@pytest.fixture
def provider(tmp_path: Path) -> Counting:
    provider = Counting(tmp_path / "facts.db")
    provider.counts = Counter()
    return provider


async def test_a_recall_after_an_own_write_asks_once_and_reads_no_results_in_vain(provider: Counting) -> None:
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        await memory.remember_many([f"amber {number}" for number in range(30)])
        for _ in range(2):
            await memory.recall("amber", limit=3)
        await memory.remember("amber basil cedar")
        provider.counts.clear()
        (found,) = await memory.recall("amber basil cedar", limit=1)
        assert found.record.value == "amber basil cedar"
    assert (provider.counts["newest"], provider.counts["reads"]) == (1, 1)


async def test_an_update_reads_no_records_of_other_values(provider: Counting) -> None:
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        await memory.remember_many([f"amber {number}" for number in range(200)])
        (record,) = await memory.recall("amber 7", limit=1)
        provider.counts.clear()
        await memory.update(record.record.id, value="a new value")
    assert provider.counts["assertions"] <= 5


def test_rows_that_score_alike_and_lie_together_are_not_all_candidates() -> None:
    scores = np.linspace(0.1, 0.2, 10_000, dtype=np.float32)
    scores[300:400] = np.linspace(0.5, 0.6, 100, dtype=np.float32)
    _, rows = _candidates(scores, 10, 1e-6)
    assert rows.tolist() == list(range(390, 400))
