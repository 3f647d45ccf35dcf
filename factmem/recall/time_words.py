"""The words for times in English, and what each means against a clock, before the words around it are looked at.

``READERS`` holds patterns and what reads a match of each, the surest first: what one has read, no later one reads.
"""

from __future__ import annotations

import calendar
import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

__all__ = ["HINT", "NAMED_LAST", "READERS", "Span", "midnight"]

Span: TypeAlias = tuple["dt.datetime | None", dt.datetime]
_Read: TypeAlias = "Callable[[re.Match[str], dt.datetime], Span | None]"

_WORDS: Final = ("a an one", "two couple", "three few", "four several", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS: Final = {word: number for number, words in enumerate(_WORDS, start=1) for word in words.split()}
_MONTHS: Final = {
    name.lower(): number for names in (calendar.month_name, calendar.month_abbr) for number, name in enumerate(names)
} | {"sept": 9}
_WEEKDAYS: Final = {name.lower(): number for number, name in enumerate(calendar.day_name)}
_SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_DAYS: Final = {"minute": 1 / 1440, "hour": 1 / 24, "day": 1, "night": 1, "weekend": 7, "week": 7}
_DAYS_OF: Final = _DAYS | {"fortnight": 14, "month": 30.44, "quarter": 91.31, "year": 365.25, "decade": 3652.5}
_ALSO_WORDS: Final = ("may", "march")
"""Names that are words as well: in small letters they say nothing by themselves."""
_COUNTED: Final = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third "
    "twenty-fourth twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first"
)
_ORDINALS: Final = {word: number for number, word in enumerate(_COUNTED.split(), start=1)}
NAMED_LAST: Final = ("last", "this", "past")
"""Words before a name that belong to the time; the others before one say how it is meant."""


def _any(names: Iterable[str]) -> str:
    """One of several names; a look at the first letter spares a try of each."""
    named = sorted(filter(None, names), key=len, reverse=True)
    return f"(?:(?=[{''.join(sorted({name[0] for name in named}))}])(?:{'|'.join(named)}))"


_NUMBER: Final = rf"(?P<number>\d{{1,3}}|(?:a )?(?:{_any(_NUMBERS)})(?: of)?)(?P<half> and a half)?"
_UNIT: Final = rf"(?P<unit>{_any(_DAYS_OF)})s?"
_PERIOD: Final = r"(?P<unit>weekend|week|month|quarter|year|decade)"
_MONTH: Final = rf"(?P<month>{_any(_MONTHS)})\.?"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
_BACK: Final = "(?:last|this|previous) year|the year before last"
_OF_YEAR: Final = rf",? (?:of )?(?P<year>(?:19|20)\d\d|{_BACK})"
_DAY: Final = r"(?P<day>[0-3]?\d)(?P<th>st|nd|rd|th)?"
_LEADS: Final = (
    "in on during of since by until till before after from to through between and around early mid-? late "
    "last this past"
)
_LEAD: Final = f"(?P<lead>{_any(_LEADS.split())})"
HINT: Final = re.compile(
    rf"\d|ago\b|today|tonight|yesterday|\b(?:last|this|past|previous|the other)\b|"
    rf"\b(?:{_any((*_MONTHS, *_WEEKDAYS, *_SEASONS))}|(?:of|in) the (?:week|month|year))\b",
    re.IGNORECASE,
)
"""What every time has something of: most queries are done with after this one look."""


