"""A bare loop over OpenAI's client with memory installed, and a model behind a local socket."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from anyio import to_thread
from openai import AsyncOpenAI, OpenAI

from factmem.agent import install
from factmem.agent.plugin import AgentMemory
from factmem.testing.chat_answers import chat_answer, streamed, tool_answer
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.integrations.remembering import ANSWER, Manner, Turn

MANNERS: Final = (Manner.ASYNC, Manner.STREAMING, Manner.SYNC)


async def converse(memory: AgentMemory, turns: Sequence[Turn], manner: Manner) -> list[str]:
    """See `tests.integrations.remembering`."""
    history: list[Any] = []
    shown = []
    with LoopbackOpenAIServer(respond) as server:
        made: Any = OpenAI if manner == Manner.SYNC else AsyncOpenAI
        client = install(memory, into=made(base_url=server.base_url, api_key="none", max_retries=0))
        for turn in turns:
            history.append({"role": "user", "content": turn.said})
            with memory.run(turn.user_id, turn.session_id):
                await answered(client, history, turn.tool_result, manner)
            shown.append(json.dumps(server.requests[-1][1]["messages"], ensure_ascii=False))
        await (to_thread.run_sync(client.close) if manner == Manner.SYNC else client.close())
    return shown


async def answered(client: Any, history: list[Any], tool_result: str | None, manner: Manner) -> None:
    """Send requests until the model calls no more tools, as such loops do."""
    nothing = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    tool: Any = {"type": "function", "function": {"name": "look_up", "strict": True, "parameters": nothing}}
    while True:
        tools = [tool] if tool_result is not None else []
        request: dict[str, Any] = {"model": "loopback", "messages": history, "tools": tools}
        match manner:
            case Manner.ASYNC:
                completion = await client.chat.completions.create(**request)
            case Manner.STREAMING:
                async with client.chat.completions.stream(**request) as stream:
                    completion = await stream.get_final_completion()
            case Manner.SYNC:
                completion = await to_thread.run_sync(partial(client.chat.completions.create, **request))
        message = completion.choices[0].message
        history.append(message)
        if not message.tool_calls:
            return
        history += [{"role": "tool", "tool_call_id": call.id, "content": tool_result} for call in message.tool_calls]


def respond(path: str, request: dict[str, Any]) -> Answer:
    """Call the tool if there is an unanswered one; otherwise give the answer."""
    calls = request.get("tools") and request["messages"][-1]["role"] != "tool"
    answer = tool_answer({}, name="look_up") if calls else chat_answer(ANSWER)
    return streamed(answer) if request.get("stream") else answer
