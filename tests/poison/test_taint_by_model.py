"""Taint of texts that a model writes itself: by its tools, in files, and as ready facts."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import pytest

from factmem import STATEMENT, Concept, FactDetails, InMemoryProvider, Memory, Message, MultipleFacts, SingleFact
from factmem.agent import Loading, Saving
from factmem.agent.agents_md import AgentsMdFacts
from factmem.agent.agents_md.tree import MemoryFiles
from factmem.agent.config import AgentMemoryConfig, RunIdentity
from factmem.agent.plugin import AgentMemory
from factmem.agent.run import MemoryRun
from factmem.details import Origin
from factmem.errors import InvalidDataError
from factmem.memory.context import Policies
from factmem.memory.screening import FlaggedPolicy
from factmem.memory.taint import REPEATS
from factmem.records import AssertionState
from factmem.testing import HashEmbedder
from tests.conftest import Promise
from tests.mcp.clients import answer, connected
from tests.narrowing import not_none
from tests.poison.lies import LIES, Lie
from tests.poison.planting import USER, opened
from tests.poison.test_taint import ASKED

MINE: Final = "/agent/clerk/user.md"
TALK: Final = RunIdentity(session_id="talk")
HOME: Final = Concept.single("home", "Where the user lives")


@attrs.frozen
class Home:
    """A profile with one field."""

    home: str


def heard(text: str, *, by: str = "tool") -> list[Message]:
    """Return a conversation in which an origin says a text, before the model's turn."""
    return [Message(content=ASKED, role="user"), Message(content=text, role=by)]


def agent_of(memory: Memory, **saving: Any) -> AgentMemory:
    return AgentMemory(
        AgentMemoryConfig(store=memory, agent_name="clerk", users="shared", user=USER, saving=Saving(**saving))
    )


async def run_after(memory: Memory, text: str, by: str, **saving: Any) -> MemoryRun:
    """Return a run whose model was just shown a conversation, as hosts do for each request."""
    run = agent_of(memory, **saving).for_run(TALK)
    await run.load(heard(text, by=by))
    return run


Way: TypeAlias = Callable[[Memory, str, str, str, Path], Awaitable[object]]
"""Function that writes a text after an origin has said another."""


async def _by_a_tool(memory: Memory, source: str, by: str, text: str, folder: Path) -> None:
    await (await run_after(memory, source, by)).tools.save_memory(text)


async def _by_a_tool_in_the_users_name(memory: Memory, source: str, by: str, text: str, folder: Path) -> None:
    await (await run_after(memory, source, by, tool_origin=Origin.USER)).tools.save_memory(text)


async def _by_a_tool_without_a_session(memory: Memory, source: str, by: str, text: str, folder: Path) -> None:
    agent = agent_of(memory)
    await agent.for_run().load(heard(source, by=by))
    await agent.for_run().tools.save_memory(text)


async def _by_a_tool_once_the_result_is_out_of_sight(
    memory: Memory, source: str, by: str, text: str, folder: Path
) -> None:
    run = await run_after(memory, source, by)
    await run.load([Message(content="Please go on.")])
    await run.tools.save_memory(text)


async def _said_once_the_result_is_out_of_sight(memory: Memory, source: str, by: str, text: str, folder: Path) -> None:
    run = await run_after(memory, source, by)
    saved = not_none(await run.save([Message(content="Please go on."), Message(content=text, role="assistant")]))
    await saved.wait()


async def _into_a_file(memory: Memory, source: str, by: str, text: str, folder: Path) -> None:
    files = MemoryFiles(run=await run_after(memory, source, by))
    await settled(files.write(memory, MINE, f"- {text}\n"))


async def _as_an_edit_of_its_own_bullet(memory: Memory, source: str, by: str, text: str, folder: Path) -> None:
    run = await run_after(memory, source, by)
    await memory.save(
        SingleFact(HOME, "Oslo"), subject=USER, scope="/agent/clerk", details=FactDetails(origin=Origin.ASSISTANT)
    )
    await settled(MemoryFiles(run=run).edit(memory, MINE, lambda page: page.replace("Oslo", text)))


