"""Days, times of day and lengths of time that a text says, as seen from the moment it was said.

A value is compared with every reading: "3/5" is the third of May and the fifth of March, "Tuesday" the last and the
next one, "at 3" the night and the afternoon. A week, a month or a season said alone ("last week") holds all of its
days; a month with its name only its first, fifteenth and last, since models complete a date in that way and no other.
"""

from __future__ import annotations

import calendar
import datetime as dt
import itertools
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final, TypeAlias

import attrs

from factmem.detection.numerals import Number, numbers_in
from factmem.detection.passages import Word

__all__ = ["Found", "days_in", "lengths_in", "times_in"]

Found: TypeAlias = tuple[int, int]
"""The positions of the first and the last word of something said."""

_DAY: Final = dt.timedelta(days=1)
_MONTHS: Final = {
    name.lower(): number
    for names in (calendar.month_name, calendar.month_abbr)
    for number, name in enumerate(names)
    if name
} | {"sept": 9}
_WEEKDAYS: Final = {
    name.lower(): number for names in (calendar.day_name, calendar.day_abbr) for number, name in enumerate(names)
} | {"tues": 1, "thurs": 3, "thur": 3}
_DAYS_OF: Final = {
    "day": 1,
    "night": 1,
    "week": 7,
    "weekend": 7,
    "fortnight": 14,
    "month": 30,
    "quarter": 91,
    "year": 365,
}
_FEASTS: Final = {
    "christmas": (12, 25),
    "xmas": (12, 25),
    "halloween": (10, 31),
    "valentine's": (2, 14),
    "valentines": (2, 14),
}
_BY_DAYS: Final = {
    **dict.fromkeys(("today", "tonight", "now", "currently", "this morning", "this evening", "this afternoon"), 0),
    **dict.fromkeys(("just", "right now", "earlier", "as of today"), 0),
    **dict.fromkeys(("yesterday", "last night"), -1),
    **dict.fromkeys(("tomorrow", "overnight"), 1),
    "before yesterday": -2,
    "after tomorrow": 2,
}
_SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_BACK: Final = ("last", "past", "previous")
_AHEAD: Final = ("next", "coming", "following", "upcoming")
_HOURS: Final = {
    "noon": (12, 12),
    "midday": (12, 12),
    "midnight": (0, 0),
    "morning": (6, 11),
    "afternoon": (12, 17),
    "evening": (17, 21),
    "night": (20, 23),
    "tonight": (18, 23),
    "lunch": (12, 13),
    "lunchtime": (12, 13),
}
_HALVES: Final = {
    **dict.fromkeys(("in the morning", "this morning", "tomorrow morning"), "am"),
    **dict.fromkeys(("in the afternoon", "this afternoon", "tomorrow afternoon"), "pm"),
    **dict.fromkeys(("in the evening", "this evening", "tomorrow evening"), "pm"),
}
"""Words behind an hour that say which half of the day it is in."""
_SECONDS: Final = {
    **dict.fromkeys(("second", "sec", "s"), 1),
    **dict.fromkeys(("minute", "min", "m"), 60),
    **dict.fromkeys(("hour", "hr", "h"), 3_600),
    **dict.fromkeys(("day", "d", "night"), 86_400),
    **dict.fromkeys(("week", "wk", "w"), 604_800),
    "fortnight": 1_209_600,
    "month": 2_592_000,
    "year": 31_536_000,
}


@attrs.frozen
class _Days:
    """Days that some words may mean: from the first to the last, both counted."""

    first: dt.date
    last: dt.date
    found: Found


def days_in(words: Sequence[Word], day: dt.date, said_at: dt.datetime) -> list[Found]:
    """Return where some words say a day.

    Args:
        words: the words.
        day: the day.
        said_at: time when they were said. Its day may also be the one before or after in the speaker's time zone.
    """
    today = said_at.date()
    return [days.found for days in _Reader(words, today).all() if days.first <= day <= days.last]