def midnight(now: dt.datetime) -> dt.datetime:
    """The moment at which the day of another began."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def _count(match: re.Match[str]) -> float:
    text = match["number"].lower()
    half = 0.5 if match["half"] or match.groupdict().get("half_unit") else 0
    if text.isdecimal():
        return int(text) + half
    return half + next(_NUMBERS[word] for word in reversed(text.removesuffix(" of").split()) if word in _NUMBERS)


def _ago(match: re.Match[str], now: dt.datetime) -> Span:
    unit = _DAYS_OF[match["unit"].lower()]
    days = 0.5 * unit if match.groupdict().get("part") else _count(match) * unit
    slack = unit / (4 if match.groupdict().get("part") else 2)
    if unit < 1:
        return now - dt.timedelta(days=days + slack), now - dt.timedelta(days=days - slack)
    day, slack = midnight(now), max(slack, 1.0)
    return day - dt.timedelta(days=math.ceil(days + slack)), day - dt.timedelta(days=math.floor(days - slack) - 1)


def _past(match: re.Match[str], now: dt.datetime) -> Span:
    days = (_count(match) if match["number"] else 1) * _DAYS_OF[match["unit"].lower()]
    tomorrow = midnight(now) + dt.timedelta(days=1)
    return tomorrow - dt.timedelta(days=max(days, 1)), tomorrow


def _ago_exactly(match: re.Match[str], now: dt.datetime) -> Span | None:
    """The day so many days, weeks, months or years before today or yesterday."""
    count, unit = _count(match), match["unit"].lower()
    if match["half"] or _DAYS_OF[unit] < 1:
        return None
    one = dt.timedelta(days=1)
    day = midnight(now) - (one if match["from"].lower() == "yesterday" else 0 * one)
    if months := {"month": 1, "quarter": 3, "year": 12, "decade": 120}.get(unit):
        first = _first(day.year, day.month - months * int(count), now)
        day = first.replace(day=min(day.day, calendar.monthrange(first.year, first.month)[1]))
    else:
        day -= count * _DAYS_OF[unit] * one
    return day, day + one


def _named_day(match: re.Match[str], now: dt.datetime) -> Span:
    day, one = midnight(now), dt.timedelta(days=1)
    match match[0].lower().removeprefix("the "):
        case "last night":
            return day - one / 2, day + one / 2
        case "other day":
            return day - 8 * one, day
        case "yesterday":
            return day - one, day
        case "day before yesterday":
            return day - 2 * one, day - one
    return day, day + one


def _calendar(match: re.Match[str], now: dt.datetime) -> Span:
    """This calendar week, weekend, month, quarter, year or decade, the last one, or the one before that."""
    back = 2 if match["then"] else 1 if match["which"].lower() in ("last", "previous") else 0
    day = midnight(now)
    match match["unit"].lower():
        case "decade":
            first = day.year // 10 * 10 - 10 * back
            return _first(first, 1, now), _first(first + 10, 1, now)
        case "year":
            return _first(day.year - back, 1, now), _first(day.year - back + 1, 1, now)
        case "quarter":
            return _months(day.year, (day.month - 1) // 3 * 3 + 1 - 3 * back, 3, now)
        case "month":
            return _months(day.year, day.month - back, 1, now)
    monday = day - dt.timedelta(days=day.weekday() + 7 * back)
    if match["unit"].lower() == "weekend":
        return monday + dt.timedelta(days=5), monday + dt.timedelta(days=7)
    return monday, monday + dt.timedelta(days=7)


def _weekday(match: re.Match[str], now: dt.datetime) -> Span:
    day = midnight(now)
    back = (day.weekday() - _WEEKDAYS[match["weekday"].lower()]) % 7
    if match["lead"].lower() in ("last", "past"):
        back = back or 7
    start = day - dt.timedelta(days=back)
    return start, start + dt.timedelta(days=1)


def _season(match: re.Match[str], now: dt.datetime) -> Span:
    """By the months of the north."""
    first = _SEASONS[match["season"].lower()]
    year = _year_of(match, now)
    if year is None:
        year = now.year if _first(now.year, first, now) <= now else now.year - 1
    return _months(year, first, 3, now)


def _quarter(match: re.Match[str], now: dt.datetime) -> Span | None:
    year = _year_of(match, now)
    return None if year is None else _months(year, 3 * int(match["quarter"]) - 2, 3, now)


def _date(match: re.Match[str], now: dt.datetime) -> Span | None:
    """A day of a month, or several: the last such one, if no year is named."""
    groups, year = match.groupdict(), _year_of(match, now)
    sure = groups["th"] or (year is not None and not _lasting(match)) or groups.get("lead") or groups.get("to")
    if match["month"] in _ALSO_WORDS and not sure:
        return None
    month, day = _MONTHS[match["month"].lower()], _ORDINALS.get(match["day"].lower().replace(" ", "-"))
    start = dt.datetime(now.year if year is None else year, month, day or int(match["day"]), tzinfo=now.tzinfo)
    if year is None and start > now:
        start = dt.datetime(now.year - 1, month, start.day, tzinfo=now.tzinfo)
    last = start.replace(day=int(groups["to"])) if groups.get("to") else start
    return start, last + dt.timedelta(days=1)


def _iso(match: re.Match[str], now: dt.datetime) -> Span:
    if match["day"] is None:
        return _months(int(match["year"]), int(match["month"]), 1, now)
    start = dt.datetime(int(match["year"]), int(match["month"]), int(match["day"]), tzinfo=now.tzinfo)
    return start, start + dt.timedelta(days=1)


_NOT_LEADING: Final = ("of", "and", "from", "by", "to", "on", "through", "this", "past")
_MODAL: Final = re.compile(r" (?:be|have|not|also|well|i|we|you|he|she|it|they)\b", re.IGNORECASE)


def _named_month(match: re.Match[str], now: dt.datetime) -> Span | None:
    month, groups = _MONTHS[match["month"].lower()], match.groupdict()
    if (year := _year_of(match, now)) is not None:
        return None if _lasting(match) and not groups.get("lead") else _months(year, month, 1, now)
    if match["month"] in _ALSO_WORDS and (
        groups["lead"].lower() in _NOT_LEADING or _MODAL.match(match.string, match.end())
    ):
        return None
    return _months(now.year if _first(now.year, month, now) <= now else now.year - 1, month, 1, now)


def _year(match: re.Match[str], now: dt.datetime) -> Span:
    return _first(int(match["year"]), 1, now), _first(int(match["year"]) + 1, 1, now)


def _decade(match: re.Match[str], now: dt.datetime) -> Span:
    """Ten years; those of two digits are the last that had begun."""
    first = int(match["decade"])
    if first < 100:
        first += now.year // 100 * 100
        first -= 100 if first > now.year else 0
    return _first(first, 1, now), _first(first + 10, 1, now)


def _year_of(match: re.Match[str], now: dt.datetime) -> int | None:
    """Which year a match names, in digits or as the last one; None where it names none."""
    year = (match.groupdict().get("year") or "").lower()
    if not year or year.isdecimal():
        return int(year) if year else None
    return now.year - (0 if year.startswith("this") else 2 if year.startswith("the") else 1)


def _lasting(match: re.Match[str]) -> bool:
    """Whether it reads like "it may last years" rather than like a month."""
    return match["month"] in _ALSO_WORDS and match.string.startswith(
        (" last", " this", " previous"), match.end("month")
    )


def _first(year: int, month: int, now: dt.datetime) -> dt.datetime:
    return dt.datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1, tzinfo=now.tzinfo)


def _months(year: int, month: int, count: int, now: dt.datetime) -> Span:
    return _first(year, month, now), _first(year, month + count, now)


def _readers() -> Iterator[tuple[re.Pattern[str], _Read]]:
    def words(pattern: str) -> re.Pattern[str]:
        return re.compile(rf"\b{pattern}(?!\w)", re.IGNORECASE)

    several = rf"{_DAY}(?: ?(?:-|–|to|and|until|through) ?(?:the )?(?P<to>[0-3]?\d)(?:st|nd|rd|th)?)?"
    lead, back = f"(?:{_LEAD} )?", f"(?P<year>{_BACK}),? (?:in|on|during) (?:the )?"
    ordinal, season = _any(_ORDINALS).replace("-", "[ -]"), f"(?P<season>{_any(_SEASONS)})"
    named = _any({*_MONTHS, *_WEEKDAYS, *_SEASONS} - {*_ALSO_WORDS}) + "|(?-i:May|March)"
    clock = r"T\d[\w:.+]{0,30}(?:-\d\d:?\d\d(?!-))?"
    yield words(rf"{_YEAR}-(?P<month>[01]\d)(?:-(?P<day>[0-3]\d)(?:{clock})?)?"), _iso
    yield words(rf"{_YEAR}/(?P<month>[01]?\d)/(?P<day>[0-3]?\d)"), _iso
    yield words(rf"(?<!\d\.)(?P<day>[0-3]?\d)\.(?P<month>[01]?\d)\.{_YEAR}(?!\.\d)"), _iso
    yield words(rf"{back}{several}(?: of)? {_MONTH}"), _date
    yield words(rf"{back}{_MONTH} {several}"), _date
    yield words(rf"{back}{_MONTH}(?!,? (?:of )?\d)"), _named_month
    yield words(rf"{back}{season}(?!,? (?:of )?\d)"), _season
    yield words(rf"{lead}(?:the )?{several}(?: of)? {_MONTH}(?:{_OF_YEAR})?"), _date
    yield words(rf"{lead}(?:the )?(?P<day>{ordinal})(?P<th> of) {_MONTH}(?:{_OF_YEAR})?"), _date
    yield words(rf"{lead}{_MONTH} {several}(?:{_OF_YEAR})?"), _date
    yield words(rf"{lead}{_MONTH}{_OF_YEAR}"), _named_month
    yield words(rf"(?:{_LEAD}[ -](?:the )?)?{season}{_OF_YEAR}"), _season
    yield words(rf"Q(?P<quarter>[1-4]){_OF_YEAR}"), _quarter
    yield words(rf"(?:{_LEAD}[ -](?:the )?|the )(?P<decade>(?:19|20)\d0)['’]?s(?!-)"), _decade
    yield words(r"the (?:(?P<lead>early|late|mid)[ -])?['’]?(?P<decade>\d0)['’]?s(?! ?[-–°(])"), _decade
    yield words(rf"(?P<part>half) an? {_UNIT} ago"), _ago
    yield words(rf"{_NUMBER} {_UNIT} ago (?P<from>today|yesterday)"), _ago_exactly
    yield words(rf"(?:about |around )?{_NUMBER} {_UNIT}(?P<half_unit> and a half)? ago"), _ago
    yield words(r"(?:today|tonight|this (?:morning|afternoon|evening)|last night)"), _named_day
    yield words(r"(?:the day before yesterday|yesterday|the other day)"), _named_day
    yield words(rf"(?:past|last|previous) {_NUMBER} {_UNIT}"), _past
    yield words(rf"(?:over|for|in|within|during|of) the (?:past|last|previous) (?P<number>){_UNIT}(?! of)"), _past
    yield words(rf"past (?P<number>){_UNIT}(?! of)"), _past
    yield words(rf"(?P<which>the) {_PERIOD}(?P<then> before last)(?! (?:{named})\b)"), _calendar
    yield words(rf"(?P<which>last|previous|this) {_PERIOD}(?P<then>)(?! of)"), _calendar
    yield words(rf"(?<=of )(?P<which>the) {_PERIOD}(?P<then>)(?! of| before)"), _calendar
    yield words(rf"{_LEAD}[ -](?:the )?{season}"), _season
    yield words(rf"{_LEAD}[ -](?P<weekday>{_any(_WEEKDAYS)})"), _weekday
    yield words(rf"{_LEAD}[ -]{_MONTH}"), _named_month
    yield words(rf"{_LEAD}[ -]{_YEAR}"), _year


READERS: Final = tuple(_readers())
