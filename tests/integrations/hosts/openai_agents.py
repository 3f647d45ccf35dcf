"""The OpenAI Agents SDK: an agent with memory installed, and a session of the SDK."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace

from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from factmem.agent import AgentMemory, install
from tests.integrations.remembering import ANSWER, Turn


async def converse(memory: AgentMemory, turns: Sequence[Turn]) -> list[str]:
    """See `tests.integrations.remembering`."""
    model, answers = ScriptedModel(), iter([turn.tool_result for turn in turns if turn.tool_result is not None])

    @function_tool
    def look_up() -> str:
        """Look at the page."""
        return next(answers)

    agent = install(memory, into=Agent("clerk", model=model, tools=[look_up]))
    session = SQLiteSession(turns[0].session_id)
    shown = []
    for turn in turns:
        if turn.tool_result is not None:
            model.enqueue([function_call("look_up", {}, call_id="1")])
        model.enqueue([assistant_message(ANSWER)])
        context = SimpleNamespace(user_id=turn.user_id, session_id=turn.session_id)
        await Runner.run(
            agent, turn.said, context=context, session=session, run_config=RunConfig(tracing_disabled=True)
        )
        assert model.last_call is not None
        shown.append(json.dumps(model.last_call.input, ensure_ascii=False))
    session.close()
    return shown
