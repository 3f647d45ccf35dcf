"""Passages: the words around a quote, as the checks of its support read them.

A passage is the quote with the rest of the sentences that it touches, at most `REACH` characters on either side, so
that a check costs the same however long the message is. Its words are folded (width, case, accents) and stemmed.
"""

from __future__ import annotations

import bisect
import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from factmem.detection.redaction import Span
from factmem.patterns import lazy_pattern
from factmem.stemming import stemmer

__all__ = [
    "REACH",
    "STOPS",
    "Passage",
    "ReadableText",
    "Word",
    "folded",
    "is_foreign",
    "phrase_list",
    "word_set",
    "words_of",
]

REACH: Final = 240
"""Maximum length of the text read before and behind a quote, in characters."""

_TOKEN: Final = lazy_pattern(r"\d[\d.,]*\d|\d|[^\W\d_]+(?:['’][^\W\d_]+)*|[^\w\s]|\n")
_BORDER: Final = lazy_pattern(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+(?=\s|$)|[。！？｡]++[」』”）]*+|\n\s*+")


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list that is written as one text."""
    return frozenset(text.split())


def phrase_list(text: str) -> tuple[str, ...]:
    """Return the phrases of a list that is written as one text, with " / " between them."""
    return tuple(text.split(" / "))


_SHORTENED: Final = frozenset(
    "dr mr mrs ms prof st sr jr no vs etc approx ca ext fig dept inc ltd co u.s a.m p.m am pm e.g i.e z.b".split()  # noqa: SIM905 - a list of words is easier to read
)
"""Words that end with a full stop within a sentence."""
_QUOTED_LINE: Final = lazy_pattern(r"^[ \t]*>[^\n]*$", re.MULTILINE)
STOPS: Final = frozenset(".!?。！？")
"""Marks that end a sentence."""
_FENCE: Final = lazy_pattern(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_MARK: Final = lazy_pattern(r"[\"“”„«»「」『』‘'’＂]|\n[ \t]*\n")
_CLOSING: Final = {
    '"': '"”“',
    "“": '”"',
    "„": '“”"',
    "«": "»",
    "»": "«",
    "「": "」",
    "『": "』",
    "‘": "’'",
    "'": "'’",
    "＂": "＂",
}
"""Marks that open a quotation, with the marks that close it."""
_UNCLOSED: Final = frozenset('"“„«')
"""Marks that quote the rest of a paragraph if nothing closes them; an apostrophe does not."""

_ENGLISH: Final = word_set(
    "about after and are be because been but by call can does for from had has have he his i i'd i'll i'm i've if"
    " is it its it's just like more my need not now of or our please prefer she than that the their them then"
    " there they this to up use we were what when which with would you your yes"
)
_FOREIGN: Final = word_set(
    "der die das ich ist und nicht ein eine einen mein meine wir im zu fur mit auf bin habe am je j'ai suis est"
    " le la les des du une mon ma mes pas et en nous dans pour j'habite el los las yo mi mis soy es un una vivo"
    " tengo que con por y io sono il lo ho di mio mia per che eu meu minha sou tenho em os um uma nao moro ik"
    " ben mijn het een van niet jag ar min och det jeg er og ikke bor pa w nie jestem mam se som"
)
"""Common words of other languages, without accents."""


def folded(word: str) -> str:
    """Return a word without differences of case, width, accents and apostrophes."""
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFKD", word.replace("’", "'")).casefold()
    return unicodedata.normalize("NFC", "".join(char for char in plain if not unicodedata.combining(char)))


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
    def stem(self) -> str:
        """The English stem, without a possessive ending."""
        return stemmer()(self.text.removesuffix("'s"))

    @property
    def is_mark(self) -> bool:
        """Whether it is punctuation, or the end of a line."""
        return not self.text[:1].isalnum()


def words_of(text: str, start: int = 0, end: int | None = None) -> list[Word]:
    """Return the words, numbers and punctuation marks of a text, or of a part of it."""
    found = _TOKEN.finditer(text, start, len(text) if end is None else end)
    return [Word(folded(one[0]), *one.span(), one[0][0].isupper()) for one in found]


@attrs.frozen(kw_only=True)
class Passage:
    """The words around a quote.

    Attributes:
        text: the text that holds them.
        span: the span of the passage in the text.
        quote: the span of the quote in the text.
        words: the words and punctuation marks of the passage.
        quotations: the spans of the text between quotation marks.
        fences: the spans of the text in code fences.
    """

    text: str = attrs.field(repr=False)
    span: Span
    quote: Span
    words: tuple[Word, ...] = attrs.field(repr=False)
    quotations: tuple[Span, ...] = ()
    fences: tuple[Span, ...] = ()

    @functools.cached_property
    def stems(self) -> dict[str, list[int]]:
        """The positions of the words, by their stems."""
        found: dict[str, list[int]] = {}
        for position, word in enumerate(self.words):
            if not word.is_mark:
                found.setdefault(word.stem, []).append(position)
        return found

    @functools.cached_property
    def is_foreign(self) -> bool:
        """Whether the words seem to be of another language than English."""
        return is_foreign(self.words)

    @functools.cached_property
    def stops(self) -> list[int]:
        """The positions of the marks that end sentences."""
        return [at for at, word in enumerate(self.words) if word.text in STOPS and not self.is_within_word(at)]

    def is_within_word(self, position: int) -> bool:
        """Return whether a mark stands within a word: U.S., either/or, 10:30, twenty-one."""
        words, at = self.words, position
        inner = 0 < at < len(words) - 1 and words[at].text in "./:-"
        return inner and words[at - 1].end == words[at].start and words[at].end == words[at + 1].start

    def is_quoted(self, position: int) -> bool:
        """Return whether the word at a position belongs to the quote."""
        word = self.words[position]
        return word.start < self.quote[1] and word.end > self.quote[0]

    def quotation_at(self, position: int) -> Span | None:
        """Return the span between quotation marks that the word at a position stands in."""
        return self._holding(self.quotations, position)

    def is_fenced(self, position: int) -> bool:
        """Return whether the word at a position stands in a code fence."""
        return self._holding(self.fences, position) is not None

    def _holding(self, spans: Sequence[Span], position: int) -> Span | None:
        at = bisect.bisect_right(spans, (self.words[position].start, len(self.text))) - 1
        found = spans[at] if at >= 0 else None
        return found if found and self.words[position].end <= found[1] else None


def is_foreign(words: Sequence[Word]) -> bool:
    """Return whether words seem to be of another language than English. One or two Latin ones never do."""
    said = [word.text for word in words if word.text[:1].isalpha()]
    if 2 * sum(not text.isascii() for text in said) > len(said):
        return True
    english, foreign = sum(text in _ENGLISH for text in said), sum(text in _FOREIGN for text in said)
    return foreign > english


@attrs.frozen
class ReadableText:
    """A text in which the passages of quotes are found. It is read once, in time linear in its length.

    Attributes:
        text: the text.
    """

    text: str = attrs.field(repr=False)

    def passage(self, start: int, end: int) -> Passage:
        """Return the passage around a quote at an offset."""
        borders = self._borders
        first = borders[bisect.bisect_right(borders, start) - 1]
        last = borders[min(bisect.bisect_left(borders, end), len(borders) - 1)]
        first, last = max(first, start - REACH), min(last, end + REACH)
        return Passage(
            text=self.text,
            span=(first, last),
            quote=(start, end),
            words=tuple(words_of(self.text, first, last)),
            quotations=self._quotations,
            fences=self._fences,
        )

    @functools.cached_property
    def _borders(self) -> list[int]:
        """The offsets at which sentences begin, and the end of the text."""
        inner = (found.end() for found in _BORDER.finditer(self.text) if _ends_sentence(self.text, *found.span()))
        return [0, *(end for end in inner if 0 < end < len(self.text)), len(self.text)]

    @functools.cached_property
    def _fences(self) -> tuple[Span, ...]:
        marks = [*(found.start() for found in _FENCE.finditer(self.text)), len(self.text)]
        return tuple(zip(marks[:-1:2], marks[1::2], strict=False))

    @functools.cached_property
    def _quotations(self) -> tuple[Span, ...]:
        lines = (found.span() for found in _QUOTED_LINE.finditer(self.text))
        return tuple(_without_inner(sorted([*lines, *_between_marks(self.text)])))


def _ends_sentence(text: str, start: int, end: int) -> bool:
    """Return whether a border ends a sentence: not behind "Dr.", nor where a line is merely wrapped."""
    following = text[end : end + 20].lstrip()[:1]
    if text[start] == "\n":
        wrapped = following.islower() and text.count("\n", start, end) == 1
        return not wrapped or text[max(0, start - 1) : start] in ".!?:;"
    if text[start] != "." or end - start > 1:
        return True
    word = text[max(0, start - 12) : start].rpartition(" ")[2].lstrip("(\"'").casefold()
    return not (following.islower() or word in _SHORTENED or (len(word) == 1 and word.isalpha() and word != "i"))


def _between_marks(text: str) -> Iterator[Span]:
    """Yield the spans between quotation marks, those marks included; an open quotation ends with its paragraph."""
    opened: tuple[str, int] | None = None
    for found in _MARK.finditer(text):
        mark, at = found[0], found.start()
        if mark[0] == "\n":
            if opened and opened[0] in _UNCLOSED:
                yield opened[1], at
            opened = None
        elif opened and mark in _CLOSING[opened[0]] and not _is_inside_word(text, at):
            yield opened[1], at + 1
            opened = None
        elif (opened is None or opened[0] in "'‘") and mark in _CLOSING and _opens(text, at):
            opened = mark, at
    if opened and opened[0] in _UNCLOSED:
        yield opened[1], len(text)


def _is_inside_word(text: str, at: int) -> bool:
    return text[at] in "'’" and text[at + 1 : at + 2].isalnum()


def _opens(text: str, at: int) -> bool:
    before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
    return not before.isalnum() and bool(after) and not after.isspace()


def _without_inner(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield spans without those that lie in another."""
    reached = -1
    for start, end in spans:
        if end > reached:
            yield max(start, reached), end
            reached = end
