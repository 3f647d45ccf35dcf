"""The one analyser of factmem: from text to terms, the same for every provider.

Lower case, words of letters and digits with inner apostrophes, English function words dropped (after
the Snowball project's list), English Snowball stems. Accents, vowel points, the script of digits and the width of
letters make no difference, nor do an elided article (``l'hôpital``) and a Turkish ending (``İzmir'de``). Text
written without spaces is split into pairs of neighbouring characters, as by Lucene's ``CJKBigramFilter``, and so is
Korean, whose words take endings; an ideograph is a term by itself as well.
A number with parts (``3.11``, ``2026-05-07``, ``14:30``) and a code (``AB-1234``) are terms besides their parts.
"""

from __future__ import annotations

import functools
import itertools
import json
import unicodedata
from typing import TYPE_CHECKING, Any, Final

from factmem.patterns import lazy_pattern
from factmem.records import Assertion
from factmem.stemming import stemmer
from factmem.subjects import MemorySubject
from factmem.text_caches import forgettable
from factmem.toml_tables import table

if TYPE_CHECKING:
    from collections.abc import Iterable

_TABLE: Final = table("recall/text/words")
"""Words, and how people write them."""

STOP_WORDS: Final = frozenset(_TABLE["stop_words"].split())
_WORD: Final = lazy_pattern(r"[^\W_]+(?:'[^\W_]+)*")


_SPACES: Final = "".join(char if char.isalnum() else " " for char in map(chr, range(128)))
"""Translation of each ASCII character that belongs to no word into a space."""

_MAY_BE_WHOLE: Final = lazy_pattern(r"[\d+#]")
_HINT: Final = lazy_pattern(r"\d[.,:/-]|-\d|\w(?:\+\+|#)")
_THOUSANDS: Final = lazy_pattern(r"(?<=\d),(?=\d{3}(?!\d))")
_WHOLE: Final = lazy_pattern(r"((?<!\d)\d++(?:[.:/-]\d++)+)|\b([^\W\d_]+-\d+|\d+-[^\W\d_]+)\b|\b(\w(?:\+\+|#))")
"""Numbers with parts, codes, and letters with a sign: their parts alone mean something else."""

_PART: Final = lazy_pattern(r"[:/-]")
_HUMP: Final = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])")

_HYPHENATED: Final = lazy_pattern(_TABLE["hyphenated"])
_POINTS: Final = lazy_pattern(_TABLE["points"])
_NASAL: Final = lazy_pattern(_TABLE["nasal"])
_PLAIN: Final = str.maketrans(
    _TABLE["letters"] | {chr(ord(zero) + digit): str(digit) for zero in _TABLE["zeros"] for digit in range(10)}
)
_APOSTROPHES: Final = [(lazy_pattern(pattern), instead) for pattern, instead in _TABLE["apostrophes"]]

_UNSPACED: Final[str] = _TABLE["ideographs"] + _TABLE["kana_and_others"]
_IDEOGRAPH: Final = lazy_pattern(f"[{_TABLE['ideographs']}]")
LETTERS: Final = rf"(?:[^\W_{_UNSPACED}]|[{_TABLE['signs']}])+"
_ANY_WORD: Final = lazy_pattern(rf"(?P<unspaced>[{_UNSPACED}]+)|{LETTERS}(?:'{LETTERS})*")


def analyse(text: str) -> list[str]:
    """Return the terms of a text, in order, with repetitions."""
    stem = stemmer()
    text = text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    if "'" in text:
        for pattern, instead in _APOSTROPHES:
            text = pattern.sub(instead, text)
    text = unhyphenated(text)
    whole: list[str] = []
    if _MAY_BE_WHOLE.search(text) and _HINT.search(text):  # the first is quick, and rules most texts out
        text = _THOUSANDS.sub("", text)
        whole = [code.replace("-", "") or sign or _PART.sub(".", number) for number, code, sign in _WHOLE.findall(text)]
    if not text.isascii():
        words = _words_of_any_language(text)
    elif "'" in text:
        words = _WORD.findall(text)
    else:
        words = text.translate(_SPACES).split()
    return [stem(word) for word in words if word not in STOP_WORDS] + whole


def unhyphenated(text: str) -> str:
    """Return a text in lower case whose words for relatives have no hyphens: a "mother-in-law" is not a mother."""
    return _HYPHENATED.sub(lambda found: found[0].replace("-", ""), text) if "-" in text else text


@forgettable
@functools.lru_cache(1_024)
def terms_of(text: str) -> tuple[str, ...]:
    """Return what `analyse` does, once for the steps of a write that take the same text, and for names."""
    return tuple(analyse(text))


@forgettable
@functools.lru_cache(maxsize=1024)
def spaced(keyword: str) -> str:
    """Return the words of a keyword, which may be in snake, kebab or camel case."""
    return _HUMP.sub(" ", keyword).replace("_", " ").replace("-", " ")


def _words_of_any_language(text: str) -> Iterable[str]:
    plain = _POINTS.sub("", unicodedata.normalize("NFKD", text.casefold())).translate(_PLAIN)
    for found in _ANY_WORD.finditer(_NASAL.sub("ं", unicodedata.normalize("NFC", plain))):
        if found["unspaced"] is None:
            yield found[0]
        else:
            yield from _characters(found[0])


def _characters(run: str) -> Iterable[str]:
    """Yield each pair of neighbours, each ideograph, and a single character."""
    yield from map("".join, itertools.pairwise(run))
    yield from run if len(run) == 1 else _IDEOGRAPH.findall(run)


def indexed_text(said: Assertion) -> str:
    """Return the text that is embedded: a statement behind what it answers or corrects, a fact with its concept.

    Subjects and speakers are left out: names have little meaning, and blur that of the rest. They count as words.
    """
    if said.is_statement and isinstance(said.data, str):
        before = said.details.evidence[0].before if said.details.evidence else None
        return f"{before} {said.data}" if before else said.data
    return ": ".join(filter(None, (spaced(said.keyword), said.description, plain(said.data))))


def indexed_terms(said: Assertion) -> list[str]:
    """Return the terms that an assertion is indexed by.

    Those of a statement begin with its speaker: the name, or the role and the individual that the subject is. Those of
    a fact begin with its subject, and hold its keyword and its first quote.
    """
    if said.is_statement:
        evidence = said.details.evidence
        role = (evidence[0].role if evidence else None) or said.details.origin.value
        speaker = said.speaker or f"{role} {said.place.subject.individual_name or ''}"
        return [*terms_of(speaker), *terms_of(indexed_text(said))]
    subject, value = said.place.subject, plain(said.data)
    name = spaced(subject.name) if subject.name != MemorySubject.EVERYTHING.name else ""
    terms = [*terms_of(subject.individual_name or name), *terms_of(said.description or spaced(said.keyword))]
    terms += analyse(value)
    more = [*terms_of(spaced(said.keyword))]
    if said.details.evidence:
        more += analyse(said.details.evidence[0].quote)
    known = set(terms)
    return terms + [term for term in dict.fromkeys(more) if term not in known]


def plain(data: Any) -> str:
    """Return a value as text, without JSON punctuation."""
    match data:
        case str():
            return data
        case dict():
            return ", ".join(f"{key.replace('_', ' ')} {plain(item)}" for key, item in data.items())
        case list() | tuple():
            return ", ".join(map(plain, data))
        case bool() | None:
            return json.dumps(data)
        case _:
            return repr(data)  # a number, as in JSON
