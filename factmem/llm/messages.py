"""Turns a prompt into the messages of a chat."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from factmem.abc import Prompt

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["compact_schema", "messages_of"]


def messages_of(prompt: Prompt, answer: type[BaseModel], *, show_schema: bool) -> list[dict[str, str]]:
    """Return the chat that asks: our instructions, the worked examples as turns, and the content alone.

    Args:
        prompt: what to ask.
        answer: the model of the answer.
        show_schema: whether the instructions end with the schema, which some ways of asking keep from the model.
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
    """Return the JSON schema of a model without the titles that only repeat its names."""
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
