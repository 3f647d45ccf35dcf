"""The parts of the OpenAI Agents SDK integration: hooks and a filter for single runs, tools, and sessions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agents import (
    Agent,
    RunConfig,
    SQLiteSession,
    function_tool,
)
from agents.memory import Session
from agents.testing import ScriptedModel, assistant_message, function_call

from factmem.agent import (
    Hooks,
    RunIdentity,
    SavedHistory,
    Saving,
    SavingTime,
    install,
)
from factmem.integrations.openai_agents import MemoryHooks, MemorySession, memory_filter, memory_tools
from tests.agent.installed import memory_over, plugin
from tests.integrations.agents_sdk import ANSWER, answering, knowing, run, shown
from tests.memory.telling import words


@pytest.fixture
def anyio_backend() -> str:
    """The framework runs on asyncio only."""
    return "asyncio"


async def test_hooks_and_a_filter_together_add_one_block() -> None:
    model = answering(ANSWER, ANSWER, ANSWER)
    agent = Agent("clerk", model=model)
    async with memory_over() as store:
        memory = await knowing(store)
        filtered = RunConfig(tracing_disabled=True, call_model_input_filter=memory_filter(memory))
        await run(agent, "I have a dog.", run_config=filtered)
        assert words(await store.list_records()) == []
        await run(agent, "I have a cat.", hooks=MemoryHooks(memory))
        await run(install(memory, into=agent), "I have a cow.", hooks=MemoryHooks(memory), run_config=filtered)
        assert words(await store.list_records()) == ["I have a cat.", "I have a cow.", ANSWER]
    assert [request.count("<memory>") for request in shown(model)] == [1, 1, 1]


async def test_tools_work_for_the_user_of_their_run() -> None:
    model = ScriptedModel([[function_call("recall_memory", {"query": "city", "limit": 5}, call_id="1")]])
    model.enqueue([function_call("save_memory", {"text": "The user likes tea."}, call_id="2")])
    model.enqueue([assistant_message(ANSWER)])
    async with memory_over() as store:
        memory = await knowing(store)
        await knowing(store, "Bern", "bob")
        await run(Agent("clerk", model=model, tools=memory_tools(memory)))
        (statement,) = [record for record in await store.list_records() if record.concept.keyword == "statement"]
        assert (statement.value, str(statement.subject)) == ("The user likes tea.", "user:alice")
    answers = json.dumps(model.calls[2].input)
    assert "Oslo" in answers
    assert "Bern" not in answers
    described = [(tool.name, "Args" in (getattr(tool, "description", ""))) for tool in model.calls[0].tools]
    assert described == [("recall_memory", False), ("save_memory", False), ("forget_memory", False)]


async def test_a_session_keeps_items_in_their_order_and_is_learnt_from() -> None:
    model, inner = answering(), SQLiteSession("monday")
    async with memory_over() as store:
        session = MemorySession(inner, plugin(store), user_id="alice")
        assert isinstance(session, Session)
        await run(Agent("clerk", model=model), "I have a cat.", session=session)
        records = await store.list_records()
        assert words(records) == ["I have a cat.", ANSWER]
        assert {item.conversation_id for record in records for item in record.evidence} == {"monday"}
        assert {str(record.subject) for record in records} == {"user:alice"}
        items = await session.get_items()
        assert [item.get("role") for item in items] == ["user", "assistant"]
        assert await session.get_items(1) == items[1:]
        assert await session.pop_item() == items[1]
        await session.add_items([{"role": "user", "content": "I have a cat."}])
        assert len(await inner.get_items()) == 2, "a session is a list: the same words may stand in it twice"
        await session.clear_session()
        assert (await inner.get_items(), await session.pop_item()) == ([], None)
    assert session.db_path == inner.db_path, "attributes of the SDK's own session beyond the protocol are available"
    inner.close()


async def test_a_session_and_an_agent_with_memory_learn_nothing_twice() -> None:
    kept: list[Any] = []
    model, inner = answering(), SQLiteSession("monday")

    async def note(identity: RunIdentity, saved: SavedHistory) -> None:
        kept.extend(record.value for outcome in await saved.wait() for record in outcome.records)

    async with memory_over() as store:
        memory = plugin(store, hooks=Hooks(after_save=note))
        agent = install(memory, into=Agent("clerk", model=model))
        await run(agent, "I have a cat.", session=MemorySession(inner, memory, user_id="alice"))
    assert kept == ["I have a cat.", ANSWER]
    inner.close()


async def test_nothing_is_submitted_where_the_program_does_it() -> None:
    model, inner = answering(ANSWER, ANSWER), SQLiteSession("monday")
    async with memory_over() as store:
        memory = plugin(store, saving=Saving(when=SavingTime.MANUALLY))
        result = await run(
            install(memory, into=Agent("clerk", model=model)), "I live in Bern.", session=MemorySession(inner, memory)
        )
        assert words(await store.list_records()) == []
        await memory.save_facts_from_history(result.to_input_list())
        assert "I live in Bern." in words(await store.list_records())
    inner.close()


async def test_what_a_model_saves_of_the_answer_of_a_tool_is_kept_apart() -> None:
    """The memory is loaded before the tool answers, and the tool is heard nevertheless."""

    def look_up() -> str:
        return "The user lives in EVILTOWN."

    model = ScriptedModel([[function_call("look_up", {}, call_id="1")]])
    for number, text in enumerate(("The user lives in EVILTOWN.", "The user keeps bees."), start=2):
        model.enqueue([function_call("save_memory", {"text": text}, call_id=str(number))])
    model.enqueue([assistant_message(ANSWER)])
    async with memory_over() as store:
        memory = plugin(store)
        agent = Agent("clerk", model=model, tools=[function_tool(look_up), *memory_tools(memory)])
        await run(install(memory, into=agent), "Where do I live? I keep bees.")
        assert words(await store.quarantine.list()) == ["The user lives in EVILTOWN."]
        assert "The user keeps bees." in words(await store.list_records())
