"""Times that a query names: "two weeks ago", "last May", "between March and May 2023", as spans against a clock.

English, by rules and without a model: recall needs intervals, and libraries that parse dates return points. Phrases of
other languages are put into English before; see `factmem.time_phrases`.
Vague times stay wide: "a month ago" is two weeks on either side. A month, a weekday, a season or a holiday that
names no year is the last one that had begun. A holiday counts with the day before and the two days after it, when
people mention it. A name that is also a word ("may", "march", "fall") counts only with other evidence of a time. Future
times are not read: what is known was said before.

``READERS`` holds pairs of a pattern and a function that reads its match, the surest first. Holidays are those that
people of many countries date things by: Christmas, New Year, Easter, Valentine's Day, Halloween, Thanksgiving of the
United States, and some more. Those of lunar calendars need tables and are not read.

Some spans, for ``now`` on Saturday, 21 November 2026:

    last May                    [2026-05-01, 2026-06-01)
    three weeks ago             [2026-10-27, 2026-11-05)      half a unit on either side
    in the last two weeks       [2026-11-08, 2026-11-22)
    before March 2024           [          , 2024-03-01)
    between November and May    [2025-11-01, 2026-06-01)
    in May of last year         [2025-05-01, 2025-06-01)
    a year ago today            [2025-11-21, 2025-11-22)
    late 2021                   the last two fifths of it
    two summers ago             [2025-06-01, 2025-09-01)
    over Easter                 [2026-04-02, 2026-04-09)
    the week before Christmas   [2025-12-17, 2025-12-24)
"""

from __future__ import annotations

import calendar
import contextlib
import datetime as dt
import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from factmem.patterns import lazy_pattern
from factmem.recall.text.analysis import STOP_WORDS
from factmem.sentences import day_phrases
from factmem.text_caches import forgettable
from factmem.time_phrases import in_english
from factmem.toml_tables import table

Span: TypeAlias = tuple[dt.datetime, dt.datetime]
_Read: TypeAlias = "Callable[[re.Match[str], dt.datetime], Span | None]"

