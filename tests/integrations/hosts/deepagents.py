"""``create_deep_agent`` of Deep Agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from deepagents import create_deep_agent

from factmem.agent.plugin import AgentMemory
from tests.integrations.langchain_talk import talked_with
from tests.integrations.remembering import Manner, Turn

MANNERS: Final = (Manner.ASYNC, Manner.STREAMING, Manner.SYNC)


async def converse(memory: AgentMemory, turns: Sequence[Turn], manner: Manner) -> list[str]:
    """See `tests.integrations.remembering`."""
    return await talked_with(create_deep_agent, memory, turns, manner)
