"""pydantic-ai: a capability that loads known facts into an agent's requests, and saves facts of its runs."""

import asyncio

import attrs
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from factmem import AgentMemory, AgentMemoryConfig
from factmem.agent import install
from factmem.integrations.pydantic_ai import MemoryCapability


@attrs.frozen
class Visitor:
    """The user of a run: the deps of any agent may have these attributes."""

    user_id: str
    session_id: str


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Return a reply with the messages shown; a real agent would use ``"openai:…"``."""
    prompts = [part.content for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    tools = ", ".join(tool.name for tool in info.function_tools) or "none"
    return ModelResponse(parts=[TextPart(f"I see {len(prompts)} prompts, tools: {tools}.\n{prompts[0]}")])


async def main() -> None:
    async with AgentMemory(AgentMemoryConfig(store="facts.db", agent_name="clerk")) as memory:
        agent = install(memory, into=Agent(FunctionModel(answer), deps_type=Visitor))
        await agent.run("I live in Lisbon.", deps=Visitor("alice", "monday"))

        result = await agent.run("Where do I live?", deps=Visitor("alice", "tuesday"))
        print("alice asks:", result.output)
        print("in the history that is kept:", "<memory>" in str(result.all_messages()[0]))
        print("bob asks:", (await agent.run("Where do I live?", deps=Visitor("bob", "tuesday"))).output)

        with_tools = Agent(FunctionModel(answer), capabilities=[MemoryCapability(memory, tools=True)])
        with memory.run(user_id="alice", save=False):
            print("with tools:", (await with_tools.run("Where do I live?")).output.partition("\n")[0])


asyncio.run(main())
