"""pydantic-ai: an agent with memory installed."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from factmem.agent import AgentMemory, install
from tests.integrations.remembering import ANSWER, Turn


async def converse(memory: AgentMemory, turns: Sequence[Turn]) -> list[str]:
    """See `tests.integrations.remembering`."""
    asked: list[Sequence[ModelMessage]] = []

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(messages)
        answered = any(isinstance(part, ToolReturnPart) for part in messages[-1].parts)
        if info.function_tools and not answered:
            return ModelResponse(parts=[ToolCallPart("look_up", {})])
        return ModelResponse(parts=[TextPart(ANSWER)])

    agent = install(memory, into=Agent(FunctionModel(respond), deps_type=SimpleNamespace, instructions="Be brief."))
    history: list[ModelMessage] = []
    shown = []
    for turn in turns:
        deps = SimpleNamespace(user_id=turn.user_id, session_id=turn.session_id)
        toolsets = [] if turn.tool_result is None else [_tool_that_says(turn.tool_result)]
        result = await agent.run(turn.said, deps=deps, message_history=history, toolsets=toolsets)
        history = result.all_messages()
        shown.append(ModelMessagesTypeAdapter.dump_json(list(asked[-1])).decode())
    return shown


def _tool_that_says(result: str) -> FunctionToolset[SimpleNamespace]:
    toolset = FunctionToolset[SimpleNamespace]()

    @toolset.tool_plain
    def look_up() -> str:
        """Look at the page."""
        return result

    return toolset
