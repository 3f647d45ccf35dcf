"""The OpenAI Agents SDK: requests as sent, the contents of sessions, and facts saved from a run."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anyio
import pytest
from agents import (
    Agent,
    AgentHooks,
    GuardrailFunctionOutput,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunContextWrapper,
    SQLiteSession,
    Tool,
    function_tool,
    handoff,
    output_guardrail,
)
from agents.items import ModelResponse, TResponseInputItem
from agents.memory import Session
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call

from factmem import AgentMemory, Memory
from factmem.agent import install
from factmem.agent.config import Hooks, RunIdentity, Saving, SavingTime
from factmem.agent.holders import SavedHistory
from factmem.errors import CapabilityError
from factmem.integrations.openai_agents import MemoryHooks, MemorySession, memory_filter
from tests.agent.installed import memory_over, plugin
from tests.integrations.agents_sdk import ANSWER, ASKED, answering, knowing, run, shown
from tests.memory.telling import words


async def test_what_is_known_stands_before_the_users_last_message_in_the_request_alone(memory: Memory) -> None:
    model = answering()
    history: list[TResponseInputItem] = [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": ASKED},
    ]
    before = json.dumps(history)
    agent = install(await knowing(memory), into=Agent("clerk", model=model, instructions="Be brief."))
    result = await run(agent, history)
    (call,) = model.calls
    assert [sorted(item) for item in call.input] == [["content", "role"]] * 4, "the API accepts no other keys"
    assert [item["role"] for item in call.input] == ["user", "assistant", "user", "user"]
    assert "Oslo" in call.input[2]["content"]
    assert call.system_instructions == "Be brief."
    assert "Oslo" not in json.dumps(result.to_input_list())
    assert json.dumps(history) == before


async def test_a_model_that_is_named_for_a_run_is_shown_the_block(memory: Memory) -> None:
    model = answering()
    await run(
        install(await knowing(memory), into=Agent("clerk")), run_config=RunConfig(model=model, tracing_disabled=True)
    )
    assert "Oslo" in shown(model)[0]


class Noted(AgentHooks[Any]):
    """A program's own hooks."""

    def __init__(self) -> None:
        self.called: list[str] = []

    async def on_start(self, context: Any, agent: Any) -> None:
        self.called.append("start")

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        self.called.append("end")

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        self.called.append("handoff")

    async def on_tool_start(self, context: Any, agent: Any, tool: Tool) -> None:
        self.called.append("tool start")

    async def on_tool_end(self, context: Any, agent: Any, tool: Tool, result: object) -> None:
        self.called.append("tool end")

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        self.called.append("asks")

    async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:
        self.called.append("hears")


@function_tool
def look_up() -> str:
    """Look at the page."""
    return "I live in Paris."


async def test_hooks_that_were_set_are_called_and_each_request_of_a_run_has_one_block(memory: Memory) -> None:
    own, model = Noted(), ScriptedModel([[function_call("look_up", {}, call_id="1")], [assistant_message(ANSWER)]])
    agent = install(await knowing(memory), into=Agent("clerk", model=model, tools=[look_up], hooks=own))
    await run(agent, "Look, please.")
    assert words(await memory.list_records()) == ["Look, please.", ANSWER], "the tool's words are left out"
    assert own.called == ["start", "asks", "hears", "tool start", "tool end", "asks", "hears", "end"]
    assert [request.count("<memory>") for request in shown(model)] == [1, 1]


@pytest.mark.parametrize("plain", [True, False])
async def test_memory_goes_along_when_an_agent_hands_off(plain: bool, memory: Memory) -> None:
    """Agents may hand off to each other in cycles, directly or by handoffs with settings."""
    own, model = Noted(), answering(ANSWER, ANSWER)
    billing: Agent[Any] = Agent("billing", model=model)
    target = billing if plain else handoff(billing, tool_description_override="Bills.")
    asking = ScriptedModel([[function_call("transfer_to_billing", {}, call_id="1")]])
    triage = Agent("triage", model=asking, handoffs=[target], hooks=own)
    billing.handoffs.append(triage)
    installed = install(await knowing(memory), into=triage)
    result = await run(installed, "I have a bill.")
    await run(result.last_agent, "Thanks.")
    assert words(await memory.list_records()) == ["I have a bill.", "Thanks.", ANSWER]
    assert result.last_agent.name == "billing"
    assert [request.count("<memory>") for request in shown(asking) + shown(model)] == [1, 1, 1]
    assert own.called == ["start", "asks", "hears", "handoff"]
    assert (billing.hooks, triage.hooks, triage.handoffs) == (None, own, [target])
    assert result.last_agent.handoffs == [installed]


