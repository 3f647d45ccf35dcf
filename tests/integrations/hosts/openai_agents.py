"""The OpenAI Agents SDK: an agent with memory installed, and a session of the SDK."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from anyio import to_thread

from factmem.agent import install
from factmem.agent.plugin import AgentMemory
from factmem.integrations.openai_agents import memory_tools
from tests.integrations.remembering import ANSWER, Manner, Turn

_QUIET: Final = RunConfig(tracing_disabled=True)
MANNERS: Final = (Manner.ASYNC, Manner.STREAMING, Manner.SYNC)


async def converse(memory: AgentMemory, turns: Sequence[Turn], manner: Manner) -> list[str]:
    """See `tests.integrations.remembering`."""
    model, answers = ScriptedModel(), iter([turn.tool_result for turn in turns if turn.tool_result is not None])

    @function_tool
    def look_up() -> str:
        """Look at the page."""
        return next(answers)

    agent = install(memory, into=Agent("clerk", model=model, tools=[look_up, *memory_tools(memory)]))
    session = SQLiteSession(turns[0].session_id)
    shown = []
    for turn in turns:
        if turn.tool_result is not None:
            model.enqueue([function_call("look_up", {}, call_id="1")])
        for number, (name, arguments) in enumerate(turn.calls, start=2):
            model.enqueue([function_call(name, arguments, call_id=str(number))])
        model.enqueue([assistant_message(ANSWER)])
        context = SimpleNamespace(user_id=turn.user_id, session_id=turn.session_id)
        options: dict[str, Any] = {"context": context, "session": session, "run_config": _QUIET}
        match manner:
            case Manner.ASYNC:
                await Runner.run(agent, turn.said, **options)
            case Manner.STREAMING:
                streamed = Runner.run_streamed(agent, turn.said, **options)
                assert [event async for event in streamed.stream_events()]
            case Manner.SYNC:
                await to_thread.run_sync(partial(Runner.run_sync, agent, turn.said, **options))
        assert model.last_call is not None
        shown.append(json.dumps(model.last_call.input, ensure_ascii=False))
    session.close()
    return shown
