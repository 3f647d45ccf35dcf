"""From the text of an argument to what the memory takes."""

from __future__ import annotations

import datetime as dt
import enum
import json
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias

import typer

from factmem.errors import FactMemError, InvalidDataError
from factmem.subjects import MemorySubject

__all__ = [
    "VALUE_TYPES",
    "ExactOption",
    "PrivateOption",
    "ScopeOption",
    "SubjectOption",
    "ValueType",
    "from_day",
    "parsed_value",
    "subject",
    "through_day",
]


def subject(text: str) -> MemorySubject:
    """Read ``name`` or ``name:individual``."""
    name, colon, individual = text.partition(":")
    try:
        found = MemorySubject(name)
        return found.individual(individual) if colon else found
    except FactMemError as error:
        raise typer.BadParameter(str(error)) from None


def from_day(text: str) -> dt.datetime:
    """Read an ISO date or time, UTC if it names no zone; a date alone is the first moment of the day."""
    return _moment(text)[0]


def through_day(text: str) -> dt.datetime:
    """Read an ISO date or time, UTC if it names no zone; a date alone is the last moment of the day."""
    found, whole_day = _moment(text)
    return found + dt.timedelta(days=1, microseconds=-1) if whole_day else found


def _moment(text: str) -> tuple[dt.datetime, bool]:
    try:
        found = dt.datetime.fromisoformat(text.strip())
        found = found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is no ISO date or time, such as 2026-05-01 or 2026-05-01T09:30") from None
    return found, len(text.strip()) <= len("2026-05-01")


def _bool(text: str) -> bool:
    match text.lower():
        case "true" | "yes" | "on" | "1":
            return True
        case "false" | "no" | "off" | "0":
            return False
        case _:
            raise ValueError


def _json(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse)


def _refuse(name: str) -> Any:
    raise ValueError(name)


class ValueType(enum.StrEnum):
    """What ``--type`` takes."""

    STR = "str"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    DATE = "date"
    DATETIME = "datetime"
    JSON = "json"


VALUE_TYPES: Final[dict[ValueType, tuple[Any, Callable[[str], Any]]]] = {
    ValueType.STR: (str, str),
    ValueType.INT: (int, int),
    ValueType.FLOAT: (float, float),
    ValueType.BOOL: (bool, _bool),
    ValueType.DATE: (dt.date, dt.date.fromisoformat),
    ValueType.DATETIME: (dt.datetime, lambda text: _moment(text)[0]),
    ValueType.JSON: (object, _json),
}
"""The type of a value and how it is read from a text."""


def parsed_value(text: str, type_name: ValueType) -> Any:
    """Read a value of a type.

    Raises:
        InvalidDataError: the text is none.
    """
    try:
        return VALUE_TYPES[type_name][1](text)
    except (ValueError, OverflowError, RecursionError, typer.BadParameter):
        raise InvalidDataError(f"the value is no {type_name}: correct it, or say another --type") from None


SubjectOption: TypeAlias = Annotated[
    MemorySubject | None, typer.Option(parser=subject, metavar="NAME[:INDIVIDUAL]", help="About whom.")
]
ScopeOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PATH", help="Where it holds, for example /product/alpha.")
]
ExactOption: TypeAlias = Annotated[bool, typer.Option("--exact", help="This very scope, not what lies below it.")]
PrivateOption: TypeAlias = Annotated[bool, typer.Option("--private", help="For the viewer alone (needs --viewer).")]
