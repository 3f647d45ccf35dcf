"""Words of a text in any script, with the marks between them, its sentences, and its parts that are not running text.

Words are folded (width, case, accents). Scripts without spaces, and Korean, whose particles join their words, give one
word a character, so that the same search finds a phrase in every language.
"""

from __future__ import annotations

import bisect
import functools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import attrs

from factmem.languages import Span
from factmem.patterns import lazy_pattern
from factmem.toml_tables import table

_REACH: Final = 1_200
"""Maximum length of the text read before and behind a quote, in characters."""

_UNSPACED: Final = "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\u3131-\u318e"
_JOINED: Final = "\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963\u200c\u200d"
_TOKEN: Final = lazy_pattern(
    rf"(?:(?<![\w.,])[-−])?\d+(?:[.,'’\u00a0\u202f]\d+)*|[{_UNSPACED}]|(?:[^\W\d_{_UNSPACED}][{_JOINED}]*)+|[^\w\s]|\n"
)
_ACCENTS: Final = lazy_pattern("[\u0300-\u036f\u0640\u064b-\u065f\u200c\u200d]")
_ENDS: Final = frozenset([*".!?。！？؟।｡", "..."])  # folded
_CLOSING_MARKS: Final = frozenset("\"'”’»)]」』）")
_PAUSES: Final = frozenset(",;:()[]，、；：،؛（）–—|/~&")
_SHORTENED: Final = frozenset(table("detection/plain_statements")["shortened"].split(", "))
"""Words that end with a full stop within a sentence."""
_LONGEST_ORDINAL: Final = 2


def folded(word: str) -> str:
    """Return a word without differences of case, width, accents and digits of other scripts."""
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFKC", word).casefold().replace("ı", "i")
    plain = _ACCENTS.sub("", unicodedata.normalize("NFD", plain))
    plain = "".join(str(unicodedata.digit(char)) if char.isdigit() and not char.isascii() else char for char in plain)
    return unicodedata.normalize("NFC", plain).translate(_ALIKE)


_ALIKE: Final = str.maketrans({"أ": "ا", "إ": "ا", "آ": "ا", "ى": "ي", "ة": "ه", "−": "-"})


@attrs.frozen
class Word:
    """A word, a number or a punctuation mark of a text.

    Attributes:
        text: the word, folded.
        start: offset in the text, in characters.
        end: offset of its end.
        is_name: whether it begins with a capital letter.
    """

    text: str = attrs.field(repr=False)
    start: int
    end: int
    is_name: bool = False

    @property
    def is_mark(self) -> bool:
        """Whether it is punctuation, a symbol or the end of a line."""
        return not (self.text[:1].isalnum() or self.text[-1:].isdigit())


Found: TypeAlias = tuple[int, int]
"""The positions of the first and the last word of something that is said."""


def words_of(text: str, start: int = 0, end: int | None = None) -> list[Word]:
    """Return the words, numbers and marks of a text, or of a part of it."""
    found = _TOKEN.finditer(text, start, len(text) if end is None else end)
    return [Word(folded(one[0]), *one.span(), one[0][0].isupper()) for one in found]


def plain_words(text: str) -> list[str]:
    """Return the words and numbers of a text, folded, without the marks."""
    return [word.text for word in words_of(text) if not word.is_mark]


def is_same_name(one: str, other: str) -> bool:
    """Return whether two names may be of one person: "Ana" and "ana huber", but not "Ana Huber" and "Tom Huber"."""
    names = [set(plain_words(name.replace("_", " "))) for name in (one, other)]
    shorter, longer = sorted(names, key=len)
    return bool(shorter) and shorter <= longer


@attrs.frozen(kw_only=True)
class Passage:
    """The words around a quote.

    Attributes:
        text: the text that holds them.
        quote: the span of the quote in the text.
        words: the words and marks of the passage.
        dotted: whether its language writes ordinals with a full stop ("5. Mai").
    """

    text: str = attrs.field(repr=False)
    quote: Span
    words: tuple[Word, ...] = attrs.field(repr=False)
    dotted: bool = False

    @functools.cached_property
    def ends(self) -> list[int]:
        """The positions of the words and marks that end sentences."""
        return [at for at in range(len(self.words)) if self._is_end(at)]

    def sentence(self, first: int, last: int) -> Found:
        """Return the first and the last position of the sentences that some words stand in."""
        before, after = bisect.bisect_left(self.ends, first), bisect.bisect_left(self.ends, last)
        start = self.ends[before - 1] + 1 if before else 0
        return start, self.ends[after] if after < len(self.ends) else len(self.words) - 1

    def is_pause(self, at: int) -> bool:
        """Return whether a mark parts clauses. One within a number, a time or a word does not."""
        word = self.words[at]
        if word.text in ("-", "−"):
            return not self._touches(at, -1) and not self._touches(at, 1)
        if word.text not in _PAUSES:
            return False
        return not (word.text in ":/~&" and self._touches(at, -1) and self._touches(at, 1))

    def is_quoted(self, first: int, last: int) -> bool:
        """Return whether some words share a character with the quote."""
        return self.words[first].start < self.quote[1] and self.words[last].end > self.quote[0]

    def _touches(self, at: int, step: int) -> bool:
        other = at + step
        if not 0 <= other < len(self.words) or self.words[other].is_mark:
            return False
        first, second = sorted((at, other))
        return self.words[first].end == self.words[second].start

    def _is_end(self, at: int) -> bool:
        words, word = self.words, self.words[at]
        following = words[at + 1] if at + 1 < len(words) else None
        if word.text == "\n":
            wrapped = following is not None and self.text[following.start].islower()
            return not wrapped or at == 0 or words[at - 1].is_mark
        if word.text not in _ENDS:
            return False
        if following is None or following.text in _CLOSING_MARKS or following.text in _ENDS or following.text == "\n":
            return following is None or following.text not in _ENDS
        if word.text != ".":
            return True
        if following.start == word.end:
            return False
        before = words[at - 1] if at else None
        if before is None or before.is_mark:
            return True
        dotted = self.dotted and before.text.isdigit() and len(before.text) <= _LONGEST_ORDINAL
        ordinal = dotted and self.text[following.start].isalpha()
        initial = len(before.text) == 1 and before.is_name and before.text != "i"
        return not (ordinal or initial or before.text in _SHORTENED)


