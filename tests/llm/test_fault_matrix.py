"""Faults of a model over a real socket: each ends soon in the right answer or a typed error, without a leak."""

from __future__ import annotations

import logging
import sys
from types import ModuleType
from typing import Any

import attrs
import pytest

from factmem.errors import ModelAnswerError, ModelError, ModelRefusedError, ModelUnavailableError
from factmem.testing.chat_answers import Said, answering, chat_answer, error_answer, tool_answer, unreachable_base_url
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.llm.canary import CANARY, PROMPT, RIGHT, Trip, asked_of, shown_by

pytestmark = pytest.mark.slow

_TEXT = f'{{"city": "{CANARY}", "seats": 4}}'
_CUT_OFF = f'{{"city": "{CANARY}", "notes": [{{"city": "{CANARY}", "seats": 4}}, {{"ci'


@attrs.frozen
class Case:
    """Answers in turn (the last one repeated), the expected outcome, and the number of requests.

    A busy machine may not send every request before a short time-out.
    """

    ends: type[ModelError] | None
    requests: int
    answers: tuple[Said | Answer, ...]
    options: dict[str, Any] = attrs.field(factory=dict)

    def costs(self, requests: int) -> bool:
        """Return whether a number of requests is right for the case."""
        return requests == self.requests or (self.options.get("timeout", 60) < 1 and requests < self.requests)


def _right(requests: int, *answers: Said | Answer) -> Case:
    return Case(None, requests, answers)


def _wrong(ends: type[ModelError], requests: int, *answers: Said | Answer, **options: Any) -> Case:
    return Case(ends, requests, answers, options)


def _reported(code: int) -> Answer:
    """Return an error that a gateway sends with status 200."""
    return Answer({"error": {"message": CANARY, "code": code}})


ANSWERED = {
    "right": _right(1, RIGHT),
    "fenced": _right(1, f"```json\n{_TEXT}\n```"),
    "prose around": _right(1, f"Certainly! {_TEXT}\nShall I go on?"),
    "JSON in a string": _right(1, '"' + _TEXT.replace('"', '\\"') + '"'),
    "extra keys": _right(1, {**RIGHT, "mood": CANARY, "seat": 7}),
    "wrong types, then right": _right(2, {"city": CANARY, "seats": "some"}, RIGHT),
    "truncated, then right": _right(2, _CUT_OFF, RIGHT),
    "refusal": _wrong(ModelRefusedError, 1, chat_answer(None, refusal=f"I will not say {CANARY}")),
    "content filter": _wrong(ModelRefusedError, 1, chat_answer(_TEXT, finish_reason="content_filter")),
    "length limit": _wrong(ModelAnswerError, 1, chat_answer(_CUT_OFF, finish_reason="length")),
    "length limit in a call": _wrong(ModelAnswerError, 1, tool_answer(_CUT_OFF, finish_reason="length")),
    "a million characters": _wrong(ModelAnswerError, 1, _TEXT + " " * 1_000_000),
    "truncated": _wrong(ModelAnswerError, 2, _CUT_OFF),
    "truncated in a fence": _wrong(ModelAnswerError, 2, f"```json\n{_CUT_OFF}"),
    "no JSON": _wrong(ModelAnswerError, 2, f"You told me about {CANARY}."),
    "wrong types": _wrong(ModelAnswerError, 2, {"city": [CANARY], "seats": CANARY}),
    "missing keys": _wrong(ModelAnswerError, 2, {"place": CANARY}),
    "out of range": _wrong(ModelAnswerError, 2, {"city": CANARY, "seats": 10**30}),
    "a list": _wrong(ModelAnswerError, 2, [RIGHT]),
    "null": _wrong(ModelAnswerError, 2, "null"),
    "two documents": _wrong(ModelAnswerError, 2, f'{_TEXT}\n{{"city": "{CANARY}", "seats": 5}}'),
    "two calls": _wrong(ModelAnswerError, 2, tool_answer(RIGHT, {"city": CANARY, "seats": 5})),
    "empty": _wrong(ModelAnswerError, 2, ""),
    "no text": _wrong(ModelAnswerError, 2, chat_answer(None)),
}
"""Answers of a model, as a text."""

IN_CALLS = ("right", "two calls", "length limit in a call", "truncated", "wrong types", "refusal", "no text", "empty")
"""Those that are given as the arguments of a call too; the rest of the way is the same."""

