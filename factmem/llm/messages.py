"""Prompts as chat messages, and the JSON in the text of an answer."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

from factmem.abc import Prompt

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["NoJSONError", "compact_schema", "json_in", "messages_of"]


def messages_of(prompt: Prompt, answer: type[BaseModel], *, show_schema: bool) -> list[dict[str, str]]:
    """Return the chat of a prompt: instructions, worked examples as turns, and the content.

    Args:
        prompt: the prompt.
        answer: the response model.
        show_schema: whether the instructions end with the schema, which some modes hide from the model.
    """
    instructions = prompt.instructions
    if show_schema:
        instructions += f"\n\nAnswer with one JSON object that fits this JSON schema:\n{compact_schema(answer)}"
    messages = [{"role": "system", "content": instructions}]
    for example in prompt.examples:
        messages.append({"role": "user", "content": example.content})
        messages.append({"role": "assistant", "content": example.answer})
    return [*messages, {"role": "user", "content": prompt.content}]


def compact_schema(answer: type[BaseModel]) -> str:
    """Return the JSON schema of a model without the titles that repeat its names."""
    return json.dumps(_untitled(answer.model_json_schema()), separators=(",", ":"), ensure_ascii=False)


def _untitled(schema: Any) -> Any:
    match schema:
        case dict():
            return {
                key: _untitled(value) for key, value in schema.items() if key != "title" or not isinstance(value, str)
            }
        case list():
            return [_untitled(value) for value in schema]
        case _:
            return schema


_OPENING: Final = re.compile(r'\{\s*["}]|\[\s*[\[{"\]]')
_WITHIN: Final = re.compile(r'(?:[\[,]|"\s*:)\s*\Z')
_THINKING: Final = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


class NoJSONError(ValueError):
    """Raised when a text holds no single, whole JSON value. It never leaves `factmem.llm`."""


def json_in(text: str) -> Any:
    """Return the one JSON value of an answer: bare, in a fence, in prose, or as JSON within a JSON string.

    A truncated value is never read in part, and of two values none is chosen.

    Args:
        text: the model's text.

    Raises:
        NoJSONError: it holds no value, several, or a truncated one.
    """
    text = _THINKING.sub("", text, count=1).strip()
    try:
        value = _decoder().decode(text)
    except (ValueError, RecursionError):
        value = _in_prose(text)
    if isinstance(value, str):
        try:
            return _decoder().decode(value)
        except (ValueError, RecursionError):
            raise NoJSONError("the answer is a string and no JSON document") from None
    return value


def _in_prose(text: str) -> Any:
    """Return the value at the first bracket that can begin one; a later bracket would begin a part of it."""
    opening = _OPENING.search(text)
    if opening is None or _WITHIN.search(text, 0, opening.start()):
        raise NoJSONError("the answer holds no whole JSON document")
    try:
        value, end = _decoder().raw_decode(text, opening.start())
    except (ValueError, RecursionError):
        raise NoJSONError("the JSON document of the answer is broken or cut off") from None
    if _OPENING.search(text, end):
        raise NoJSONError("the answer holds more than one JSON document")
    return value


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(parse_constant=_refuse)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
