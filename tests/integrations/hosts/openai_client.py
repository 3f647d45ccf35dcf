"""A bare loop over OpenAI's client with memory installed, and a model behind a local socket."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from openai import AsyncOpenAI

from factmem.agent import AgentMemory, install
from factmem.testing.chat_answers import chat_answer, tool_answer
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.integrations.remembering import ANSWER, Turn


async def converse(memory: AgentMemory, turns: Sequence[Turn]) -> list[str]:
    """See `tests.integrations.remembering`."""
    history: list[Any] = []
    shown = []
    with LoopbackOpenAIServer(respond) as server:
        async with AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as given:
            client = install(memory, into=given)
            for turn in turns:
                history.append({"role": "user", "content": turn.said})
                with memory.run(turn.user_id, turn.session_id):
                    await answered(client, history, turn.tool_result)
                shown.append(json.dumps(server.requests[-1][1]["messages"], ensure_ascii=False))
    return shown


async def answered(client: AsyncOpenAI, history: list[Any], tool_result: str | None) -> None:
    """Send requests until the model calls no more tools, as such loops do."""
    tool: Any = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
    while True:
        tools = [tool] if tool_result is not None else []
        completion = await client.chat.completions.create(model="loopback", messages=history, tools=tools)
        message = completion.choices[0].message
        history.append(message)
        if not message.tool_calls:
            return
        history += [{"role": "tool", "tool_call_id": call.id, "content": tool_result} for call in message.tool_calls]


def respond(path: str, request: dict[str, Any]) -> Answer:
    """Call the tool if there is an unanswered one; otherwise give the answer."""
    if request.get("tools") and request["messages"][-1]["role"] != "tool":
        return tool_answer({}, name="look_up")
    return chat_answer(ANSWER)
