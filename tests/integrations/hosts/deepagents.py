"""``create_deep_agent`` of Deep Agents, with a thread for each session."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from deepagents import create_deep_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from factmem.agent import AgentMemory, install
from tests.integrations.chat_model import answering, calling
from tests.integrations.remembering import ANSWER, Turn


async def converse(memory: AgentMemory, turns: Sequence[Turn]) -> list[str]:
    """See `tests.integrations.remembering`."""
    answered = ""

    @tool
    def look_up() -> str:
        """Read the page."""
        return answered

    answers: list[AIMessage | str] = []
    model = answering(answers)
    make_agent = install(memory, into=create_deep_agent)
    agent: Any = make_agent(model, [look_up], checkpointer=InMemorySaver(), system_prompt="You are a clerk.")
    shown = []
    for turn in turns:
        if turn.tool_result is not None:
            answered = turn.tool_result
            answers.append(calling("look_up"))
        answers.append(ANSWER)
        await agent.ainvoke(
            {"messages": [{"role": "user", "content": turn.said}]},
            {"configurable": {"thread_id": turn.session_id}},
            context={"user_id": turn.user_id},
        )
        shown.append(json.dumps([message.text for message in model.asked[-1]], ensure_ascii=False))
    return shown
