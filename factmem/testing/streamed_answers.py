"""Answers for `LoopbackOpenAIServer` beyond whole chat completions: responses, and both of them streamed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import attrs

from factmem.errors import InvalidDataError
from factmem.testing.openai_server import Answer

__all__ = ["response_answer", "streamed"]


def response_answer(said: str, *, status: str = "completed", id: str = "resp_1") -> Answer:
    """Return an answer of the Responses API with a text.

    Args:
        said: Text.
        status: ``completed``, ``incomplete``, ``failed``.
        id: Id of the response.
    """
    content = {"type": "output_text", "text": said, "annotations": []}
    item = {"id": f"msg_{id}", "type": "message", "role": "assistant", "status": status, "content": [content]}
    details = {"reason": "max_output_tokens"} if status == "incomplete" else None
    body = {"id": id, "object": "response", "created_at": 0, "model": "loopback", "status": status, "output": [item]}
    usage = {
        "input_tokens": 1,
        "output_tokens": 1,
        "total_tokens": 2,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    fixed = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "incomplete_details": details}
    return Answer(body | fixed | {"usage": usage})


def streamed(answer: Answer) -> Answer:
    """Return the same answer as a stream of server-sent events, as the API sends it if ``stream`` is true.

    `Answer.cut` of the result interrupts the stream, `Answer.drip` slows it down.

    Args:
        answer: A chat completion or a response.

    Raises:
        InvalidDataError: It is neither.
    """
    whole = answer.body if isinstance(answer.body, dict) else {}
    match whole:
        case {"object": "chat.completion", "choices": [choice]}:
            events = [*_chunks(whole, choice), "[DONE]"]
        case {"object": "response"}:
            numbered = enumerate(_events(whole))
            events = [json.dumps({**event, "sequence_number": number}) for number, event in numbered]
        case _:
            raise InvalidDataError("only a chat completion or a response can be streamed")
    body = "".join(f"data: {event}\n\n" for event in events)
    return attrs.evolve(answer, body=body.encode(), headers={"Content-Type": "text/event-stream", **answer.headers})


def _words(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)


def _chunks(completion: dict[str, Any], choice: dict[str, Any]) -> Iterator[str]:
    message = choice["message"]
    calls = [{**call, "index": place} for place, call in enumerate(message.get("tool_calls") or ())]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in _words(message.get("content") or "")]
    deltas += [{"tool_calls": [call]} for call in calls]
    same = {"id": completion["id"], "object": "chat.completion.chunk", "created": 0, "model": completion["model"]}
    for delta in deltas:
        yield json.dumps({**same, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield json.dumps({**same, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})


def _events(response: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}
    for place, item in enumerate(response["output"]):
        where = {"item_id": item["id"], "output_index": place, "content_index": 0}
        part = {"type": "output_text", "text": "", "annotations": []}
        begun = {**item, "status": "in_progress", "content": []}
        yield {"type": "response.output_item.added", "output_index": place, "item": begun}
        yield {"type": "response.content_part.added", **where, "part": part}
        text = item["content"][0]["text"]
        for word in _words(text):
            yield {"type": "response.output_text.delta", **where, "delta": word, "logprobs": []}
        yield {"type": "response.output_text.done", **where, "text": text, "logprobs": []}
        yield {"type": "response.content_part.done", **where, "part": item["content"][0]}
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}
