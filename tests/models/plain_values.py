"""Equality of values and compatibility of types, defined here once more without asking factmem."""

from __future__ import annotations

import datetime as dt
import enum
import unicodedata
from typing import Any, Final

import attrs

from factmem.facts import Concept

__all__ = ["TYPES", "Kind", "Mood", "MoreMoods", "Pet", "as_json", "exact", "joins", "reads", "same"]


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


class MoreMoods(enum.Enum):
    GOOD = "good"
    BAD = "bad"
    SO_SO = "so-so"


@attrs.frozen
class Pet:
    name: str
    age: int | None = None


@attrs.frozen
class Kind:
    """A type of values.

    Attributes:
        name: what the model calls it.
        type: what a concept is told.
    """

    name: str
    type: Any

    def concept(self, keyword: str, description: str, many: bool) -> Concept[Any, Any]:
        make = Concept.multiple if many else Concept.single
        return make(keyword, description, self.type)


TYPES: Final = {
    kind.name: kind
    for kind in (
        Kind("text", str),
        Kind("json", object),
        Kind("whole", int),
        Kind("perhaps whole", int | None),
        Kind("number", float),
        Kind("day", dt.date),
        Kind("mood", Mood),
        Kind("more moods", MoreMoods),
        Kind("pet", Pet),
    )
}

_WIDER: Final = {("whole", "perhaps whole"), ("mood", "more moods")}
"""Which types read what was said as another one."""


def reads(stored: str, wanted: str) -> bool:
    """Whether values of one type can be read as another."""
    return wanted in (stored, "json") or (stored, wanted) in _WIDER


def joins(stored: str, new: str) -> bool:
    """Whether a value of a type may stand beside such as are there."""
    return stored == new or (stored, new) in _WIDER


def as_json(value: Any) -> Any:
    """A value as a program reads it that does not know its class."""
    match value:
        case enum.Enum():
            return value.value
        case Pet():
            return {"name": value.name, "age": value.age}
        case _:
            return value


def exact(value: Any) -> Any:
    """Return a key that tells a value from every other one, 1 from 1.0 from True, and é from e with an accent."""
    match value:
        case dict():
            return ("map", frozenset((key, exact(item)) for key, item in value.items()))
        case list() | tuple():
            return ("list", tuple(map(exact, value)))
        case float():
            return ("float", repr(value))
        case _:
            return (type(value).__name__, value)


def same(value: Any) -> Any:
    """Return a key that values share if they are the same to factmem: texts are compared in NFC."""
    match value:
        case str():
            return ("str", unicodedata.normalize("NFC", value))
        case dict():
            keys = {key: unicodedata.normalize("NFC", key) for key in value}
            if len(set(keys.values())) < len(keys):
                keys = {key: key for key in value}
            return ("map", frozenset((keys[key], same(item)) for key, item in value.items()))
        case list() | tuple():
            return ("list", tuple(map(same, value)))
        case dt.date():
            return ("str", value.isoformat())
        case enum.Enum() | Pet():
            return same(as_json(value))
        case _:
            return exact(value)
