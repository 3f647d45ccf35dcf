"""`FactMemStore`: times to live, items as facts, and use by graphs, agents and langmem."""

from __future__ import annotations

import datetime as dt
import importlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import TTLConfig

from factmem import BlockingMemory, Concept, InMemoryProvider, Memory, SingleFact
from factmem.agent import AgentMemory, AgentMemoryConfig
from factmem.errors import CapabilityError, InvalidDataError, InvalidNameError
from factmem.integrations.langgraph import FactMemStore
from factmem.records import AssertionState, Origin, Recorded
from factmem.testing import FakeClock, HashEmbedder
from tests.integrations.chat_model import calling, model

MINUTE = dt.timedelta(minutes=1)


@pytest.fixture
def anyio_backend() -> str:
    """LangGraph needs asyncio."""
    return "asyncio"


@pytest.fixture(scope="module")
def langmem() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its own dependencies emit this warning
        return importlib.import_module("langmem")


def made(clock: FakeClock | None = None, provider: InMemoryProvider | None = None, **options: Any) -> FactMemStore:
    given = provider or InMemoryProvider()
    if clock is None:
        return FactMemStore(lambda: Memory(given, embedder=HashEmbedder()), **options)
    return FactMemStore(lambda: Memory(given, embedder=HashEmbedder(), clock=clock), clock=clock, **options)


def test_a_query_applies_the_minimum_score() -> None:
    with made(min_score=0.3) as store:
        store.put(("a",), "drink", {"likes": "green tea"})
        store.put(("a",), "visit", {"on": "Friday"})
        store.put(("a",), "apart", {"likes": "green tea"}, index=False)
        assert [item.key for item in store.search(("a",), query="green tea")] == ["drink"]
        assert store.search(("a",), query="zxqv blorp") == []
        assert store.search(("a",), query="green tea", filter={"on": "Friday"}) == []
        for nothing_asked in (None, " "):
            assert len(store.search(("a",), query=nothing_asked)) == 3
    with made() as store:
        store.put(("a",), "visit", {"on": "Friday"})
        assert len(store.search(("a",), query="zxqv blorp")) == 1
    with pytest.raises(InvalidDataError, match="min_score"):
        made(min_score=-1)


def test_an_item_lives_for_its_minutes_and_not_longer() -> None:
    clock = FakeClock()
    with made(clock) as store:
        store.put(("a",), "k", {"v": 1}, ttl=10)
        store.put(("a",), "stays", {"v": 2})
        clock.advance(9 * MINUTE)
        assert store.get(("a",), "k", refresh_ttl=False) is not None
        clock.advance(2 * MINUTE)
        assert store.get(("a",), "k") is None
        assert [item.key for item in store.search(("a",))] == ["stays"]
        assert store.list_namespaces() == [("a",)]


@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.get(("a",), "k"),
        lambda store: store.search(("a",)),
        lambda store: store.search(("a",), query="v", filter={"v": 1}),
    ],
)
def test_reading_starts_the_time_anew(read: Callable[[FactMemStore], object]) -> None:
    clock = FakeClock()
    with made(clock) as store:
        store.put(("a",), "k", {"v": 1}, ttl=10)
        for _ in range(5):
            clock.advance(9 * MINUTE)
            assert read(store)
        item = store.get(("a",), "k", refresh_ttl=False)
        assert item is not None
        assert item.updated_at < clock() - 40 * MINUTE, "a read is no update"
        clock.advance(11 * MINUTE)
        assert not read(store)


def test_reading_often_makes_few_revisions() -> None:
    """Each new expiry is a revision, and a loop that polls must not fill the store with them."""
    clock, provider = FakeClock(), InMemoryProvider()
    with made(clock, provider) as store:
        store.put(("a",), "k", {"v": 1}, ttl=100)
        for _ in range(100):
            clock.advance(dt.timedelta(seconds=6))
            assert store.get(("a",), "k") is not None
    with BlockingMemory(Memory(provider, embedder=HashEmbedder(), clock=clock)) as memory:
        assert len(memory.history("item:k")) <= 4


def test_the_time_of_an_item_may_not_be_started_anew_by_default() -> None:
    clock = FakeClock()
    with made(clock, ttl=TTLConfig(default_ttl=10, refresh_on_read=False)) as store:
        store.put(("a",), "k", {"v": 1})
        clock.advance(9 * MINUTE)
        assert store.get(("a",), "k") is not None
        clock.advance(2 * MINUTE)
        assert store.get(("a",), "k") is None


