"""LangChain: an agent of ``create_agent`` that remembers, with tools to recall and save."""

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from factmem import AgentMemory, AgentMemoryConfig
from factmem.agent import install
from factmem.integrations.langchain import FactMemMiddleware


class Parrot(BaseChatModel):
    """A model for this example that repeats its messages. Use ``"openai:…"`` instead."""

    @property
    def _llm_type(self) -> str:
        return "parrot"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        shown = " | ".join(str(message.text) for message in messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f"I see: {shown}"))])

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        print("tools:", ", ".join(tool.name for tool in tools))
        return self


async def main() -> None:
    make_agent = install(AgentMemory, into=create_agent, store="facts.db", agent_name="clerk")
    agent = make_agent(Parrot())
    for user, session, said in (
        ("alice", "monday", "I moved to Lisbon."),
        ("alice", "tuesday", "Where do I live?"),
        ("bob", "tuesday", "Where do I live?"),
    ):
        whose: Any = {"user_id": user, "session_id": session}
        result = await agent.ainvoke({"messages": [{"role": "user", "content": said}]}, context=whose)
        print(f"{user}, {session}: {result['messages'][-1].text}")


def without_an_event_loop() -> None:
    memory = AgentMemory(AgentMemoryConfig(store="memory:"))
    agent = create_agent(Parrot(), middleware=[FactMemMiddleware(memory, tools=True)])
    with memory.run(user_id="alice"):
        agent.invoke({"messages": [{"role": "user", "content": "Hello."}]})
    memory.close()


asyncio.run(main())
without_an_event_loop()
