"""The common story for every host on LangGraph: a thread for each session, and a tool to call."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import BaseTool, tool

from tests.integrations.chat_model import NotingModel, answering, calling
from tests.integrations.remembering import ANSWER, Turn


async def talked(make: Callable[[NotingModel, BaseTool], Any], turns: Sequence[Turn]) -> list[str]:
    """Run a graph, one run per turn, and return the last request to its model in each run.

    Args:
        make: builds the graph from a model and a tool, with a checkpointer.
        turns: see `tests.integrations.remembering`.
    """
    answered = ""

    @tool
    def look_up() -> str:
        """Read the page."""
        return answered

    answers: list[AIMessage | str] = []
    model = answering(answers)
    graph = make(model, look_up)
    shown = []
    for turn in turns:
        if turn.tool_result is not None:
            answered = turn.tool_result
            answers.append(calling("look_up"))
        answers.append(ANSWER)
        thread = {"configurable": {"thread_id": turn.session_id}}
        await graph.ainvoke({"messages": [HumanMessage(turn.said)]}, thread, context={"user_id": turn.user_id})
        shown.append(json.dumps([message.text for message in model.asked[-1]], ensure_ascii=False))
    return shown
