"""Prompts as chat messages, the escaped data in them, and the JSON in the text of an answer."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from factmem.abc import Prompt
from factmem.hidden_characters import escaped, escaped_words

if TYPE_CHECKING:
    from pydantic import BaseModel


def element(tag: str, text: str, **attributes: str | None) -> str:
    """Return an element with a text and attributes, all escaped. An attribute that is None is left out."""
    written = "".join(f' {name}="{escaped(value)}"' for name, value in attributes.items() if value is not None)
    return f"<{tag}{written}>{escaped_words(text)}</{tag}>"


def section(tag: str, lines: Iterable[str]) -> str:
    """Return an element around escaped lines; empty if there are none."""
    inner = list(lines)
    return "\n".join((f"<{tag}>", *inner, f"</{tag}>")) if inner else ""


def items(tag: str, texts: Iterable[str], room: int) -> str:
    """Return an element around the first texts that fit, each as an ``item``; empty if none does."""
    return section(tag, fitting((element("item", text) for text in texts), room))


def document(*parts: str) -> str:
    """Return the document of a prompt. Empty parts are left out."""
    return "\n".join(("<document>", *filter(None, parts), "</document>"))


def fitting(lines: Iterable[str], room: int) -> list[str]:
    """Return the first lines that fit into a number of characters, each with its line end."""
    taken: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        taken.append(line)
    return taken


def instructions_of(prompt: Prompt, answer: type[BaseModel], *, show_schema: bool) -> str:
    """Return the instructions of a prompt.

    Args:
        prompt: the prompt.
        answer: the response model.
        show_schema: whether they end with the schema.
    """
    if not show_schema:
        return prompt.instructions
    schema = json.dumps(compact_schema(answer), separators=(",", ":"), ensure_ascii=False)
    return f"{prompt.instructions}\n\nAnswer with one JSON object that fits this JSON schema:\n{schema}"


def messages_of(prompt: Prompt, instructions: str) -> list[dict[str, str]]:
    """Return the chat of a prompt: instructions, worked examples as turns, and the content."""
    messages = [{"role": "system", "content": instructions}]
    for example in prompt.examples:
        messages.append({"role": "user", "content": example.content})
        messages.append({"role": "assistant", "content": example.answer})
    return [*messages, {"role": "user", "content": prompt.content}]


def compact_schema(answer: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a model without titles, and without the definitions that it uses once."""
    return compacted(answer.model_json_schema())


def compacted(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON schema without the titles that repeat its names, and with what it uses once in its place."""
    uses = Counter(_REFERENCE.findall(json.dumps(schema)))
    once = {name: part for name, part in schema.get("$defs", {}).items() if uses[name] == 1}
    compact: dict[str, Any] = _compact(schema, once)
    compact["$defs"] = {name: part for name, part in compact.get("$defs", {}).items() if name not in once}
    return compact if compact["$defs"] else {key: part for key, part in compact.items() if key != "$defs"}


_REFERENCE: Final = re.compile(r'"#/\$defs/([^"]+)"')


def _compact(schema: Any, once: Mapping[str, Any]) -> Any:
    """Return a part of a schema without titles, with the definitions that are used once in their place."""
    match schema:
        case {"$ref": str() as reference, **rest} if (name := reference.removeprefix("#/$defs/")) in once:
            return _compact({**once[name], **rest}, once)
        case dict():
            return {
                key: _compact(value, once)
                for key, value in schema.items()
                if key != "title" or not isinstance(value, str)
            }
        case list():
            return [_compact(value, once) for value in schema]
        case _:
            return schema


_OPENING: Final = re.compile(r"""\{\s*(?:["'}#]|//|/\*|[A-Za-z_]\w*\s*:)|\[\s*[\[{"'\]]""")
_CLOSING: Final = {"{": "}", "[": "]"}
_NAMES: Final = {"None": "null", "True": "true", "False": "false"}
_PYTHON: Final = re.compile(
    r""""(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|//[^\n]*+|/\*(?:.*?\*/|.*+)|\#[^\n]*+|\b(?:None|True|False)\b""",
    re.DOTALL,
)
"""Strings, comments, and the names of Python's constants. One without an end reaches to that of the text."""
_DEEPEST: Final = 100
"""Maximum depth of a document in JSON5."""
_WITHIN: Final = re.compile(r'\\"|(?:[\[,]|"\s*:)\s*\Z')
"""Sign before a bracket that a value has begun before it: an escaped quote, or a comma or a key that it belongs to."""
_THINKING: Final = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, strict=False)


class NoJSONError(ValueError):
    """Raised when a text holds no single, whole JSON value. It never leaves `factmem.llm`."""


def json_in(text: str) -> Any:
    """Return the one JSON value of an answer: bare, in a fence, in prose, or as JSON within a JSON string.

    JSON5 and Python's names for true, false and null are read as well: trailing commas, comments, single quotes. A
    truncated value is never read in part, and of two values none is chosen.

    Args:
        text: the model's text.

    Raises:
        NoJSONError: it holds no value, several, or a truncated one.
    """
    text = _THINKING.sub("", text, count=1).strip()
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        value = _in_prose(text)
    if isinstance(value, str):
        try:
            return _DECODER.decode(value)
        except (ValueError, RecursionError):
            raise NoJSONError("the answer is a string and no JSON document") from None
    return value


def _in_prose(text: str) -> Any:
    """Return the value at the first bracket that can begin one; a later bracket would begin a part of it."""
    opening = _OPENING.search(text)
    if opening is None or _WITHIN.search(text, 0, opening.start()):
        raise NoJSONError("the answer holds no whole JSON document")
    try:
        value, end = _DECODER.raw_decode(text, opening.start())
    except (ValueError, RecursionError):
        return _in_json5(text[opening.start() : text.rfind(_CLOSING[opening[0][0]]) + 1])
    if _OPENING.search(text, end):
        raise NoJSONError("the answer holds more than one JSON document")
    return value


def _in_json5(text: str) -> Any:
    """Return the value of a text that is JSON but for slips that JSON5 allows, or Python's names and comments."""
    import pyjson5

    try:
        value = pyjson5.decode(_PYTHON.sub(_as_json5, text), _DEEPEST)
        return json.loads(json.dumps(value, allow_nan=False))
    except (pyjson5.Json5DecoderException, ValueError, RecursionError):
        raise NoJSONError("the JSON document of the answer is broken or cut off") from None


def _as_json5(part: re.Match[str]) -> str:
    """Return a string as it is, a comment as a space, and a name of Python as that of JSON."""
    found = part[0]
    return found if found[0] in "\"'" else _NAMES.get(found, " ")
