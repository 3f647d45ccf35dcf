"""`kill -9` at any moment: no acknowledged save is lost, none is partial, and every store opens."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import anyio
import pytest

from factmem.scopes import MemoryScope
from tests.conftest import Promise
from tests.forks import in_a_fork
from tests.reliability.stores import NOON, NUMBERS, USER, DurableStore, every_store, numbers_in
from tests.reliability.workers import Workers

KILLS_PER_STORE = 8


def killed(workers: Workers, pid: int, pause: float) -> None:
    """Kill a process after a pause, and read its reports."""
    time.sleep(pause)
    with contextlib.suppress(ProcessLookupError):  # the process had ended before
        os.kill(pid, signal.SIGKILL)
    workers.wait()


@pytest.mark.timeout(3600)
@every_store
def test_no_acknowledged_save_is_lost_to_a_kill(
    store: DurableStore, workers: Workers, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """The kill comes while opening, while saving four facts at once, and again on the store left by a kill."""
    chance = random.Random(9)
    kills, kept, unacknowledged = 0, 0, 0
    for life in range((10_000 if big else KILLS_PER_STORE) // KILLS_PER_STORE):
        path = tmp_path / str(life)
        workers.forget()
        for kill in range(KILLS_PER_STORE):
            (pid,) = workers.start("save", store.address(path), first=kill * 100_000, count=100_000)
            if kill % 3:
                workers.wait_for_first("kept")
            killed(workers, pid, chance.random() * 0.02)
            kills += 1
        found = anyio.run(numbers_in, store, path)
        assert workers.reported("kept")
        assert workers.reported("kept") <= found
        kept += len(workers.reported("kept"))
        unacknowledged += len(found) - len(workers.reported("kept"))
    promise(
        f"kill -9, {store}",
        f"{kills:,} kills, {kept:,} acknowledged: 0 lost, 0 unreadable ({unacknowledged} kept unacknowledged)",
    )


@pytest.mark.timeout(3600)
@every_store
def test_a_kill_while_erasing_brings_nothing_back(
    store: DurableStore, workers: Workers, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """Erased facts stay erased, untouched facts are kept, and the next erasure finishes."""
    chance = random.Random(10)
    rounds, gone = 200 if big else 2, 0
    # A server writes its log over at its leisure; its rows are gone at once.
    word = "pending" if store.name == "postgres" else "gone"
    for life in range(rounds):
        path = tmp_path / str(life)
        workers.start("save", store.address(path), count=20)
        workers.wait()
        for first in (0, 10):
            (pid,) = workers.start("erase", store.address(path), first=first, count=10)
            workers.wait_for_first(word)
            killed(workers, pid, chance.random() * 0.05)
        erased = workers.reported("gone") | workers.reported("pending")
        found = anyio.run(numbers_in, store, path)
        assert not erased & found
        assert len(found) >= 20 - len(erased) - 2
        gone += len(erased)
        workers.forget()
    promise(f"kill -9 while erasing, {store}", f"{2 * rounds} kills, {gone} erased: 0 came back, 0 others lost")


@pytest.mark.timeout(3600)
@every_store
def test_a_kill_while_the_embedder_changes_leaves_every_fact(
    store: DurableStore, workers: Workers, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """Vectors belong to the embedder that the store names, or are missing; they are never mixed."""
    chance = random.Random(11)
    kills = 500 if big else 4
    path = tmp_path / "store"
    workers.start("save", store.address(path), count=20)
    workers.wait()
    for kill in range(kills):
        (pid,) = workers.start("bind", store.address(path), first=kill, count=1000)
        if kill % 2:
            workers.wait_for_first("bound")
        killed(workers, pid, chance.random() * 0.03)
        workers.forget()
        assert anyio.run(numbers_in, store, path) == set(range(20))
    promise(f"kill -9 while the embedder changes, {store}", f"{kills} kills: 20 of 20 facts each time")


# Many processes, many tasks and a fork on one store: every save returns, and every fact is stored once.


PROCESSES = 8


@pytest.mark.timeout(1800)
@every_store
def test_many_processes_share_one_store(
    store: DurableStore, workers: Workers, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """Eight processes with four tasks each, which also create the store together."""
    count = 1000 if big else 20
    path = tmp_path / "store"
    workers.start("save", store.address(path), count=count, processes=PROCESSES)
    workers.wait()
    everything = set(range(PROCESSES * count))
    assert workers.reported("kept") == everything
    assert anyio.run(numbers_in, store, path) == everything
    promise(f"8 processes, {store}", f"{PROCESSES} × {count:,} saves: {len(everything):,} facts")


@pytest.mark.timeout(1800)
@every_store
def test_two_processes_make_one_store_at_the_same_time(
    store: DurableStore, workers: Workers, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """Two processes that create one store at the same time both keep their saves in it, whichever is first."""
    rounds = 500 if big else 2
    for life in range(rounds):
        path = tmp_path / str(life) / "new" / "store"
        workers.start("save", store.address(path), processes=2)
        workers.wait()
        assert workers.reported("kept") == {0, 1}
        assert anyio.run(numbers_in, store, path) == {0, 1}
        workers.forget()
    promise(f"two processes make one store, {store}", f"{rounds} stores: 2 facts in each")


@every_store
async def test_many_tasks_of_one_process_share_one_store(
    store: DurableStore, tmp_path: Path, big: bool, promise: Promise, anyio_backend: str
) -> None:
    """All save at the same time to the same concept."""
    count = 1000 if big else 100
    facts = [NUMBERS.fact([f"{number} a", f"{number} b"], timestamp=NOON) for number in range(count)]
    async with store.open(tmp_path / "store") as provider, anyio.create_task_group() as tasks:
        for number, fact in enumerate(facts):
            tasks.start_soon(provider.save, fact, USER, MemoryScope.agent(f"{number % 2}"))
    assert await numbers_in(store, tmp_path / "store") == set(range(count))
    promise(f"1,000 tasks, {store}", f"{count:,} saves at once, on {anyio_backend}: {count:,} facts")


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@every_store
def test_a_forked_process_opens_the_store_for_itself(store: DurableStore, tmp_path: Path, anyio_backend: str) -> None:
    """Connections and locks do not survive a fork: parent and child go on with one provider, and lose nothing."""
    provider = store.open(tmp_path / "store")

    async def save(number: int) -> None:
        await provider.save(NUMBERS.fact([f"{number} a", f"{number} b"], timestamp=NOON), USER, MemoryScope.agent("0"))
        assert len(await provider.changes(None)) == 2 * number + 2

    async def save_and_close(number: int) -> None:
        await save(number)
        await provider.aclose()

    anyio.run(save, 0)
    assert in_a_fork(lambda: anyio.run(save_and_close, 1)) == 0
    anyio.run(save_and_close, 2)
    assert anyio.run(numbers_in, store, tmp_path / "store") == {0, 1, 2}