@attrs.frozen
class _Reader:
    """Reader of the days that words mean, seen from a day."""

    words: Sequence[Word]
    today: dt.date

    def all(self) -> Iterator[_Days]:
        numbers = {number.first: (int(number.value), number.last) for number in self._whole_numbers()}
        for at in range(len(self.words)):
            yield from self._by_words(at)
            yield from self._by_unit(at)
            yield from self._by_weekday(at)
            yield from self._by_month(at, numbers)
            if at in numbers:
                yield from self._by_number(at, *numbers[at], numbers)
            if self._text(at)[:1].isdigit():
                yield from self._in_digits(at)

    def _whole_numbers(self) -> Iterator[Number]:
        return (one for one in numbers_in(self.words) if one.value == int(one.value) and 0 < one.value < 10_000)

    def _text(self, at: int) -> str:
        return self.words[at].text if 0 <= at < len(self.words) else ""

    def _shifted(self, days: int, first: int, last: int, *, around: int = 0) -> Iterator[_Days]:
        try:
            begins, ends = self.today + (days - around) * _DAY, self.today + (days + around) * _DAY
        except OverflowError:
            return
        yield _Days(begins, ends, (first, last))

    def _by_words(self, at: int) -> Iterator[_Days]:
        """Read "yesterday", "tonight", "the day after tomorrow", "at Christmas"."""
        text = self._text(at)
        pair = f"{self._text(at - 1)} {text}"
        if pair in _BY_DAYS:
            yield from self._shifted(_BY_DAYS[pair], at - 1, at)
        elif text in _BY_DAYS:
            yield from self._shifted(_BY_DAYS[text], at, at)
        if text in _FEASTS:
            yield from self._any_year(*_FEASTS[text], at, at)
        if pair in ("christmas eve", "new year", "new year's") or pair == "year's eve":
            month, day = {"christmas eve": (12, 24), "year's eve": (12, 31)}.get(pair, (1, 1))
            yield from self._any_year(month, day, at - 1, at)

    def _by_unit(self, at: int) -> Iterator[_Days]:
        """Read "last week", "next month", "this year", "this summer", "the weekend"."""
        before, unit = self._text(at - 1), self._text(at)
        if unit not in _DAYS_OF and unit not in _SEASONS:
            return
        length = _DAYS_OF.get(unit, 365)
        if before in _BACK:
            yield from self._shifted(-length, at - 1, at, around=length)
        elif before in _AHEAD:
            yield from self._shifted(length, at - 1, at, around=length)
        elif before in ("this", "the", "over", "by", "of") and unit != "day":
            yield from self._shifted(0, at - 1, at, around=length)

    def _by_weekday(self, at: int) -> Iterator[_Days]:
        weekday = _WEEKDAYS.get(self._text(at).removesuffix("s") if len(self._text(at)) > 5 else self._text(at))
        if weekday is None:
            return
        before = self._text(at - 1)
        # "next Friday" may skip the one of this week, if it is still to come.
        today = self.today.weekday()
        back = -7 - 7 * (weekday < today) if before in _BACK else 0 if before in _AHEAD else -7
        ahead = 7 + 7 * (weekday > today) if before in _AHEAD else 0 if before in _BACK else 7
        for shift in range(back, ahead + 1):
            if (self.today.weekday() + shift) % 7 == weekday:
                yield from self._shifted(shift, at, at)

    def _by_month(self, at: int, numbers: dict[int, tuple[int, int]]) -> Iterator[_Days]:
        """Read "May", "May 2019", "3 May", "the third of May 1990", "May 3rd, 1990"."""
        month = _MONTHS.get(self._text(at).rstrip("."))
        if month is None:
            return
        days = [number for first, (number, last) in numbers.items() if 1 <= number <= 31 and at - 4 < last < at]
        behind = self._numbers_behind(at, numbers)
        days += [number for number, _, _ in behind[:1] if number <= 31]
        years = [(number, last) for number, _, last in behind if number > 31]
        last = years[0][1] if years else behind[0][2] if behind else at
        for day in days or (1, 15, 31):
            for year, _ in years or [(year, at) for year in self._years()]:
                yield from self._exactly(_full_year(year), month, day, at, last, clip=not days)

    def _numbers_behind(self, at: int, numbers: dict[int, tuple[int, int]]) -> list[tuple[int, int, int]]:
        """Return the numbers right behind a position, commas and "of" between them aside."""
        found: list[tuple[int, int, int]] = []
        position = at + 1
        while len(found) < 2 and position < min(at + 8, len(self.words)):
            if position in numbers:
                number, last = numbers[position]
                found.append((number, position, last))
                position = last + 1
            elif self._text(position) in (",", ".", "of", "the", "th", "st", "nd", "rd", "in", "'", "’", "last"):
                position += 1
            else:
                break
        return found

    def _by_number(self, at: int, number: int, last: int, numbers: dict[int, tuple[int, int]]) -> Iterator[_Days]:
        """Read "two weeks ago", "in 3 days", "the 3rd", "2019"."""
        unit = self._text(last + 1) if self._text(last + 1) not in ("more", "full") else self._text(last + 2)
        length = _DAYS_OF.get(unit.removesuffix("s"))
        if length is not None and number < 4_000:
            around = 0 if length == 1 else length // 2
            near = " ".join(self._text(position) for position in range(last + 1, last + 5))
            if "ago" in near or "back" in near or "earlier" in near or self._text(at - 1) in (*_BACK, "for"):
                yield from self._shifted(-number * length, at, last + 2, around=around)
            if self._text(at - 1) in ("in", "within", "next", "another") or "from" in near or "time" in near:
                yield from self._shifted(number * length, at, last + 2, around=around)
        ordinal = self._text(last + 1) in ("th", "st", "nd", "rd") or not self._text(at)[:1].isdigit()
        if 1 <= number <= 31 and (ordinal or self._text(at - 1) == "the"):
            for shift in (-1, 0, 1):
                year, month = divmod(self.today.year * 12 + self.today.month - 1 + shift, 12)
                yield from self._exactly(year, month + 1, number, at, last)
        if 1000 <= number < 2200:
            for month, day in ((1, 1), (7, 1), (12, 31)):
                yield from self._exactly(number, month, day, at, last)

    def _in_digits(self, at: int) -> Iterator[_Days]:
        """Read 2024-05-31, 31/5/2024, 5/31, 31.5.2024."""
        parts, last = self._digits(at)
        if len(parts) == 3 and parts[0] > 31:
            yield from self._exactly(parts[0], parts[1], parts[2], at, last)
        elif len(parts) == 3:
            for month, day in ((parts[1], parts[0]), (parts[0], parts[1])):
                yield from self._exactly(_full_year(parts[2]), month, day, at, last)
        elif len(parts) == 2 and parts[0] > 31:
            for day in (1, 15, 31):
                yield from self._exactly(parts[0], parts[1], day, at, last, clip=True)
        elif len(parts) == 2 and parts[1] > 31:
            for day in (1, 15, 31):
                yield from self._exactly(parts[1], parts[0], day, at, last, clip=True)
        elif len(parts) == 2:
            for month, day in ((parts[1], parts[0]), (parts[0], parts[1])):
                yield from self._any_year(month, day, at, last)

    def _digits(self, at: int) -> tuple[list[int], int]:
        pieces = self._text(at).split(".")
        last = at
        while len(pieces) == 1 or last > at:
            if len(pieces) < 3 and self._text(last + 1) in ("-", "/", ".", "‐") and self._text(last + 2)[:1].isdigit():
                pieces.append(self._text(last + 2))
                last += 2
            else:
                break
        return [int(piece) for piece in pieces if piece.isdigit() and len(piece) <= 4], last

    def _years(self) -> tuple[int, ...]:
        return (self.today.year - 1, self.today.year, self.today.year + 1)

    def _any_year(self, month: int, day: int, first: int, last: int) -> Iterator[_Days]:
        for year in self._years():
            yield from self._exactly(year, month, day, first, last)

    def _exactly(
        self, year: int, month: int, day: int, first: int, last: int, *, clip: bool = False
    ) -> Iterator[_Days]:
        """Yield one day, if there is such a one; with ``clip``, the last of its month in place of the 31st."""
        if not (1 <= year <= 9999 and 1 <= month <= 12):
            return
        longest = calendar.monthrange(year, month)[1]
        if 1 <= day <= longest or clip:
            exact = dt.date(year, month, min(day, longest))
            yield _Days(exact, exact, (first, last))