UNANSWERED = {
    "429, then right": _right(2, error_answer(429, message=CANARY, retry_after="0.01"), RIGHT),
    "429 in a successful response, then right": _right(2, _reported(429), RIGHT),
    "an error within a choice, then right": _right(
        2, Answer({"choices": [{"index": 0, "error": {"message": CANARY, "code": 502}, "message": {}}]}), RIGHT
    ),
    "500, then right": _right(2, error_answer(500, message=CANARY), RIGHT),
    "lost connection, then right": _right(2, attrs.evolve(chat_answer(RIGHT), cut=9), RIGHT),
    "time-out": _wrong(ModelUnavailableError, 1, Answer({}, delay=60.0), timeout=0.4),
    "slow trickle": _wrong(ModelUnavailableError, 1, attrs.evolve(chat_answer(RIGHT), drip=0.05), timeout=0.4),
    "429 for ever": _wrong(ModelUnavailableError, 2, error_answer(429, message=CANARY, retry_after="0.01")),
    "429 with a long Retry-After": _wrong(ModelUnavailableError, 1, error_answer(429, retry_after="3600")),
    "429 beyond the time limit": _wrong(
        ModelUnavailableError, 1, error_answer(429, retry_after="99"), longest_wait=999.0
    ),
    "out of quota": _wrong(ModelUnavailableError, 1, error_answer(429, message=CANARY, code="insufficient_quota")),
    "500 storm": _wrong(ModelUnavailableError, 2, error_answer(500, message=CANARY)),
    "503 that is not JSON": _wrong(ModelUnavailableError, 2, Answer(CANARY.encode(), status=503)),
    "cut off by the network": _wrong(ModelUnavailableError, 2, attrs.evolve(chat_answer(RIGHT), cut=9)),
    "an error without a code for ever": _wrong(ModelUnavailableError, 2, Answer({"error": CANARY})),
    "401 in a successful response": _wrong(ModelUnavailableError, 1, _reported(401)),
    "wrong key": _wrong(ModelUnavailableError, 1, error_answer(401, message=CANARY)),
    "forbidden": _wrong(ModelUnavailableError, 1, error_answer(403, message=CANARY)),
    "wrong model": _wrong(ModelUnavailableError, 1, error_answer(404, message=CANARY, code="model_not_found")),
    "too long a question": _wrong(
        ModelUnavailableError, 1, error_answer(400, message=CANARY, code="context_length_exceeded")
    ),
    "question filtered": _wrong(ModelRefusedError, 1, error_answer(400, message=CANARY, code="content_filter")),
    "no choices": _wrong(ModelAnswerError, 1, Answer({"choices": []})),
    "something else": _wrong(ModelAnswerError, 1, Answer({"city": CANARY})),
    "a web page": _wrong(
        ModelAnswerError, 2, Answer(f"<html>{CANARY}</html>".encode(), headers={"Content-Type": "text/html"})
    ),
    "a broken body": _wrong(ModelAnswerError, 1, Answer(f'{{"choices": "{CANARY}'.encode())),
}
"""Faults before a model has answered: the form of the answer makes no difference to them."""


@pytest.mark.parametrize(
    ("case", "mode"),
    [
        *(pytest.param(case, "JSON_SCHEMA", id=name) for name, case in {**ANSWERED, **UNANSWERED}.items()),
        *(pytest.param(ANSWERED[name], "TOOLS", id=f"{name}-TOOLS") for name in IN_CALLS),
    ],
)
async def test_a_misbehaving_model_gives_the_right_answer_or_a_typed_error(
    case: Case, mode: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The number of requests is exactly that of the case, and neither error nor log nor stderr contains the canary."""
    caplog.set_level(logging.DEBUG)
    error: ModelError | None = None
    with LoopbackOpenAIServer(answering(*case.answers)) as server:
        model = asked_of(server.base_url, mode=mode, **case.options)
        try:
            assert await model.ask(PROMPT, Trip) == Trip(**RIGHT)
        except ModelError as caught:
            error = caught
    assert (None if error is None else type(error)) is case.ends
    assert case.costs(len(server.requests))
    assert not [text for text in shown_by(error) if CANARY in text]
    assert error is None or error.__cause__ is error.__context__ is None
    assert CANARY not in caplog.text
    assert CANARY not in "".join(capfd.readouterr())


@pytest.mark.parametrize("answer", [_reported(429), Answer({"choices": []})], ids=["an error", "no choices"])
async def test_a_response_without_a_usage_imports_no_other_vendor(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anthropic's package takes seconds to import, and instructor would import it in the event loop."""
    looked_up: list[str] = []
    anthropic = ModuleType("anthropic.types")
    monkeypatch.setattr(anthropic, "__getattr__", looked_up.append, raising=False)
    monkeypatch.setitem(sys.modules, anthropic.__name__, anthropic)
    with LoopbackOpenAIServer(answering(answer)) as server, pytest.raises(ModelError):
        await asked_of(server.base_url).ask(PROMPT, Trip)
    assert not looked_up


async def test_an_error_in_a_successful_response_does_not_hide_the_next_one() -> None:
    with (
        LoopbackOpenAIServer(answering(_reported(429), error_answer(401))) as server,
        pytest.raises(ModelUnavailableError, match=r"HTTP 401.* API key"),
    ):
        await asked_of(server.base_url).ask(PROMPT, Trip)
    assert len(server.requests) == 2


async def test_a_refused_connection_is_a_typed_error() -> None:
    """No server listens at the address; the message says what to check."""
    with pytest.raises(ModelUnavailableError, match=r"2 request.* is its server running") as caught:
        await asked_of(unreachable_base_url()).ask(PROMPT, Trip)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert not [text for text in shown_by(caught.value) if CANARY in text]
