"""Many processes, many tasks and a fork on one store: every save returns, and every fact is stored once."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from factmem.scopes import MemoryScope
from tests.conftest import Promise
from tests.forks import in_a_fork
from tests.reliability.stores import NOON, NUMBERS, USER, DurableStore, every_store, numbers_in
from tests.reliability.workers import Workers

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
    rounds = 500 if big else 4
    for life in range(rounds):
        path = tmp_path / str(life) / "new" / "store"
        workers.start("save", store.address(path), processes=2)
        workers.wait()
        assert workers.reported("kept") == {0, 1}
        assert anyio.run(numbers_in, store, path) == {0, 1}
        workers.forget()
    promise(f"two processes make one store, {store}", f"{rounds} stores: 2 facts in each")


@every_store
async def test_a_thousand_tasks_of_one_process_share_one_store(
    store: DurableStore, tmp_path: Path, promise: Promise, anyio_backend: str
) -> None:
    """All save at the same time to the same concept."""
    facts = [NUMBERS.fact([f"{number} a", f"{number} b"], timestamp=NOON) for number in range(1000)]
    async with store.open(tmp_path / "store") as provider, anyio.create_task_group() as tasks:
        for number, fact in enumerate(facts):
            tasks.start_soon(provider.save, fact, USER, MemoryScope.agent(f"{number % 2}"))
    assert await numbers_in(store, tmp_path / "store") == set(range(1000))
    promise(f"1,000 tasks, {store}", f"1,000 saves at once, on {anyio_backend}: 1,000 facts")


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
