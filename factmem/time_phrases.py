"""Phrases of time in other languages, in English: "vor zwei Wochen" as "2 week ago".

What a time means is computed in one place, `factmem.recall.text.times`, which reads English. The words of each language
are data: ``time_words.toml`` has months, weekdays and units, ``time_phrases.toml`` numbers, seasons and phrases. A word
counts only within a phrase of the language that the text is in, so that "mai" alone names nothing.
"""

from __future__ import annotations

import calendar
import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from factmem.languages import Language, folded, language_of, languages_of_times
from factmem.patterns import lazy_pattern
from factmem.toml_tables import table

_LONGEST: Final = 2_000
"""Number of characters of a text that are read."""

_FIRST_WORD, _FIRST_PHRASE = 0xE000, 0xE800
"""Private characters of Unicode stand for words and phrases while a text is read."""

_REST: Final = "\uf8ff"
"""Stands for each further character of a word or a phrase, so that all offsets stay the same."""

_PRIVATE: Final = lazy_pattern("[\ue000-\uf8ff]")
_PHRASE: Final = lazy_pattern(f"[\ue800-\uf8fe]{_REST}*")
_YEAR: Final = r"(?<!\d)[12]\d{3}(?!\d)"
_LATE: Final = r"(?<!\d)(?:19|20)\d\d(?!\d)"
_DIGITS: Final = {
    "late": _LATE,
    "when": _LATE,
    "d": r"(?<!\d)[0-3]?\d(?!\d)",
    "number": r"(?<!\d)\d{1,3}(?!\d)",
}
"""Figures that are words of a kind: a year, a day of a month, a number."""

_ORDERED: Final = {
    "month": calendar.month_name[1:],
    "weekday": list(calendar.day_name),
    "number": [str(number) for number in range(1, 13)],
}
_DAYS: Final = {"0": "today", "-1": "yesterday", "-2": "the day before yesterday"}
_BORDERS: Final = (r"(?<!\w)", r"(?!\w)")
"""Patterns before and after a word."""


@attrs.frozen(eq=False)
class _Rule:
    """A phrase of one language.

    Attributes:
        pattern: Its pattern.
        kinds: Kinds of the words in its groups.
        english: Its English, with the numbers of the groups.
    """

    pattern: re.Pattern[str]
    kinds: Sequence[str]
    english: str


@attrs.frozen(eq=False)
class _Phrases:
    """The phrases of one language.

    Attributes:
        words: Pattern of its words of times.
        letters: The private character of each word.
        english: What these characters mean, by kinds of words.
        rules: Its phrases, in the order in which they are read.
    """

    words: re.Pattern[str]
    letters: Mapping[str, str]
    english: Mapping[str, Mapping[str, str]]
    rules: Sequence[_Rule]


def in_english(text: str) -> list[tuple[int, int, str]]:
    """Return the phrases of time in a text, with their offsets; of 2,000 characters at most, and of no English text."""
    text = folded(text[:_LONGEST])
    if language_of(text).name == "en" or _PRIVATE.search(text):
        return []
    languages = languages_of_times(text.replace("-", " ").replace("'", " "))
    return next(filter(None, (_read(text, _phrases(language)) for language in languages)), [])


def _read(text: str, phrases: _Phrases | None) -> list[tuple[int, int, str]]:
    if phrases is None:
        return []
    text, count = phrases.words.subn(lambda word: _standing(phrases.letters.get(word[0]), word), text)
    found: list[str] = []
    for rule in phrases.rules if count else ():
        text = _put_in_english(text, rule, phrases.english, found)
    return [(*one.span(), found[ord(one[0][0]) - _FIRST_PHRASE]) for one in _PHRASE.finditer(text)]


def _put_in_english(text: str, rule: _Rule, english: Mapping[str, Mapping[str, str]], found: list[str]) -> str:
    """Add the English of a rule's phrases to what was found, and return the text with what stands for them.

    A phrase within another one loses its "in".
    """

    def standing(match: re.Match[str]) -> str:
        said = [
            found[ord(group[0]) - _FIRST_PHRASE].removeprefix("in ")
            if _PHRASE.match(group)
            else english[kind].get(group[:1], group)
            for kind, group in zip(rule.kinds, match.groups(""), strict=True)
        ]
        found.append(" ".join(rule.english.format(*said).split()))
        return _standing(chr(_FIRST_PHRASE + len(found) - 1), match)

    return rule.pattern.sub(standing, text)


def _standing(char: str | None, match: re.Match[str]) -> str:
    return char.ljust(len(match[0]), _REST) if char else match[0]


@functools.cache
def _phrases(language: Language) -> _Phrases | None:
    """Return the phrases of a language; None if it has no table."""
    name = language.name
    data = table("time_phrases").get(name)
    if data is None:
        return None
    letters: dict[str, str] = {}
    english = defaultdict[str, dict[str, str]](dict)
    for kind, meaning, form in _meanings(table("time_words")[name], data):
        char = letters.setdefault(folded(form), chr(_FIRST_WORD + len(letters)))
        for of in (kind, meaning, *(("name", "when") if kind in ("month", "weekday", "season") else ())):
            english[of][char] = meaning
    before, after = data.get("borders", _BORDERS)
    forms = "|".join(map(re.escape, sorted(letters, key=len, reverse=True)))
    words = lazy_pattern(f"{before}(?:{forms}){after}|{_YEAR}")
    counted = "|".join(map(re.escape, language.lists["numbers"]))
    year = rf"(?:{_LATE}|{_YEAR}(?! (?:{counted})(?!\w)))"  # "am 3. Mai 1200 Euro" names a sum
    digits = _DIGITS | {"y": year}
    rules = [_rule(phrase, meaning, english, digits, before) for phrase, meaning in data["phrases"].items()]
    return _Phrases(words, letters, english, rules)


def _rule(
    phrase: str, meaning: str, english: Mapping[str, Mapping[str, str]], digits: Mapping[str, str], before: str
) -> _Rule:
    pattern = re.sub(r"«(\w+)»", lambda kind: _group(kind[1], english, digits), folded(phrase))
    first, last = _BORDERS if before else ("", "")
    return _Rule(lazy_pattern(f"{first}(?:{pattern}){last}"), re.findall(r"«(\w+)»", phrase), meaning)


def _group(kind: str, english: Mapping[str, Mapping[str, str]], digits: Mapping[str, str]) -> str:
    """Return a group of a pattern for the words, figures or phrases of a kind."""
    chars = "".join(english.get(kind, ())) + ("\ue800-\uf8fe" if kind in ("when", "time") else "")
    return f"({'|'.join(filter(None, (digits.get(kind), chars and f'[{chars}]{_REST}*+')))})"


def _meanings(*tables: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the words of a language: their kind, their English and a form; no short forms of names ("ago", "sett")."""
    for data in tables:
        for kind, names in _ORDERED.items():
            for name, forms in zip(names, data.get(f"{kind}s", "").split(", "), strict=False):
                first, *others = forms.split() or [""]
                named = [first, *(form for form in others if not first.startswith(form))]
                yield from ((kind, name, form) for form in named if form)
        for kind in ("unit", "season", "time"):
            for name, forms in data.get(f"{kind}s", {}).items():
                yield from ((kind, name, form) for form in forms.split(", "))
        for form, _, days in (entry.rpartition(" ") for entry in data.get("relative", "").split(", ")):
            if days in _DAYS:
                yield "time", _DAYS[days], form
