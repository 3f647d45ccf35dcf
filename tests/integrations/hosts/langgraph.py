"""A graph of LangGraph: a node of a model that is given what is known, its tool, and a node that saves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from factmem.agent import save_to_memory_auto_detect_facts
from factmem.agent.plugin import AgentMemory
from factmem.integrations.langchain import memory_tools
from factmem.integrations.langgraph import ADDED_MESSAGES, runnable, with_facts_from_memory
from tests.integrations.chat_model import NotingModel
from tests.integrations.langchain_talk import talked
from tests.integrations.remembering import Manner, Turn

MANNERS: Final = (Manner.ASYNC, Manner.STREAMING, Manner.SYNC)


async def converse(memory: AgentMemory, turns: Sequence[Turn], manner: Manner) -> list[str]:
    """See `tests.integrations.remembering`."""

    def make(model: NotingModel, look_up: BaseTool) -> Any:
        def ask(state: MessagesState) -> dict[str, Any]:
            return {"messages": [model.invoke(state["messages"])]}

        builder = StateGraph(MessagesState)
        builder.add_node("ask", with_facts_from_memory(memory, ask))
        builder.add_node("tools", ToolNode([look_up, *memory_tools(memory)]))
        builder.add_node("save", runnable(save_to_memory_auto_detect_facts(memory, state=ADDED_MESSAGES)))
        builder.add_edge(START, "ask")
        builder.add_conditional_edges("ask", tools_condition, {"tools": "tools", END: "save"})
        builder.add_edge("tools", "ask")
        return builder.compile(checkpointer=InMemorySaver())

    return await talked(make, turns, manner)
