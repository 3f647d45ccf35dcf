"""Quotes: the words that evidence cites, found in their message despite small differences."""

from __future__ import annotations

import functools
import html
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from factmem.details import Evidence
from factmem.detection.statements import says_something
from factmem.hidden_characters import CONTROL, HIDDEN
from factmem.languages import Span, sentence_spans
from factmem.toml_tables import table

_SAME: Final = str.maketrans(
    {char: mark for mark, chars in table("detection/plain_statements")["same"].items() for char in chars}
)
"""Characters that models exchange for each other."""

_AROUND: Final = "\"'“”„‘’«»`…. \t\n"
"""Characters that models put around a quote."""

_APART: Final = re.compile(r"(?<=\d)[^\w\s](?=\d)")
"""A mark between digits, without which they are another number."""


def covers(quotes: Iterable[Evidence], words: Evidence) -> bool:
    """Return whether quotes hold at least half of the letters and digits of each sentence of a text.

    Args:
        quotes: quotes of the same message.
        words: the text, a message or a piece of one.
    """
    text, start = words.quote, words.start or 0
    spans = [_within(text, start, quote) for quote in quotes]
    quoted = {at for span in spans for at in range(*span)}
    sentences = ([at for at in range(*span) if text[at].isalnum()] for span in sentence_spans(text))
    return bool(spans) and all(2 * len(quoted.intersection(letters)) >= len(letters) for letters in sentences)


def _within(text: str, start: int, quote: Evidence) -> Span:
    """Return the span of a quote in a text that starts at an offset of the message; (0, 0) if there is none."""
    if quote.start is not None and quote.end is not None:
        return max(0, quote.start - start), max(0, quote.end - start)
    return QuotableText(text).find(quote.quote) or (0, 0)


MOST_PLACES: Final = 3
"""Maximum number of places of a quote that are given."""

_SEARCHES: Final = 8


@attrs.frozen
class QuotedWords:
    """A quote, ready to be searched in any number of texts.

    Attributes:
        quote: the quote.
    """

    quote: str = attrs.field(repr=False)

    @functools.cached_property
    def variants(self) -> tuple[tuple[str, str], ...]:
        """The forms in which the quote may occur, the likeliest first, each as it is and folded."""
        forms = (self.quote, html.unescape(self.quote), self.quote.strip(_AROUND))
        telling = (words.strip() for words in dict.fromkeys(forms) if says_something(words))
        return tuple((words, _folded(words).text.strip()) for words in telling)

    @functools.cached_property
    def bare(self) -> str:
        """The letters and digits of the quote, folded; blank if it says nothing."""
        return _folded(self.variants[0][0]).bare.text if self.variants else ""


def _occurrences(text: str, words: str) -> Iterator[int]:
    """Yield the offsets of words in a text, overlapping ones included.

    Long words occur many times only in a text that repeats itself. Their number is limited, so that the searches
    together take time linear in the text.
    """
    at = text.find(words) if words else -1
    for _ in range(_SEARCHES + len(text) // max(1, len(words))):
        if at < 0:
            return
        yield at
        at = text.find(words, at + 1)


@attrs.frozen
class _Folded:
    """A text folded for comparison.

    Attributes:
        text: the folded text.
        offsets: the offset in the original text of each of its characters.
    """

    text: str = attrs.field(repr=False)
    offsets: list[int] = attrs.field(repr=False)

    @functools.cached_property
    def bare(self) -> _Folded:
        """The letters and digits alone, with the marks between digits."""
        apart = {found.start() for found in _APART.finditer(self.text)}
        kept = [at for at, char in enumerate(self.text) if char.isalnum() or unicodedata.combining(char) or at in apart]
        return _Folded("".join(self.text[at] for at in kept), [self.offsets[at] for at in kept])

    def places(self, words: str) -> Iterator[Span]:
        """Yield the spans in the original text at which folded words occur, as whole characters."""
        for at in _occurrences(self.text, words):
            end = at + len(words)
            if self._whole_characters(at, end):
                yield self.offsets[at], self.offsets[end - 1] + 1

    def _whole_characters(self, start: int, end: int) -> bool:
        """Return whether a span of the folded text begins and ends with whole characters, accents included."""
        text, offsets = self.text, self.offsets
        starts = start == 0 or offsets[start - 1] != offsets[start]
        ends = end == len(text) or (offsets[end] != offsets[end - 1] and not unicodedata.combining(text[end]))
        return starts and ends


@attrs.frozen
class QuotableText:
    """A text in which quotes are found despite differences in spacing, case, punctuation and hidden characters.

    Attributes:
        text: the text.
    """

    text: str = attrs.field(repr=False)

    def find(self, quote: str) -> Span | None:
        """Return the first of the `places` of a quote, or None."""
        return next(iter(self.places(QuotedWords(quote))), None)

    def places(self, quote: QuotedWords) -> list[Span]:
        """Return the spans of a quote in the text, at most `MOST_PLACES`.

        A span has the quote's own letters and digits in their order. Places between words come before one inside a
        word, which is given alone, and places with other punctuation come last. A quote without a letter or a digit is
        never found. The search takes time linear in the text.
        """
        for exact, folded in quote.variants:
            if found := self._found(exact, folded):
                return found
        others = self._folded.bare.places(quote.bare)
        return list(itertools.islice((place for place in others if self._between_words(*place)), MOST_PLACES))

    def _found(self, exact: str, folded: str) -> list[Span]:
        inside: list[Span] = []
        for places in (((at, at + len(exact)) for at in _occurrences(self.text, exact)), self._folded.places(folded)):
            whole: list[Span] = []
            for place in places:
                (whole if self._between_words(*place) else inside).append(place)
                if len(whole) == MOST_PLACES:
                    break
            if whole:
                return whole
        return inside[:1]

    def _between_words(self, start: int, end: int) -> bool:
        before, after = self.text[start - 1 : start], self.text[end : end + 1]
        inside = (before.isalnum() and self.text[start].isalnum()) or (after.isalnum() and self.text[end - 1].isalnum())
        return not inside

    @functools.cached_property
    def _folded(self) -> _Folded:
        return _folded(self.text)


def _folded(text: str) -> _Folded:
    """Return a text folded for comparison."""
    parts: list[str] = []
    offsets: list[int] = []
    spaced = False
    for place, char in enumerate(text.translate(_SAME)):
        if char.isspace() or CONTROL.match(char):
            folded = "" if spaced else " "
            spaced = True
        elif HIDDEN.match(char):
            folded = ""
        else:
            folded = char.casefold() if char.isascii() else unicodedata.normalize("NFKD", char).casefold().strip()
            spaced = False
        parts.append(folded)
        offsets.extend([place] * len(folded))
    return _Folded("".join(parts), offsets)
