"""Round trips, counted on the wire, and the same recall as from the default store."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from factmem_postgres import PostgresMemoryProvider
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem import AgentMemoryProvider, Conversation, Evidence, FactDetails, Memory, Message, MultipleFacts, SingleFact
from factmem.facts import STATEMENT
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import FakeClock, HashEmbedder
from factmem.testing.conformance.samples import CITY, LANGUAGES, PLANNER, USER, multiple
from tests.conftest import Promise
from tests.postgres import postgres_address
from tests.postgres_server import RoundTrips

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


async def test_a_warm_recall_takes_one_round_trip_whatever_is_asked(wire: RoundTrips, promise: Promise) -> None:
    """One that names an event has to read the records that tell its time before it can rank."""
    chance, turns = random.Random(3), []
    texts = [f"{' '.join(chance.choices(WORDS, k=6))} {number}" for number in range(200)]
    async with Memory(wire.address, embedder=HashEmbedder()) as memory:
        await memory.remember_many(texts)
        for query in ["amber", *(" ".join(chance.sample(WORDS, 3)) for _ in range(30)), "amber"]:
            before = wire.count
            assert await memory.recall(query, limit=5)
            turns.append(wire.count - before)
    assert set(turns[1:]) == {1}
    promise("round trips of a warm recall from PostgreSQL", f"1 each of {len(turns) - 1} questions")


async def test_what_overtakes_a_result_is_read_in_the_same_round_trip(wire: RoundTrips) -> None:
    async with Memory(wire.address, embedder=HashEmbedder(), concepts=[CITY]) as memory:
        for number, (city, text) in enumerate([("Oslo", "I live in Oslo."), ("Lisbon", "I moved to Lisbon.")]):
            at = NOW + dt.timedelta(days=number)
            said = Message(content=text, id=f"m{number}", timestamp=at)
            await memory.remember(Conversation(messages=(said,), id="talk"))
            quote = Evidence(quote=city, message_id=f"m{number}", conversation_id="talk", role="user", position=0)
            await memory.save(SingleFact(CITY, city, timestamp=at), details=FactDetails(evidence=(quote,)))
        outside = MultipleFacts(STATEMENT, tuple(f"Oslo has {number} parks." for number in range(600)))
        await memory.save(outside, subject=USER)  # in no conversation: none of them stands beside another
        await memory.recall("599 parks", limit=1)
        await memory.recall("599 parks", limit=1)
        before = wire.count
        match = next(it for it in await memory.recall("live in Oslo", limit=5) if it.record.value == "I live in Oslo.")
        turns = wire.count - before
    assert match.newer is not None
    assert match.newer.value in ("I moved to Lisbon.", "Lisbon")
    assert turns == 1


async def test_a_recall_sees_what_others_wrote_before_it_began(tmp_path: Path) -> None:
    """Whether the store was quiet before or not, and whether the results are at hand or not."""
    async with (
        Memory(postgres_address(tmp_path), embedder=HashEmbedder()) as writer,
        Memory(postgres_address(tmp_path), embedder=HashEmbedder()) as reader,
    ):
        await writer.remember("The harbor is closed.")
        for number in range(12):
            text = f"The harbor has {number} ships."
            (record,) = (await writer.remember(text)).records
            assert text in [match.record.value for match in await reader.recall("ships in the harbor", limit=50)]
            for _ in range(number % 4):
                await reader.recall(f"a letter {number}")
            await writer.forget(record.id)
            assert text not in [match.record.value for match in await reader.recall("ships in the harbor", limit=50)]
            for _ in range(number % 3):
                await reader.recall("ships in the harbor", limit=50)


async def test_recalls_beside_a_writer_see_what_was_acknowledged_before_they_began(tmp_path: Path) -> None:
    """Recalls of one memory share what their reads say of the store."""
    acknowledged: list[str] = []
    done = anyio.Event()
    async with (
        Memory(postgres_address(tmp_path), embedder=HashEmbedder()) as writer,
        Memory(postgres_address(tmp_path), embedder=HashEmbedder()) as reader,
    ):

        async def read() -> None:
            while not done.is_set():
                before = set(acknowledged)
                found = {match.record.value for match in await reader.recall("ships", limit=100)}
                assert before <= found

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(read)
            for number in range(40):
                text = f"The harbor has {number} ships."
                await writer.remember(text)
                acknowledged.append(text)
                await anyio.sleep(0.02 * (number % 3))  # so that some recalls find nothing new
            done.set()


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