_FENCE: Final = lazy_pattern(r"^[ \t]*(?P<mark>```+|~~~+)(?P<info>[^\n]*)", re.MULTILINE)
_LINE: Final = lazy_pattern(r"[^\n]+")
_BAR: Final = lazy_pattern(r"[^|]\|[^|]")
_PARTS: Final = tuple(
    (part["reason"], lazy_pattern(part["pattern"], re.MULTILINE), part.get("fewest", 1))
    for part in table("detection/plain_statements")["structures"]
)
"""Parts that are not running text: a reason, a pattern, and their smallest number."""
_MARK: Final = lazy_pattern(r"[\"“”„«»「」『』‘'’＂`]|\n[ \t]*\n")
_CLOSING: Final = table("detection/plain_statements")["quotations"]
"""Marks that open a quotation, with the marks that close it."""
_UNCLOSED: Final = frozenset('"“„«')
"""Marks that quote the rest of a paragraph if nothing closes them; an apostrophe does not."""


@attrs.frozen
class ReadableText:
    """A text in which the passages of quotes are found. It is read once, in time linear in its length.

    Attributes:
        text: the text.
    """

    text: str = attrs.field(repr=False)

    def passage(self, start: int, end: int, *, dotted: bool = False) -> Passage:
        """Return the words around a quote at an offset; see `Passage`."""
        first = self._border(start - _REACH, start)
        return Passage(
            text=self.text,
            quote=(start, end),
            words=tuple(words_of(self.text, first, min(len(self.text), end + _REACH))),
            dotted=dotted,
        )

    def structure_at(self, start: int, end: int) -> str | None:
        """Return the structure that a span stands in, such as "said in a list"; None for running text."""
        held = (name for name, spans in self._structures for opens, closes in spans if opens <= start and end <= closes)
        return next(held, None)

    @functools.cached_property
    def _structures(self) -> tuple[tuple[str, Sequence[Span]], ...]:
        text = self.text
        rows = [found.span() for found in _LINE.finditer(text) if _is_row(found[0])]
        parts = [(reason, [found.span() for found in part.finditer(text)], fewest) for reason, part, fewest in _PARTS]
        return (
            ("said in code", fenced(text)),
            ("said in a quotation", list(quoted(text))),
            ("said in a table", rows if len(rows) > 1 or "|" in text else []),
            *((reason, spans) for reason, spans, fewest in parts if len(spans) >= fewest),
        )

    def _border(self, at: int, before: int) -> int:
        """Return the offset of a space or a line end near an offset, so that no word is cut."""
        if at <= 0:
            return 0
        return next((place for place in range(at, min(at + 40, before)) if self.text[place].isspace()), at)


def fenced(text: str) -> list[Span]:
    """Return the spans of code between fences; an open fence reaches to the end."""
    spans, opened = list[Span](), None
    for line in _FENCE.finditer(text):
        if opened is None:
            opened = line
        elif line["mark"].startswith(opened["mark"]) and not line["info"].strip():
            spans.append((opened.start(), line.end()))
            opened = None
    return spans if opened is None else [*spans, (opened.start(), len(text))]


def _is_row(line: str) -> bool:
    """Return whether a line has cells: parted by bars, tabs, semicolons or spaced slashes."""
    return bool(_BAR.search(line)) or "\t" in line.strip() or line.count(";") > 1 or line.count(" / ") > 1


def quoted(text: str) -> Iterator[Span]:
    """Yield the spans between quotation marks, those marks included; an open quotation ends with its paragraph."""
    opened: tuple[str, int] | None = None
    for found in _MARK.finditer(text):
        mark, at = found[0], found.start()
        if mark[0] == "\n":
            if opened and opened[0] in _UNCLOSED:
                yield opened[1], at
            opened = None
        elif opened and mark in _CLOSING[opened[0]] and not (mark in "'’" and text[at + 1 : at + 2].isalnum()):
            yield opened[1], at + 1
            opened = None
        elif (opened is None or opened[0] in "'‘") and mark in _CLOSING and _opens(text, at):
            opened = mark, at
    if opened and opened[0] in _UNCLOSED:
        yield opened[1], len(text)


def _opens(text: str, at: int) -> bool:
    before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
    return not before.isalnum() and bool(after) and not after.isspace()
