"""Round trips, counted on the wire, and the same recall as from the default store."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from factmem_postgres import PostgresMemoryProvider
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem import Memory, MultipleFacts
from factmem.abc import AgentMemoryProvider
from factmem.facts import STATEMENT
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import FakeClock, HashEmbedder
from factmem.testing.conformance.samples import LANGUAGES, PLANNER, USER, multiple
from factmem.testing.postgres import RoundTrips
from tests.conftest import Promise
from tests.postgres import postgres_address

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
WORDS = ["amber", "car", "trip", "harbor", "doctor", "garden", "roof", "window", "letter", "piano", "bread", "winter"]


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[RoundTrips]:
    with RoundTrips(postgres_address(tmp_path)) as wire:
        yield wire


@pytest.mark.parametrize("values", [1, 1000])
async def test_a_commit_takes_two_round_trips_whatever_its_size(
    wire: RoundTrips, values: int, promise: Promise
) -> None:
    async with PostgresMemoryProvider(wire.address) as provider:
        await provider.save(multiple(LANGUAGES, "Thai"), USER, PLANNER)
        before = wire.count
        await provider.save(multiple(LANGUAGES, *(f"language {n}" for n in range(values)), minutes=1), USER, PLANNER)
        turns = wire.count - before
    assert turns == 2
    promise("round trips of a commit to PostgreSQL", f"{values} values: {turns}")


async def test_a_warm_recall_takes_one_round_trip(wire: RoundTrips, promise: Promise) -> None:
    async with Memory(wire.address, embedder=HashEmbedder()) as memory:
        await memory.save(multiple(LANGUAGES, "Thai", "Ewe", "Lao"), subject=USER, scope=PLANNER)
        found = [match.record.id for match in await memory.recall("Thai")]
        before = wire.count
        again = [match.record.id for match in await memory.recall("Thai")]
        turns = wire.count - before
    assert again == found != []
    assert turns == 1
    promise("round trips of a warm recall from PostgreSQL", f"{turns}")


async def _filled(provider: AgentMemoryProvider) -> list[object]:
    """Return what a memory over a store recalls, with scores."""
    chance, clock = random.Random(7), FakeClock(NOW)
    subject = MemorySubject("user")
    shown: list[object] = []
    async with Memory(provider, embedder=HashEmbedder(64), clock=clock) as memory:
        for number in range(300):
            text = f"{' '.join(chance.choices(WORDS, k=5))} {number}"
            said = MultipleFacts(STATEMENT, (text,), timestamp=NOW - dt.timedelta(hours=number))
            await memory.save(said, subject=subject, scope=MemoryScope.agent(f"{number % 3}"))
        for _ in range(30):
            query = " ".join(chance.sample(WORDS, 3))
            matches = await memory.recall(query, limit=10)
            shown += [(query, it.record.value, it.score, it.parts, it.reasons) for it in matches]
    return shown


async def test_recall_is_the_same_as_from_the_default_store_with_its_scores(tmp_path: Path, promise: Promise) -> None:
    clock = FakeClock(NOW)
    async with SqliteVecMemoryProvider(tmp_path / "facts.db", clock=clock) as provider:
        expected = await _filled(provider)
    async with PostgresMemoryProvider(postgres_address(tmp_path), clock=FakeClock(NOW)) as provider:
        found = await _filled(provider)
    assert found == expected
    promise("recall from PostgreSQL against sqlite-vec", f"{len(found)} results of 30 queries: the same, scores too")
