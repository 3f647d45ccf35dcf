r"""Times that a query names: "two weeks ago", "last May", "between March and May 2023", as spans against a clock.

English, by rules and without a model: a span is what counts here, and libraries that parse dates give points.
What is vague stays wide: "a month ago" is two weeks on either side. A month, a weekday or a season that names no
year is the last one that had begun. A name of a month that is also a word ("may", "march") counts only where
something else says that it is one. Times to come are not read: what is known was said before.

Some spans, for ``now`` on Saturday, 21 November 2026::

    last May                    [2026-05-01, 2026-06-01)
    three weeks ago             [2026-10-27, 2026-11-05)      half a unit on either side
    in the last two weeks       [2026-11-08, 2026-11-22)
    before March 2024           [          , 2024-03-01)
    between November and May    [2025-11-01, 2026-06-01)
    late 2021                   the last two fifths of it
"""

from __future__ import annotations

import calendar
import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import attrs

__all__ = ["TimeSpan", "times_in"]


@attrs.frozen(kw_only=True)
class TimeSpan:
    """A stretch of time that a query names.

    Attributes:
        start: its first moment, in UTC; None where it has no beginning ("before May").
        end: the first moment after it, in UTC; later than its start.
    """

    start: dt.datetime | None
    end: dt.datetime

    def holds(self, moment: dt.datetime) -> bool:
        """Whether a moment lies in it."""
        return (self.start is None or self.start <= moment) and moment < self.end


def times_in(query: str, now: dt.datetime) -> tuple[TimeSpan, ...]:
    """Return the times that a query names, in its order, each once; none for most queries.

    Args:
        query: what is asked.
        now: what "ago" counts from, aware; days begin and end in its time zone.
    """
    if not _HINT.search(query):
        return ()
    query = " ".join(query.split())
    try:
        spans = [_utc(span) for span in _spans(query, _ranges(query, _named(query, now)), now)]
    except OverflowError:  # where the calendar ends
        return ()
    return tuple(dict.fromkeys(span for span in spans if span is not None))


_Span: TypeAlias = tuple["dt.datetime | None", dt.datetime]
_Read: TypeAlias = "Callable[[re.Match[str], dt.datetime], _Span | None]"


@attrs.frozen
class _Hit:
    """A time that a query names: where it stands, and what it means before the words around it are looked at."""

    first: int
    last: int
    span: _Span
    year: bool
    """Whether it says which year it means, or needs no year."""


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


def _any(names: Iterable[str]) -> str:
    return "|".join(sorted(filter(None, names), key=len, reverse=True))


_NUMBER: Final = rf"(?P<number>\d{{1,3}}|(?:a )?(?:{_any(_NUMBERS)})(?: of)?)(?P<half> and a half)?"
_UNIT: Final = rf"(?P<unit>{_any(_DAYS_OF)})s?"
_PERIOD: Final = r"(?P<unit>weekend|week|month|quarter|year|decade)"
_MONTH: Final = rf"(?P<month>{_any(_MONTHS)})\.?"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
_DAY: Final = r"(?P<day>[0-3]?\d)(?P<th>st|nd|rd|th)?"
_LEAD: Final = (
    r"(?P<lead>in|on|during|of|since|by|until|till|before|after|from|to|through|between|and|around|early|mid-?|late|"
    r"last|this|past)"
)
_HINT: Final = re.compile(
    rf"\d|ago\b|today|tonight|yesterday|\b(?:last|this|past|previous|the other)\b|"
    rf"\b(?:{_any((*_MONTHS, *_WEEKDAYS, *_SEASONS))}|(?:of|in) the (?:week|month|year))\b",
    re.IGNORECASE,
)
"""What every time has something of: most queries are done with after this one look."""


def _named(query: str, now: dt.datetime) -> list[_Hit]:
    """Find the times that stand in a query, one reader after another; what one has read, no later one reads."""
    found: list[_Hit] = []
    for pattern, read in _READERS:
        for match in pattern.finditer(query):
            first = match.end("lead") if match.groupdict().get("lead") else match.start()
            if any(first < hit.last and hit.first < match.end() for hit in found):
                continue
            try:
                span = read(match, now)
            except (ValueError, OverflowError):  # 31 February, or before the calendar begins
                continue
            if span is not None:
                groups = match.groupdict()
                found.append(_Hit(first, match.end(), span, "month" not in groups or bool(groups.get("year"))))
    return sorted(found, key=lambda hit: hit.first)


_FROM: Final = re.compile(r"\b(?:between|from)(?: the)?\s*$", re.IGNORECASE)
_TO: Final = re.compile(r"\s*(?:and|to|until|till|through|up to|-|–)(?: the)?\s*", re.IGNORECASE)


def _ranges(query: str, hits: list[_Hit]) -> list[_Hit]:
    """Make one of two times that are the ends of one: "between X and Y", "from X to Y"."""
    united: list[_Hit] = []
    for hit in hits:
        before = united[-1] if united else None
        if before and _TO.fullmatch(query[before.last : hit.first]) and _FROM.search(query[: before.first]):
            united[-1] = _Hit(before.first, hit.last, _from_to(before, hit), year=True)
        else:
            united.append(hit)
    return united


