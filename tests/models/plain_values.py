"""Equality of values and compatibility of types, defined independently of factmem."""

from __future__ import annotations

import datetime as dt
import enum
import unicodedata
from typing import Any, Final

import attrs

from factmem.facts import Concept


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
        name: its name in the model.
        type: the type argument of a concept.
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
"""Pairs of a stored type and a wider one that reads its values."""


def reads(stored: str, wanted: str) -> bool:
    """Return whether values of one type can be read as another."""
    return wanted in (stored, "json") or (stored, wanted) in _WIDER


def joins(stored: str, new: str) -> bool:
    """Return whether a value of a type may be added to existing ones."""
    return stored == new or (stored, new) in _WIDER


def as_json(value: Any) -> Any:
    """Return a value as read by a program that does not know its class."""
    match value:
        case enum.Enum():
            return value.value
        case Pet():
            return {"name": value.name, "age": value.age}
        case _:
            return value


def exact(value: Any) -> Any:
    """Return a key that differs for different values: 1, 1.0 and True, and both normal forms of é."""
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
    """Return a key that is equal for values that factmem treats as equal: texts are compared in NFC."""
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