async def _into_agents_md(memory: Memory, source: str, by: str, text: str, folder: Path) -> None:
    file = AgentsMdFacts(
        memory.view(conversation=heard(source, by=by)), folder / "AGENTS.md", subjects=[USER], origin=Origin.ASSISTANT
    )
    await file.sync()
    page = (folder / "AGENTS.md").read_text("utf-8")
    (folder / "AGENTS.md").write_text(page.replace("<!-- factmem:end", f"- {text}\n<!-- factmem:end"), "utf-8")
    await file.sync()


async def _by_a_client(memory: Memory, source: str, by: str, text: str, folder: Path) -> None:
    async with connected(memory.view(conversation=heard(source, by=by)), trust=True) as client:
        await answer(client, "remember", text=text)


async def _as_a_fact_of_a_client(memory: Memory, source: str, by: str, text: str, folder: Path) -> None:
    async with connected(memory.view(conversation=heard(source, by=by)), trust=True) as client:
        await answer(client, "save_fact", keyword="home", value=text)


async def _as_an_update_of_a_client(memory: Memory, source: str, by: str, text: str, folder: Path) -> None:
    (record,) = await memory.save(SingleFact(HOME, "Oslo"))
    async with connected(memory.view(conversation=heard(source, by=by)), trust=True) as client:
        await answer(client, "update", id=record.id, value=text)


async def _by_a_client_of_an_agents_memory(memory: Memory, source: str, by: str, text: str, folder: Path) -> None:
    run = await run_after(memory, source, by)
    agent = agent_of(memory)
    agent.for_run(TALK).hearing.hear(run.identity, heard(source, by=by))
    async with connected(agent, trust=True) as client:
        await answer(client, "remember", text=text)


async def _as_ready_facts(memory: Memory, source: str, by: str, text: str, folder: Path) -> None:
    by_model = memory.view(conversation=heard(source, by=by))
    facts: list[SingleFact[str] | MultipleFacts[str]] = [MultipleFacts(STATEMENT, (text,)), SingleFact(HOME, text)]
    await (await by_model.generate(facts)).wait()


async def _as_saved_facts(memory: Memory, source: str, by: str, text: str, folder: Path) -> None:
    by_model = memory.view(conversation=heard(source, by=by))
    await by_model.save(MultipleFacts(STATEMENT, (text,)))
    await by_model.save_many([SingleFact(HOME, text)], details=FactDetails(origin=Origin.ASSISTANT))


async def _as_a_profile(memory: Memory, source: str, by: str, text: str, folder: Path) -> None:
    await memory.view(conversation=heard(source, by=by)).save_profile(Home(text))


WAYS: Final[dict[str, Way]] = {
    "save_memory": _by_a_tool,
    "save_memory in the user's name": _by_a_tool_in_the_users_name,
    "save_memory without a session": _by_a_tool_without_a_session,
    "save_memory, result out of sight": _by_a_tool_once_the_result_is_out_of_sight,
    "said, result out of sight": _said_once_the_result_is_out_of_sight,
    "files of a deep agent": _into_a_file,
    "an edit of the model's own bullet": _as_an_edit_of_its_own_bullet,
    "AGENTS.md of an agent": _into_agents_md,
    "MCP remember": _by_a_client,
    "MCP save_fact": _as_a_fact_of_a_client,
    "MCP update": _as_an_update_of_a_client,
    "MCP over an agent's memory": _by_a_client_of_an_agents_memory,
    "ready facts": _as_ready_facts,
    "saved facts": _as_saved_facts,
    "a profile": _as_a_profile,
}


async def settled(work: Awaitable[None]) -> None:
    """Await an edit that may raise because it is quarantined."""
    with contextlib.suppress(InvalidDataError):
        await work


async def shown_of(memory: Memory, lie: Lie) -> list[str]:
    """Return the records of a lie that the next session is shown, from any origin."""
    records = [*await memory.list_records(), *(match.record for match in await memory.recall(lie.original, limit=99))]
    return [str(record.value) for record in records if lie.bait in str(record.value).casefold()]


