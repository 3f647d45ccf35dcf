"""The thread of an agent's memory: it serves any event loop or none, blocks none of them, and ends with the process."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import attrs
import pytest
from blockbuster import blockbuster_ctx
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem import AgentMemory, Memory, Message
from factmem.abc import Prompt
from factmem.agent import Loading, load_all_facts_from_memory, save_to_memory_auto_detect_facts
from factmem.agent.config import AgentMemoryConfig, FailurePolicy
from factmem.errors import CapabilityError, ProviderClosedError, UnknownProviderError
from factmem.records import AssertionState
from factmem.testing import HashEmbedder
from tests.agent.installed import texts, user
from tests.fork_server import ForkServer
from tests.forks import in_a_fork
from tests.memory.telling import log_of, until
from tests.narrowing import not_none

AnswerT = TypeVar("AnswerT")

pytestmark = pytest.mark.processes

LIVES, ASKED = user("I live in Oslo."), user("Where do I live?")
LOUD = Loading(on_failure=FailurePolicy.RAISE)


@attrs.define
class Hanging:
    """A model that never answers.

    Attributes:
        under_way: number of questions waiting.
    """

    max_chars: int = 24_000
    under_way: int = 0

    async def ask(self, prompt: Prompt, answer: type[AnswerT]) -> AnswerT:
        self.under_way += 1
        try:
            await anyio.sleep_forever()
        finally:
            self.under_way -= 1
        raise AssertionError


def own(store: str | Callable[[], Memory] = "memory:", **settings: Any) -> AgentMemory:
    given = settings if callable(store) else {"embedder": HashEmbedder(), **settings}
    return AgentMemory(AgentMemoryConfig(store=store, users="shared", **given))


def threads_of_memories() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "factmem"}


async def remembered(agent: AgentMemory) -> str:
    """Save a fact in one session and return the block loaded in the next."""
    with agent.run("alice", "monday"):
        handle = not_none(await agent.save_facts_from_history([LIVES]))
        await handle.wait()
    with agent.run("alice", "tuesday"):
        return str(texts(await agent.load_all_facts_to_agent([ASKED]))[0])


async def test_it_opens_itself_and_closes_on_exit() -> None:
    async with own(loading=LOUD) as agent:
        assert "Oslo" in await remembered(agent)
    with pytest.raises(ProviderClosedError):
        await agent.load_all_facts_to_agent([ASKED])
    await agent.aclose()


@pytest.mark.parametrize("twice", [False, True], ids=["once", "by two tasks"])
async def test_a_cancelled_close_ends_and_leaves_the_words_to_the_next_process(tmp_path: Path, twice: bool) -> None:
    """Such as a service with a time limit, whose model does not answer."""
    model = Hanging()
    agent = own(f"sqlite-vec:{tmp_path / 'facts.db'}", model=model, loading=LOUD)
    with agent.run("alice", "monday"):
        await agent.save_facts_from_history([LIVES])
    await until(lambda: model.under_way == 1)
    async with anyio.create_task_group() as tasks:
        for _ in range(2 if twice else 1):
            tasks.start_soon(agent.aclose)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert model.under_way == 0
    with pytest.raises(ProviderClosedError):
        await agent.load_all_facts_to_agent([ASKED])
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        assert (await log_of(provider))[1] == {AssertionState.PENDING: 1}


async def test_a_close_within_a_cancelled_scope_closes() -> None:
    agent = own(loading=LOUD)
    await remembered(agent)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await agent.aclose()
    with pytest.raises(ProviderClosedError):
        await agent.load_all_facts_to_agent([ASKED])


def test_every_run_may_have_a_loop_of_its_own() -> None:
    agent = own()
    assert "Oslo" in asyncio.run(remembered(agent))
    with agent.run("alice", "wednesday"):
        assert "Oslo" in asyncio.run(agent.load_all_facts_to_agent([ASKED]))[0]["content"]
        assert "Oslo" in anyio.run(agent.load_all_facts_to_agent, [ASKED], backend="trio")[0]["content"]
    agent.close()


def test_without_a_loop_calls_block() -> None:
    agent = own()
    with agent.run("alice", "monday") as run:
        handle = not_none(run.save_blocking([Message(content="I live in Oslo.", id="1")]))
        assert handle.wait_blocking()[0].records[0].value == "I live in Oslo."
    with agent.run("alice", "tuesday") as run:
        assert "Oslo" in run.load_blocking([Message(content="Where?", id="1")]).text
    agent.close()


async def test_a_memory_that_is_busy_or_not_open_yet_holds_up_no_loop() -> None:
    """Concurrent calls wait, while the event loop of the caller keeps running."""
    reached, go_on = threading.Event(), threading.Event()

    def hold_up() -> None:
        reached.set()
        assert go_on.wait(60), "the loop of the agent was held up"
        reached.clear()
        go_on.clear()

    def make() -> Memory:
        hold_up()
        return Memory("memory:", embedder=HashEmbedder())

    async def be_busy(memory: Memory) -> None:
        hold_up()

    async def look(memory: Memory) -> None:
        await memory.list_records()

    async with AgentMemory(AgentMemoryConfig(store=make, users="shared")) as agent:
        held = agent.for_run().held
        for first in (look, be_busy):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(held.use, first)
                await anyio.to_thread.run_sync(reached.wait)
                tasks.start_soon(held.use, look)
                await anyio.wait_all_tasks_blocked()
                go_on.set()


async def test_an_open_memory_is_used_on_its_own_loop(memory: Memory, agent: AgentMemory) -> None:
    assert "Oslo" in await remembered(agent)
    await agent.aclose()
    assert len(await memory.list_records()) == 1, "a memory opened by the caller is closed by the caller"
    with pytest.raises(CapabilityError):
        agent.for_run().load_blocking()


async def test_a_store_that_cannot_be_opened_raises_every_time() -> None:
    agent = own(lambda: Memory("no-such-provider:x"), loading=LOUD)
    for _ in range(2):
        with pytest.raises(UnknownProviderError):
            await agent.load_all_facts_to_agent([ASKED])


def test_runs_without_an_event_loop_go_on_if_the_store_cannot_be_opened(caplog: pytest.LogCaptureFixture) -> None:
    agent = own(lambda: Memory("no-such-provider:x"))
    run, said = agent.for_run(), [Message(content="I live in Oslo.")]
    assert not run.load_blocking(said)
    assert run.save_blocking(said) is None
    for node in (load_all_facts_from_memory(agent), save_to_memory_auto_detect_facts(agent)):
        assert node.blocking({"messages": [LIVES]}) == {}
    assert caplog.text.count("UnknownProviderError") == 4
    with pytest.raises(UnknownProviderError):
        own(lambda: Memory("no-such-provider:x"), loading=LOUD).for_run().load_blocking(said)


async def test_a_cancelled_wait_leaves_it_usable() -> None:
    async with own() as agent:
        with anyio.move_on_after(0):
            await agent.load_all_facts_to_agent([ASKED])
        assert "Oslo" in await remembered(agent)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # blockbuster detects blocking calls on asyncio only
async def test_no_call_blocks_the_agents_loop(tmp_path: Path) -> None:
    """Opening the store, a load, a save, a tool call and closing all leave the loop free."""
    agent = own(f"sqlite-vec:{tmp_path / 'facts.db'}")
    with blockbuster_ctx("factmem"):
        assert "Oslo" in await remembered(agent)
        with agent.run("alice") as run:
            assert "Oslo" in await run.tools.recall_memory("Oslo")
            assert await run.tools.save_memory("Alice likes tea.") == "Saved."
        await agent.aclose()


async def test_many_at_once_share_one_thread() -> None:
    before = threads_of_memories()
    async with own() as agent:
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(agent.load_all_facts_to_agent, [user(f"Question {number}?")])
        assert len(threads_of_memories() - before) == 1


ENDS = """
import asyncio, sys
from factmem import AgentMemory, AgentMemoryConfig
from factmem.testing import HashEmbedder
agent = AgentMemory(AgentMemoryConfig(store=sys.argv[1], embedder=HashEmbedder(), model=sys.argv[2] or None))
async def main():
    with agent.run("alice", "monday"):
        await agent.save_facts_from_history([{"role": "user", "content": "I live in Oslo."}])
