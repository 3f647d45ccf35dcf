"""Telling a model, and showing it by a sample, what type a value has."""

from __future__ import annotations

import json
from typing import Any

from factmem.scalars import JSON_SHAPE, Scalar, scalar_of_shape
from factmem.shapes import Shape
from factmem.values import Json

__all__ = ["sample_of", "words_for"]


def _scalar(shape: Shape) -> Scalar:
    scalar = scalar_of_shape(shape) or scalar_of_shape(JSON_SHAPE)
    assert scalar is not None
    return scalar


def words_for(shape: Shape) -> str:
    """Return what values of a shape are, in a few words."""
    match shape:
        case str():
            return _scalar(shape).words
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
            sample: Json = _scalar(shape).sample
            return sample
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
