"""OpenAI Agents SDK: an agent that remembers, across a handoff, and a session whose messages are saved."""

import asyncio

import attrs
from agents import Agent, RunConfig, Runner, SQLiteSession
from agents.testing import ScriptedModel, assistant_message, function_call

from factmem import AgentMemory, AgentMemoryConfig
from factmem.agent import install
from factmem.integrations.openai_agents import MemorySession, memory_tools


@attrs.frozen
class Visitor:
    """The user of a run: the context of any run may have these attributes."""

    user_id: str
    session_id: str


def said(text: str) -> ScriptedModel:
    """Return a scripted answer of the SDK's own test model. Use a name, such as ``"gpt-…"``, instead."""
    return ScriptedModel([[assistant_message(text)] for _ in range(9)])


async def main() -> None:
    offline = RunConfig(tracing_disabled=True)
    async with AgentMemory(AgentMemoryConfig(store="facts.db", agent_name="clerk")) as memory:
        model = said("Certainly.")
        agent = install(memory, into=Agent("clerk", model=model, tools=memory_tools(memory)))
        await Runner.run(agent, "I live in Lisbon.", context=Visitor("alice", "monday"), run_config=offline)

        result = await Runner.run(agent, "Where do I live?", context=Visitor("alice", "tuesday"), run_config=offline)
        print("the model was sent:", model.calls[-1].input[0]["content"])
        print("the result keeps:", result.to_input_list()[0])

        billing = Agent("billing", model=(answers := said("It is paid.")))
        asking = ScriptedModel([[function_call("transfer_to_billing", {}, call_id="1")]])
        desk = install(memory, into=Agent("desk", model=asking, handoffs=[billing]))
        result = await Runner.run(desk, "And my bill?", context=Visitor("alice", "tuesday"), run_config=offline)
        print(result.last_agent.name, "knows it too:", "Lisbon" in str(answers.calls[-1].input))

        session = MemorySession(SQLiteSession("friday"), memory, user_id="bob")
        await Runner.run(Agent("plain", model=model), "I have two cats.", session=session, run_config=offline)
        with memory.run(user_id="bob") as run:
            print("learnt from bob's session:", [str(record.value) for record in (await run.load()).records])


asyncio.run(main())
