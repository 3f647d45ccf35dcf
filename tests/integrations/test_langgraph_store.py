"""`FactMemStore` compared with LangGraph's own in-memory store: the promises of both, tested on both."""

from __future__ import annotations

import asyncio
import contextvars
import datetime as dt
import importlib
import itertools
import json
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
    TTLConfig,
)
from langgraph.store.memory import InMemoryStore

from factmem import AgentMemory, AgentMemoryConfig, BlockingMemory, Concept, InMemoryProvider, Memory, SingleFact
from factmem.details import Origin
from factmem.errors import CapabilityError, InvalidDataError, ProviderClosedError
from factmem.integrations.langgraph import FactMemStore
from factmem.integrations.langgraph.store import NamespaceError
from factmem.records import AssertionState, Recorded
from factmem.testing import FakeClock, HashEmbedder
from tests.narrowing import not_none
from tests.tables import each_case

EMBEDDER = HashEmbedder()


def embedded(texts: Sequence[str]) -> list[list[float]]:
    vectors = contextvars.Context().run(anyio.run, EMBEDDER.embed, list(texts))
    return [list(map(float, vector)) for vector in vectors]


def factmem_store() -> FactMemStore:
    return FactMemStore(lambda: Memory(InMemoryProvider(), embedder=HashEmbedder()))


def langgraph_store() -> InMemoryStore:
    return InMemoryStore(index={"dims": 256, "embed": embedded})


@pytest.fixture(params=["factmem", "langgraph"])
def store(request: pytest.FixtureRequest) -> Iterator[BaseStore]:
    if request.param == "langgraph":
        yield langgraph_store()
        return
    with factmem_store() as made:
        yield made


def keys(found: Sequence[Any]) -> list[str]:
    return sorted(item.key for item in found)


@pytest.mark.parametrize("namespace", [("foo.bar",), ("foo", ""), ("foo", 1)])
def test_operations_of_a_batch_are_checked_as_well(namespace: Any) -> None:
    """LangGraph checks what its methods are given, and leaves the operations of ``batch`` to the store."""
    with factmem_store() as store:
        for op in (
            GetOp(namespace, "k"),
            PutOp(namespace, "k", {"v": 1}),
            PutOp(namespace, "k", None),
            SearchOp(namespace),
            ListNamespacesOp((MatchCondition("prefix", namespace),)),
        ):
            with pytest.raises(NamespaceError) as raised:
                store.batch([PutOp(("valid",), "k", {"v": 1}), op])
            assert isinstance(raised.value, InvalidNamespaceError)
        assert store.list_namespaces() == []
        store.put(("valid",), "k", {"v": 1})
        listed: Any = ["valid"]  # some callers pass lists
        assert keys(store.search(listed)) == ["k"]


ITEMS: list[dict[str, Any]] = [
    {"name": "a", "score": 1, "tags": ["x"], "meta": {"lang": "en", "year": 2020}},
    {"name": "b", "score": 2.5, "tags": ["x", "y"], "meta": {"lang": "de", "year": 2021}},
    {"name": "c", "score": 4, "tags": [], "meta": {"lang": "en", "year": 2022}},
    {"name": "d", "score": 4, "flag": True},
]


@each_case("wanted", "found")
@pytest.mark.parametrize("query", [None, "name"])
def test_filters(store: BaseStore, wanted: dict[str, Any], found: str, query: str | None) -> None:
    for item in ITEMS:
        store.put(("items",), item["name"], item)
    assert keys(store.search(("items",), filter=wanted, query=query)) == list(found)


def test_a_filter_takes_paths_with_dots() -> None:
    """As LangGraph's stores in SQLite and PostgreSQL; a key that has dots itself goes first, as in that of memory."""
    with factmem_store() as store:
        for item in ITEMS:
            store.put(("items",), item["name"], item)
        store.put(("items",), "e", {"meta.lang": "fr", "meta": {"lang": "en"}})
        for wanted, found in (
            ({"meta.lang": "en"}, "ac"),
            ({"meta.year": {"$gte": 2021}}, "bc"),
            ({"meta.lang": "fr"}, "e"),
            ({"meta.lang.deeper": "en"}, ""),
            ({"missing.lang": "en"}, ""),
            ({"name.first": "a"}, ""),
        ):
            assert keys(store.search(("items",), filter=wanted)) == list(found)


def test_single_fields_cannot_be_indexed_and_that_is_said() -> None:
    with factmem_store() as store:
        with pytest.raises(CapabilityError, match="single fields"):
            store.put(("a",), "k", {"v": 1}, index=["v"])
        store.put(("a",), "k", {"v": 1}, index=["$"])
        assert store.search(("a",), query="v")[0].score is not None


