"""Forms of values: where a text says a value, in figures or in words of its language.

Forms are made from the value and looked up in the text, so that nothing has to be parsed: numbers in words come from
the rules of the Unicode CLDR, months and units from the tables of languages.
"""

from __future__ import annotations

import calendar
import datetime as dt
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Final

from factmem.detection.word_tables import WordTable, entries, positions, search, table_named
from factmem.detection.words import Found, Word, plain_words, words_of
from factmem.toml_tables import table

if TYPE_CHECKING:
    from unicode_rbnf import RbnfEngine

_DIGITS: Final = re.compile(r"[-−]?\d[\d.,'’\u00a0\u202f]*")
_LONGEST_ENDING: Final = 4
_SHORTEST_STEM: Final = 4
_FARTHEST_PART: Final = 6
_FARTHEST_HALF: Final = 4
"""Number of words between a time and the part of the day."""
_LARGEST_SPELLED: Final = 10_000_000
_UNITS: Final[Mapping[str, int]] = table("detection/plain_statements")["seconds"]
"""Units of time in seconds."""


# Text


def text_places(text: str, words: Sequence[Word], language: WordTable | None) -> list[Found]:
    """Return where the words of a text stand together, in their order, each as it is or with an ending."""
    wanted = plain_words(text)
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


def digits_of(text: str) -> str:
    """Return the digits in a text: those of 1.74, "1m74" and 174.0 are the same."""
    return "".join(filter(str.isdigit, text.removesuffix(".0"))).lstrip("0")


def numbers_at(word: Word, language: WordTable | None) -> list[Decimal]:
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
            found.append(Decimal("".join(groups) + ("." + parts[1] if len(parts) == 2 else "")))
    return list(dict.fromkeys(found))


def number_places(value: Decimal, words: Sequence[Word], language: WordTable | None) -> list[Found]:
    """Return where a number is said, in figures or in words, with its scale and its fraction."""
    found = [place for place, number in _figures(words, language) if number == value]
    if language is None:
        return found
    whole = value.to_integral_value(ROUND_FLOOR)
    parts = language.pattern(_amounts(language.name, "fractions"))
    if value != whole and whole > 0:
        wholes = [place for place, number in _figures(words, language) if number == whole]
        found += _with_part([*wholes, *_spelled_places(whole, words, language)], value - whole, words, language)
    elif value == whole:
        found = [place for place in found if not behind_place(parts, place[1], words)]
        spelled = _spelled_places(value, words, language)
        found += [place for place in spelled if not behind_place(parts, place[1], words)]
    named = language.pattern(form for form, amount in _amounts(language.name, "amounts").items() if amount == value)
    part_of = positions(search(parts, words))
    places = (place for place in search(named, words) if place[1] not in part_of)
    return found + [place for place in places if not _is_counted(place, words, language)]


def _figures(words: Sequence[Word], language: WordTable | None) -> Iterator[tuple[Found, Decimal]]:
    """Yield the numbers in figures, each with its scale."""
    scale = _amounts(language.name, "scale") if language is not None else {}
    texts = [*(word.text for word in words), "", ""]
    for at, word in enumerate(words):
        for number in numbers_at(word, language)[:1]:
            last, total = at, number
            if texts[at + 1] in scale:
                last, total = at + 1, number * scale[texts[at + 1]]
                while texts[last + 1].isdigit() and texts[last + 2] in scale:
                    last, total = last + 2, total + int(texts[last + 1]) * scale[texts[last + 2]]
                yield (at, last), total
                if words[at + 1].start - word.end <= 1 and (len(texts[at + 1]) > 1 or last > at + 1):
                    continue
            elif texts[at + 1] == "%":
                yield (at, at + 1), number / 100
            yield (at, at), number


def _spelled_places(value: Decimal, words: Sequence[Word], language: WordTable) -> list[Found]:
    """Return where a whole number stands in words that are not a part of another number."""
    spelled = _spelled(language.name, int(value)) if 0 <= value <= _LARGEST_SPELLED else None
    found = search(spelled, words) if spelled is not None else []
    return [place for place in found if not _is_counted(place, words, language)]


def _is_counted(place: Found, words: Sequence[Word], language: WordTable) -> bool:
    """Return whether a word of another number stands beside a place."""
    beside = (_next(words, place[0], -1), _next(words, place[1], 1))
    return any(at is not None and words[at].text in number_words(language.name) for at in beside)


