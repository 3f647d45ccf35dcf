"""Chat completions for `LoopbackOpenAIServer` to answer with: right ones, and every way of being wrong."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Sequence
from typing import Any, TypeAlias

from factmem.testing.openai_server import Answer, Responder
from factmem.testing.streamed_answers import response_answer, streamed

__all__ = ["Said", "answering", "chat_answer", "error_answer", "tool_answer", "unreachable_base_url"]

Said: TypeAlias = "dict[str, Any] | list[Any] | str"
"""A document, or a text that is said as it stands."""


def chat_answer(said: Said | None, *, finish_reason: str = "stop", refusal: str | None = None) -> Answer:
    """Return a completion that says something in its text.

    Args:
        said: what; None for no text at all.
        finish_reason: why it ended: ``length``, ``content_filter``.
        refusal: what a model says that refuses.
    """
    content = said if said is None else _text(said)
    return _completion({"role": "assistant", "content": content, "refusal": refusal}, finish_reason)


def tool_answer(*arguments: Said, name: str = "answer", finish_reason: str = "tool_calls") -> Answer:
    """Return a completion that calls a tool.

    Args:
        arguments: of one call each.
        name: the tool.
        finish_reason: why it ended.
    """
    calls = [
        {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": _text(said)}}
        for place, said in enumerate(arguments)
    ]
    return _completion({"role": "assistant", "content": None, "tool_calls": calls}, finish_reason)


def error_answer(
    status: int, *, message: str = "it failed", code: str | None = None, retry_after: str | None = None
) -> Answer:
    """Return an error in OpenAI's form.

    Args:
        status: the HTTP status.
        message: what went wrong.
        code: OpenAI's short name for it.
        retry_after: the header ``Retry-After``.
    """
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Answer({"error": {"message": message, "type": "error", "code": code}}, status=status, headers=headers)


def answering(*answers: Said | Answer) -> Responder:
    """Return a responder that gives these answers in turn, and then the last one for ever.

    What is not an `Answer` yet is said the way the request wants it: as a tool call or as text, as a chat
    completion or a response, whole or streamed.
    """
    turns = iter(answers)
    lock = threading.Lock()
    last: Said | Answer = answers[0]

    def respond(path: str, request: dict[str, Any]) -> Answer:
        nonlocal last
        with lock:
            last = next(turns, last)
            said = last
        if isinstance(said, Answer):
            return said
        whole = _as_wanted(said, path, request.get("tools"))
        return streamed(whole) if request.get("stream") else whole

    return respond


def _as_wanted(said: Said, path: str, tools: Sequence[Any] | None) -> Answer:
    if path.endswith("/responses"):
        return response_answer(_text(said))
    return tool_answer(said, name=tools[0]["function"]["name"]) if tools else chat_answer(said)


def unreachable_base_url() -> str:
    """Return the address of a server that nobody runs: connections are refused."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


def _completion(message: dict[str, Any], finish_reason: str) -> Answer:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    body = {"id": "chat-1", "object": "chat.completion", "created": 0, "model": "loopback"}
    return Answer({**body, "choices": [choice], "usage": usage})


def _text(said: Said) -> str:
    return said if isinstance(said, str) else json.dumps(said)
