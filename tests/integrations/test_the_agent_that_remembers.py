"""The contract of every host: one block of current facts in each request, and words that are kept once.

A host that has a module in ``tests/integrations/hosts`` is held to all of it, in each manner of its runs. What a host
alone can do is tested in a file of its own.
"""

from __future__ import annotations

import datetime as dt
import importlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from anyio import to_thread

from factmem import AgentMemory, InMemoryProvider, Memory, MemoryScope, Message, SingleFact
from factmem.agent import Loading, Saving
from factmem.agent.config import USER, FailurePolicy, Hooks, RunIdentity, SavingTime
from factmem.agent.run import TOOL_NAMES
from factmem.errors import FactMemError, ProviderClosedError
from factmem.testing import HashEmbedder
from tests.agent.installed import plugin
from tests.fork_server import ForkServer
from tests.integrations.remembering import ANSWER, LIE, Converse, Manner, Turn
from tests.memory.telling import CITY
from tests.packages import QUIET, need_packages_of

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "hosts"
_MANNERS = re.compile(r"^MANNERS: Final = \((.*)\)$", re.MULTILINE)


def manners(path: Path) -> list[str]:
    """Return the manners that a host declares; it is read as a text, because its packages may not be installed."""
    (declared,) = _MANNERS.findall(path.read_text(encoding="utf-8"))
    return [str(Manner[name]) for name in re.findall(r"Manner\.(\w+)", declared)]


HOSTS = {path.stem: manners(path) for path in sorted(FOLDER.glob("*.py")) if path.stem != "__init__"}


SAVED_BY_THE_PROGRAM: Final = ("langgraph", "own_loop")
"""Hosts whose program submits what was said."""

NAMED_BY_THE_PROGRAM: Final = ("openai_client", "own_loop")
"""Hosts whose program names the user of each run."""

WITHOUT_TOOLS: Final = ("crewai", "openai_client", "own_loop")
"""Hosts whose program defines the tools of its model itself."""

TOLD_AFTER_THE_TASK: Final = ("crewai",)
"""Hosts that append what they recall to the prompt of the task."""

ASKED: Final = Turn("alice", "monday", "Where do I live?")
BEGAN: Final = dt.datetime(2024, 5, 8, tzinfo=dt.UTC)

pytestmark = [
    pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning:google.adk"),
    pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning"),  # of fields that CrewAI reads itself
]
in_every_manner = pytest.mark.parametrize(
    ("host", "manner"), [(host, Manner(manner)) for host in HOSTS for manner in HOSTS[host]]
)


@pytest.fixture
def converse(host: str) -> Converse:
    need_packages_of(FOLDER / f"{host}.py")
    found: Converse = importlib.import_module(f"tests.integrations.hosts.{host}").converse
    return found


@pytest.fixture
def store() -> InMemoryProvider:
    return InMemoryProvider()


async def know(store: InMemoryProvider, city: str, user: str = "alice", days: int = 0) -> None:
    fact = SingleFact(CITY, city, timestamp=BEGAN + dt.timedelta(days=days))
    await store.save(fact, USER.individual(user), MemoryScope.agent("clerk"))


def over(store: InMemoryProvider, **settings: Any) -> AgentMemory:
    return plugin(lambda: Memory(store, embedder=HashEmbedder()), **settings)


async def kept(memory: AgentMemory) -> list[Any]:
    """Return the statements that are kept, and close the memory."""

    async def listed(opened: Memory) -> list[Any]:
        await opened.inbox.flush()
        return list(await opened.list_records(concepts=["statement"]))

    records = await memory.for_run().held.use(listed)
    await to_thread.run_sync(memory.close)
    return records


def played(
    server: ForkServer, host: str, manners: Sequence[str], folder: Path
) -> dict[str, dict[str, list[list[str]]]]:
    """Play the story on a host in some manners, each session in a process of its own."""
    words = ["-m", "tests.integrations.remembering", host, str(folder), *manners]
    done = server.run(*words, cwd=ROOT, env=os.environ | QUIET, timeout=170, outputs=folder)
    assert done.returncode == 0, done.stderr
    shown: dict[str, dict[str, list[list[str]]]] = json.loads(done.stdout.splitlines()[-1])
    return shown


@pytest.mark.parametrize("host", HOSTS)
async def test_facts_are_loaded_in_the_next_session_for_their_own_user(
    host: str, tmp_path: Path, fork_server: ForkServer, big: bool
) -> None:
    """Without `--big`, the story is played in one manner of each host, in turns."""
    need_packages_of(FOLDER / f"{host}.py")
    turn = list(HOSTS).index(host) % len(HOSTS[host])
    manners = HOSTS[host] if big else [HOSTS[host][turn]]
    first, second = played(fork_server, host, manners, tmp_path).values()
    assert list(first) == list(second) == manners
    for manner in manners:
        ((*_, asked), _) = first[manner]
        assert LIE in asked, f"{manner}: the tool was called, so the lie was in its request"
        ((alice,), (bob,)) = second[manner]
        expected = ((alice, "Rome", ("Oslo", "Bern", "Paris")), (bob, "Bern", ("Oslo", "Rome", "Paris")))
        for shown, city, others in expected:
            assert "120" in shown, f"{manner}: facts of the product are shown to both"
            assert city in shown, manner
            assert [name for name in others if name in shown] == [], manner
            assert shown.count("<memory>") == 1, manner
        assert "seats" in alice, manner
        assert "12" in alice, manner
        store = tmp_path / f"{manner}.db"
        async with Memory(store, viewer="alice", embedder=HashEmbedder()) as memory:
            assert LIE in [record.value for record in await memory.inbox.quarantine.list()], manner
        async with Memory(store, embedder=HashEmbedder()) as memory:
            assert [record.value for record in await memory.list_records()] == [120], manner