def _with_part(wholes: Iterable[Found], part: Decimal, words: Sequence[Word], language: WordTable) -> list[Found]:
    """Return the places of whole amounts that a fraction stands behind."""
    forms = [form for form, amount in _amounts(language.name, "fractions").items() if amount == part]
    behind = ((place[0], behind_place(language.pattern(forms), place[1], words)) for place in wholes)
    return [(first, last) for first, last in behind if last]


def behind_place(pattern: re.Pattern[str], at: int, words: Sequence[Word]) -> int | None:
    """Return the last position of what stands right behind a position, if it matches a pattern."""
    following = _next(words, at, 1)
    found = search(pattern, words, following, following + _FARTHEST_PART) if following is not None else []
    return found[0][1] if found and found[0][0] == following else None


def _next(words: Sequence[Word], at: int, step: int) -> int | None:
    """Return the position of the next word, or of the one before; marks do not count."""
    positions = range(at + 1, len(words)) if step > 0 else range(at - 1, -1, -1)
    return next((place for place in positions if not words[place].is_mark), None)


def is_amount(word: Word, language: WordTable) -> bool:
    """Return whether a word is of a number, or a unit of time."""
    if word.text[:1].isdigit() or word.text in number_words(language.name):
        return True
    return any(word.text in units for units in language.group("units").values())


@functools.cache
def number_words(name: str) -> frozenset[str]:
    """Return the words that numbers are made of, without articles and the like."""
    forms = {form for value in (*range(101), 1_000) for form in _rules(name, value, ordinal=False)}
    forms |= _rules(name, 20, ordinal=True) | _rules(name, 30, ordinal=True)
    words = {word.text for form in forms for word in words_of(form) if word.text[:1].isalpha()}
    words |= {word for word in _amounts(name, "scale") if len(word) > 1}
    light = [*_rules(name, 1, ordinal=False), str(table_named(name).table.get("and", ""))]
    return frozenset(words - {word.text for form in light for word in words_of(form)})


@functools.cache
def _amounts(name: str, group: str) -> Mapping[str, Decimal]:
    """Return the entries of a list that end with a number, with these."""
    pairs = (entry.strip().rpartition(" ") for entry in str(table_named(name).table.get(group, "")).split(","))
    return {form: Decimal(number) for words, _, number in pairs for form in entries(words)}


@functools.lru_cache(maxsize=1_024)
def _spelled(name: str, value: int, *, ordinal: bool = False) -> re.Pattern[str] | None:
    """Return a pattern of a number in words: of its cardinals in each gender, and of years; or of its ordinals."""
    forms, language = _rules(name, value, ordinal=ordinal), table_named(name)
    joiner = words_of(str(language.table.get("and", "")))
    between = rf"(?: {joiner[0].text})? " if joiner else " "
    written = [plain_words(form) for form in forms if not any(map(str.isdigit, form))]
    spelled = {between.join(map(re.escape, words)) for words in written if words}
    inner = "|".join(sorted(spelled, key=len, reverse=True))
    behind = ""
    if language.is_unspaced:  # the characters of a number also stand in other words: what it counts has to follow
        counters = "|".join(map(re.escape, sorted(language.words("counters"))))
        behind = rf"(?= (?:{counters})(?!\S))"
    return re.compile(rf"(?<!\S)(?:{inner})(?!\S){behind}") if spelled else None


def _rules(name: str, value: int, *, ordinal: bool) -> set[str]:
    from unicode_rbnf import FormatPurpose
    from unicode_rbnf.engine import RbnfError

    found: set[str] = set()
    purposes = (FormatPurpose.ORDINAL,) if ordinal else (FormatPurpose.CARDINAL, FormatPurpose.YEAR)
    for purpose in purposes:
        try:
            texts = _engine(name).format_number(value, purpose).text_by_ruleset.values()
            found |= {text.replace("\u00ad", "") for text in texts}
        except (ValueError, RbnfError):  # the rules of some languages have no ordinals, no years or no such number
            continue
    return found


@functools.cache
def _engine(name: str) -> RbnfEngine:
    from unicode_rbnf import RbnfEngine

    return RbnfEngine.for_language(name)


# Days, times, lengths

