"""A graph of LangGraph with nodes that load and save, around a model and its tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from factmem.agent import AgentMemory, load_all_facts_from_memory, save_to_memory_auto_detect_facts
from factmem.integrations.langgraph import ADDED_MESSAGES
from tests.integrations.chat_model import NotingModel
from tests.integrations.langchain_talk import talked
from tests.integrations.remembering import Manner, Turn

MANNERS: Final = (Manner.ASYNC, Manner.STREAMING)


async def converse(memory: AgentMemory, turns: Sequence[Turn], manner: Manner) -> list[str]:
    """See `tests.integrations.remembering`."""

    def make(model: NotingModel, look_up: BaseTool) -> Any:
        async def ask(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        builder = StateGraph(MessagesState)
        builder.add_node("load", load_all_facts_from_memory(memory, state=ADDED_MESSAGES))
        builder.add_node("ask", ask)
        builder.add_node("tools", ToolNode([look_up]))
        builder.add_node("save", save_to_memory_auto_detect_facts(memory, state=ADDED_MESSAGES))
        builder.add_edge(START, "load")
        builder.add_edge("load", "ask")
        builder.add_conditional_edges("ask", tools_condition, {"tools": "tools", END: "save"})
        builder.add_edge("tools", "ask")
        return builder.compile(checkpointer=InMemorySaver())

    return await talked(make, turns, manner)
