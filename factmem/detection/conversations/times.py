"""The times in conversation files: ISO 8601, seconds since 1970, and the ways the known data sets write them."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Final

from factmem.errors import ConversationFormatError, InvalidDataError
from factmem.facts import utc

__all__ = ["said_at"]

_LOCOMO: Final = re.compile(r"(\d{1,2}):(\d{2}) ?([ap])m on (\d{1,2}) ([a-z]{3})[a-z]*,? (\d{4})", re.IGNORECASE)
_LONGMEMEVAL: Final = re.compile(r"(\d{4})/(\d{2})/(\d{2}) \(\w{3}\) (\d{2}):(\d{2})")
_EPOCH: Final = re.compile(r"\d{9,13}(?:\.\d{1,9})?")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MILLISECONDS_FROM: Final = 1e11
"""A larger number of seconds lies after the year 5000, and must be meant in milliseconds."""


def said_at(value: Any, path: str) -> dt.datetime | None:
    """Return a time in UTC; one without a zone is taken as UTC, and None stays None.

    Args:
        value: text, or a number of seconds (or milliseconds) since 1970.
        path: where it stands, for the error.

    Raises:
        ConversationFormatError: it is no time.
    """
    if value is None:
        return None
    try:
        moment = _parsed(value)
        return utc(moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC))
    except (ValueError, OverflowError, OSError, InvalidDataError):
        raise ConversationFormatError(
            "not a time that can be read; write it as ISO 8601, for example 2024-05-08T13:56:00Z", path=path
        ) from None


def _parsed(value: Any) -> dt.datetime:
    match value:
        case bool():
            raise ValueError
        case int() | float():
            return _epoch(float(value))
        case str():
            text = value.strip()
        case _:
            raise ValueError
    if _EPOCH.fullmatch(text):
        return _epoch(float(text))
    if found := _LOCOMO.fullmatch(text):
        hour, minute, half, day, month, year = found.groups()
        return dt.datetime(
            *(int(year), _MONTHS.index(month.lower()) + 1, int(day)), _hour(int(hour), half), int(minute)
        )
    if found := _LONGMEMEVAL.fullmatch(text):
        year_, month_, day_, hour_, minute_ = map(int, found.groups())
        return dt.datetime(year_, month_, day_, hour_, minute_)
    return dt.datetime.fromisoformat(text)


def _hour(hour: int, half: str) -> int:
    if not 1 <= hour <= 12:
        raise ValueError
    return hour % 12 + (12 if half.lower() == "p" else 0)


def _epoch(seconds: float) -> dt.datetime:
    if abs(seconds) >= _MILLISECONDS_FROM:
        seconds /= 1000
    return dt.datetime.fromtimestamp(seconds, dt.UTC)