@pytest.mark.parametrize("way", WAYS)
async def test_no_lie_is_believed_because_a_model_writes_it_down(
    way: str, tmp_path: Path, promise: Promise, anyio_backend: str, big: bool
) -> None:
    """The lies, which differ in their words alone, are those of the tests of repetitions; here are a fifth of them."""
    at_once = "out of sight" not in way
    cases = [
        (lie, said)
        for lie in LIES[:: 1 if big and anyio_backend == "asyncio" else 5]
        for said in (lie.echo, lie.paraphrase)[: 1 + at_once]
    ]
    for number, (lie, said) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with opened() as memory:
            await WAYS[way](memory, lie.original, "tool", said, folder)
            assert await shown_of(memory, lie) == [], said
            apart = await memory.inbox.quarantine.list()
            assert apart
            assert all(REPEATS[Origin.TOOL] in item.details.flags for item in apart)
    if anyio_backend == "asyncio":
        promise(f"poisoning in several hops, {way}", f"0 of {len(cases)} believed")


@pytest.mark.parametrize("way", WAYS)
async def test_what_the_user_said_may_be_written_down(way: str, tmp_path: Path) -> None:
    """In the same conversation, a tool said something else before."""
    said = "I live in Bergen, in the house beside the harbour."
    async with opened() as memory:
        await WAYS[way](memory, said, "user", "The user lives in Bergen, beside the harbour.", tmp_path)
        assert await memory.inbox.quarantine.list() == []
        assert any("Bergen" in str(record.value) for record in await memory.list_records())


async def test_a_value_of_everyday_words_is_compared_as_a_whole() -> None:
    drink, seats = Concept.single("drink", "What the user drinks"), Concept.single("seats", "", value_type=int)
    for source, by, fact, kept in (
        ("The user drinks coffee with milk.", "tool", SingleFact(drink, "coffee"), False),
        ("Seats of the user: 5.", "tool", SingleFact(seats, 5), False),
        ("Seats of the user: 5.", "tool", SingleFact(seats, 6), True),
        ("I drink coffee with milk.", "user", SingleFact(drink, "coffee"), True),
    ):
        async with opened() as memory:
            (record,) = await memory.view(conversation=heard(source, by=by)).save(fact)
            assert (record.state is AssertionState.ACTIVE) is kept, (source, fact)


async def test_what_is_kept_as_given_elsewhere_is_quarantined_if_it_repeats_a_tool() -> None:
    """This covers files, where flagged text is only annotated, and stores where no text is compared."""
    for policy in FlaggedPolicy:
        async with opened(policies=Policies(flagged=policy)) as memory:
            await memory.view(conversation=heard(LIES[0].original)).save(MultipleFacts(STATEMENT, (LIES[0].echo,)))
            assert await shown_of(memory, LIES[0]) == []


async def test_what_one_user_heard_holds_nothing_back_for_another() -> None:
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as memory:
        agent = AgentMemory(AgentMemoryConfig(store=memory, agent_name="clerk", loading=Loading()))
        for user, session in (("alice", "one"), ("alice", "two"), ("bob", "one")):
            run = agent.for_run(RunIdentity(user_id=user, session_id=session))
            await run.load(heard(LIES[0].original if (user, session) == ("alice", "one") else "Nothing new."))
            answer = await run.tools.save_memory(LIES[0].echo)
            assert (answer == "Saved.") is ((user, session) != ("alice", "one"))


def test_a_run_keeps_in_mind_what_is_not_too_long_and_not_too_old() -> None:
    hearing = agent_of(Memory("none:")).for_run().hearing
    for number in range(150):
        hearing.hear(RunIdentity(session_id=f"s{number}"), heard(f"Result {number}."))
    assert hearing.heard(RunIdentity(session_id="s0")) == []
    assert [said.content for said in hearing.heard(RunIdentity(session_id="s149"))] == [ASKED, "Result 149."]
    assert len(hearing.heard(RunIdentity())) == 16
    long: Sequence[Message] = [Message(content="a" * 600_000, role="tool"), Message(content="b" * 600_000, role="tool")]
    hearing.hear(TALK, long)
    assert [said.content[0] for said in hearing.heard(TALK)] == ["b"]
