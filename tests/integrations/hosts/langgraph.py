"""A graph of LangGraph's with nodes that load and save, around a model and its tool."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from factmem.agent import AgentMemory, load_all_facts_from_memory, save_to_memory_auto_detect_facts
from factmem.integrations.langgraph import ADDED_MESSAGES
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

    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("load", load_all_facts_from_memory(memory, state=ADDED_MESSAGES))
    builder.add_node("ask", ask)
    builder.add_node("tools", ToolNode([look_up]))
    builder.add_node("save", save_to_memory_auto_detect_facts(memory))
    builder.add_edge(START, "load")
    builder.add_edge("load", "ask")
    builder.add_conditional_edges("ask", tools_condition, {"tools": "tools", END: "save"})
    builder.add_edge("tools", "ask")
    graph = builder.compile(checkpointer=InMemorySaver())
    shown = []
    for turn in turns:
        if turn.tool_result is not None:
            answered = turn.tool_result
            answers.append(calling("look_up"))
        answers.append(ANSWER)
        await graph.ainvoke(
            {"messages": [HumanMessage(turn.said)]},
            {"configurable": {"thread_id": turn.session_id, "user_id": turn.user_id}},
        )
        shown.append(json.dumps([message.text for message in model.asked[-1]], ensure_ascii=False))
    return shown
