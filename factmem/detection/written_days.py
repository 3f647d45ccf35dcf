"""Days that a statement writes in full, and the words in which a day is written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Final

from factmem.detection.passages import Word

__all__ = ["days_written", "parts_of"]

_MONTHS: Final = {
    name: at
    for at, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}


def days_written(words: Sequence[Word]) -> Iterable[dt.date]:
    """Yield the days that a statement writes in full: "7 May 2024", "May 7, 2024", "2024-05-07", "May 2024"."""
    numbers = [int(word.text) for word in words if word.text.isdigit() and len(word.text) <= 4]
    years = [number for number in numbers if 1900 <= number < 2200][:3]
    months = [month for word in words if (month := _MONTHS.get(word.text[:3])) is not None][:3]
    months += [number for number in numbers if 1 <= number <= 12][:3]
    for year in years:
        for month in dict.fromkeys((*months, 1)):
            for day in dict.fromkeys((*[number for number in numbers if 1 <= number <= 31][:4], 1)):
                try:
                    yield dt.date(year, month, day)
                except ValueError:
                    continue


def parts_of(day: dt.date) -> Iterable[str]:
    """Yield the words in which a day is written."""
    yield from (str(day.year), str(day.day), f"{day.day:02}", str(day.month), f"{day.month:02}")
    yield from (f"{day:%B}".casefold(), f"{day:%b}".casefold(), f"{day:%A}".casefold(), "th", "st", "nd", "rd")
