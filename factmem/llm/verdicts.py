"""Says in factmem's words why a question got no answer. No text of prompt or answer goes in, so none comes out."""

from __future__ import annotations

from typing import Any

from factmem.errors import ModelAnswerError, ModelError, ModelRefusedError, ModelUnavailableError
from factmem.llm.exchange import Exchange
from factmem.llm.faults import Ending, is_filtered, is_passing, status_of

__all__ = ["failure_of"]


def failure_of(exchange: Exchange[Any]) -> ModelError:
    """Return the error to raise for an exchange that found nothing."""
    error = exchange.error
    if exchange.too_slow:
        return _too_slow(exchange)
    if exchange.ending is not None:
        return _ended(exchange.ending)
    if error is not None and is_filtered(error):
        return _ended(Ending.FILTERED)
    if error is not None and status_of(error) is not None:
        return _refused_request(exchange, status_of(error) or 0)
    if error is not None and is_passing(error) and "Timeout" in type(error).__name__:
        return _too_slow(exchange)
    if error is not None and is_passing(error):
        return ModelUnavailableError(
            f"the language model cannot be reached ({_tried(exchange)}): is its server running, is base_url right?"
        )
    if exchange.answers:
        return ModelAnswerError(
            f"the language model gave no valid {exchange.answer.__name__} in {exchange.answers} answer(s): "
            "ask a larger model, set another mode=, or allow more tries="
        )
    kind = type(error).__name__
    return ModelAnswerError(f"the endpoint answered something that is no chat completion ({kind}): is base_url right?")


def _too_slow(exchange: Exchange[Any]) -> ModelError:
    return ModelUnavailableError(
        f"the language model did not answer within {exchange.limits.timeout:g} s: try later or raise timeout="
    )


def _ended(ending: Ending) -> ModelError:
    match ending:
        case Ending.REFUSED:
            return ModelRefusedError("the language model refused to answer")
        case Ending.FILTERED:
            return ModelRefusedError("the question or the answer was stopped by the endpoint's content filter")
        case Ending.CUT_OFF:
            return ModelAnswerError(
                "the answer was cut off at the model's length limit: ask about less at once (max_chars=) "
                "or allow longer answers (max_tokens=)"
            )


def _refused_request(exchange: Exchange[Any], status: int) -> ModelError:
    match status:
        case 401 | 403:
            step = "it does not accept the API key: set the key's environment variable or pass api_key="
        case 404:
            step = "it knows no such model or address: look at the model's name and base_url"
        case 402 | 429:
            step = f"overloaded or out of quota ({_tried(exchange)}): try later or look at the account's limits"
        case 400 | 413 | 422:
            step = "it does not take the question: set another mode=, lower max_chars or look at the model's name"
        case _:
            step = f"it failed ({_tried(exchange)}): try later"
    return ModelUnavailableError(f"the language model's endpoint answered HTTP {status}: {step}")


def _tried(exchange: Exchange[Any]) -> str:
    return f"{exchange.failures} request(s) failed"