def test_what_an_item_was_before_does_not_come_back_when_it_expires() -> None:
    clock = FakeClock()
    with made(clock) as store:
        store.put(("a",), "k", {"v": "old"})
        clock.advance(MINUTE)
        store.put(("a",), "k", {"v": "new"}, ttl=10)
        clock.advance(11 * MINUTE)
        assert store.get(("a",), "k") is None
        store.put(("a",), "k", {"v": "third"})
        clock.advance(dt.timedelta(days=999))
        item = store.get(("a",), "k")
        assert item is not None
        assert item.value == {"v": "third"}


def assertions(provider: InMemoryProvider) -> int:
    return sum(isinstance(entry, Recorded) for entry in provider._logs[None])


async def test_expired_items_are_swept_on_request() -> None:
    clock, provider = FakeClock(), InMemoryProvider()
    with made(clock, provider) as store:
        store.put(("a",), "k", {"v": 1}, ttl=10)
        store.put(("a",), "stays", {"v": 2})
        assert store.sweep_ttl() == 0
        clock.advance(11 * MINUTE)
        assert store.get(("a",), "k") is None
        assert assertions(provider) == 2
        assert await store.asweep_ttl() == 1
        assert assertions(provider) == 1
        assert store.sweep_ttl() == 0
        assert [item.key for item in store.search(("a",))] == ["stays"]


def test_putting_without_a_time_ends_the_time_that_there_was() -> None:
    clock = FakeClock()
    with made(clock) as store:
        store.put(("a",), "k", {"v": 1}, ttl=10)
        store.put(("a",), "k", {"v": 2})
        clock.advance(60 * MINUTE)
        assert store.get(("a",), "k") is not None


def test_a_clock_that_stands_still_loses_nothing() -> None:
    clock = FakeClock()
    with made(clock) as store:
        for number in (1, 2, 1):
            store.put(("a",), "k", {"v": number})
        item = store.get(("a",), "k")
        assert item is not None
        assert item.value == {"v": 1}
        store.delete(("a",), "k")
        store.put(("a",), "k", {"v": 1})
        assert store.get(("a",), "k") is not None


def test_what_is_put_again_keeps_when_it_was_made() -> None:
    clock = FakeClock()
    with made(clock) as store:
        store.put(("a",), "k", {"v": 1})
        began = clock()
        clock.advance(MINUTE)
        store.put(("a",), "k", {"v": 2})
        item = store.get(("a",), "k")
        assert item is not None
        assert item.created_at - began < MINUTE / 2
        assert item.updated_at - began >= MINUTE


async def test_items_are_facts_with_a_history() -> None:
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as memory, FactMemStore(memory) as store:
        await store.aput(("memories", "alice"), "drink", {"likes": "tea"})
        await store.aput(("memories", "alice"), "drink", {"likes": "coffee"})
        drink = Concept.single("item:drink", "", dict[str, Any])
        fact = await memory.load(drink, scope="/langgraph/memories/alice")
        assert fact is not None
        assert fact.value == {"likes": "coffee"}
        (match,) = await memory.recall("coffee", scope="/langgraph")
        assert match.record.details.origin is Origin.ASSISTANT
        await store.adelete(("memories", "alice"), "drink")
        revisions = await memory.history(drink, scope="/langgraph/memories/alice")
        assert [(record.value["likes"], record.state) for record in revisions] == [
            ("tea", AssertionState.RETRACTED),
            ("coffee", AssertionState.RETRACTED),
        ]
        await memory.restore(revisions[0].id)
        assert await store.aget(("memories", "alice"), "drink") is not None


async def test_a_store_that_erases_leaves_nothing() -> None:
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as memory:
        store = FactMemStore(memory, erase=True)
        await store.aput(("a",), "k", {"v": 1})
        await store.aput(("a",), "k", {"v": 2})
        await store.adelete(("a",), "k")
        assert await memory.history("item:k") == []


async def test_other_facts_of_the_memory_are_no_items() -> None:
    """A concept whose keyword equals an item's key does not conflict with it."""
    city = Concept.single("city", "Where somebody lives")
    async with Memory(InMemoryProvider(), concepts=[city], embedder=HashEmbedder()) as memory:
        store = FactMemStore(memory, root="/agent/planner")
        await memory.save(SingleFact(city, "Oslo"), scope="/agent/planner/a")
        assert await store.aget(("a",), "city") is None
        await store.aput(("a",), "city", {"name": "Rome"})
        assert [item.value for item in await store.asearch((), query="city")] == [{"name": "Rome"}]
        assert await store.alist_namespaces() == [("a",)]
        fact = await memory.load(city, scope="/agent/planner/a")
        assert fact is not None
        assert fact.value == "Oslo"


