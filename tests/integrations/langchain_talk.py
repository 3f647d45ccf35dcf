"""The common story for every host on LangGraph: a thread for each session, and a tool to call."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from anyio import to_thread
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver

from factmem.agent import install
from factmem.agent.plugin import AgentMemory
from factmem.integrations.langchain import memory_tools
from tests.integrations.chat_model import NotingModel, answering, calling
from tests.integrations.remembering import ANSWER, Manner, Turn


async def talked(make: Callable[[NotingModel, BaseTool], Any], turns: Sequence[Turn], manner: Manner) -> list[str]:
    """Run a graph, one run per turn, and return the last request to its model in each run.

    Args:
        make: builds the graph from a model and a tool, with a checkpointer.
        turns: see `tests.integrations.remembering`.
        manner: see there.
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
        answers += [calling(name, str(number), **given) for number, (name, given) in enumerate(turn.calls, start=2)]
        answers.append(ANSWER)
        await _asked(graph, turn, manner)
        shown.append(json.dumps([message.text for message in model.asked[-1]], ensure_ascii=False))
    return shown


async def talked_with(
    factory: Callable[..., Any], memory: AgentMemory, turns: Sequence[Turn], manner: Manner
) -> list[str]:
    """Run an agent that a factory makes with memory and its tools; see `talked`."""
    make_agent = install(memory, into=factory)

    def make(model: NotingModel, look_up: BaseTool) -> Any:
        return make_agent(
            model, [look_up, *memory_tools(memory)], checkpointer=InMemorySaver(), system_prompt="You are a clerk."
        )

    return await talked(make, turns, manner)


async def _asked(graph: Any, turn: Turn, manner: Manner) -> None:
    said, thread = {"messages": [HumanMessage(turn.said)]}, {"configurable": {"thread_id": turn.session_id}}
    whose = {"user_id": turn.user_id}
    match manner:
        case Manner.ASYNC:
            await graph.ainvoke(said, thread, context=whose)
        case Manner.STREAMING:
            pieces = [piece async for piece in graph.astream(said, thread, context=whose, stream_mode="messages")]
            assert pieces
        case Manner.SYNC:
            await to_thread.run_sync(partial(graph.invoke, said, thread, context=whose))
