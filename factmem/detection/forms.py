"""Forms of values: where a text says a value, in figures or in words of its language.

Forms are made from the value and looked up in the text, so that nothing has to be parsed: numbers in words come from
the rules of the Unicode CLDR, months and units from the tables of languages.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias

from factmem.detection.languages import Language, language_named, search
from factmem.detection.words import Word, words_of

if TYPE_CHECKING:
    from unicode_rbnf import RbnfEngine

__all__ = [
    "Found",
    "day_places",
    "length_places",
    "number_places",
    "numbers_at",
    "says_number",
    "text_places",
    "time_places",
]

Found: TypeAlias = tuple[int, int]
"""The positions of the first and the last word of something that is said."""

_DIGITS: Final = re.compile(r"[-−]?\d[\d.,'’\u00a0\u202f]*")
_LONGEST_ENDING: Final = 4
_SHORTEST_STEM: Final = 4
_FARTHEST_PART: Final = 6
_LARGEST_SPELLED: Final = 10_000_000
_UNITS: Final = {
    "second": 1,
    "minute": 60,
    "hour": 3_600,
    "day": 86_400,
    "week": 604_800,
    "month": 2_592_000,
    "year": 31_536_000,
}


# Text


def text_places(text: str, words: Sequence[Word], language: Language | None) -> list[Found]:
    """Return where the words of a text stand together, in their order, each as it is or with an ending."""
    wanted = [word.text for word in words_of(text) if not word.is_mark]
    here = [at for at, word in enumerate(words) if not word.is_mark]
    english = language is not None and language.name == "en"
    found: list[Found] = []
    for place in range(len(here) - len(wanted) + 1) if wanted else ():
        said = here[place : place + len(wanted)]
        if all(_is_same(word, words[at].text, english) for word, at in zip(wanted, said, strict=True)):
            found.append((said[0], said[-1]))
    return found


def _is_same(wanted: str, said: str, english: bool) -> bool:
    if wanted == said:
        return True
    if not (wanted.isalpha() and said.isalpha()):
        return False
    if english:
        return said in (f"{wanted}s", f"{wanted}es") or wanted in (f"{said}s", f"{said}es")
    shorter, longer = sorted((wanted, said), key=len)
    shared = next((at for at, (one, two) in enumerate(zip(shorter, longer, strict=False)) if one != two), len(shorter))
    return len(longer) - shared <= _LONGEST_ENDING and shared >= max(_SHORTEST_STEM, len(shorter) - 1)


# Numbers


def numbers_at(word: Word, language: Language | None) -> list[Decimal]:
    """Return the numbers that a word in figures may stand for; the first one as its language writes them."""
    if not _DIGITS.fullmatch(word.text):
        return []
    plain = re.sub(r"['’\u00a0\u202f]", "", word.text).replace("−", "-")
    comma = language is not None and language.table.get("decimal") == ","
    readings = ((".", ","), (",", ".")) if comma else ((",", "."), (".", ","))
    found: list[Decimal] = []
    for thousands, point in readings:
        parts = plain.split(point)
        groups = parts[0].split(thousands)
        grouped = len(groups) == 1 or (
            all(len(group) == 3 for group in groups[1:]) and 0 < len(groups[0].lstrip("-")) <= 3
        )
        if len(parts) <= 2 and grouped and not (len(parts) == 2 and thousands in parts[1]):
            try:
                found.append(Decimal("".join(groups) + ("." + parts[1] if len(parts) == 2 else "")))
            except decimal.InvalidOperation:
                continue
    return list(dict.fromkeys(found))


def number_places(value: Decimal, words: Sequence[Word], language: Language | None) -> list[Found]:
    """Return where a number is said, in figures or in words, with its scale."""
    found: list[Found] = []
    scale = _scales(language.name) if language is not None else {}
    for at, word in enumerate(words):
        numbers = numbers_at(word, language)[:1]
        following = at + 1
        if numbers and following < len(words) and words[following].text in scale:
            factor = scale[words[following].text]
            after = words[following + 1].text if following + 1 < len(words) else ""
            if numbers[0] * factor == value and not after.isdigit():
                found.append((at, following))
                continue
            if words[following].start - word.end <= 1 and len(words[following].text) > 1:
                continue
        if numbers and numbers[0] == value:
            found.append((at, at))
        elif numbers and following < len(words) and words[following].text == "%" and numbers[0] == value * 100:
            found.append((at, following))
    if language is not None and value == value.to_integral_value() and 0 <= value <= _LARGEST_SPELLED:
        spelled = _spelled(language.name, int(value))
        if spelled is not None:
            found += search(spelled, words, 0, len(words) - 1)
    return found


def says_number(words: Sequence[Word], language: Language) -> bool:
    """Return whether some words have a number: in figures, or one of the common ones in words."""
    if any(char.isdigit() for word in words for char in word.text):
        return True
    return any(word.text in _scales(language.name) for word in words) or bool(
        search(_common_numbers(language.name), words, 0, len(words) - 1)
    )


@functools.cache
def _common_numbers(name: str) -> re.Pattern[str]:
    forms = {form for value in (*range(101), 1_000) for form in _rules(name, value, ordinal=False)}
    return _pattern_of(forms, name) or re.compile(r"(?!)")


@functools.cache
def _scales(name: str) -> dict[str, int]:
    pairs = (entry.rsplit(" ", 1) for entry in str(language_named(name).table.get("scale", "")).split(", "))
    return {words_of(word)[0].text: int(factor) for word, factor in pairs}


@functools.lru_cache(maxsize=1_024)
def _spelled(name: str, value: int) -> re.Pattern[str] | None:
    """Return a pattern of a number in words: of its cardinals in each gender, and of years."""
    return _pattern_of(_rules(name, value, ordinal=False), name)


@functools.lru_cache(maxsize=256)
def _ordinal(name: str, value: int) -> re.Pattern[str] | None:
    return _pattern_of(_rules(name, value, ordinal=True), name)


def _rules(name: str, value: int, *, ordinal: bool) -> set[str]:
    from unicode_rbnf import FormatPurpose
    from unicode_rbnf.engine import RbnfError

    found: set[str] = set()
    purposes = (FormatPurpose.ORDINAL,) if ordinal else (FormatPurpose.CARDINAL, FormatPurpose.YEAR)
    for purpose in purposes:
        try:
            found |= set(_engine(name).format_number(value, purpose).text_by_ruleset.values())
        except (ValueError, RbnfError):  # the rules of some languages have no ordinals, no years or no such number
            continue
    return found


@functools.cache
def _engine(name: str) -> RbnfEngine:
    from unicode_rbnf import RbnfEngine

    return RbnfEngine.for_language(name)


def _pattern_of(forms: set[str], name: str) -> re.Pattern[str] | None:
    language = language_named(name)
    joiner = words_of(str(language.table.get("and", "")))
    between = rf"(?: {joiner[0].text})? " if joiner else " "
    spelled = {
        between.join(re.escape(word.text) for word in words_of(form.replace("\u00ad", "")) if not word.is_mark)
        for form in forms
        if not any(map(str.isdigit, form))
    } - {""}
    inner = "|".join(sorted(spelled, key=len, reverse=True))
    behind = ""
    if language.is_unspaced:  # the characters of a number also stand in other words: what it counts has to follow
        counters = "|".join(map(re.escape, sorted(language.words("counters"))))
        behind = rf"(?= (?:{counters})(?!\S))"
    return re.compile(rf"(?<!\S)(?:{inner})(?!\S){behind}") if spelled else None


# Days, times, lengths

_WRITTEN_DAY: Final = re.compile(
    r"(?<!\d)(\d{1,4})(?:[./-]|\s?[年년]\s?)(\d{1,2})(?:[./-]|\s?[月월]\s?)(\d{1,4})(?!\d)"
)
_WRITTEN_TIME: Final = re.compile(
    r"(?<![\d.,])(\d{1,2})[:.hH](\d{2})(?:[:.]\d{2})?\s*([ap]\.?m\b)?(?!\d)", re.IGNORECASE
)


def day_places(day: dt.date, text: str, words: Sequence[Word], language: Language | None) -> list[Found]:
    """Return where a day is said in full: with its month and its year."""
    if not words:
        return []
    found: list[Found] = []
    start, end = words[0].start, words[-1].end
    for match in _WRITTEN_DAY.finditer(text, start, end):
        if _days_of(match[1], match[2], match[3], language) == {day}:
            found.append(_covering(words, *match.span()))  # noqa: PERF401 - more is added below
    if language is None:
        return found
    months = [entry.split() for entry in str(language.table["months"]).split(", ")]
    names = {words_of(name)[0].text for name in months[day.month - 1] if not name[:1].isdigit()}
    for at, word in enumerate(words):
        if word.text in names and not language.is_unspaced:
            near = range(max(0, at - _FARTHEST_PART), min(len(words), at + _FARTHEST_PART + 1))
            part = words[near.start : near.stop]
            days = [near.start + place for place, _ in _part_places(day.day, part, language, ordinal=True)]
            years = [(near.start + one, near.start + two) for one, two in _part_places(day.year, part, language)]
            found += [
                (min(at, one, *year), max(at, one, *year))
                for one in days
                for year in years
                if one not in range(year[0], year[1] + 1)
            ][:1]
    return found


def _part_places(part: int, words: Sequence[Word], language: Language, *, ordinal: bool = False) -> Iterator[Found]:
    for at, word in enumerate(words):
        if word.text.isdigit() and int(word.text) == part and len(word.text) <= 4:
            yield at, at
    patterns = [_spelled(language.name, part)] + ([_ordinal(language.name, part)] if ordinal else [])
    for pattern in patterns:
        if pattern is not None:
            yield from search(pattern, words, 0, len(words) - 1)


def _days_of(one: str, two: str, three: str, language: Language | None) -> set[dt.date]:
    """Return the days that three numbers may stand for; both, where month and day can be exchanged in a language."""
    orders = [(one, two, three)] if len(one) == 4 else [(three, two, one)]
    if len(one) != 4 and (language is None or language.name == "en"):
        orders.append((three, one, two))
    found = set()
    for year, month, day in orders:
        try:
            found.add(dt.date(int(year) if len(year) == 4 else 2_000 + int(year), int(month), int(day)))
        except ValueError:
            continue
    return found


def time_places(time: dt.time, text: str, words: Sequence[Word]) -> list[Found]:
    """Return where a time of day is said."""
    if not words:
        return []
    found = []
    for match in _WRITTEN_TIME.finditer(text, words[0].start, words[-1].end):
        hour = _hour(int(match[1]), (match[3] or "").lower())
        if (hour, int(match[2])) == (time.hour, time.minute):
            found.append(_covering(words, *match.span()))
    if time.minute == 0:
        for at, (word, following) in enumerate(itertools.pairwise(words)):
            half = following.text if following.text in ("am", "pm") else None
            if word.text.isdigit() and half and _hour(int(word.text), half) == time.hour:
                found.append((at, at + 1))
    return found


def _hour(hour: int, half: str) -> int:
    if half.startswith("p"):
        return hour % 12 + 12
    return hour % 12 if half.startswith("a") else hour


def length_places(length: dt.timedelta, words: Sequence[Word], language: Language | None) -> list[Found]:
    """Return where a length of time is said: a number with its unit."""
    if language is None:
        return []
    seconds, found = Decimal(length // dt.timedelta(microseconds=1)) / 1_000_000, list[Found]()
    for unit in language.group("units"):
        found += _amounts(seconds / _UNITS[unit], unit, words, language)
        for smaller in language.group("units"):  # "3 hours 52 minutes"
            whole, rest = divmod(seconds, _UNITS[unit])
            if whole and rest and _UNITS[smaller] < _UNITS[unit]:
                ones = _amounts(whole, unit, words, language)
                others = _amounts(rest / _UNITS[smaller], smaller, words, language) if ones else []
                found += [(one[0], two[1]) for one in ones for two in others if one[1] < two[0] <= one[1] + 2]
    return found


def _amounts(number: Decimal, unit: str, words: Sequence[Word], language: Language) -> list[Found]:
    """Return where a number of a unit of time is said."""
    pattern = language.pattern(language.group("units")[unit])
    behind = (
        (place, search(pattern, words, place[1] + 1, place[1] + 3)) for place in number_places(number, words, language)
    )
    return [(first, units[0][1]) for (first, last), units in behind if units and units[0][0] == last + 1]


def _covering(words: Sequence[Word], start: int, end: int) -> Found:
    inside = [at for at, word in enumerate(words) if word.start < end and word.end > start]
    return inside[0], inside[-1]
