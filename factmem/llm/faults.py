"""Meaning of foreign errors and responses, whichever client they come from. Pure functions."""

from __future__ import annotations

import email.utils
import enum
import json
import math
from collections.abc import Mapping
from typing import Any, Final

__all__ = [
    "LONGEST_ANSWER",
    "Ending",
    "ending_named",
    "ending_of",
    "ending_of_error",
    "is_passing",
    "pause_asked",
    "status_of",
    "text_of",
    "wants_other_mode",
    "wants_other_temperature",
]

_FORMAT_WORDS: Final = ("response_format", "json_schema", "json_object", "tool_choice", "tools", "grammar")
_OWN_CODES: Final = frozenset({"content_filter", "context_length_exceeded", "model_not_found", "insufficient_quota"})
_PASSING: Final = frozenset({408, 409, 425, 429})


LONGEST_ANSWER: Final = 1_000_000
"""Maximum length of an answer that is read, in characters: far more than any text that a model is shown holds."""


class Ending(enum.Enum):
    """Reason why an answer ended, if that settles the question."""

    REFUSED = "refused"
    FILTERED = "filtered"
    CUT_OFF = "cut off"
    TOO_LONG = "too long"


_ENDINGS: Final = {
    "content_filter": Ending.FILTERED,
    "length": Ending.CUT_OFF,
    "max_output_tokens": Ending.CUT_OFF,
    "max_tokens": Ending.CUT_OFF,
    "model_context_window_exceeded": Ending.CUT_OFF,
    "prohibited_content": Ending.FILTERED,
    "refusal": Ending.REFUSED,
    "safety": Ending.FILTERED,
}
_ERRORS: Final = {
    "ContentFilterError": Ending.FILTERED,  # pydantic-ai
    "ContentFilterFinishReasonError": Ending.FILTERED,  # openai, where it parses
    "LengthFinishReasonError": Ending.CUT_OFF,
    "ModelRefusalError": Ending.REFUSED,  # the Agents SDK
    "OpenAIRefusalError": Ending.REFUSED,  # langchain-openai
    "OutputTokenLimitExceeded": Ending.CUT_OFF,  # pydantic-ai
}


def ending_of(response: Any) -> Ending | None:
    """Return the reason why a response of OpenAI's, Anthropic's or Google's shape is not an answer; None otherwise."""
    choice = _first(response, "choices") or _first(response, "candidates") or response
    if getattr(getattr(choice, "message", None), "refusal", None):
        return Ending.REFUSED
    reason = getattr(choice, "finish_reason", None) or getattr(choice, "stop_reason", None)
    return ending_named(getattr(reason, "name", reason))


def ending_named(reason: object) -> Ending | None:
    """Return the ending by a provider's name for the reason; None for a name of an answer that came to its end."""
    return _ENDINGS.get(str(reason).lower())


def ending_of_error(error: BaseException) -> Ending | None:
    """Return the ending that a client raised as an error; None for an error of another kind."""
    if _code(error) == "content_filter":
        return Ending.FILTERED
    return next((_ERRORS[cls.__name__] for cls in type(error).__mro__ if cls.__name__ in _ERRORS), None)


def text_of(response: Any) -> str | None:
    """Return the text of a chat completion: its tool calls, else its content; None for other shapes.

    Several calls give several documents, of which `json_in` chooses none.
    """
    message = getattr(_first(response, "choices"), "message", None)
    calls = getattr(message, "tool_calls", None)
    said = [_arguments(call) for call in calls] if isinstance(calls, list) else []
    content = getattr(message, "content", None)
    return "\n".join(said) if said else content if isinstance(content, str) else None


def _arguments(call: Any) -> str:
    arguments = getattr(getattr(call, "function", None), "arguments", None)
    return arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error; None if there was no response."""
    for name in ("status_code", "code", "status"):
        if isinstance(status := getattr(error, name, None), int) and not isinstance(status, bool):
            return status
    return None


def is_passing(error: BaseException) -> bool:
    """Return whether the same request may succeed a little later."""
    if _code(error) in _OWN_CODES:
        return False
    status = status_of(error)
    if status is None:
        ended = isinstance(error, RuntimeError) and "event loop" in str(error).lower()  # that of a kept connection
        return ended or "Connection" in type(error).__name__ or "Timeout" in type(error).__name__
    return status in _PASSING or status >= 500


def wants_other_mode(error: BaseException) -> bool:
    """Return whether the endpoint may accept the question in another mode."""
    match status_of(error):
        case 400 | 415 | 422 | 501:
            return _code(error) not in _OWN_CODES
        case 500:
            return any(word in str(error).lower() for word in _FORMAT_WORDS)
        case _:
            return False


def wants_other_temperature(error: BaseException) -> bool:
    """Return whether the endpoint refused the temperature, as those of reasoning models do."""
    return status_of(error) in {400, 422} and "temperature" in str(error).lower()


def pause_asked(error: BaseException, *, now: float) -> float | None:
    """Return the seconds of an error's ``Retry-After``; None if it has none.

    Args:
        error: the client's error.
        now: the time, in seconds since the epoch, for a ``Retry-After`` that is a date.
    """
    headers = getattr(getattr(error, "response", None), "headers", None)
    asked = headers.get("retry-after") if isinstance(headers, Mapping) else None
    if not isinstance(asked, str):
        return None
    try:
        seconds = float(asked)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(asked).timestamp() - now
        except ValueError:
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _code(error: BaseException) -> str | None:
    code = getattr(error, "code", None)
    if not isinstance(code, str) and isinstance(body := getattr(error, "body", None), Mapping):
        code = body.get("code")  # of an error that wraps the client's
    return code if isinstance(code, str) else None


def _first(thing: Any, name: str) -> Any:
    several = getattr(thing, name, None)
    return several[0] if isinstance(several, list | tuple) and several else None
