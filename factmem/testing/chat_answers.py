"""Chat completions for `LoopbackOpenAIServer` to answer with: right ones, and all kinds of wrong ones."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from factmem.testing.openai_server import Answer, Responder
from factmem.testing.streamed_answers import response_answer, streamed

__all__ = [
    "Said",
    "answering",
    "chat_answer",
    "confirmed",
    "confirming",
    "error_answer",
    "tool_answer",
    "unreachable_base_url",
]

Said: TypeAlias = "dict[str, Any] | list[Any] | str"
"""A document, or a text that is sent verbatim."""

_CLAIM: Final = re.compile(r'<claim number=\\*"(\d+)')


def chat_answer(said: Said | None, *, finish_reason: str = "stop", refusal: str | None = None) -> Answer:
    """Return a completion with a text.

    Args:
        said: Text; None for no text at all.
        finish_reason: Reason for its end: ``length``, ``content_filter``.
        refusal: Text of a refusal.
    """
    content = said if said is None else _text(said)
    return _completion({"role": "assistant", "content": content, "refusal": refusal}, finish_reason)


def tool_answer(*arguments: Said, name: str = "answer", finish_reason: str = "tool_calls") -> Answer:
    """Return a completion that calls a tool.

    Args:
        arguments: Arguments of each call.
        name: Name of the tool.
        finish_reason: Reason for its end.
    """
    calls = [
        {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": _text(said)}}
        for place, said in enumerate(arguments)
    ]
    return _completion({"role": "assistant", "content": None, "tool_calls": calls}, finish_reason)


def error_answer(
    status: int, *, message: str = "it failed", code: str | None = None, retry_after: str | None = None
) -> Answer:
    """Return an error in OpenAI's format.

    Args:
        status: HTTP status.
        message: Text of the error.
        code: OpenAI's short name of the error.
        retry_after: Header ``Retry-After``.
    """
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Answer({"error": {"message": message, "type": "error", "code": code}}, status=status, headers=headers)


def answering(*answers: Said | Answer) -> Responder:
    """Return a responder that sends these answers in turn, and then repeats the last one.

    An item that is not an `Answer` is sent in the form that the request asks for: as a tool call or as text, as a chat
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


def confirmed(question: str) -> dict[str, Any]:
    """Return the answer to a verifier's question that confirms every finding.

    Args:
        question: Text of the question, or of the request that holds it.
    """
    return {"claims": [{"number": int(number), "answer": "yes"} for number in dict.fromkeys(_CLAIM.findall(question))]}


def confirming(respond: Responder) -> Responder:
    """Return a responder that confirms every finding which a verifier asks about, and passes on all else.

    Args:
        respond: Responder to everything else.
    """

    def confirm(path: str, request: dict[str, Any]) -> Answer:
        asked = json.dumps(request)
        if "VerifierAnswer" not in asked:
            return respond(path, request)
        return _as_wanted(confirmed(asked), path, request.get("tools"))

    return confirm


def unreachable_base_url() -> str:
    """Return the address of a server that is not running: connections are refused."""
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
