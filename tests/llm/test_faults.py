"""Interpretation of foreign errors and answers, including those of clients other than OpenAI's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from factmem.llm.request import Ending, ending_of, is_passing, pause_asked, text_of
from tests.tables import each_case


class ForeignError(Exception):
    """An error with arbitrary attributes, as clients set them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__("foreign")
        vars(self).update(attributes)


class ReadTimeoutError(Exception):
    """Timeout error under the name that many clients give it."""


def test_stop_reasons_are_read_in_every_dialect() -> None:
    """Anthropic gives a stop reason as text, Google a finish reason as an enum."""
    assert ending_of(SimpleNamespace(stop_reason="refusal")) is Ending.REFUSED
    assert ending_of(SimpleNamespace(stop_reason="max_tokens")) is Ending.CUT_OFF
    assert ending_of(SimpleNamespace(stop_reason="end_turn")) is None
    safety = SimpleNamespace(finish_reason=SimpleNamespace(name="SAFETY"))
    assert ending_of(SimpleNamespace(candidates=[safety])) is Ending.FILTERED
    assert ending_of("a web page") is ending_of(None) is None


def test_arguments_that_are_no_text_are_read_as_json() -> None:
    """Some servers return a tool's arguments as an object."""
    call = SimpleNamespace(function=SimpleNamespace(arguments={"seats": 4}))
    message = SimpleNamespace(tool_calls=[call], content="")
    assert text_of(SimpleNamespace(choices=[SimpleNamespace(message=message)])) == '{"seats": 4}'
    assert text_of(SimpleNamespace(content=[{"type": "text"}])) is None


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ForeignError(status_code=429), True),
        (ForeignError(status_code=529), True),
        (ForeignError(code=503), True),
        (ForeignError(status_code=429, code="insufficient_quota"), False),
        (ForeignError(status_code=400), False),
        (ReadTimeoutError(), True),
        (ConnectionResetError(), True),
        (KeyError("choices"), False),
        (RuntimeError("Event loop is closed"), True),
        (RuntimeError("anything else"), False),
    ],
)
def test_transient_errors_are_distinguished_from_permanent_ones(error: Exception, passes: bool) -> None:
    assert is_passing(error) is passes


@each_case("header", "pause")
def test_retry_after_is_seconds_or_a_date(header: str | None, pause: float | None) -> None:
    headers = {} if header is None else {"retry-after": header}
    error = ForeignError(status_code=429, response=SimpleNamespace(headers=headers))
    assert pause_asked(error, now=1_000_000.0) == pause
    assert pause_asked(ForeignError(), now=0.0) is None