_YEAR: Final = dt.timedelta(days=365)
_WEEK: Final = dt.timedelta(days=7)
_WRITTEN_DAY: Final = re.compile(
    r"(?<!\d)(\d{1,4})(?:[./-]|\s?[年년]\s?)(\d{1,2})(?:[./-]|\s?[月월]\s?)(\d{1,4})(?!\d)"
)
_WRITTEN_MONTH: Final = re.compile(r"(?<!\d)(\d{1,2})\s?[月월]\s?(\d{1,2})\s?[日号號일]")
_WRITTEN_TIME: Final = re.compile(
    r"(?<![\d.,])(\d{1,2})[:.hH](\d{2})(?:[:.]\d{2})?\s*([ap]\.?m\b)?(?!\d)", re.IGNORECASE
)


def day_places(
    day: dt.date,
    text: str,
    words: Sequence[Word],
    language: WordTable | None,
    *,
    asked: Sequence[Word] = (),
    said_on: dt.date | None = None,
) -> list[Found]:
    """Return where a day is said by its date.

    The question before it may have its month or its year. Without either, the date is the first one from the day on
    which it is said.
    """
    dates = _WRITTEN_DAY.finditer(text, *_span(words))
    found = [_covering(words, *date.span()) for date in dates if _days_of(date, language) == {day}]
    if language is None:
        return found
    to_come = said_on is not None and dt.timedelta(0) <= day - said_on < _YEAR
    if language.is_unspaced:
        written = _WRITTEN_MONTH.finditer(text, *_span(words)) if to_come and not found else ()
        same = (match for match in written if (int(match[1]), int(match[2])) == (day.month, day.day))
        return found + [_covering(words, *match.span()) for match in same]
    days = [*_part_places(day.day, words), *_spelled_days(day, words, language)]
    months, years = _months(day, words, language), _part_places(day.year, words)
    if not years and not _years(words) and _years(asked) <= {day.year}:
        others = _months(None, words, language)
        if not months and not others and _years(asked) and _months(day, asked, language):
            return found + [place for place in days if len({first for first, _ in days}) == 1]
        if _years(asked) or to_come:
            years = months
    found += [
        (min(one[0], month[0], year[0]), max(one[1], month[1], year[1]))
        for month in months
        for one in days
        for year in years
        if max(abs(month[0] - one[0]), abs(month[0] - year[0])) <= _FARTHEST_PART
        and (year == month or one[0] not in range(year[0], year[1] + 1))
    ][:1]
    of_year = str(day.month * 100 + day.day)
    feasts = [form for form, date in _amounts(language.name, "feasts").items() if str(date) == of_year]
    named = search(language.pattern(feasts), words)
    return found + [(min(one[0], year[0]), max(one[1], year[1])) for one in named for year in years]


def _months(day: dt.date | None, words: Sequence[Word], language: WordTable) -> list[Found]:
    """Return where a day's month is named, or any month."""
    months = language.calendar("months")
    named = itertools.chain(*months) if day is None else months[day.month - 1]
    return search(language.pattern(name for name in named if not name[:1].isdigit()), words)


def _years(words: Sequence[Word]) -> set[int]:
    return {int(word.text) for word in words if word.text.isdigit() and len(word.text) == 4}


def _part_places(part: int, words: Sequence[Word]) -> list[Found]:
    """Return where a number of a date is said in figures."""
    digits = ((at, word.text) for at, word in enumerate(words) if word.text.isdigit() and len(word.text) <= 4)
    return [(at, at) for at, text in digits if int(text) == part]


def _spelled_days(day: dt.date, words: Sequence[Word], language: WordTable) -> Iterator[Found]:
    """Yield where a day of a month is said by its ordinal, or as the last one."""
    found = ordinal_places(day.day, words, language)
    yield from (place for place in found if not _is_counted(place, words, language))
    if day.day == calendar.monthrange(day.year, day.month)[1]:
        yield from language.find("last_day", words)


def coming_places(day: dt.date, said_on: dt.date, words: Sequence[Word], language: WordTable) -> list[Found]:
    """Return where a day in the week after it is said is named by its weekday. "Next Friday" may be one of two."""
    if not dt.timedelta(0) < day - said_on <= _WEEK:
        return []
    named = search(language.pattern(language.calendar("weekdays")[day.weekday()]), words)
    unclear = {at for name in ("days", "every") for place in language.find(name, words) for at in place}
    return [(first, last) for first, last in named if unclear.isdisjoint((first - 1, last + 1))]