def _full_year(year: int) -> int:
    """Return the year that two digits stand for: 24 is 2024, 84 is 1984."""
    return year if year > 99 else 2000 + year if year < 50 else 1900 + year


def times_in(words: Sequence[Word], time: dt.time) -> list[Found]:
    """Return where some words say a time of day: "3 pm", "15:00", "half past three", "noon", "in the evening"."""
    found: list[Found] = []
    for number in numbers_in(words):
        if number.value != int(number.value) or not 0 <= number.value <= 24:
            continue
        hour, at = int(number.value), number.last + 1
        rest = [word.text for word in words[at : at + 4]] + [""] * 4
        minute, last = 0, number.last
        if rest[0] in (":", ".", "h") and len(rest[1]) == 2 and rest[1].isdigit():
            minute, last, rest = int(rest[1]), at + 1, rest[2:]
        minute, hour = _past(words, number.first, minute, hour)
        half = rest[0] + rest[2] if rest[1] in (".", "") else rest[0]
        half = _HALVES.get(" ".join(rest[:3]).strip(), _HALVES.get(" ".join(rest[:2]), half))
        if half in ("pm", "p.m", "pm.") or rest[0] == "p":
            hours = {hour % 12 + 12}
        elif half in ("am", "a.m", "am.") or rest[0] == "a":
            hours = {hour % 12}
        else:
            hours = {hour, hour % 12, hour % 12 + 12} if hour <= 12 else {hour}
        if time.hour in {each % 24 for each in hours} and time.minute == minute:
            found.append((number.first, last))
    for at, word in enumerate(words):
        first, last = _HOURS.get(word.text, (24, -1))
        if first <= time.hour <= last and not time.minute:
            found.append((at, at))
    return found


