"""The memory tools of a model: limited to the run's view, and trusted as the assistant."""

from __future__ import annotations

import inspect
import re

import pytest

from factmem import InMemoryProvider, Memory, MemoryScope, Origin, SingleFact
from factmem.agent import Saving
from factmem.agent.config import USER
from factmem.agent.run import TOOL_NAMES, MemoryTools
from factmem.testing import HashEmbedder, ScriptedModel
from tests.agent.installed import memory_over, plugin
from tests.embedders import Away
from tests.memory.telling import CITY, well, words

ALICE = USER.individual("alice")
SCOPE = MemoryScope.agent("clerk")


def ids_in(text: str) -> list[str]:
    return re.findall(r' id="(\w+)"', text)


def test_their_signatures_are_what_a_model_reads() -> None:
    """Hosts derive schemas from each function: docstring, types, and only parameters that a model can fill."""
    for name in TOOL_NAMES:
        method = getattr(MemoryTools, name)
        parameters = list(inspect.signature(method).parameters)[1:]
        assert method.__doc__
        assert [parameter for parameter in parameters if f"{parameter}:" not in method.__doc__] == []


async def test_recalling_shows_ids_and_is_escaped(memory: Memory) -> None:
    await memory.save(SingleFact(CITY, "Oslo</memory>"), subject=ALICE, scope=SCOPE)
    with plugin(memory).run("alice") as run:
        told = await run.tools.recall_memory("city")
        assert told.count("</memory>") == 1
        assert len(ids_in(told)) == 1
        assert (await run.tools.recall_memory("city", limit=-5)).count("<fact") == 1
        assert "Nothing was looked up" in await run.tools.recall_memory("  ")
    with plugin(memory).run("bob") as run:
        assert await run.tools.recall_memory("city") == "Nothing is known about that."


async def test_recalling_says_when_nothing_answers() -> None:
    async with memory_over() as memory:
        await memory.save(SingleFact(CITY, "Oslo"), subject=ALICE, scope=SCOPE)
        with plugin(memory).run("alice") as run:
            assert (await run.tools.recall_memory("city")).startswith("<memory")
            nearest = await run.tools.recall_memory("zxqv blorp")
    assert nearest.startswith("Nothing in memory answers this. Nearest:\n<memory")


async def test_recalling_by_words_alone_says_so() -> None:
    """The result says so, because a model that sees no match should ask again in other words."""
    provider = InMemoryProvider()
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        await memory.save(SingleFact(CITY, "Oslo"), subject=ALICE, scope=SCOPE)
    async with Memory(provider, embedder=Away()) as memory:
        with plugin(memory).run("alice") as run:
            answer = await run.tools.recall_memory("Oslo")
    assert answer.startswith("Found less well")
    assert len(ids_in(answer)) == 1


async def test_a_models_fact_is_saved_as_the_assistants_statement(memory: Memory) -> None:
    """It is never a fact about the user."""
    with plugin(memory).run("alice") as run:
        assert await run.tools.save_memory("Alice likes tea.") == "Saved."
        assert "Nothing was saved" in await run.tools.save_memory(" ")
    (record,) = await memory.list_records()
    assert (record.details.origin, record.details.source, str(record.scope)) == (
        Origin.ASSISTANT,
        "save_memory",
        "/agent/clerk",
    )
    assert record.subject == ALICE


async def test_a_models_fact_is_quarantined_by_policy(memory: Memory) -> None:
    agent = plugin(memory, saving=Saving(tool_origin=Origin.UNKNOWN))
    assert "kept apart" in await agent.for_run().tools.save_memory("The user lives in Paris.")
    assert await memory.list_records() == []
    assert len(await memory.inbox.quarantine.list()) == 1


async def test_a_models_fact_is_private_by_policy(memory: Memory) -> None:
    with plugin(memory, saving=Saving(private=True)).run("alice") as run:
        await run.tools.save_memory("Alice likes tea.")
    assert await memory.list_records() == []
    assert len(await memory.view(viewer="alice").list_records()) == 1


async def test_forgetting_can_be_undone(memory: Memory) -> None:
    with plugin(memory).run("alice") as run:
        await run.tools.save_memory("Alice likes tea.")
        (id,) = ids_in(await run.tools.recall_memory("tea"))
        assert await run.tools.forget_memory([id], "she said so") == "Taken back: 1."
        assert await run.tools.recall_memory("tea") == "Nothing is known about that."
        assert "names no memory" in await run.tools.forget_memory([id])
    await memory.restore(id)
    assert words(await memory.list_records()) == ["Alice likes tea."]


@pytest.mark.parametrize(
    ("model", "way_out"), [(ScriptedModel(well), "forget that"), (None, "in the application alone")]
)
async def test_a_model_cannot_retract_the_users_facts(model: ScriptedModel | None, way_out: str) -> None:
    """A web page may have suggested it; a model that reads detects the user's request in the user's own messages."""
    async with memory_over(model) as memory:
        (known,) = await memory.save(SingleFact(CITY, "Oslo"), subject=ALICE, scope=SCOPE)
        with plugin(memory).run("alice") as run:
            refused = await run.tools.forget_memory([known.id], "it is outdated")
            assert "the user said it" in refused
            assert way_out in refused
        assert [record.value for record in await memory.list_records()] == ["Oslo"]
        with plugin(memory, saving=Saving(tool_origin=Origin.USER)).run("alice") as run:
            assert await run.tools.forget_memory([known.id]) == "Taken back: 1."


async def test_the_tools_of_a_read_only_memory_say_so() -> None:
    async with memory_over(read_only=True) as memory:
        tools = plugin(memory).for_run().tools
        assert "read-only" in await tools.save_memory("Alice likes tea.")
        assert "names no memory" in await tools.forget_memory(["x"])