def _from_to(first: _Hit, last: _Hit) -> _Span:
    """Unite two times; the first one, if it names no year, is the last such one before the other."""
    start, end = first.span[0], last.span[1]
    if start is not None and not first.year:
        year = (end - dt.timedelta(days=1)).year
        day = 28 if (start.month, start.day) == (2, 29) else start.day
        start = start.replace(year=year, day=day)
        start = start if start < end else start.replace(year=year - 1)
    starts = [one for one in (start, last.span[0]) if one is not None]
    return (min(starts) if len(starts) == 2 else None), max(first.span[1], end) if first.year else end


_TURN: Final = re.compile(
    r"\b(since|before|until|till|up to|prior to|earlier than|after|later than)(?: the)?\s*$", re.IGNORECASE
)
_PART: Final = re.compile(
    r"\b(early|start of|beginning of|mid|middle of|late|end of)(?: in)?(?: the| this)?[\s-]*$", re.IGNORECASE
)


def _spans(query: str, hits: list[_Hit], now: dt.datetime) -> Iterator[_Span]:
    """Read the words before each time: which part of it is meant, or what lies before or after it."""
    tomorrow = _midnight(now) + dt.timedelta(days=1)
    for hit in hits:
        before, span = query[: hit.first], hit.span
        if part := _PART.search(before):
            before, span = before[: part.start()], _part(part[1].lower(), span)
        turn = _TURN.search(before)
        yield _turned(turn[1].lower(), span, tomorrow) if turn else span


def _part(which: str, span: _Span) -> _Span:
    """A bit less than half of a time, at its beginning, in its middle or at its end."""
    start, end = span
    if start is None:
        return span
    fifth = (end - start) / 5
    match which:
        case "early" | "start of" | "beginning of":
            return start, start + 2 * fifth
        case "late" | "end of":
            return end - 2 * fifth, end
    return start + 1.5 * fifth, end - 1.5 * fifth


def _turned(turn: str, span: _Span, tomorrow: dt.datetime) -> _Span:
    start, end = span
    match turn:
        case "since":
            return (start, tomorrow) if start is not None and start < tomorrow else span
        case "after" | "later than":
            return (end, tomorrow) if end < tomorrow else span
    return span if start is None else (None, start)


def _utc(span: _Span) -> TimeSpan | None:
    try:
        start, end = (moment and moment.astimezone(dt.UTC) for moment in span)
    except OverflowError:
        return None
    assert end is not None
    return TimeSpan(start=start, end=end) if start is None or start < end else None


def _midnight(now: dt.datetime) -> dt.datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def _count(match: re.Match[str]) -> float:
    text = match["number"].lower()
    half = 0.5 if match["half"] or match.groupdict().get("half_unit") else 0
    if text.isdecimal():
        return int(text) + half
    return half + next(_NUMBERS[word] for word in reversed(text.removesuffix(" of").split()) if word in _NUMBERS)


def _ago(match: re.Match[str], now: dt.datetime) -> _Span:
    unit = _DAYS_OF[match["unit"].lower()]
    days = 0.5 * unit if match.groupdict().get("part") else _count(match) * unit
    slack = unit / (4 if match.groupdict().get("part") else 2)
    if unit < 1:
        return now - dt.timedelta(days=days + slack), now - dt.timedelta(days=days - slack)
    day, slack = _midnight(now), max(slack, 1.0)
    return day - dt.timedelta(days=math.ceil(days + slack)), day - dt.timedelta(days=math.floor(days - slack) - 1)


def _past(match: re.Match[str], now: dt.datetime) -> _Span:
    days = (_count(match) if match["number"] else 1) * _DAYS_OF[match["unit"].lower()]
    tomorrow = _midnight(now) + dt.timedelta(days=1)
    return tomorrow - dt.timedelta(days=max(days, 1)), tomorrow


def _named_day(match: re.Match[str], now: dt.datetime) -> _Span:
    day, one = _midnight(now), dt.timedelta(days=1)
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


def _calendar(match: re.Match[str], now: dt.datetime) -> _Span:
    """This calendar week, weekend, month, quarter, year or decade, the last one, or the one before that."""
    back = 2 if match["then"] else 1 if match["which"].lower() in ("last", "previous") else 0
    day = _midnight(now)
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


def _weekday(match: re.Match[str], now: dt.datetime) -> _Span:
    day = _midnight(now)
    back = (day.weekday() - _WEEKDAYS[match["weekday"].lower()]) % 7
    if match["lead"].lower() in ("last", "past"):
        back = back or 7
    start = day - dt.timedelta(days=back)
    return start, start + dt.timedelta(days=1)


def _season(match: re.Match[str], now: dt.datetime) -> _Span:
    """By the months of the north."""
    first = _SEASONS[match["season"].lower()]
    year = int(match["year"]) if match["year"] else now.year
    if not match["year"] and _first(year, first, now) > now:
        year -= 1
    return _months(year, first, 3, now)


