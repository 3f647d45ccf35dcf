"""``create_deep_agent`` of Deep Agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from deepagents import create_deep_agent
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver

from factmem.agent import install
from factmem.agent.plugin import AgentMemory
from factmem.integrations.langchain import memory_tools
from tests.integrations.chat_model import NotingModel
from tests.integrations.langchain_talk import talked
from tests.integrations.remembering import Manner, Turn

MANNERS: Final = (Manner.ASYNC, Manner.STREAMING, Manner.SYNC)


async def converse(memory: AgentMemory, turns: Sequence[Turn], manner: Manner) -> list[str]:
    """See `tests.integrations.remembering`."""
    make_agent = install(memory, into=create_deep_agent)

    def make(model: NotingModel, look_up: BaseTool) -> Any:
        return make_agent(
            model, [look_up, *memory_tools(memory)], checkpointer=InMemorySaver(), system_prompt="You are a clerk."
        )

    return await talked(make, turns, manner)
