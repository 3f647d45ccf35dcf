"""pydantic-ai: an agent with memory installed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from anyio import to_thread
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from factmem.agent import install
from factmem.agent.plugin import AgentMemory
from factmem.integrations.pydantic_ai import MemoryCapability
from tests.integrations.remembering import ANSWER, Manner, Turn

MANNERS: Final = (Manner.ASYNC, Manner.STREAMING, Manner.SYNC)


async def converse(memory: AgentMemory, turns: Sequence[Turn], manner: Manner) -> list[str]:
    """See `tests.integrations.remembering`."""
    asked: list[Sequence[ModelMessage]] = []
    script: list[ToolCallPart] = []

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(messages)
        return ModelResponse(parts=[script.pop(0) if script else TextPart(ANSWER)])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        for part in respond(messages, info).parts:
            if isinstance(part, ToolCallPart):
                yield {0: DeltaToolCall(part.tool_name, part.args_as_json_str())}
            else:
                yield ANSWER

    model = FunctionModel(respond, stream_function=stream)
    own: Any = Agent(model, deps_type=SimpleNamespace, instructions="Be brief.")
    with_tools: Any = Agent(model, capabilities=[MemoryCapability[Any](memory, tools=True)])
    history: list[ModelMessage] = []
    shown = []
    for turn in turns:
        deps = SimpleNamespace(user_id=turn.user_id, session_id=turn.session_id)
        agent = with_tools if turn.calls else install(memory, into=own)
        toolsets = [] if turn.tool_result is None else [_tool_that_says(turn.tool_result)]
        script += [ToolCallPart("look_up", {}) for _ in toolsets]
        script += [ToolCallPart(name, arguments) for name, arguments in turn.calls]
        options: dict[str, Any] = {"deps": deps, "message_history": history, "toolsets": toolsets}
        match manner:
            case Manner.ASYNC:
                history = (await agent.run(turn.said, **options)).all_messages()
            case Manner.STREAMING:
                async with agent.run_stream(turn.said, **options) as streamed:
                    assert await streamed.get_output() == ANSWER
                    history = streamed.all_messages()
            case Manner.SYNC:
                ran = await to_thread.run_sync(partial(agent.run_sync, turn.said, **options))
                history = ran.all_messages()
        shown.append(ModelMessagesTypeAdapter.dump_json(list(asked[-1])).decode())
    return shown


def _tool_that_says(result: str) -> FunctionToolset[SimpleNamespace]:
    toolset = FunctionToolset[SimpleNamespace]()

    @toolset.tool_plain
    def look_up() -> str:
        """Look at the page."""
        return result

    return toolset