def _quarter(match: re.Match[str], now: dt.datetime) -> _Span:
    return _months(int(match["year"]), 3 * int(match["quarter"]) - 2, 3, now)


def _date(match: re.Match[str], now: dt.datetime) -> _Span | None:
    """A day of a month, or several: the last such one, if no year is named."""
    groups = match.groupdict()
    sure = groups["th"] or groups.get("year") or groups.get("lead") or groups.get("to")
    if match["month"] in _ALSO_WORDS and not sure:
        return None
    month, day = _MONTHS[match["month"].lower()], int(match["day"])
    year = int(groups.get("year") or now.year)
    start = dt.datetime(year, month, day, tzinfo=now.tzinfo)
    if not groups.get("year") and start > now:
        start = dt.datetime(year - 1, month, day, tzinfo=now.tzinfo)
    last = start.replace(day=int(groups["to"])) if groups.get("to") else start
    return start, last + dt.timedelta(days=1)


def _iso(match: re.Match[str], now: dt.datetime) -> _Span:
    if match["day"] is None:
        return _months(int(match["year"]), int(match["month"]), 1, now)
    start = dt.datetime(int(match["year"]), int(match["month"]), int(match["day"]), tzinfo=now.tzinfo)
    return start, start + dt.timedelta(days=1)


_NOT_LEADING: Final = ("of", "and", "from", "by", "to", "on", "through", "this", "past")
_MODAL: Final = re.compile(r" (?:be|have|not|also|well|i|we|you|he|she|it|they)\b", re.IGNORECASE)


def _named_month(match: re.Match[str], now: dt.datetime) -> _Span | None:
    month, groups = _MONTHS[match["month"].lower()], match.groupdict()
    if groups.get("year"):
        return _months(int(match["year"]), month, 1, now)
    if match["month"] in _ALSO_WORDS and (
        groups["lead"].lower() in _NOT_LEADING or _MODAL.match(match.string, match.end())
    ):
        return None
    return _months(now.year if _first(now.year, month, now) <= now else now.year - 1, month, 1, now)


def _year(match: re.Match[str], now: dt.datetime) -> _Span:
    return _first(int(match["year"]), 1, now), _first(int(match["year"]) + 1, 1, now)


def _first(year: int, month: int, now: dt.datetime) -> dt.datetime:
    return dt.datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1, tzinfo=now.tzinfo)


def _months(year: int, month: int, count: int, now: dt.datetime) -> _Span:
    return _first(year, month, now), _first(year, month + count, now)


def _readers() -> Iterator[tuple[re.Pattern[str], _Read]]:
    def words(pattern: str) -> re.Pattern[str]:
        return re.compile(rf"\b{pattern}(?!\w)", re.IGNORECASE)

    several = rf"{_DAY}(?: ?(?:-|–|to|and|until|through) ?(?:the )?(?P<to>[0-3]?\d)(?:st|nd|rd|th)?)?"
    lead = f"(?:{_LEAD} )?"
    yield words(rf"{_YEAR}-(?P<month>[01]\d)(?:-(?P<day>[0-3]\d))?"), _iso
    yield words(rf"{lead}(?:the )?{several}(?: of)? {_MONTH}(?:,? {_YEAR})?"), _date
    yield words(rf"{lead}{_MONTH} {several}(?:,? {_YEAR})?"), _date
    yield words(rf"{_MONTH},? (?:of )?{_YEAR}"), _named_month
    yield words(rf"Q(?P<quarter>[1-4]),? (?:of )?{_YEAR}"), _quarter
    yield words(rf"(?P<part>half) an? {_UNIT} ago"), _ago
    yield words(rf"(?:about |around )?{_NUMBER} {_UNIT}(?P<half_unit> and a half)? ago"), _ago
    yield words(r"(?:today|tonight|last night|the day before yesterday|yesterday|the other day)"), _named_day
    yield words(rf"(?:past|last|previous) {_NUMBER} {_UNIT}"), _past
    yield words(rf"(?:over|for|in|within|during|of) the (?:past|last|previous) (?P<number>){_UNIT}(?! of)"), _past
    yield words(rf"past (?P<number>){_UNIT}(?! of)"), _past
    yield words(rf"(?P<which>the) {_PERIOD}(?P<then> before last)"), _calendar
    yield words(rf"(?P<which>last|previous|this) {_PERIOD}(?P<then>)(?! of)"), _calendar
    yield words(rf"(?<=of )(?P<which>the) {_PERIOD}(?P<then>)(?! of| before)"), _calendar
    yield words(rf"{_LEAD}[ -](?:the )?(?P<season>{_any(_SEASONS)})(?:,? (?:of )?{_YEAR})?"), _season
    yield words(rf"(?P<season>{_any(_SEASONS)}),? (?:of )?{_YEAR}"), _season
    yield words(rf"{_LEAD}[ -](?P<weekday>{_any(_WEEKDAYS)})"), _weekday
    yield words(rf"{_LEAD}[ -]{_MONTH}"), _named_month
    yield words(rf"{_LEAD}[ -]{_YEAR}"), _year


_READERS: Final = tuple(_readers())
