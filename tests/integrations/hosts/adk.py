"""Google ADK: a plugin of an app whose root agent has a scripted model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from anyio import to_thread
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps.app import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from pydantic import Field

from factmem.agent import install
from factmem.agent.plugin import AgentMemory
from factmem.integrations.adk import memory_tools
from tests.integrations.remembering import ANSWER, Manner, Turn


class Scripted(BaseLlm):
    """A model that answers from a list, then with ANSWER, and records its requests."""

    model: str = "scripted"
    script: list[types.Part] = Field(default_factory=list)
    shown: list[list[types.Content]] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.shown.append([content.model_copy(deep=True) for content in llm_request.contents])
        part = self.script.pop(0) if self.script else types.Part(text=ANSWER)
        if stream and part.text:
            yield LlmResponse(content=types.Content(role="model", parts=[part]), partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=[part]), partial=False)


def said(*texts: str) -> types.Content:
    """Return the content of a user's message."""
    return types.Content(role="user", parts=[types.Part(text=text) for text in texts])


def written(contents: Sequence[types.Content]) -> str:
    """Return a request as sent over the wire."""
    return "\n".join(content.model_dump_json(exclude_none=True) for content in contents)


MANNERS: Final = (Manner.ASYNC, Manner.STREAMING, Manner.SYNC)


async def converse(memory: AgentMemory, turns: Sequence[Turn], manner: Manner) -> list[str]:
    """See `tests.integrations.remembering`."""
    answers = [turn.tool_result for turn in turns if turn.tool_result is not None]

    def look_up() -> str:
        """Look something up."""
        return answers[0]

    model = Scripted()
    app = install(
        memory,
        into=App(name="fair", root_agent=LlmAgent(name="clerk", model=model, tools=[look_up, *memory_tools(memory)])),
    )
    sessions = InMemorySessionService()
    shown = []
    async with Runner(app=app, session_service=sessions) as runner:
        for turn in turns:
            if await sessions.get_session(app_name="fair", user_id=turn.user_id, session_id=turn.session_id) is None:
                await sessions.create_session(app_name="fair", user_id=turn.user_id, session_id=turn.session_id)
            calls = [*([("look_up", {})] if turn.tool_result is not None else []), *turn.calls]
            model.script = [types.Part.from_function_call(name=name, args=arguments) for name, arguments in calls]
            await _run(runner, turn, manner)
            shown.append(written(model.shown[-1]))
    return shown


async def _run(runner: Runner, turn: Turn, manner: Manner) -> None:
    asked: dict[str, Any] = {"user_id": turn.user_id, "session_id": turn.session_id, "new_message": said(turn.said)}
    match manner:
        case Manner.ASYNC:
            assert [event async for event in runner.run_async(**asked)]
        case Manner.STREAMING:
            config = RunConfig.model_validate({"streaming_mode": "sse"})
            assert any([event.partial async for event in runner.run_async(**asked, run_config=config)])
        case Manner.SYNC:
            assert await to_thread.run_sync(lambda: list(runner.run(**asked)))
