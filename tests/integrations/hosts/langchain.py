"""``create_agent`` of LangChain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from langchain.agents import create_agent

from factmem.agent.plugin import AgentMemory
from tests.integrations.langchain_talk import talked_with
from tests.integrations.remembering import Manner, Turn

MANNERS: Final = (Manner.ASYNC, Manner.STREAMING, Manner.SYNC)


async def converse(memory: AgentMemory, turns: Sequence[Turn], manner: Manner) -> list[str]:
    """See `tests.integrations.remembering`."""
    return await talked_with(create_agent, memory, turns, manner)