def _past(words: Sequence[Word], at: int, minute: int, hour: int) -> tuple[int, int]:
    """Read "half past three", "quarter to four", "ten past five"; return the minute and the hour."""
    sign = words[at - 1].text if at else ""
    if sign not in ("past", "to", "after") or at < 2:
        return minute, hour
    said = {"half": 30, "quarter": 15, "five": 5, "ten": 10, "twenty": 20}.get(words[at - 2].text)
    if said is None:
        return minute, hour
    return (60 - said, (hour - 1) % 24) if sign == "to" else (said, hour)


def lengths_in(words: Sequence[Word], length: dt.timedelta) -> list[Found]:
    """Return where some words say a length of time: "90 minutes", "an hour and a half", "1h30", "2 h 15 min"."""
    said: list[tuple[Decimal, Found]] = []
    for number in numbers_in(words):
        seconds, last = _unit_of(words, number)
        if seconds is not None:
            said.append((number.value * seconds, (number.first, last)))
            if [word.text for word in words[last + 1 : last + 4]] == ["and", "a", "half"]:
                said.append(((number.value + Decimal("0.5")) * seconds, (number.first, last + 3)))
        elif said and said[-1][1][1] == number.first - 1:
            said.append((said[-1][0] + number.value * 60, (said[-1][1][0], number.last)))  # "1h30"
    wanted = Decimal(str(length.total_seconds()))
    found = [place for value, place in said if value == wanted]
    for (one, (first, _)), (two, (_, last)) in itertools.pairwise(said):
        if one + two == wanted:
            found.append((first, last))
    return found


def _unit_of(words: Sequence[Word], number: Number) -> tuple[int | None, int]:
    """Return the seconds of the unit of a number, and the position of the unit or of the number's end."""
    at = number.last + 1
    while at + 1 < len(words) and words[at].text in ("a", "an", "of"):
        at += 1
    behind = _SECONDS.get(_singular(words[at].text)) if at < len(words) else None
    if behind is not None:
        return behind, at
    within = _SECONDS.get(_singular(words[number.first + 1].text)) if number.last > number.first + 1 else None
    return within, number.last  # "an hour and a half": the unit stands within


def _singular(unit: str) -> str:
    return unit if unit in _SECONDS else unit.removesuffix("s")