def ordinal_places(number: float | Decimal, words: Sequence[Word], language: WordTable) -> list[Found]:
    """Return where the ordinal of a whole number is said."""
    if not 0 <= number <= _LARGEST_SPELLED or number != int(number):
        return []
    spelled = _spelled(language.name, int(number), ordinal=True)
    written = language.pattern(f"{int(number)} {ending}" for ending in language.words("ordinals"))
    return [place for pattern in (spelled, written) if pattern for place in search(pattern, words)]


def distances(words: Sequence[Word], language: WordTable) -> Iterator[tuple[Found, int]]:
    """Yield where a day is said by its distance from the one on which it is said ("tomorrow"), with that distance."""
    known = _amounts(language.name, "relative")
    for first, last in search(language.pattern(known), words):
        said = " ".join(word.text for word in words[first : last + 1] if not word.is_mark)
        if said in known:
            yield (first, last), int(known[said])


def _days_of(date: re.Match[str], language: WordTable | None) -> set[dt.date]:
    """Return the days that three numbers may stand for; both, where month and day can be exchanged in a language."""
    one, two, three = date.groups()
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


def time_places(time: dt.time, text: str, words: Sequence[Word], language: WordTable | None) -> list[Found]:
    """Return where a time of day is said: in figures, or in words with the part of the day."""
    found = []
    for match in _WRITTEN_TIME.finditer(text, *_span(words)):
        hour = int(match[1]) % 12 + 12 * (match[3][0] in "pP") if match[3] else int(match[1])
        if (hour, int(match[2])) == (time.hour, time.minute):
            found.append(_covering(words, *match.span()))
    clock: Mapping[str, str] = language.table.get("clock", {}) if language is not None else {}
    if language is None or not clock:
        return found
    half = language.pattern(entries(clock["morning" if time.hour < 12 else "later"]))
    shapes = language.pattern(_readings(clock.get(str(time.minute), ""), time.hour % 12 or 12, language.name))
    for first, last in search(shapes, words):
        near = search(half, words, first - _FARTHEST_HALF, last + _FARTHEST_HALF)
        found += [(min(first, one), max(last, two)) for one, two in near[:1]]
    full = clock.get("full", "") if time.minute == 0 else ""
    return found + search(language.pattern(_readings(full, time.hour, language.name)), words)


def _readings(shapes: str, hour: int, name: str) -> Iterator[str]:
    """Yield the readings of a clock, by shapes that name its hour ({0}) or the next one ({1})."""
    hours = [{str(number), *_rules(name, number, ordinal=False)} for number in (hour, hour % 12 + 1)]
    for this, following in itertools.product(*hours):
        yield from entries(shapes.format(this, following))


def length_places(length: dt.timedelta, words: Sequence[Word], language: WordTable | None) -> list[Found]:
    """Return where a length of time is said: a number with its unit."""
    if language is None:
        return []
    seconds, found = Decimal(length // dt.timedelta(microseconds=1)) / 1_000_000, list[Found]()
    for unit in language.group("units"):
        found += _units(seconds / _UNITS[unit], unit, words, language)
        whole, rest = divmod(seconds, _UNITS[unit])
        ones = _units(whole, unit, words, language) if whole and rest else []
        found += _with_part(ones, rest / _UNITS[unit], words, language)  # "an hour and a half"
        smaller = [name for name in language.group("units") if ones and _UNITS[name] < _UNITS[unit]]
        for name in smaller:  # "3 hours 52 minutes"
            others = _units(rest / _UNITS[name], name, words, language)
            found += [(one[0], two[1]) for one in ones for two in others if one[1] < two[0] <= one[1] + 2]
    parts = language.pattern(_amounts(language.name, "fractions"))
    return [place for place in found if not behind_place(parts, place[1], words)]


def _units(number: Decimal, unit: str, words: Sequence[Word], language: WordTable) -> list[Found]:
    """Return where a number of a unit of time is said."""
    pattern = language.pattern(language.group("units")[unit])
    counted = number_places(number, words, language)
    counted += language.find("one", words) if number == 1 else []
    behind = ((first, behind_place(pattern, last, words)) for first, last in counted)
    return [(first, last) for first, last in behind if last]


def _span(words: Sequence[Word]) -> tuple[int, int]:
    return (words[0].start, words[-1].end) if words else (0, 0)


def _covering(words: Sequence[Word], start: int, end: int) -> Found:
    inside = [at for at, word in enumerate(words) if word.start < end and word.end > start]
    return inside[0], inside[-1]