asyncio.run(main())
print("done")
"""


@pytest.mark.parametrize("model", ["", "http://127.0.0.1:9/v1#nobody"])
def test_the_end_of_the_process_neither_hangs_nor_loses_anything(
    tmp_path: Path, model: str, fork_server: ForkServer
) -> None:
    """The memory is not closed, and its model never answers: the words are on disk all the same."""
    store, script = f"sqlite-vec:{tmp_path / 'facts.db'}", tmp_path / "ends.py"
    script.write_text(ENDS, encoding="utf-8")
    done = fork_server.run(str(script), store, model, cwd=tmp_path, env=os.environ, timeout=60, outputs=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")

    async def kept() -> list[str]:
        async with Memory(store, embedder=HashEmbedder()) as memory:
            return [record.value for record in await memory.list_records()]

    assert anyio.run(kept) == ["I live in Oslo."]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_opens_its_own(tmp_path: Path) -> None:
    agent = own(f"sqlite-vec:{tmp_path / 'facts.db'}")
    assert "Oslo" in asyncio.run(remembered(agent))

    def child() -> None:
        with agent.run("alice", "thursday"):
            block = asyncio.run(agent.load_all_facts_to_agent([ASKED]))
        assert "Oslo" in block[0]["content"]

    assert in_a_fork(child) == 0
    agent.close()
