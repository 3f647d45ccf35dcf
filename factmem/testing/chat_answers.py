"""Answers for `LoopbackOpenAIServer`: chat completions and responses, right or wrong, whole or streamed."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import attrs

from factmem.errors import InvalidDataError
from factmem.testing.openai_server import Answer, Responder

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
