"""A loop without any framework: the three methods of `AgentMemory`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from factmem.agent.plugin import AgentMemory
from tests.integrations.remembering import ANSWER, Manner, Turn

MANNERS: Final = (Manner.ASYNC,)


async def converse(memory: AgentMemory, turns: Sequence[Turn], manner: Manner) -> list[str]:
    """See `tests.integrations.remembering`."""
    history: list[dict[str, Any]] = []
    shown = []
    for turn in turns:
        with memory.run(turn.user_id, turn.session_id):
            history.append({"role": "user", "content": turn.said})
            if turn.tool_result is not None:
                call = {"id": "1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
                history.append({"role": "assistant", "content": None, "tool_calls": [call]})
                history.append({"role": "tool", "tool_call_id": "1", "content": turn.tool_result})
            shown.append(json.dumps(await memory.load_all_facts_to_agent(history), ensure_ascii=False))
            history.append({"role": "assistant", "content": ANSWER})
            await memory.save_facts_from_history(history)
    return shown
