"""From the text of an argument to what the memory takes."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
import sys
from typing import Annotated, Any, Final, TypeAlias

import typer

from factmem.errors import FactMemError, InvalidDataError
from factmem.scalars import JSON_SHAPE, Scalar, scalar_named
from factmem.subjects import MemorySubject
from factmem.values import Json

__all__ = [
    "ExactOption",
    "PrivateOption",
    "ScopeOption",
    "SubjectOption",
    "TextArgument",
    "TtlOption",
    "duration",
    "from_day",
    "metadata",
    "parsed_value",
    "said_text",
    "scalar",
    "store_address",
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


_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration(text: str) -> dt.timedelta:
    """Read a time to live: a number and its unit, such as ``30d``, ``12h`` or ``90s``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip().lower(), re.ASCII)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no duration, such as 90s, 45m, 12h, 30d or 2w")
    try:
        length = dt.timedelta(**{_UNITS[found[2]]: float(found[1])})
        ends = dt.datetime.now(dt.UTC) + length
    except OverflowError:
        raise typer.BadParameter(f"{text!r} ends after the year 9999: leave it out to keep for ever") from None
    if ends <= dt.datetime.now(dt.UTC):
        raise typer.BadParameter(f"{text!r} is over already")
    return length


def metadata(text: str) -> tuple[str, Json]:
    """Read ``KEY=VALUE``; the value is JSON where it is some, else a text."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise typer.BadParameter(f"{text!r} is no metadata, such as tier=gold")
    try:
        return key.strip(), parsed_value(value, scalar_named(JSON_SHAPE))
    except InvalidDataError:
        return key.strip(), value.strip()


def store_address(text: str | None) -> str | None:
    """Refuse an empty address: it would mean the user's own store, which nobody asked for."""
    if text is not None and not text.strip():
        raise typer.BadParameter("it is empty: name a store, or leave the option out to use your own")
    return text


def said_text(text: str) -> str:
    """Read a text, from stdin if it is a dash; what is not encoded as the terminal says is refused, not mended."""
    try:
        if text == "-":
            if isinstance(sys.stdin, io.TextIOWrapper):
                sys.stdin.reconfigure(errors="strict")
            text = sys.stdin.read()
        text.encode()
    except UnicodeError:
        encoding = (getattr(sys.stdin, "encoding", None) or "utf-8").upper()
        raise typer.BadParameter(f"it is no text in {encoding}: convert it first") from None
    return text


def parsed_value(text: str, wanted: Scalar) -> Any:
    """Read a value of a type.

    Raises:
        InvalidDataError: the text is no such value.
    """
    try:
        return wanted.parse(text) if wanted.parse is not None else wanted.read(json.loads(text))
    except (ValueError, OverflowError, RecursionError):
        raise InvalidDataError(f"the value is no {wanted.shape}: correct it, or say another --type") from None


def scalar(name: str) -> Scalar:
    """Read the name of a scalar type."""
    try:
        return scalar_named(name)
    except InvalidDataError as error:
        raise typer.BadParameter(str(error)) from None


SubjectOption: TypeAlias = Annotated[
    MemorySubject | None, typer.Option(parser=subject, metavar="NAME[:INDIVIDUAL]", help="About whom.")
]
ScopeOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PATH", help="Where it holds, for example /product/alpha.")
]
ExactOption: TypeAlias = Annotated[bool, typer.Option("--exact", help="This very scope, not what lies below it.")]
PrivateOption: TypeAlias = Annotated[bool, typer.Option("--private", help="For the viewer alone (needs --viewer).")]
TextArgument: TypeAlias = Annotated[str, typer.Argument(parser=said_text, metavar="TEXT", help="A text; - is stdin.")]
TtlOption: TypeAlias = Annotated[
    dt.timedelta | None, typer.Option("--ttl", parser=duration, metavar="DURATION", help="Forget it after 12h, 30d, …")
]
