"""A limit on what a process holds of its tenants changes no answer: what was dropped is read again."""

from __future__ import annotations

import datetime as dt
import gc
import subprocess
import sys
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factmem import STATEMENT, AgentMemoryProvider, BlockingMemory, InMemoryProvider, Memory, MultipleFacts
from factmem.recall import RecallFilter
from factmem.recall.index import outline_codec
from factmem.recall.index.mirror_cache import MIRRORS
from factmem.recall.index.selection import selected
from factmem.testing import FakeClock, HashEmbedder
from tests.forgetting.test_mirrors import held

pytestmark = pytest.mark.slow

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TENANTS = ("acme", "bolt", "crow")
THINGS = ("plum", "pear", "fig", "kiwi")


def of(provider: AgentMemoryProvider, tenant: str, limit: int | None = 0) -> Memory:
    return Memory(
        provider, organization=tenant, viewer="alice", embedder=HashEmbedder(), clock=FakeClock(NOW), mirror_limit=limit
    )


def holds(memory: Memory) -> bool:
    return memory._backend.mirror._log.newest > 0


async def tell(memory: Memory) -> None:
    tenant = memory._context.tenant
    for thing in THINGS:
        await memory.remember(f"{tenant} sells the {thing}", scope=f"/product/{thing}")
    await memory.remember(f"{tenant} hides the plum", private=True)


async def answers(memory: Memory) -> list[object]:
    """Return what several ways of reading tell."""
    return [
        [(match.record, match.score, match.parts) for match in await memory.recall("Who sells the plum?", limit=3)],
        [(match.record, match.score) for match in await memory.view(viewer=None).recall("plum")],
        [match.score for match in await memory.scope("/product/fig").view(reviewed=True).recall("fig")],
        await memory.list_records(),
        await memory.admin.info(),
    ]


async def test_every_answer_is_the_same_if_each_read_drops_the_other_tenants(provider: AgentMemoryProvider) -> None:
    free = [of(provider, tenant, None) for tenant in TENANTS]
    for memory in free:
        await tell(memory)
    expected = [await answers(memory) for memory in free]
    bounded = [of(provider, tenant) for tenant in TENANTS]
    for _ in range(2):
        for memory, known in zip(bounded, expected, strict=True):
            assert await answers(memory) == known
            assert [holds(other) for other in bounded] == [other is memory for other in bounded]