def test_an_unknown_operator_is_refused(store: BaseStore) -> None:
    store.put(("a",), "k", {"v": 1})
    with pytest.raises(ValueError, match=r"\$regex"):
        store.search(("a",), filter={"v": {"$regex": "1"}})


def test_pages_hold_everything_once(store: BaseStore) -> None:
    for number in range(7):
        store.put(("a", str(number % 2)), f"k{number}", {"v": number, "even": number % 2 == 0})
    for wanted, expected in ((None, 7), ({"even": True}, 4)):
        pages = [store.search(("a",), filter=wanted, limit=3, offset=offset) for offset in (0, 3, 6, 9)]
        seen = list(itertools.chain.from_iterable(keys(page) for page in pages))
        assert len(seen) == len(set(seen)) == expected
        assert all(len(page) <= 3 for page in pages)
    assert store.search(("a",), limit=0) == []


def test_a_query_finds_the_nearest_first_with_its_score(store: BaseStore) -> None:
    for key, text in (("sea", "ships sail the sea"), ("tea", "green tea with milk"), ("ski", "snow and skiing")):
        store.put(("docs",), key, {"text": text})
    found = store.search(("docs",), query="green tea with milk", limit=2)
    assert found[0].key == "tea"
    scores = [item.score for item in found]
    assert all(score is not None for score in scores)
    assert scores == sorted(scores, key=lambda score: -(score or 0))
    assert len(found) == 2
    assert [item.key for item in store.search(("docs",), query="green tea with milk", offset=1, limit=5)][:1] != ["tea"]


def test_what_is_not_indexed_comes_last_and_without_a_score(store: BaseStore) -> None:
    store.put(("docs",), "hidden", {"text": "green tea with milk"}, index=False)
    store.put(("docs",), "shown", {"text": "snow"})
    found = store.search(("docs",), query="green tea with milk")
    assert [(item.key, item.score is None) for item in found] == [("shown", False), ("hidden", True)]
    assert store.get(("docs",), "hidden") is not None


NAMESPACES = [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f"), ("x",)]


@each_case("asked")
def test_namespaces_are_listed_alike(asked: dict[str, Any]) -> None:
    theirs = InMemoryStore()
    with factmem_store() as ours:
        for store in (ours, theirs):
            for namespace in NAMESPACES:
                store.put(namespace, "k", {"v": 1})
        assert ours.list_namespaces(**asked) == theirs.list_namespaces(**asked)


def test_a_batch_reads_before_it_writes_and_its_last_put_counts(store: BaseStore) -> None:
    store.put(("a",), "k", {"v": 1})
    got, _, _, searched, listed = store.batch(
        [
            GetOp(("a",), "k"),
            PutOp(("a",), "k", {"v": 2}),
            PutOp(("a",), "k", {"v": 3}),
            SearchOp(("a",)),
            ListNamespacesOp(),
        ]
    )
    assert (got.value, [item.value for item in searched], listed) == ({"v": 1}, [{"v": 1}], [("a",)])  # type: ignore[union-attr]
    item = not_none(store.get(("a",), "k"))
    assert item.value == {"v": 3}


async def test_concurrent_operations_read_the_log_once() -> None:
    """Their cost must not grow with the number of waiting tasks."""
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as memory:
        store = FactMemStore(memory)
        await store.abatch([PutOp(("a",), f"k{number}", {"v": number}) for number in range(40)])
        listings = 0
        whole = Memory.list_records

        async def counted(*args: Any, **filters: Any) -> Any:
            nonlocal listings
            listings += 1
            return await whole(*args, **filters)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Memory, "list_records", counted)
            found = await asyncio.gather(*(store.aget(("a",), f"k{number}") for number in range(40)))
        assert [item.value["v"] for item in found if item is not None] == list(range(40))
        assert listings == 1


