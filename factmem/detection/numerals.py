"""Numbers that a text says: in digits, in English words, with their units of scale.

``1,200.50`` and ``1.200,50``, ``12k``, ``2.5 million``, ``twenty-four``, ``half a dozen``, ``two and a half``,
``nineteen eighty-four``, ``25%`` (25 and .25), ``3rd``, ``third``, ``twice``, ``a couple``, ``no``. Where a writing is
ambiguous, every reading counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

import attrs

from factmem.detection.passages import Word
from factmem.patterns import lazy_pattern

__all__ = ["Number", "numbers_in"]

_LONGEST: Final = 40
"""Maximum length of a number in digits."""
_UNITS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL: Final = {word: number for number, word in enumerate(_UNITS.split())} | {
    word: 20 + 10 * number for number, word in enumerate(_TENS.split())
}
_ORDINALS: Final = {
    "first": 1,
    "second": 2,
    "third": 3,
    "fifth": 5,
    "eighth": 8,
    "ninth": 9,
    "twelfth": 12,
    **{f"{word}th": number for word, number in _SMALL.items() if number in (4, 6, 7, 10, 11) or 12 < number < 20},
    **{f"{word[:-1]}ieth": number for word, number in _SMALL.items() if number >= 20},
}
_OTHERS: Final = {
    **dict.fromkeys(("no", "none", "nil", "nought", "nothing"), 0),
    **dict.fromkeys(("once", "single", "only", "sole", "another"), 1),
    **dict.fromkeys(("twice", "both", "twins", "double", "couple", "pair", "duo"), 2),
    **dict.fromkeys(("thrice", "triplets", "triple", "trio"), 3),
    **dict.fromkeys(("quadruple", "quartet"), 4),
    "dozen": 12,
}
"""Words that say a number by themselves."""
_SCALES: Final = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9, "dozen": 12, "score": 20} | {
    "dozens": 12,
    "lakh": 10**5,
    "crore": 10**7,
    "grand": 1_000,
    "couple": 2,
    "pair": 2,
    "pairs": 2,
}
_LETTERS: Final = {"k": 1_000, "m": 10**6, "mio": 10**6, "mn": 10**6, "mln": 10**6, "b": 10**9, "bn": 10**9}
"""Scales behind digits; the number without them counts as well, since "5 m" may be metres."""
_PARTS: Final = {"half": Decimal("0.5"), "quarter": Decimal("0.25"), "third": Decimal(1) / 3, "tenth": Decimal("0.1")}
_VULGAR: Final = {"1⁄2": Decimal("0.5"), "1⁄4": Decimal("0.25"), "3⁄4": Decimal("0.75")}
_ENGLISH: Final = lazy_pattern(r"\d+(?:\.\d+)?|\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?")
_EUROPEAN: Final = lazy_pattern(r"\d{1,3},(?!\d{3}$)\d+|\d{4,},\d+|\d{1,3}(?:\.\d{3})+(?:,\d+)?")
_LARGEST: Final = Decimal(10) ** 30


@attrs.frozen
class Number:
    """A number that a text says.

    Attributes:
        value: the number.
        first: the position of its first word.
        last: the position of its last word.
    """

    value: Decimal
    first: int
    last: int


def numbers_in(words: Sequence[Word]) -> Iterator[Number]:
    """Yield the numbers that some words say, every reading of them, in order."""
    at = 0
    while at < len(words):
        found = list(_Reader(words).at(at))
        yield from found
        at = max((number.last for number in found), default=at) + 1


@attrs.frozen
class _Reader:
    """Reader of the numbers that begin at a position."""

    words: Sequence[Word]

    def at(self, start: int) -> Iterator[Number]:
        text = self._text(start)
        if text in _VULGAR:
            yield Number(_VULGAR[text], start, start)
        elif text[:1].isdigit():
            yield from self._of_digits(start)
        elif text in ("a", "an"):
            yield from self._of_article(start)
        elif text in _SMALL or text in _ORDINALS:
            yield from self._of_words(start)
        elif text in ("half", "quarter"):
            yield from self._of_part(start)
        elif text in _OTHERS:
            yield Number(Decimal(_OTHERS[text]), start, start)

    def _text(self, position: int) -> str:
        return self.words[position].text if 0 <= position < len(self.words) else ""

    def _of_digits(self, start: int) -> Iterator[Number]:
        """Yield the readings of digits: with a sign, a scale, a fraction, a percent sign."""
        behind = self._text(start + 1)
        for value in _readings(self.words[start].text):
            if behind not in _SCALES:
                yield from self._with_part(value, start, start)
            if behind in _LETTERS:
                yield Number(value * _LETTERS[behind], start, start + 1)
            elif behind in _SCALES:
                yield from self._with_part(self._scaled(value, start + 1), start, self._end_of_scales(start + 1))
            elif behind in ("%", "percent", "pct", "per"):
                yield Number(value / 100, start, start + 1)
            elif behind == "/" and self._text(start + 2).isdigit() and Decimal(self._text(start + 2)[:_LONGEST]):
                yield Number(value / Decimal(self._text(start + 2)[:_LONGEST]), start, start + 2)
            if self._is_negative(start):
                yield Number(-value, start - 1, start)

    def _is_negative(self, start: int) -> bool:
        before = self._text(start - 1)
        attached = start > 0 and self.words[start - 1].end == self.words[start].start
        joined = start > 1 and self.words[start - 2].end == self.words[start - 1].start
        return before in ("minus", "negative") or (before in "-−" and bool(before) and attached and not joined)

    def _scaled(self, value: Decimal, at: int) -> Decimal:
        while self._text(at) in _SCALES and abs(value) < _LARGEST:
            value *= _SCALES[self._text(at)]
            at += 1
        return value

    def _end_of_scales(self, at: int) -> int:
        while self._text(at) in _SCALES:
            at += 1
        return at - 1

    def _with_part(self, value: Decimal, first: int, last: int) -> Iterator[Number]:
        """Yield a number, and the one with "and a half" behind it."""
        yield Number(value, first, last)
        if self._text(last + 1) == "and" and self._text(last + 2) in ("a", "one") and self._text(last + 3) in _PARTS:
            yield Number(value + _PARTS[self._text(last + 3)], first, last + 3)

    def _of_article(self, start: int) -> Iterator[Number]:
        """Yield one for "a dog", a hundred for "a hundred", 1.5 for "a day and a half"."""
        behind = self._text(start + 1)
        if behind in _SCALES:
            yield from self._with_part(self._scaled(Decimal(1), start + 1), start, self._end_of_scales(start + 1))
            value, end = self._group(start + 1, current=1)
            yield Number(value, start, end - 1)
        elif behind in _PARTS:
            yield Number(_PARTS[behind], start, start + 1)
        else:
            yield Number(Decimal(1), start, start)
            if self._text(start + 2) == "and" and self._text(start + 3) == "a" and self._text(start + 4) in _PARTS:
                yield Number(1 + _PARTS[self._text(start + 4)], start, start + 4)

    def _of_part(self, start: int) -> Iterator[Number]:
        part, article = _PARTS[self._text(start)], self._text(start + 1) in ("a", "an")
        yield Number(part, start, start)
        if self._text(start + 1 + article) in _SCALES:
            at = start + 1 + article
            yield Number(self._scaled(part, at), start, self._end_of_scales(at))

    def _of_words(self, start: int) -> Iterator[Number]:
        value, at = self._group(start)
        while (two := self._year(value, at)) is not None:
            value, at = two
        if self._text(at) == "point" and self._text(at + 1) in _SMALL:
            digits = ""
            at += 1
            while self._text(at) in _SMALL and _SMALL[self._text(at)] < 10:
                digits += str(_SMALL[self._text(at)])
                at += 1
            value += Decimal(f"0.{digits or 0}")
        if self._text(at) in ("percent", "%", "per"):
            yield Number(Decimal(value) / 100, start, at)
        if self._text(at) in ("quarters", "thirds", "tenths"):
            yield Number(value * _PARTS[self._text(at)[:-1]], start, at)
        yield from self._with_part(value, start, at - 1)

    def _year(self, value: Decimal, at: int) -> tuple[Decimal, int] | None:
        """Read "nineteen eighty-four" as one number."""
        skipped = self._behind_hyphen(at)
        if not (10 <= value < 100 and _SMALL.get(self._text(skipped), 0) >= 10):
            return None
        rest, end = self._group(skipped)
        return (value * 100 + rest, end) if rest < 100 else None

    def _behind_hyphen(self, at: int) -> int:
        return at + 1 if self._text(at) in ("-", "‐", "‑") and self._text(at + 1) in _SMALL | _ORDINALS else at

    def _group(self, start: int, current: int = 0) -> tuple[Decimal, int]:
        """Return the number that a run of number words says, and the position behind it."""
        total, at = 0, start
        while True:
            skipped = self._behind_hyphen(at) if at > start else at
            if self._text(skipped) == "and" and current % 100 == 0 and self._text(skipped + 1) in _SMALL and current:
                skipped += 1
            text = self._text(skipped)
            number = _SMALL.get(text, _ORDINALS.get(text))
            fits = number is not None and (
                skipped == start
                or (current == 0 and total > 0)
                or (current % 100 == 0 and current and number < 100)
                or (current % 100 >= 20 and current % 10 == 0 and 0 < number < 10)
            )
            if number is not None and fits:
                current += number
            elif text in _SCALES and current and max(total, current) < _LARGEST:
                if _SCALES[text] < 1_000:
                    current *= _SCALES[text]
                else:
                    total, current = total + current * _SCALES[text], 0
            else:
                return Decimal(total + current), at
            at = skipped + 1


def _readings(digits: str) -> Iterator[Decimal]:
    """Yield the numbers that digits with points and commas may be, or those of a list such as ``1,2,3``."""
    if len(digits) > _LONGEST:
        return
    english, european = _ENGLISH.fullmatch(digits), _EUROPEAN.fullmatch(digits)
    if english:
        yield Decimal(digits.replace(",", ""))
    if european:
        yield Decimal(digits.replace(".", "").replace(",", "."))
    if not (english or european):
        yield from (Decimal(part) for part in digits.split(",") if part.isdigit())