async def test_an_agents_memory_shows_items_below_its_scope() -> None:
    config = AgentMemoryConfig(store=InMemoryProvider(), agent_name="planner", users="shared", embedder=HashEmbedder())
    async with AgentMemory(config) as memory:
        async with FactMemStore(memory, root="/agent/planner") as store:
            await store.aput(("notes",), "n", {"content": "The hall holds 120 people."})
        block = await memory.for_run().load()
        assert "The hall holds 120 people." in block.text


def test_what_cannot_be_stored_is_refused() -> None:
    with made() as store:
        with pytest.raises(InvalidDataError):
            store.put(("a",), "k", {"v": object()})
        with pytest.raises(InvalidNameError):
            store.put(("a\n",), "k", {"v": 1})
        store.put(("a",), "k", {"v": (1, 2)})
        item = store.get(("a",), "k")
        assert item is not None
        assert item.value == {"v": [1, 2]}


async def test_an_open_memory_cannot_be_waited_for() -> None:
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as memory:
        with pytest.raises(CapabilityError, match="address"):
            FactMemStore(memory).get(("a",), "k")


def test_items_are_there_in_the_next_process(tmp_path: Path) -> None:
    address = f"sqlite-vec:{tmp_path / 'facts.db'}"
    with FactMemStore(address) as store:
        store.put(("a",), "k", {"v": 1}, ttl=60)
    with FactMemStore(address) as again:
        assert [(item.key, item.value) for item in again.search(())] == [("k", {"v": 1})]


async def test_langmem_manages_and_searches_its_memories(langmem: Any) -> None:
    async with made() as store:
        namespace = ("memories", "{langgraph_user_id}")
        manage = langmem.create_manage_memory_tool(namespace, store=store)
        search = langmem.create_search_memory_tool(namespace, store=store)
        alice: Any = {"configurable": {"langgraph_user_id": "alice"}}
        bob: Any = {"configurable": {"langgraph_user_id": "bob"}}
        result = await manage.ainvoke({"content": "Alice likes green tea."}, alice)
        await manage.ainvoke({"content": "Alice has a dog."}, alice)
        await manage.ainvoke({"content": "Bob likes green coffee."}, bob)
        found = json.loads(await search.ainvoke({"query": "green tea"}, alice))
        assert [item["value"]["content"] for item in found] == ["Alice likes green tea.", "Alice has a dog."]
        id = result.rpartition(" ")[2]
        await manage.ainvoke({"content": "Alice likes black tea.", "id": id, "action": "update"}, alice)
        (first, *_) = json.loads(await search.ainvoke({"query": "tea", "limit": 1}, alice))
        assert (first["key"], first["value"]["content"]) == (id, "Alice likes black tea.")
        await manage.ainvoke({"id": id, "action": "delete"}, alice)
        assert "tea" not in await search.ainvoke({"query": "tea"}, alice)


def test_langmem_works_without_an_event_loop(langmem: Any) -> None:
    with made() as store:
        langmem.create_manage_memory_tool(("memories",), store=store).invoke({"content": "Alice likes tea."})
        assert "Alice likes tea." in langmem.create_search_memory_tool(("memories",), store=store).invoke(
            {"query": "tea"}
        )


async def test_a_graph_and_an_agent_are_given_the_store() -> None:
    @tool
    async def note(text: str, runtime: ToolRuntime) -> str:
        """Note something."""
        assert runtime.store is not None
        await runtime.store.aput(("notes",), "n", {"text": text})
        return "Noted."

    async def read(state: MessagesState, runtime: Runtime[Any]) -> dict[str, Any]:
        assert runtime.store is not None
        (item,) = await runtime.store.asearch(("notes",), query="what?")
        return {"messages": [HumanMessage(item.value["text"])]}

    async with made() as store:
        agent: Any = create_agent(model(calling("note", text="The hall is booked.")), [note], store=store)
        await agent.ainvoke({"messages": [HumanMessage("Book it.")]})
        builder = StateGraph(MessagesState)
        builder.add_node("read", read)
        builder.add_edge(START, "read")
        graph = builder.compile(store=store)
        result = await graph.ainvoke({"messages": []})
        assert [message.text for message in result["messages"]] == ["The hall is booked."]