steps = st.lists(
    st.tuples(
        st.sampled_from(TENANTS),
        st.sampled_from(["say", "say", "forget", "retract", "recall", "list", "embed"]),
        st.sampled_from(THINGS),
        st.sampled_from([0, 20_000, 1_000_000]),
    ),
    min_size=1,
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_tenants_in_any_order_under_any_limit_answer_as_without_one(
    happened: Sequence[tuple[str, str, str, int]],
) -> None:
    async def check() -> None:
        provider = InMemoryProvider()
        free = {tenant: of(provider, tenant, None) for tenant in TENANTS}
        bounded = {(tenant, limit): of(provider, tenant, limit) for tenant, _, _, limit in happened}
        for tenant, kind, thing, limit in happened:
            memory = bounded[tenant, limit]
            records = await memory.list_records()
            match kind:
                case "say":
                    await memory.save(MultipleFacts(STATEMENT, (f"{tenant} has a {thing}",), timestamp=NOW))
                case "forget" if records:
                    await memory.forget(records[0].id)
                case "retract" if records:
                    await memory.retract(records[-1].id)
                case "embed":
                    await memory.admin.reembed()
            found = [(match.record, match.score, match.parts) for match in await memory.recall(thing)]
            again = [(match.record, match.score, match.parts) for match in await free[tenant].recall(thing)]
            assert found == again
            assert await memory.list_records() == await free[tenant].list_records()

    anyio.run(check)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_event_loops_drop_each_others_mirrors(tmp_path: Path, anyio_backend: str) -> None:
    """Each blocking memory has an event loop of its own, in a thread of its own."""
    path = tmp_path / "facts.db"
    async with SqliteVecMemoryProvider(path) as provider:
        for tenant in TENANTS:
            await tell(of(provider, tenant))

    def read(tenant: str) -> set[tuple[object, ...]]:
        embedder = HashEmbedder()
        with BlockingMemory(
            Memory(f"sqlite-vec:{path}", organization=tenant, embedder=embedder, mirror_limit=0)
        ) as memory:
            return {tuple(match.record.value for match in memory.recall("sells")) for _ in range(30)}

    with ThreadPoolExecutor(len(TENANTS)) as threads:
        found = await anyio.to_thread.run_sync(lambda: list(threads.map(read, TENANTS)))
    for tenant, (values, *others) in zip(TENANTS, map(list, found), strict=True):
        assert not others
        assert {f"{tenant} sells the {thing}" for thing in THINGS} <= set(values)


async def test_a_reader_keeps_what_it_reads(provider: AgentMemoryProvider) -> None:
    memory, other = of(provider, "acme"), of(provider, "bolt")
    await tell(memory)
    corpus = await memory._backend.mirror.corpus()
    before = corpus.currents(selected(corpus, memory._context.sight, RecallFilter()))
    await other.recall("plum")
    assert not holds(memory)
    assert corpus.currents(selected(corpus, memory._context.sight, RecallFilter())) == before != []


async def test_erased_words_do_not_come_back(provider: AgentMemoryProvider) -> None:
    """Another memory of the tenant forgets while nothing is held here; looking once a minute reads nothing."""
    memory, other, eraser = of(provider, "acme"), of(provider, "bolt"), of(provider, "acme", None)
    (record,) = await memory.save(MultipleFacts(STATEMENT, ("the zyxplum is ripe",), timestamp=NOW))
    await memory.recall("zyxplum")
    assert held(memory._backend.mirror._log, ["zyxplum"])
    await other.recall("plum")
    assert held([memory._backend.mirror._log, outline_codec._number, outline_codec._written_head], ["zyxplum"]) == []
    await eraser.forget(record.id)
    await memory._backend.mirror.let_go()
    assert not holds(memory)
    assert await memory.recall("ripe") == []
    assert held([memory, outline_codec._number], ["zyxplum"]) == []


async def test_a_closed_memory_holds_nothing(provider: AgentMemoryProvider) -> None:
    before = MIRRORS.size
    async with of(provider, "acme", None) as memory:
        await tell(memory)
        await answers(memory)
        assert MIRRORS.size > before
        expected = await answers(memory)
    assert not holds(memory)
    assert MIRRORS.size <= before
    async with memory:
        assert await answers(memory) == expected


async def test_what_is_dropped_is_freed_at_once(provider: AgentMemoryProvider) -> None:
    """Nothing refers to itself, so that the memory does not wait for the garbage collector."""
    memory, other = of(provider, "acme"), of(provider, "bolt")
    await tell(memory)
    await answers(memory)
    columns = weakref.ref(memory._backend.mirror._log._columns)
    gc.disable()
    try:
        await other.recall("plum")
        assert columns() is None
    finally:
        gc.enable()


SCRIPT = """
import sys, tracemalloc
from pathlib import Path
import anyio
from factmem import STATEMENT, Memory, MultipleFacts
from factmem.recall.index.mirror_cache import MIRRORS
from factmem.testing import HashEmbedder
from factmem_sqlite_vec import SqliteVecMemoryProvider

async def main(path, tenants, limit):
    async with SqliteVecMemoryProvider(path) as provider:
        def of(tenant):
            return Memory(provider, organization=str(tenant), embedder=HashEmbedder(512), mirror_limit=limit)
        most, memories = 0, []
        for tenant in range(tenants):
            await of(tenant).save(MultipleFacts(STATEMENT, tuple(f"item {number} of {tenant}" for number in range(40))))
        await of(0).recall("item 7")
        tracemalloc.start()
        for tenant in range(tenants):
            memories.append(of(tenant))
            (match,) = await memories[-1].recall(f"item 7 of {tenant}", limit=1)
            assert match.record.value == f"item 7 of {tenant}"
            most = max(most, MIRRORS.size)
        print(most, memories[-1]._backend.mirror.nbytes, tracemalloc.get_traced_memory()[0])

anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
"""


def opened_in_turn(path: Path, tenants: int, limit: int) -> tuple[int, int, int]:
    """Open many tenants in a process of their own.

    Returns:
        The largest sum of sizes, the size of one mirror, and the bytes that Python and numpy have allocated since.
    """
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), str(tenants), str(limit)], capture_output=True, text=True, check=True
    )
    most, one, allocated = map(int, ran.stdout.split())
    return most, one, allocated


@pytest.mark.slow
def test_memory_stays_below_the_limit_however_many_tenants_are_opened(tmp_path: Path, big: bool) -> None:
    tenants, limit = (10_000, 20_000_000) if big else (30, 300_000)
    most, one, allocated = opened_in_turn(tmp_path / "bounded.db", tenants, limit)
    assert tenants * one > 4 * limit
    assert most <= limit
    assert allocated < 1.5 * limit + 40_000 * tenants  # open memories take memory besides their mirrors


@pytest.mark.slow
def test_the_size_of_mirrors_is_the_memory_that_they_take(tmp_path: Path) -> None:
    most, _, allocated = opened_in_turn(tmp_path / "free.db", 25, 10**12)
    assert 0.6 < most / allocated < 1.4