async def test_an_agent_that_a_handoff_makes_has_memory_too(memory: Memory) -> None:
    model = answering()
    made = handoff(Agent("billing"))

    async def make(context: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
        return Agent("billing", model=model)

    made.on_invoke_handoff = make
    asking = ScriptedModel([[function_call("transfer_to_billing", {}, call_id="1")]])
    await run(install(await knowing(memory), into=Agent("triage", model=asking, handoffs=[made])))
    assert "Oslo" in shown(model)[0]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_run_that_raises_or_is_cancelled_leaves_all_as_it_was(cancelled: bool, memory: Memory) -> None:
    async def fail(call: ModelCall) -> ModelStep:
        if cancelled:
            scope.cancel()
            await anyio.sleep_forever()
        raise OSError("the model is away")

    history: list[TResponseInputItem] = [{"role": "user", "content": ASKED}]
    model = ScriptedModel([ModelStep.respond(fail), [assistant_message(ANSWER)]])
    agent = install(await knowing(memory), into=Agent("clerk", model=model))
    with anyio.CancelScope() as scope:
        with pytest.raises((OSError, asyncio.CancelledError)) as raised:
            await run(agent, history)
        if cancelled:
            raise raised.value
    assert scope.cancelled_caught is cancelled
    assert [record.value for record in await memory.list_records()] == ["Oslo"]
    assert history == [{"role": "user", "content": ASKED}]
    await run(agent, history)
    assert [request.count("<memory>") for request in shown(model)] == [1, 1]


async def test_an_answer_that_guardrails_must_pass_is_learnt_from_when_a_history_shows_that_it_did(
    memory: Memory,
) -> None:
    @output_guardrail
    async def no_secrets(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered="secret" in output)

    model = answering("Good morning.", "Very well.", "The secret.")
    agent = install(plugin(memory), into=Agent("clerk", model=model, output_guardrails=[no_secrets]))
    result = await run(agent, "Hello.")
    assert words(await memory.list_records()) == ["Hello."]
    await run(agent, [*result.to_input_list(), {"role": "user", "content": "Well?"}])
    assert words(await memory.list_records()) == ["Good morning.", "Hello.", "Well?"]
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await run(agent, "Tell me.")
    assert "The secret." not in words(await memory.list_records())


async def test_the_words_that_one_model_writes_to_another_are_nobodys_facts(memory: Memory) -> None:
    helping, model = answering(), ScriptedModel()
    model.enqueue([function_call("help", {"input": "I live in Paris."}, call_id="1")])
    model.enqueue([assistant_message(ANSWER)])
    helper = install(await knowing(memory), into=Agent("helper", model=helping))
    await run(Agent("clerk", model=model, tools=[helper.as_tool("help", "Helps.")]))
    assert words(await memory.list_records()) == []
    assert "Oslo" in shown(helping)[0]


async def test_where_the_server_keeps_the_conversation_what_is_known_is_sent_once_a_run(memory: Memory) -> None:
    model = ScriptedModel([[function_call("look_up", {}, call_id="1")], [assistant_message(ANSWER)]])
    agent = install(await knowing(memory), into=Agent("clerk", model=model, tools=[look_up]))
    await run(agent, conversation_id="conv_1")
    assert [request.count("<memory>") for request in shown(model)] == [1, 0]


def test_memory_is_put_into_agents_alone() -> None:
    with pytest.raises(CapabilityError, match="not into a ScriptedModel"):
        install(AgentMemory, into=ScriptedModel(), store="none:")


# The parts of the OpenAI Agents SDK integration: hooks and a filter for single runs, tools, and sessions.


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


async def test_a_session_is_not_read_to_save_nothing() -> None:
    class Unread(SQLiteSession):
        async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
            raise AssertionError("all items were read")

    inner = Unread("monday")
    async with memory_over() as store:
        memory = plugin(store, saving=Saving(when=SavingTime.MANUALLY))
        await MemorySession(inner, memory, user_id="alice").add_items([{"role": "user", "content": "I have a cat."}])
        assert await store.list_records() == []
    assert await inner.pop_item() == {"role": "user", "content": "I have a cat."}
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