async def test_an_error_reaches_only_its_own_caller() -> None:
    async with factmem_store() as store:
        await store.aput(("a",), "first", {"v": 0})
        outcomes = await asyncio.gather(
            store.aput(("a",), "good", {"v": 1}),
            store.aput(("a",), "bad", {"v": object()}),
            store.asearch(("a",), filter={"v": {"$regex": "1"}}),
            store.aput(("a",), "fine", {"v": 2}),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [type(None), InvalidDataError, InvalidDataError, type(None)]
        assert keys(await store.asearch(("a",))) == ["fine", "first", "good"]


async def test_a_cancelled_task_does_not_take_the_others_along() -> None:
    async with factmem_store() as store:
        puts = [asyncio.ensure_future(store.aput(("a",), f"k{number}", {"v": number})) for number in range(5)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        puts[0].cancel()
        outcomes = await asyncio.gather(*puts, return_exceptions=True)
        assert outcomes[1:] == [None] * 4
        assert {"k1", "k2", "k3", "k4"} <= set(keys(await store.asearch(("a",))))


async def test_a_closed_store_refuses_every_caller() -> None:
    store = factmem_store()
    await store.aput(("a",), "k", {"v": 1})
    await store.aclose()
    outcomes = await asyncio.gather(*(store.aget(("a",), "k") for _ in range(3)), return_exceptions=True)
    assert all(isinstance(outcome, ProviderClosedError) for outcome in outcomes)


def test_a_store_serves_several_event_loops() -> None:
    with factmem_store() as store:

        async def put(number: int) -> None:
            await asyncio.gather(*(store.aput(("a",), f"k{number}-{each}", {"v": each}) for each in range(5)))

        threads = [threading.Thread(target=asyncio.run, args=(put(number),)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(store.search(("a",), limit=100)) == 20


NAMES = st.lists(st.sampled_from(["a", "ab", "b", "東京", "%2F", "agent"]), min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "a/b", "", "city"])
VALUES = st.dictionaries(
    st.sampled_from("vw"), st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2), max_size=2
)
WANTED = st.none() | st.dictionaries(st.sampled_from("vw"), st.integers(-3, 3).map(lambda number: {"$ne": number}))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES, KEYS, VALUES),
        st.tuples(st.just("delete"), NAMES, KEYS),
        st.tuples(st.just("get"), NAMES, KEYS),
        st.tuples(st.just("search"), NAMES | st.just(()), WANTED),
    ),
    max_size=12,
)


def done(store: BaseStore, step: tuple[Any, ...]) -> object:
    """Do one step, and return its visible result."""
    match step:
        case ("put", namespace, key, value):
            store.put(namespace, key, value)
        case ("delete", namespace, key):
            store.delete(namespace, key)
        case ("get", namespace, key):
            item = store.get(namespace, key)
            return None if item is None else item.value
        case ("search", namespace, wanted):
            found = store.search(namespace, filter=wanted, limit=100)
            return sorted((item.namespace, item.key, repr(item.value)) for item in found)
    return None


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_whatever_is_done_is_seen_alike(steps: list[tuple[Any, ...]]) -> None:
    theirs = InMemoryStore()
    with factmem_store() as ours:
        for step in [*steps, ("search", (), None)]:
            assert done(ours, step) == done(theirs, step)
        # LangGraph's store lists a namespace even after its last item is deleted.
        assert ours.list_namespaces() == sorted({item.namespace for item in theirs.search((), limit=100)})


# `FactMemStore`: times to live, items as facts, and use by graphs, agents and langmem.

MINUTE = dt.timedelta(minutes=1)


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
        item = not_none(store.get(("a",), "k", refresh_ttl=False))
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
        assert not_none(store.get(("a",), "k")).value == {"v": "third"}


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


def test_a_clock_that_stands_still_loses_nothing() -> None:
    clock = FakeClock()
    with made(clock) as store:
        for number in (1, 2, 1):
            store.put(("a",), "k", {"v": number})
        assert not_none(store.get(("a",), "k")).value == {"v": 1}
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
        item = not_none(store.get(("a",), "k"))
        assert item.created_at - began < MINUTE / 2
        assert item.updated_at - began >= MINUTE


async def test_items_are_facts_with_a_history() -> None:
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as memory, FactMemStore(memory) as store:
        await store.aput(("memories", "alice"), "drink", {"likes": "tea"})
        await store.aput(("memories", "alice"), "drink", {"likes": "coffee"})
        drink = Concept.single("item:drink", "", dict[str, Any])
        assert not_none(await memory.load(drink, scope="/langgraph/memories/alice")).value == {"likes": "coffee"}
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
        assert not_none(await memory.load(city, scope="/agent/planner/a")).value == "Oslo"


async def test_an_agents_memory_shows_items_below_its_scope() -> None:
    config = AgentMemoryConfig(store=InMemoryProvider(), agent_name="planner", users="shared", embedder=HashEmbedder())
    async with AgentMemory(config) as memory:
        async with FactMemStore(memory, root="/agent/planner") as store:
            await store.aput(("notes",), "n", {"content": "The hall holds 120 people."})
        block = await memory.for_run().load()
        assert "The hall holds 120 people." in block.text


async def test_an_open_memory_cannot_be_waited_for() -> None:
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as memory:
        with pytest.raises(CapabilityError, match="address"):
            FactMemStore(memory).get(("a",), "k")


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
