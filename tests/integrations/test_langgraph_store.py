"""`FactMemStore` compared with LangGraph's own in-memory store: the promises of both, tested on both."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import threading
from collections.abc import Iterator, Sequence
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
)
from langgraph.store.memory import InMemoryStore

from factmem import InMemoryProvider, Memory
from factmem.errors import CapabilityError, InvalidDataError, ProviderClosedError
from factmem.integrations.langgraph import FactMemStore, NamespaceError
from factmem.testing import HashEmbedder

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


@pytest.fixture
def anyio_backend() -> str:
    """LangGraph needs asyncio."""
    return "asyncio"


def keys(found: Sequence[Any]) -> list[str]:
    return sorted(item.key for item in found)


@pytest.mark.parametrize("namespace", [(), ("",), ("a.b",), ("langgraph", "a")])
def test_namespaces_that_langgraph_forbids_are_refused(store: BaseStore, namespace: tuple[str, ...]) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "k", {"v": 1})


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


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"name": "a"}, "a"),
        ({"name": {"$eq": "b"}}, "b"),
        ({"name": {"$ne": "b"}}, "acd"),
        ({"score": {"$gt": 2.5}}, "cd"),
        ({"score": {"$gte": 2.5}}, "bcd"),
        ({"score": {"$lt": 2.5}}, "a"),
        ({"score": {"$lte": 2.5}}, "ab"),
        ({"score": {"$gt": 1, "$lt": 4}}, "b"),
        ({"score": 4, "name": "c"}, "c"),
        ({"meta": {"lang": "en"}}, "ac"),
        ({"meta": {"year": {"$eq": 2021}}}, "b"),
        ({"tags": ["x", "y"]}, "b"),
        ({"flag": True}, "d"),
        ({"flag": {"$ne": True}}, "abc"),
        ({"missing": "x"}, ""),
        ({}, "abcd"),
    ],
)
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


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"prefix": ("a", "b")},
        {"prefix": ("a", "b"), "max_depth": 3},
        {"suffix": ("f",)},
        {"prefix": ("a", "*", "f")},
        {"suffix": ("*", "f")},
        {"prefix": ("a",), "suffix": ("i",)},
        {"max_depth": 1},
        {"limit": 2},
        {"limit": 2, "offset": 3},
        {"prefix": ("nowhere",)},
        {"prefix": ("a", "b", "c", "d", "e", "f")},
    ],
)
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
    item = store.get(("a",), "k")
    assert item is not None
    assert item.value == {"v": 3}


async def test_the_async_methods_do_the_same(store: BaseStore) -> None:
    await store.aput(("a", "b"), "k", {"v": 1})
    item = await store.aget(("a", "b"), "k")
    assert item is not None
    assert item.value == {"v": 1}
    assert keys(await store.asearch(("a",), filter={"v": {"$gte": 1}}, query="v")) == ["k"]
    assert await store.alist_namespaces(prefix=("a",)) == [("a", "b")]
    await store.adelete(("a", "b"), "k")
    assert await store.aget(("a", "b"), "k") is None


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
        assert [type(outcome) for outcome in outcomes] == [
            type(None),
            InvalidDataError,
            InvalidDataError,
            type(None),
        ]
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