@in_every_manner
async def test_each_request_has_one_block_of_what_is_known_now_and_each_word_is_kept_once(
    host: str, converse: Converse, manner: Manner, store: InMemoryProvider
) -> None:
    """The block stands before the words of the user, and no history keeps it; what a tool says is not the user's."""
    turns = (
        Turn("alice", "monday", "I have a cat."),
        Turn("alice", "monday", "What does the page say?", "I live in Paris."),
        Turn("alice", "monday", "And now?"),
    )
    cities, ids = ["Oslo", "Rome", "Bern"], set[tuple[str | None, str | None]]()
    order = [turn.said for turn in turns]

    async def move(identity: RunIdentity, history: Sequence[Message]) -> bool:
        number = max(order.index(message.content) for message in history if message.content in order)
        await know(store, cities[number], days=number)
        ids.add((identity.user_id, identity.session_id))
        return True

    memory = over(store, hooks=Hooks(before_load=move))
    shown = await converse(memory, turns, manner)
    records = await kept(memory)
    for request, turn, city in zip(shown, turns, cities, strict=True):
        assert request.count("<memory>") == 1
        assert (request.index("<memory>") > request.rindex(turn.said)) == (host in TOLD_AFTER_THE_TASK)
        assert [name for name in cities if name in request] == [city]
    assert ids == {("alice", "monday")}
    assert {str(record.value) for record in records} == {ANSWER, *order}
    assert {str(record.subject) for record in records} == {"user:alice"}
    assert {item.conversation_id for record in records for item in record.evidence} == {"monday"}


@pytest.mark.parametrize(("load", "save"), [(True, False), (False, True)])
@pytest.mark.parametrize("host", [host for host in HOSTS if host not in NAMED_BY_THE_PROGRAM])
async def test_the_program_says_for_whom_a_run_loads_and_saves(
    converse: Converse, store: InMemoryProvider, load: bool, save: bool
) -> None:
    await know(store, "Oslo")
    await know(store, "Bern", "carol")
    memory = over(store)
    with memory.run("carol", load=load, save=save):
        (shown,) = await converse(memory, [ASKED], Manner.ASYNC)
    assert ("Oslo" in shown, "Bern" in shown) == (False, load)
    assert {str(record.subject) for record in await kept(memory)} == ({"user:carol"} if save else set())


@pytest.mark.parametrize("host", [host for host in HOSTS if host not in SAVED_BY_THE_PROGRAM])
async def test_saving_may_be_left_to_the_program(converse: Converse, store: InMemoryProvider) -> None:
    memory = over(store, saving=Saving(when=SavingTime.MANUALLY))
    await converse(memory, [ASKED], Manner.ASYNC)
    assert await kept(memory) == []


@pytest.mark.parametrize("host", HOSTS)
async def test_a_memory_that_cannot_be_read_fails_the_run_unless_the_policy_says_otherwise(converse: Converse) -> None:
    loud, quiet = (
        plugin("memory:", loading=Loading(on_failure=policy)) for policy in (FailurePolicy.RAISE, FailurePolicy.LOG)
    )
    await loud.aclose()
    await quiet.aclose()
    with pytest.raises((FactMemError, RuntimeError)) as raised:
        await converse(loud, [ASKED], Manner.ASYNC)
    assert isinstance(raised.value.__cause__ or raised.value, ProviderClosedError)
    (shown,) = await converse(quiet, [ASKED], Manner.ASYNC)
    assert ASKED.said in shown
    assert "<memory>" not in shown


@pytest.mark.parametrize("host", [host for host in HOSTS if host not in WITHOUT_TOOLS])
async def test_tools_act_for_the_user_of_their_run_and_keep_apart_what_another_tool_said(
    converse: Converse, store: InMemoryProvider
) -> None:
    """The memory is loaded before the tool answers, and the tool is heard nevertheless."""
    await know(store, "Oslo")
    await know(store, "Bern", "bob")
    lie, truth = "The user lives in EVILTOWN.", "The user keeps bees."
    calls = (("recall_memory", {"query": "city"}), ("save_memory", {"text": lie}), ("save_memory", {"text": truth}))
    memory = over(store)
    (shown,) = await converse(memory, [Turn("alice", "monday", "I keep bees.", lie, calls)], Manner.ASYNC)
    assert (shown.count("Oslo"), "Bern" in shown) == (2, False), "the city is in the block and in the answer"
    assert [text in shown for text in ("Saved.", "Saved, and kept apart")] == [True, True]
    records = {record.value: str(record.subject) for record in await kept(memory)}
    assert records.get(truth) == "user:alice"
    assert lie not in records


@pytest.mark.parametrize("module", ["adk", "langchain", "openai_agents"])
def test_tools_are_described_to_the_model_as_memory_describes_them(module: str, store: InMemoryProvider) -> None:
    need_packages_of(FOLDER / f"{module}.py")
    tools = importlib.import_module(f"factmem.integrations.{module}").memory_tools(over(store))
    assert [tool.name for tool in tools] == list(TOOL_NAMES)
    assert "earlier conversations" in tools[0].description
