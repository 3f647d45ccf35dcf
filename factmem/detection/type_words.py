"""Telling a model, and showing it by a sample, what type a value has."""

from __future__ import annotations

import json
from typing import Any, Final

from factmem.shapes import Shape
from factmem.values import Json

__all__ = ["sample_of", "words_for"]

_WORDS: Final = {
    "str": "text",
    "int": "whole number",
    "float": "number",
    "bool": "true or false",
    "bytes": "base64 text",
    "null": "null",
    "datetime": "date and time, like 2024-05-31T18:30:00+00:00",
    "date": "date, like 2024-05-31",
    "time": "time, like 18:30:00",
    "timedelta": "number of seconds",
    "decimal": "decimal number, as text",
    "uuid": "UUID",
    "json": "any JSON",
}
_SAMPLES: Final[dict[str, Json]] = {
    "str": "blue",
    "int": 7,
    "float": 2.5,
    "bool": True,
    "bytes": "Ymx1ZQ==",
    "null": None,
    "datetime": "2024-05-31T18:30:00+00:00",
    "date": "2024-05-31",
    "time": "18:30:00",
    "timedelta": 3600,
    "decimal": "12.50",
    "uuid": "6fa459ea-ee8a-3ca4-894e-db77e160355e",
    "json": "blue",
}


def words_for(shape: Shape) -> str:
    """Return what values of a shape are, in a few words."""
    match shape:
        case str():
            return _WORDS.get(shape, "any JSON")
        case {"enum": members}:
            return "one of " + ", ".join(json.dumps(member, ensure_ascii=False) for member in members)
        case {"list": item}:
            return f"list of ({words_for(item)})"
        case {"map": item}:
            return f"object of ({words_for(item)}) by name"
        case {"tuple": items}:
            return "list of " + ", then ".join(f"({words_for(item)})" for item in items)
        case {"union": options}:
            return " or ".join(words_for(option) for option in options)
        case {"object": fields}:
            return "object with " + ", ".join(_field(name, inner) for name, inner in fields.items())
        case _:
            return "any JSON"


def _field(name: str, shape: Shape) -> str:
    optional = "; null if not said" if name.endswith("?") else ""
    return f"{name.removesuffix('?')} ({words_for(shape)}{optional})"


def sample_of(shape: Shape) -> Json:
    """Return the JSON of a value of a shape."""
    match shape:
        case str():
            return _SAMPLES.get(shape, "blue")
        case {"enum": [first, *_]}:
            return _as_json(first)
        case {"list": item}:
            return [sample_of(item)]
        case {"map": item}:
            return {"blue": sample_of(item)}
        case {"tuple": items}:
            return [sample_of(item) for item in items]
        case {"union": options}:
            return sample_of(next((option for option in options if option != "null"), "null"))
        case {"object": fields}:
            return {name.removesuffix("?"): sample_of(inner) for name, inner in fields.items()}
        case _:
            return "blue"


def _as_json(member: Any) -> Json:
    plain: Json = member
    return plain