_A_DAY: Final = dt.timedelta(days=1)
_WORDS: Final = ("a an one", "two couple", "three few", "four several", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS: Final = {word: number for number, words in enumerate(_WORDS, start=1) for word in words.split()}
_MONTHS: Final = {
    name.lower(): number for names in (calendar.month_name, calendar.month_abbr) for number, name in enumerate(names)
} | {"sept": 9, "May": 5, "March": 3}
_WEEKDAYS: Final = {name.lower(): number for number, name in enumerate(calendar.day_name)}
_DAYS: Final = {"minute": 1 / 1440, "hour": 1 / 24, "day": 1, "night": 1, "weekend": 7, "week": 7}
_DAYS_OF: Final = _DAYS | {"fortnight": 14, "month": 30.44, "quarter": 91.31, "year": 365.25, "decade": 3652.5}
_MONTHS_OF: Final = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
_TABLE: Final = table("recall/text/times")
_SEASONS: Final[Mapping[str, int]] = _TABLE["seasons"]
_ALSO_WORDS, _ALSO_VERBS, _BEFORE_VERBS, _NOT_LEADING, NAMED_LAST = (
    frozenset(_TABLE[name].split())
    for name in ("also_words", "also_verbs", "before_verbs", "not_leading", "named_last")
)
_ALSO_WORD: Final = lazy_pattern(rf"(?:{'|'.join(_ALSO_WORDS)})\b")
_ORDINALS: Final = {word: number for number, word in enumerate(_TABLE["counted"].split(), start=1)}


def easter(year: int) -> dt.date:
    """Return Easter Sunday of the Gregorian calendar: the algorithm of Meeus, Jones and Butcher.

    Jean Meeus, Astronomical Algorithms (1991), chapter 8.
    """
    century, rest = divmod(year, 100)
    moon = (19 * (year % 19) + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    sunday = (32 + 2 * (century % 4) + 2 * (rest // 4) - moon - rest % 4) % 7
    late = (year % 19 + 11 * moon + 22 * sunday) // 451
    month, day = divmod(moon + sunday - 7 * late + 114, 31)
    return dt.date(year, month, day + 1)


def _weekday_of(weekday: int, number: int, month: int, year: int) -> dt.date:
    """Return the numbered weekday of a month, counted from 1; from its end if the number is negative."""
    days = [week[weekday] for week in calendar.monthcalendar(year, month) if week[weekday]]
    return dt.date(year, month, days[number - 1 if number > 0 else number])


_HOLIDAYS: Final[Mapping[str, tuple[Sequence[int], int]]] = _TABLE["holidays"]
"""First day and number of days of holidays, by patterns of names, of which exactly one matches a name."""


def _any(names: Iterable[str]) -> str:
    """Return a pattern of several names; a lookahead for the first letter avoids trying each of them."""
    named = sorted(filter(None, names), key=len, reverse=True)
    return f"(?:(?=[{''.join(sorted({name[0] for name in named}))}])(?:{'|'.join(named)}))"


_NUMBER: Final = rf"(?P<number>\d{{1,3}}|(?:a )?(?:{_any(_NUMBERS)})(?: of)?)(?P<half> and a half)?"
_UNIT: Final = rf"(?P<unit>{_any(_DAYS_OF)})(?P<many>s?)"
_PERIOD: Final = r"(?P<unit>weekend|week|month|quarter|year|decade)"
_MONTH: Final = rf"(?P<month>{_any(_MONTHS)})\.?"
_YEAR_NUMBER: Final = rf"(?:(?:19|20)\d\d|[12]\d{{3}}(?![.,]?\d| ?[€$£%]| (?!(?:{'|'.join(STOP_WORDS)})\b)\w))"
"""A year from 1000 on. Outside of these two centuries, no word with content follows it: "1200 euros", "1500 metres"."""

_YEAR: Final = r"(?P<year>[12]\d{3})"
_YEARS_AGO: Final = rf"(?:\d{{1,2}}|{_any(_NUMBERS)}) years? (?:ago|back)"
_BACK: Final = rf"(?:last|this|previous) year|the year before last|{_YEARS_AGO}"
_OF_YEAR: Final = rf",? (?:(?:of|in) )?(?P<year>{_YEAR_NUMBER}|['’]\d\d(?!\w|['’])|{_BACK})"
_DAY: Final = r"(?P<day>[0-3]?\d)(?P<th>st|nd|rd|th)?"
_LEADS: Final = _TABLE["leads"]
_LEAD: Final = f"(?P<lead>{_any(_LEADS.split())})"
_HOLIDAY_LEAD: Final = f"(?P<lead>{_any((*_LEADS.split(), 'at', 'for', 'was', 'were', 'the'))})"
_AGO: Final = r"(?:ago|back(?! (?:to|in|at|from|on|home|up|and|then|pain)))"
_SEASON: Final = f"(?P<season>{_any(_SEASONS)})"
_WEEKDAY: Final = f"(?P<weekday>{_any(_WEEKDAYS)})"
_HOLIDAY: Final = f"(?P<holiday>{'|'.join(_HOLIDAYS)})"
_RECURRING: Final = f"(?:{_HOLIDAY}|{_SEASON}|{_WEEKDAY}|(?P<month>{_any(_MONTHS)}))"

HINT: Final = lazy_pattern(
    rf"[12]\d{{3}}|['’]\d\d|ago\b|back\b|today|tonight|yesterday|\b(?:last|this|past|previous|the other|the weekend)\b|"
    rf"\b(?:{_any((*_MONTHS, *_WEEKDAYS, *_SEASONS))}|(?:of|in) the (?:week|month|year)|{_HOLIDAY})\b"
)
"""A part of every time, in lower case; most queries need only this one search. Other digits need one of the words."""


@attrs.frozen
class Offset:
    """A distance before or after something: "two weeks before", "the day after", "shortly before".

    Attributes:
        least: The shortest distance.
        most: The longest distance.
    """

    least: dt.timedelta
    most: dt.timedelta

    def before(self, moment: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
        """Return the interval at this distance before a moment."""
        return moment - self.most, moment - self.least

    def after(self, moment: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
        """Return the interval at this distance after a moment."""
        return moment + self.least, moment + self.most


OFFSET: Final = rf"\b(?:(?P<soon>shortly|just|right|soon|immediately)|(?:the|{_NUMBER}) {_UNIT}) "
"""The words of an `Offset`, up to "before" or "after"."""


def offset_in(match: re.Match[str]) -> Offset | None:
    """Return the offset that a match of `OFFSET` names; None if it names none.

    "The week before" is adjacent to its event; "a week before" is as vague as "a week ago".
    """
    if match["soon"]:
        return Offset(dt.timedelta(0), dt.timedelta(days=14))
    if not match["unit"]:
        return None
    unit = max(_DAYS_OF[match["unit"].lower()], 1)
    if not match["number"]:
        return Offset(dt.timedelta(0), dt.timedelta(days=unit * (4 if match["many"] else 1)))
    days, slack = _count(match) * unit, max(unit / 2, 1)
    return Offset(dt.timedelta(days=max(days - slack, 0)), dt.timedelta(days=days + slack))


def midnight(now: dt.datetime) -> dt.datetime:
    """Return the moment at which a day began."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def _count(match: re.Match[str]) -> float:
    return _number(match["number"]) + (0.5 if match["half"] or match.groupdict().get("half_unit") else 0)


def _number(text: str) -> int:
    """Return the number that digits or words name."""
    text = text.lower()
    if text.isdecimal():
        return int(text)
    return next(_NUMBERS[word] for word in reversed(text.removesuffix(" of").split()) if word in _NUMBERS)


def _ago(match: re.Match[str], now: dt.datetime) -> Span:
    unit, half = _DAYS_OF[match["unit"]], match.groupdict().get("part")
    least = 0.5 * unit if half else _count(match) * unit
    upto = match.groupdict().get("upto")
    most = least if upto in (None, "so") else max(least, _number(upto) * unit)
    slack = unit / (4 if half else 2)
    if unit < 1:
        return now - dt.timedelta(days=most + slack), now - dt.timedelta(days=least - slack)
    day, slack = midnight(now), max(slack, 1.0)
    return day - dt.timedelta(days=math.ceil(most + slack)), day - dt.timedelta(days=math.floor(least - slack) - 1)


def _long_ago(match: re.Match[str], now: dt.datetime) -> Span:
    """Return the interval from one and a half to twelve units before now: "months ago"."""
    unit = dt.timedelta(days=_DAYS_OF[match["unit"]])
    return now - 12 * unit, now - 1.5 * unit


def _this_time(match: re.Match[str], now: dt.datetime) -> Span:
    """Return two weeks on either side of this day in an earlier year."""
    year = _year_of(match, now)
    assert year is not None
    day = midnight(now).replace(year=year, day=28 if (now.month, now.day) == (2, 29) else now.day)
    return day - dt.timedelta(days=14), day + dt.timedelta(days=15)


def _past(match: re.Match[str], now: dt.datetime) -> Span:
    days = (_count(match) if match["number"] else 1) * _DAYS_OF[match["unit"]]
    tomorrow = midnight(now) + dt.timedelta(days=1)
    return tomorrow - dt.timedelta(days=max(days, 1)), tomorrow


def _ago_exactly(match: re.Match[str], now: dt.datetime) -> Span | None:
    """Return the day a number of days, weeks, months or years before today or yesterday."""
    count, unit = _count(match), match["unit"]
    if match["half"] or _DAYS_OF[unit] < 1:
        return None
    day = midnight(now) - (match["from"] == "yesterday") * _A_DAY
    if months := _MONTHS_OF.get(unit):
        first = _first(day.year, day.month - months * int(count), now)
        day = first.replace(day=min(day.day, calendar.monthrange(first.year, first.month)[1]))
    else:
        day -= count * _DAYS_OF[unit] * _A_DAY
    return day, day + _A_DAY


def _named_day(match: re.Match[str], now: dt.datetime) -> Span:
    name = match[0].removeprefix("the ")
    first, end = _TABLE["days_from"].get(name, (-8, 0) if name.startswith("other ") else (0, 1))
    return midnight(now) + first * _A_DAY, midnight(now) + end * _A_DAY


def _calendar(match: re.Match[str], now: dt.datetime) -> Span:
    """Return this calendar week, weekend, month, quarter, year or decade, the last one, or the one before that."""
    back = 2 if match["then"] else 1 if match["which"] in ("last", "previous") else 0
    day = midnight(now)
    if months := _MONTHS_OF.get(match["unit"]):
        return _months(0, ((12 * day.year + day.month - 1) // months - back) * months + 1, months, now)
    monday = day - dt.timedelta(days=day.weekday() + 7 * back)
    return monday + (5 if match["unit"] == "weekend" else 0) * _A_DAY, monday + 7 * _A_DAY


def _weekday(match: re.Match[str], now: dt.datetime) -> Span:
    back = (now.weekday() - _WEEKDAYS[match["weekday"]]) % 7 or 7 * (match["lead"] in ("last", "past"))
    return _days(midnight(now) - back * _A_DAY, 1, now)


def _season(match: re.Match[str], now: dt.datetime) -> Span | None:
    """Return three months, by the seasons of the north."""
    if match["season"] in _ALSO_VERBS:
        not_led = match.groupdict().get("lead") in _BEFORE_VERBS
        is_verb = not_led and not _just_before(_SEASON_BEFORE, match.string, match.start())
        if is_verb or _AFTER_WORD.match(match.string, match.end()):
            return None
    return _in_year(match, now)


_AFTER_WORD: Final = lazy_pattern(rf" (?:{_TABLE['after_words']})\b")
_SEASON_BEFORE: Final = lazy_pattern(rf"\b{_any((*_MONTHS, *_SEASONS))}(?: of)?(?: \d{{4}})? ?$")


def _holiday(match: re.Match[str], now: dt.datetime) -> Span | None:
    """Return the days of a holiday; None for one of this year that is still to come."""
    groups = match.groupdict()
    if groups.get("lead") == "this" and not groups.get("year"):
        span = _holiday_in(match["holiday"], now.year, now)
        return span if span[0] <= now else None
    return _in_year(match, now)


def _holiday_in(name: str, year: int, now: dt.datetime) -> Span:
    rule, days = next(rule for pattern, rule in _HOLIDAYS.items() if re.fullmatch(pattern, name))
    match rule:
        case (after_easter,):
            return _days(easter(year) + after_easter * _A_DAY, days, now)
        case (month, day):
            return _days(dt.date(year, month, day), days, now)
    weekday, number, month, more = rule
    return _days(_weekday_of(weekday, number, month, year) + more * _A_DAY, days, now)


def _again(match: re.Match[str], now: dt.datetime) -> Span | None:
    """Return the occurrence of a yearly time some times ago: "two summers ago", "the Easter before last"."""
    groups = match.groupdict()
    times = _number(match["number"]) if groups.get("number") else 2
    if match["weekday"]:
        back = (now.weekday() - _WEEKDAYS[match["weekday"]]) % 7 or 7
        return _days(midnight(now) - (back + 7 * (times - 1)) * _A_DAY, 1, now)
    return _nth_last(_yearly(match, now), times, now)


def _yearly(match: re.Match[str], now: dt.datetime) -> Callable[[int], Span]:
    """Return the span in a year of the holiday, season or month that a match names."""
    groups = match.groupdict()
    if groups.get("holiday"):
        return lambda year: _holiday_in(match["holiday"], year, now)
    if groups.get("season"):
        return lambda year: _months(year, _SEASONS[match["season"]], 3, now)
    return lambda year: _months(year, _MONTHS[match["month"]], 1, now)


def _in_year(match: re.Match[str], now: dt.datetime) -> Span:
    """Return a yearly time in the year that a match names, or else its last occurrence."""
    span_in, year = _yearly(match, now), _year_of(match, now)
    if year is not None:
        return span_in(year)
    return _nth_last(span_in, int(match.groupdict().get("lead") in ("last", "previous")), now)


def _nth_last(span_in: Callable[[int], Span], times: int, now: dt.datetime) -> Span:
    """Return the n-th last occurrence of a yearly time, not counting one in progress; that one for 0."""
    year = min(now.year + 1, dt.MAXYEAR)
    while span_in(year)[0] > now:
        year -= 1
    if times:
        year -= times - 1 + (now < span_in(year)[1])
    return span_in(year)


def _nth_of_month(match: re.Match[str], now: dt.datetime) -> Span:
    """Return a week, a weekend or a weekday of a month: "the first weekend of June"."""
    which, nth = match["which"], _TABLE["nth"][match["nth"]]
    start, end = _months(now.year, now.month - (which != "this"), 1, now) if which else _in_year(match, now)
    if match["piece"] == "week":
        return (end - 7 * _A_DAY, end) if nth < 0 else (start + 7 * (nth - 1) * _A_DAY, start + 7 * nth * _A_DAY)
    weekday = _WEEKDAYS.get(match["piece"], 5)
    day = _weekday_of(weekday, nth, start.month, start.year)
    return _days(day, 2 if match["piece"] == "weekend" else 1, now)


def _weekend(match: re.Match[str], now: dt.datetime) -> Span:
    """Return the last weekend that has begun."""
    return _days(midnight(now) - (now.weekday() - 5) % 7 * _A_DAY, 2, now)


def _date(match: re.Match[str], now: dt.datetime) -> Span | None:
    """Return a day of a month, or several: the last such one if no year is named."""
    groups, year = match.groupdict(), _year_of(match, now)
    sure = groups["th"] or (year is not None and not _lasting(match)) or groups.get("lead") or groups.get("to")
    if match["month"] in _ALSO_WORDS and not sure:
        return None
    month, day = _MONTHS[match["month"]], _ORDINALS.get(match["day"].replace(" ", "-"))
    start = dt.datetime(now.year if year is None else year, month, day or int(match["day"]), tzinfo=now.tzinfo)
    if year is None and start > now:
        start = dt.datetime(now.year - 1, month, start.day, tzinfo=now.tzinfo)
    last = start.replace(day=int(groups["to"])) if groups.get("to") else start
    return start, last + dt.timedelta(days=1)


def _iso(match: re.Match[str], now: dt.datetime) -> Span:
    if match["day"] is None:
        return _months(int(match["year"]), int(match["month"]), 1, now)
    return _days(dt.date(int(match["year"]), int(match["month"]), int(match["day"])), 1, now)


_MODAL: Final = lazy_pattern(r" (?:be|have|not|also|well|i|we|you|he|she|it|they)\b")


def _named_month(match: re.Match[str], now: dt.datetime) -> Span | None:
    lead = match.groupdict().get("lead") or ""
    if _year_of(match, now) is not None:
        is_word = _lasting(match) and not lead
    else:
        after = _MODAL.match(match.string, match.end())
        is_word = match["month"] in _ALSO_WORDS and (lead in _NOT_LEADING or after is not None)
    return None if is_word else _in_year(match, now)


def _year(match: re.Match[str], now: dt.datetime) -> Span:
    """Return a year, or a quarter of one."""
    year, quarter = _year_of(match, now), match.groupdict().get("quarter")
    assert year is not None
    return _months(year, 3 * int(quarter) - 2, 3, now) if quarter else _months(year, 1, 12, now)


def _year_of(match: re.Match[str], now: dt.datetime) -> int | None:
    """Return the year that a match names, in digits, as the last one or as some years ago; None if it names none."""
    year = match.groupdict().get("year") or ""
    if not year or year.isdecimal():
        return int(year) if year else None
    if year[0] in "'’":
        short = now.year // 100 * 100 + int(year[1:])
        return short - (100 if short > now.year else 0)
    if year.endswith((" ago", " back")):
        return now.year - _number(year.split()[0])
    return now.year - (0 if year.startswith("this") else 2 if year.startswith("the") else 1)


def _lasting(match: re.Match[str]) -> bool:
    """Return whether a match reads like "it may last years" rather than like a month."""
    follows = (" last", " this", " previous")
    return match["month"] in _ALSO_WORDS and match.string.startswith(follows, match.end("month"))


def _days(first: dt.date, count: int, now: dt.datetime) -> Span:
    start = dt.datetime(first.year, first.month, first.day, tzinfo=now.tzinfo)
    return start, start + count * _A_DAY


def _first(year: int, month: int, now: dt.datetime) -> dt.datetime:
    return dt.datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1, tzinfo=now.tzinfo)


def _months(year: int, month: int, count: int, now: dt.datetime) -> Span:
    return _first(year, month, now), _first(year, month + count, now)


def _readers() -> Iterator[tuple[re.Pattern[str], _Read]]:
    def words(pattern: str) -> re.Pattern[str]:
        return lazy_pattern(rf"\b{pattern}(?!\w)")

    several = rf"{_DAY}(?: ?(?:-|–|to|and|until|through) ?(?:the )?(?P<to>[0-3]?\d)(?:st|nd|rd|th)?)?"
    lead, back = f"(?:{_LEAD} )?", f"(?P<year>{_BACK}),? (?:in|on|during|at|over|for|around) (?:the )?"
    ordinal, season, owner = _any(_ORDINALS).replace("-", "[ -]"), _SEASON, "(?:(?:the|our|my) )?"
    upto = rf"(?:(?: (?:or|to) | ?[-–] ?)(?P<upto>\d{{1,3}}|so|{_any(_NUMBERS)}))?"
    named = _any({*_MONTHS, *_WEEKDAYS, *_SEASONS} - {*_ALSO_WORDS})
    clock = r"t\d[\w:.+]{0,30}(?:-\d\d:?\d\d(?!-))?"
    yield words(rf"(?=19|20|\d{{4}}-\d\d-){_YEAR}-(?P<month>[01]\d)(?:-(?P<day>[0-3]\d)(?:{clock})?)?"), _iso
    yield words(rf"{_YEAR}/(?P<month>[01]?\d)/(?P<day>[0-3]?\d)"), _iso
    yield words(rf"(?<!\d\.)(?P<day>[0-3]?\d)\.(?P<month>[01]?\d)\.{_YEAR}(?!\.\d)"), _iso
    yield words(rf"{_NUMBER} {_RECURRING}(?:'?e?s)? (?P<again>{_AGO})"), _again
    yield words(rf"the {_RECURRING} (?P<again>before last)"), _again
    yield words(rf"{back}{_HOLIDAY}"), _holiday
    yield words(rf"(?:{_HOLIDAY_LEAD} )?{owner}{_HOLIDAY}{_OF_YEAR}"), _holiday
    yield words(rf"{_HOLIDAY_LEAD} {owner}{_HOLIDAY}"), _holiday
    month_of = rf"(?:{_MONTH}(?:{_OF_YEAR})?|(?P<which>last|this|the previous) month)"
    piece = f"(?P<piece>week|weekend|{_any(_WEEKDAYS)})"
    yield words(rf"{lead}(?:the )?(?P<nth>{'|'.join(_TABLE['nth'])}) {piece} (?:of|in) {month_of}"), _nth_of_month
    yield words(rf"(?:this|the same|same) time (?P<year>{_BACK})"), _this_time
    yield words(rf"{back}{several}(?: of)? {_MONTH}"), _date
    yield words(rf"{back}{_MONTH} {several}"), _date
    yield words(rf"{back}{_MONTH}(?!,? (?:of )?\d)"), _named_month
    yield words(rf"{back}{season}(?!,? (?:of )?\d)"), _season
    yield words(rf"{lead}(?:the )?{several}(?: of)? {_MONTH}(?:{_OF_YEAR})?"), _date
    yield words(rf"{lead}(?:the )?(?P<day>{ordinal})(?P<th> of) {_MONTH}(?:{_OF_YEAR})?"), _date
    yield words(rf"{lead}{_MONTH} {several}(?:{_OF_YEAR})?"), _date
    yield words(rf"{lead}{_MONTH}{_OF_YEAR}"), _named_month
    yield words(rf"(?:{_LEAD}[ -](?:the )?)?{season}{_OF_YEAR}"), _season
    yield words(rf"q(?P<quarter>[1-4]){_OF_YEAR}"), _year
    yield words(rf"(?P<part>half) an? {_UNIT} {_AGO}"), _ago
    yield words(rf"{_NUMBER} {_UNIT} ago (?P<from>today|yesterday)"), _ago_exactly
    yield words(rf"(?:about |around )?{_NUMBER} {_UNIT}(?P<half_unit> and a half)? or (?P<upto>so|two) {_AGO}"), _ago
    yield words(rf"(?:about |around )?{_NUMBER}{upto} {_UNIT}(?P<half_unit> and a half)? {_AGO}"), _ago
    yield words(r"(?:(?:some|many) )?(?P<unit>day|week|month|year)s ago"), _long_ago
    part = "(?:morning|afternoon|evening"
    yield words(rf"(?:today|tonight|this {part})|last night|(?:the day before )?yesterday)"), _named_day
    yield words(rf"the other {part}|day|night|week|weekend|month)"), _named_day
    yield words(rf"(?:past|last|previous) {_NUMBER} {_UNIT}"), _past
    lately = "(?:(?:over|for|in|within|during|of) the (?:past|last|previous)|past)"
    yield words(rf"{lately} (?P<number>){_UNIT}(?! of)"), _past
    yield words(rf"(?P<which>the) {_PERIOD}(?P<then> before last)(?! (?:{named})\b)"), _calendar
    yield words(rf"(?P<which>last|previous|this) {_PERIOD}(?P<then>)(?! of)"), _calendar
    yield words(rf"(?<=of )(?P<which>the) {_PERIOD}(?P<then>)(?! of| before)"), _calendar
    yield words(r"(?P<lead>over|on|at|during|since|before|after|of) the weekend(?! of)"), _weekend
    yield words(rf"{_LEAD}[ -](?:the )?{season}"), _season
    yield words(rf"{_LEAD}[ -]{_WEEKDAY}"), _weekday
    yield words(rf"{_LEAD}[ -]{_MONTH}"), _named_month
    yield words(rf"{_LEAD}[ -](?P<year>(?:19|20)\d\d|'\d\d(?!'))"), _year
    yield words(rf"(?:(?:in|since) )?the year (?P<year>{_YEAR_NUMBER})"), _year


READERS: Final = tuple(_readers())


@attrs.frozen(kw_only=True)
class TimeSpan:
    """An interval that a query names.

    Attributes:
        start: Its first moment, in UTC; None where it has no beginning ("before May").
        end: The first moment after it, in UTC; later than its start.
        days: Terms of the day that it is, or begins or ends with, if that is named by its date or as today. The first
            one is as it is named: "#05-14", with its year "#2026-05-14". Others are for the years that may be meant.
    """

    start: dt.datetime | None
    end: dt.datetime
    days: Sequence[str] = attrs.field(default=(), eq=False)

    @property
    def seconds(self) -> tuple[float, float]:
        """Beginning and end in seconds since 1970; an open beginning is minus infinity."""
        return -math.inf if self.start is None else self.start.timestamp(), self.end.timestamp()


def times_in(query: str, now: dt.datetime) -> tuple[TimeSpan, ...]:
    """Return the times that a query names, in its order, each once. Nothing raises.

    Of a text too long for a question, the first 16 times in its first 100,000 characters are read.

    Args:
        query: The question.
        now: The present, aware; days begin and end in its time zone.
    """
    return times_and_rest(query, now)[0]


def days_in(text: str) -> list[str]:
    """Return the terms of the days that a text names by their dates in its first 500 characters; see `TimeSpan`."""
    named = times_in(text, _SOME_DAY) if any(map(str.isdecimal, text := text[:500])) else ()
    return [day for span in named for day in span.days[:1] if day != f"#{_SOME_DAY.date()}"]


def moves_with_its_day(text: str) -> bool:
    """Return whether a text names a time relative to its day, such as "today", "last night" or "on Monday".

    A week later it means a time a week later; "in March" and "on 3 May" do not.
    """
    return any(map(_moves, day_phrases(text)))


@forgettable
@functools.lru_cache(4_096)
def _moves(phrase: str) -> bool:
    if not (named := times_in(phrase, _SOME_DAY)):
        return False
    later = {(span.start, span.end) for span in times_in(phrase, _SOME_DAY + 7 * _A_DAY)}
    return any(span.start and (span.start + 7 * _A_DAY, span.end + 7 * _A_DAY) in later for span in named)


_SOME_DAY: Final = dt.datetime(1904, 5, 18, 12, tzinfo=dt.UTC)
"""A day in the middle of a month of a leap year, which hardly any text names."""


def times_and_rest(query: str, now: dt.datetime) -> tuple[tuple[TimeSpan, ...], str]:
    """Return the times that a query names, see `times_in`, and the query without their words."""
    query = " ".join(query[:_LONGEST].split())
    found = list[TimeSpan]()
    for start, end, english in reversed(in_english(query)):
        if spans := _english(english, now)[0]:
            found, query = [*spans, *found], f"{query[:start]} {query[end:]}"
    spans, rest = _english(query.translate(_PLAIN), now)
    return tuple(dict.fromkeys([*found, *spans]))[:_MOST], rest


def _english(query: str, now: dt.datetime) -> tuple[Sequence[TimeSpan], str]:
    """Return the times that a query names in English, and the query without their words. It is read in lower case."""
    lowered = query.lower()
    if not HINT.search(lowered):
        return (), query
    lowered = _ALSO_WORD.sub(lambda one: one[0] if query.startswith(one[0], one.start()) else one[0].title(), lowered)
    try:
        hits = _ranges(lowered, _named(lowered, now))
        read = zip(hits, _spans(lowered, hits, now), strict=True)
        spans = [_utc(span, _days_of(hit.span, lowered[hit.first : hit.last])) for hit, span in read]
    except (ValueError, OverflowError):  # where the calendar ends
        return (), query
    ends = [0, *(end for hit in hits for end in (hit.first, hit.last)), len(query)]
    rest = " ".join(query[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True))
    return [span for span in spans if span is not None], rest


_DATED: Final = lazy_pattern(r"\d|today")
"""A part of the words that name a day beside a weekday or a distance."""
_OF_ONE_YEAR: Final = lazy_pattern(r"\d{4}|today")
_MOST: Final = 16
_LONGEST: Final = 100_000
_LOOK_BACK: Final = 40
"""Number of characters before a time that are searched for words about it."""
_PLAIN: Final = str.maketrans("ıİſ\u212a\N{RIGHT SINGLE QUOTATION MARK}", "iIsK'")
"""Letters that are others without their case, and the typographic apostrophe."""


@attrs.frozen
class _Hit:
    """A time in a query: its position, and its interval before the words around it are read."""

    first: int
    last: int
    span: Span
    year: bool
    """Whether it names its year, or needs none."""
    holiday: bool = False
    """Whether it is a holiday, which people mention some days before and after."""


def _named(query: str, now: dt.datetime) -> list[_Hit]:
    """Find the times in a query, one reader after another; text that one has read is not read again."""
    found: list[_Hit] = []
    for pattern, read in READERS:
        here = len(found)
        for match in pattern.finditer(query):
            if len(found) >= here + _MOST or (here == _MOST and match.start() > found[_MOST - 1].first):
                break
            first = _first_of(match)
            if any(first < hit.last and hit.first < match.end() for hit in found):
                continue
            try:
                span = read(match, now)
            except (ValueError, OverflowError):  # 31 February, or before the calendar begins
                continue
            if span is not None:
                groups = match.groupdict()
                year = bool(groups.get("year") or groups.get("again") or not _YEARLY & groups.keys())
                found.append(_Hit(first, match.end(), span, year, bool(groups.get("holiday"))))
        found = sorted(found, key=lambda hit: hit.first)[:_MOST]
    return found


_YEARLY: Final = {"month", "season", "holiday"}
"""Groups of a pattern for what recurs each year."""


def _first_of(match: re.Match[str]) -> int:
    """Return the start of a time: after an introducing word, but with one that belongs to it."""
    lead = match.groupdict().get("lead")
    return match.end("lead") if lead and lead not in NAMED_LAST else match.start()


_FROM: Final = lazy_pattern(r"\b(?:between|from)(?: the)?\s*$")
_TO: Final = lazy_pattern(r"\s*(?:and|to|until|till|through|up to|-|–)(?: the)?\s*")


def _ranges(query: str, hits: list[_Hit]) -> list[_Hit]:
    """Join two times that are the ends of one: "between X and Y", "from X to Y"."""
    united: list[_Hit] = []
    for hit in hits:
        before = united[-1] if united else None
        if before and _TO.fullmatch(query, before.last, hit.first) and _just_before(_FROM, query, before.first):
            with contextlib.suppress(ValueError, OverflowError):  # before the calendar begins
                united[-1] = _Hit(before.first, hit.last, _from_to(before, hit), year=True)
                continue
        united.append(hit)
    return united


def _just_before(pattern: re.Pattern[str], query: str, end: int) -> re.Match[str] | None:
    return pattern.search(query, max(0, end - _LOOK_BACK), end)


def _from_to(first: _Hit, last: _Hit) -> Span:
    """Join two times; a first one without a year is the last such time before the other."""
    start, end = first.span[0], last.span[1]
    if not first.year:
        year = (end - dt.timedelta(days=1)).year
        day = 28 if (start.month, start.day) == (2, 29) else start.day
        start = start.replace(year=year, day=day)
        start = start if start < end else start.replace(year=year - 1)
    return min(start, last.span[0]), max(first.span[1], end) if first.year else end


_TURN: Final = lazy_pattern(_TABLE["turn"])
_PART: Final = lazy_pattern(rf"\b({_any(_TABLE['parts'])})(?: in)?(?: the| this)?[\s-]*$")


_AWAY: Final = lazy_pattern(rf"{OFFSET}(?P<turn>before|after)(?: the| this)?\s*$")
_ONWARDS: Final = lazy_pattern(r" onwards?\b")


def _spans(query: str, hits: list[_Hit], now: dt.datetime) -> Iterator[tuple[dt.datetime | None, dt.datetime]]:
    """Read the words around each time: the part of it that is meant, or a time before or after it."""
    tomorrow = midnight(now) + _A_DAY
    for hit in hits:
        before, span = hit.first, hit.span
        if part := _just_before(_PART, query, before):
            (first, last), length = _TABLE["parts"][part[1]], span[1] - span[0]
            before, span = part.start(), (span[0] + first * length / 5, span[0] + last * length / 5)
        away, turn = _just_before(_AWAY, query, before), _just_before(_TURN, query, before)
        if away and (offset := offset_in(away)):
            yield offset.after(span[1]) if away["turn"] == "after" else offset.before(span[0])
        elif turn or _ONWARDS.match(query, hit.last):
            yield _turned(turn[1] if turn else "since", span, tomorrow)
        elif hit.holiday and not part:
            yield span[0] - _A_DAY, span[1] + 2 * _A_DAY
        else:
            yield span


def _turned(turn: str, span: Span, tomorrow: dt.datetime) -> tuple[dt.datetime | None, dt.datetime]:
    start, end = span
    begins = {"since": start, "after": end, "later than": end}.get(turn)
    if begins is None:
        return None, start
    return (begins, tomorrow) if begins < tomorrow else span


def _utc(span: tuple[dt.datetime | None, dt.datetime], days: Sequence[str]) -> TimeSpan | None:
    try:
        start, end = span[0] and span[0].astimezone(dt.UTC), span[1].astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None
    return TimeSpan(start=start, end=end, days=days) if start is None or start < end else None


def _days_of(span: Span, named: str) -> tuple[str, ...]:
    date, day = span[0].date(), f"{span[0]:%m-%d}"
    if span[1] - span[0] != _A_DAY or not _DATED.search(named):
        return ()
    return (f"#{date}", f"#{day}") if _OF_ONE_YEAR.search(named) else (f"#{day}", f"#{date}", f"#{date.year + 1}-{day}")
