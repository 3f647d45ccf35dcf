"""Use of one memory, provider or submission from several event loops and threads."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from factmem import AgentMemory, AgentMemoryConfig, BlockingMemory, Concept, Memory, Message, SingleFact, Submission
from factmem.errors import WrongLoopError
from factmem.providers.memory import InMemoryProvider
from factmem.providers.registry import open_provider
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from tests.narrowing import not_none
from tests.reliability.stores import DurableStore, durable_stores

CITY = Concept.single("city", "Where the person lives")
USER = MemorySubject("user")
PLANNER = MemoryScope.agent("planner")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

loops = pytest.mark.parametrize("first", ["asyncio", "trio"])
other_loops = pytest.mark.parametrize("second", ["asyncio", "trio"])


def run(backend: str, work: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await work()

    return anyio.run(main, backend=backend)


@contextmanager
def running(backend: str, work: Callable[[], Awaitable[Any]]) -> Iterator[None]:
    """Run a function in an event loop of another thread that stays alive inside the block."""
    ready, over = threading.Event(), threading.Event()

    async def main() -> None:
        await work()
        ready.set()
        await anyio.to_thread.run_sync(over.wait)

    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(lambda: anyio.run(main, backend=backend))
        done.add_done_callback(lambda _: ready.set())
        try:
            ready.wait()
            yield
        finally:
            over.set()
            done.result(30)


async def saved(memory: Memory, value: str = "Bern") -> None:
    await memory.save(SingleFact(CITY, value), subject=USER, scope=PLANNER)


@loops
@other_loops
def test_a_memory_refuses_a_second_loop_while_the_first_one_runs(first: str, second: str, tmp_path: Path) -> None:
    memory = Memory(f"sqlite-vec:{tmp_path / 'facts.db'}")
    with running(first, partial(saved, memory)):
        for refused in (
            partial(saved, memory, "Genf"),
            partial(memory.load, CITY, subject=USER, scope=PLANNER),
            partial(memory.recall, "city"),
            memory.view(viewer="alice").admin.info,
            memory.inbox.quarantine.list,
            memory.inbox.dead_letters.list,
            memory.aclose,
            memory.__aenter__,
        ):
            with pytest.raises(WrongLoopError, match="BlockingMemory"):
                run(second, refused)


@loops
@other_loops
def test_a_memory_goes_on_in_another_loop_once_the_first_one_has_ended(first: str, second: str, tmp_path: Path) -> None:
    memory = Memory(f"sqlite-vec:{tmp_path / 'facts.db'}")

    async def in_second() -> object:
        await saved(memory, "Genf")
        found = await memory.load(CITY, subject=USER, scope=PLANNER)
        assert await memory.recall("Genf")
        await memory.aclose()
        return found and found.values

    async def in_first() -> None:
        await saved(memory)
        assert await memory.recall("Bern")

    run(first, in_first)
    assert run(second, in_second) == ("Genf",)


@loops
@other_loops
def test_a_closed_memory_may_be_opened_in_another_loop(first: str, second: str) -> None:
    provider = InMemoryProvider()
    memory = Memory(provider)

    async def opened() -> None:
        async with memory:
            await saved(memory)

    with running(first, opened):
        run(second, opened)


@durable_stores
@loops
@other_loops
def test_a_provider_refuses_a_second_loop_while_the_first_one_runs_and_not_afterwards(
    first: str, second: str, store: DurableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    provider = open_provider(store.address(tmp_path / "store"))
    save = partial(provider.save, SingleFact(CITY, "Bern"), USER, PLANNER)
    with running(first, save):
        for refused in (save, partial(provider.load_all, USER, PLANNER), provider.aclose):
            with pytest.raises(WrongLoopError):
                run(second, refused)
    run(second, save)
    run(second, provider.aclose)


@loops
@other_loops
def test_a_submission_is_awaited_in_its_own_loop(first: str, second: str) -> None:
    submitted: list[Submission] = []

    async def submit() -> None:
        submitted.append(Submission(["a submission"]))

    with running(first, submit), pytest.raises(WrongLoopError):
        run(second, submitted[0].wait)


def test_an_agent_in_a_second_loop_is_refused_and_leaves_the_memory_usable() -> None:
    async def main() -> None:
        async with Memory("memory:") as memory:
            agent = AgentMemory(AgentMemoryConfig(store=memory, agent_name="clerk", users="shared"))

            async def elsewhere() -> str:
                with agent.run():
                    question = [Message(content="Where does Eva live?")]
                    return str(await agent.load_all_facts_to_agent(question))

            with ThreadPoolExecutor(1) as threads:
                assert "Eva" not in await anyio.to_thread.run_sync(threads.submit(run, "asyncio", elsewhere).result)
            assert len(await memory.remember("Eva lives in Oslo.")) == 1

    anyio.run(main)


def test_tasks_of_one_loop_share_a_memory(tmp_path: Path) -> None:
    async def main() -> None:
        async with Memory(f"sqlite-vec:{tmp_path / 'facts.db'}") as memory, anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(saved, memory, f"city {number}")

    anyio.run(main)


def test_any_number_of_threads_share_a_blocking_memory(tmp_path: Path) -> None:
    with BlockingMemory(Memory(f"sqlite-vec:{tmp_path / 'facts.db'}")) as memory, ThreadPoolExecutor(8) as threads:

        def work(number: int) -> str:
            name = Concept.single(f"name {number}", "A name")
            view = memory.view(viewer=f"viewer {number % 3}")
            view.save(SingleFact(name, f"value {number}"), subject=USER, scope=PLANNER)
            found = not_none(view.load(name, subject=USER, scope=PLANNER))
            view.recall("name")
            return found.values[0]

        assert list(threads.map(work, range(40))) == [f"value {number}" for number in range(40)]
