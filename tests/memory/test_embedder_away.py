"""An embedder that is unavailable, hangs or returns: nothing is lost, and calls that need no vector are unaffected."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem import AgentMemoryProvider, Concept, InMemoryProvider, Memory, RecallMatch, RecallSettings, SingleFact
from factmem.abc import OperationCompleted, OperationEvent, OperationFailed
from factmem.abc.capabilities import EmbedderIdentity
from factmem.abc.observer import Operation
from factmem.errors import EmbedderError, InvalidDataError
from factmem.recall import CallableEmbedder
from factmem.testing import FakeClock, HashEmbedder
from tests.memory.shelves import Shelf, two_of
from tests.stores import STORES

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CITY = Concept.single("city", "Where the user lives")
SEATS = Concept.single("seats", "How many people fit in", int)
OLD = ("Ana sails to Bergen.", "Ben eats no nuts.", "The roof was mended.")
NEW = ("Cy plays the cello.", "The cellar floods in March.")
QUERIES = ("Who plays the cello?", "sailing to Bergen", "zebra", "Where does the user live?")


class Away(HashEmbedder):
    """An embedder whose model is available, unavailable, or hangs."""

    def __init__(self, *, away: bool = False, hangs: bool = False, without_a_name: bool = False) -> None:
        super().__init__()
        self.away, self.hangs, self.without_a_name = away, hangs, without_a_name
        self.asked = 0

    async def identity(self) -> EmbedderIdentity:
        if self.without_a_name:
            await self._fail()
        return await super().identity()

    async def embed(self, texts: Sequence[str]) -> Any:
        await self._fail()
        return await super().embed(texts)

    async def _fail(self) -> None:
        self.asked += 1
        if self.hangs:
            await anyio.sleep_forever()
        if self.away:
            raise OSError("no route to host")


@pytest.fixture(params=two_of(STORES))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AgentMemoryProvider]:
    """Every store that keeps history, two of them by default."""
    async with STORES[request.param](tmp_path, FakeClock(NOW)) as opened:
        yield opened


def opened(store: AgentMemoryProvider, embedder: Away, **settings: Any) -> Memory:
    settings = {"embedder_timeout": 0.05} | settings if embedder.hangs else settings
    return Memory(store, embedder=embedder, clock=FakeClock(NOW), **settings)


async def remember_all(memory: Memory, texts: Sequence[str]) -> None:
    for number, text in enumerate(texts):
        await memory.remember(text, scope=f"/product/{number}")


def seen(matches: Sequence[RecallMatch]) -> list[tuple[object, ...]]:
    return [(match.record.value, match.score, match.parts, match.reasons) for match in matches]


FAULTS: dict[str, dict[str, bool]] = {
    "away": {"away": True},
    "hanging": {"hangs": True},
    "away without a name": {"away": True, "without_a_name": True},
    "hanging without a name": {"hangs": True, "without_a_name": True},
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_what_is_saved_meanwhile_is_durable_and_equals_what_a_store_has_that_never_lost_the_embedder(
    store: AgentMemoryProvider, fault: dict[str, bool]
) -> None:
    """Old and new facts are read without the embedder, recalled by words, and by both once it is back."""
    whole = InMemoryProvider(clock=FakeClock(NOW))
    for provider, broken in ((store, Away(**fault)), (whole, Away())):
        async with opened(provider, Away()) as memory:
            await remember_all(memory, OLD)
            await memory.save(SingleFact(CITY, "Oslo", timestamp=NOW))
        async with opened(provider, broken) as memory:
            await remember_all(memory, NEW)
            await memory.save(SingleFact(SEATS, 120, timestamp=NOW))
            broken.asked = 0
            assert await memory.load(CITY) == SingleFact(CITY, "Oslo", timestamp=NOW)
            assert await memory.load(SEATS) == SingleFact(SEATS, 120, timestamp=NOW)
            records = await memory.list_records()
            assert {record.value for record in records} == {*OLD, *NEW, "Oslo", 120}
            assert (await memory.get(records[0].id), (await memory.admin.info()).records) == (records[0], 7)
            assert await memory.view(as_of=NOW).load(CITY) is not None
            (found, *_) = by_words = await memory.recall("cello", semantic=False)
            assert (found.record.value, by_words.failure) == (NEW[0], None)
            assert broken.asked == 0, "calls that need no vector request none"
    async with opened(store, Away(**fault)) as memory, opened(whole, Away()) as other:
        for query in QUERIES[:2]:
            alone = await memory.recall(query)
            assert alone.failure is not None
            assert seen(alone) == seen(await other.recall(query, semantic=False))
    async with opened(store, Away()) as memory, opened(whole, Away()) as other:
        for query in QUERIES:
            again = await memory.recall(query)
            assert again.failure is None
            assert seen(again) == seen(await other.recall(query))


async def test_one_memory_goes_on_when_its_embedder_comes_back(store: AgentMemoryProvider) -> None:
    """This includes records indexed before they were embedded, for the present and for another moment."""
    embedder = Away()
    whole = InMemoryProvider(clock=FakeClock(NOW))
    async with opened(store, embedder) as memory, opened(whole, Away()) as other:
        await remember_all(memory, OLD)
        await memory.recall(QUERIES[0])
        embedder.away = True
        await remember_all(memory, NEW)
        assert len(await memory.list_records()) == 5
        assert (await memory.recall(QUERIES[0])).failure is not None
        embedder.away = False
        await remember_all(other, OLD)
        await remember_all(other, NEW)
        for query in QUERIES:
            assert seen(await memory.recall(query)) == seen(await other.recall(query))
            assert seen(await memory.view(as_of=NOW).recall(query)) == seen(await other.view(as_of=NOW).recall(query))
    async with opened(store, Away()) as memory:
        await memory.list_records()
        embedder = Away()
        again = opened(store, embedder)
        await again.recall(QUERIES[0])
        assert embedder.asked == 1, "the store kept the vectors, so only the query is embedded"


async def test_a_process_goes_on_by_words_when_another_embeds_the_store_again(store: AgentMemoryProvider) -> None:
    """Its saves are embedded by the one with the right embedder, and it is itself right again afterwards."""
    async with opened(store, Away()) as former, Memory(store, embedder=HashEmbedder(32)) as latter:
        await remember_all(former, OLD)
        await former.recall(QUERIES[0])
        await latter.admin.reembed()
        await remember_all(former, NEW)
        alone = await former.recall(QUERIES[0])
        assert alone.failure is not None
        assert alone[0].record.value == NEW[0]
        again = await latter.recall(QUERIES[0])
        assert again.failure is None
        assert all(match.parts.cosine for match in again if match.record.value == NEW[0])
        await former.admin.reembed()
        assert (await former.recall(QUERIES[0])).failure is None


async def test_what_was_embedded_while_another_process_embedded_the_store_again_is_kept(tmp_path: Path) -> None:
    address = f"sqlite-vec:{tmp_path / 'facts.db'}"

    async def meanwhile(texts: Sequence[str]) -> Any:
        if NEW[0] in texts:
            async with Memory(address, embedder=HashEmbedder(32)) as other:
                await other.admin.reembed()
        return await HashEmbedder(8).embed(texts)

    async with Memory(address, embedder=CallableEmbedder(meanwhile, name="former", dimension=8)) as memory:
        await memory.remember(OLD[0])
        await memory.remember(NEW[0])
        assert {record.value for record in await memory.list_records()} == {OLD[0], NEW[0]}
    async with Memory(address, embedder=HashEmbedder(32)) as memory:
        assert (await memory.recall(NEW[0]))[0].parts.cosine == pytest.approx(1)


async def test_recall_by_words_says_so_in_its_result_its_log_and_to_observers(caplog: pytest.LogCaptureFixture) -> None:
    events: list[OperationEvent] = []
    embedder = Away()
    async with opened(InMemoryProvider(), embedder, observers=[events.append]) as memory:
        await remember_all(memory, OLD)
        embedder.away = True
        caplog.clear()
        events.clear()
        with caplog.at_level(logging.WARNING, "factmem"):
            found = await memory.recall("sailing to Bergen")
        logged = [record.getMessage() for record in caplog.records]
        nothing = await memory.recall("sailing", scope="/product/none", history=True)
        assert (nothing, nothing.failure) == ([], found.failure)
    assert found.failure is not None
    assert "words alone" in found.failure
    assert "OSError" in found.failure
    assert logged == [found.failure]
    assert "Bergen" not in caplog.text
    assert {match.parts.semantic for match in found} == {match.parts.cosine for match in found} == {0.0}
    ended = [event for event in events if isinstance(event, OperationCompleted | OperationFailed)][:2]
    assert [(event.operation, type(event)) for event in ended] == [
        (Operation.EMBED, OperationFailed),
        (Operation.RECALL, OperationCompleted),
    ]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_what_goes_by_meaning_alone_raises(fault: dict[str, bool]) -> None:
    provider = InMemoryProvider()
    async with opened(provider, Away()) as memory:
        await remember_all(memory, OLD)
        before = await memory.recall(QUERIES[0])
    async with opened(provider, Away(**fault)) as memory:
        with pytest.raises(EmbedderError):
            await memory.recall("sailing", lexical=False)
        with pytest.raises(EmbedderError):
            await memory.recall("sailing", settings=RecallSettings(lexical_weight=0.0))
        with pytest.raises(EmbedderError):
            await memory.admin.reembed()
    async with opened(provider, Away()) as memory:
        assert seen(await memory.recall(QUERIES[0])) == seen(before), "a failed reembed loses no vector"


async def test_a_read_that_needs_no_vector_does_not_wait_for_one_that_does() -> None:
    """This holds however long the embedder takes over records without a vector."""
    provider, begun, going_on = InMemoryProvider(), anyio.Event(), anyio.Event()

    class Slow(HashEmbedder):
        async def embed(self, texts: Sequence[str]) -> Any:
            if any(OLD[0] in text for text in texts):
                begun.set()
                await going_on.wait()
            return await super().embed(texts)

    async with opened(provider, Away(away=True)) as memory:
        await remember_all(memory, OLD)
    async with Memory(provider, embedder=Slow(), embedder_timeout=None) as memory, anyio.create_task_group() as tasks:
        tasks.start_soon(memory.recall, QUERIES[0])
        await begun.wait()
        assert len(await memory.list_records()) == 3
        (match, *_) = await memory.recall("Bergen", semantic=False)
        assert match.record.value == OLD[0]
        await memory.forget(match.record.id)  # records forgotten meanwhile are not missed
        await memory.remember("A word in between.")
        going_on.set()
    assert {record.value for record in await memory.list_records()} == {*OLD[1:], "A word in between."}


async def test_a_function_that_hangs_is_given_up() -> None:
    done = threading.Event()

    def hang(texts: list[str]) -> Any:
        done.wait(30)

    embedder = CallableEmbedder(hang, name="hanging", dimension=4)
    try:
        async with Memory(InMemoryProvider(), embedder=embedder, embedder_timeout=0.05) as memory:
            await memory.remember(OLD[0])
            assert (await memory.recall("Bergen"))[0].record.value == OLD[0]
    finally:
        done.set()


async def test_a_store_with_the_four_verbs_is_read_without_the_embedder_as_well() -> None:
    embedder = Away(away=True)
    async with opened(Shelf(), embedder) as memory:
        await memory.save(SingleFact(CITY, "Oslo", timestamp=NOW))
        assert await memory.load(CITY) is not None
        assert embedder.asked == 0
        (match,) = found = await memory.recall("city")
        assert (match.record.value, found.failure is None) == ("Oslo", False)
        embedder.away = False
        (match,) = await memory.recall("Oslo")
        assert match.parts.cosine > 0


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), "soon"])
def test_a_time_limit_is_above_zero(timeout: Any) -> None:
    with pytest.raises(InvalidDataError, match="embedder_timeout"):
        Memory("memory:", embedder_timeout=timeout)


@pytest.mark.slow
async def test_the_answer_of_mcp_carries_a_note() -> None:
    mcp = pytest.importorskip("mcp")
    from factmem.mcp import make_server

    embedder = Away(away=True)
    async with (
        Memory(InMemoryProvider(), embedder=embedder) as memory,
        mcp.Client(make_server(memory, scopes=["/product/alpha"], trust=True)) as client,
    ):
        saved = await client.call_tool("save_fact", {"keyword": "home_city", "value": "Oslo"})
        assert not saved.is_error, saved
        answer = (await client.call_tool("recall", {"query": "home city"})).structured_content
        assert answer["matches"][0]["fact"]["value"] == "Oslo"
        assert "words alone" in answer["note"]
        embedder.away = False
        assert (await client.call_tool("recall", {"query": "home city"})).structured_content["note"] is None
