"""Splitting of long texts into statements: at paragraphs, then sentences, then words, never inside one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from factmem.detection.redaction import without_placeholders
from factmem.detection.words import fenced
from factmem.languages import LINE_END, SENTENCE_END, Span
from factmem.patterns import lazy_pattern

MAX_WORD: Final = 1_000
"""A longer run of characters without a space is not a word, and may be cut."""

_FIRST_EMOJI: Final = "\u2600"
_PARAGRAPH: Final = lazy_pattern(r"\n[ \t\r]*\n\s*")
_CLAUSE: Final = lazy_pattern(r"(?:[,;]|(?<!\[redacted):)\s+|[，、；：]\s*")
_WORD: Final = lazy_pattern(r"(?:\[redacted: [a-z ]{1,40}\]|\S)+\s*")


def says_something(text: str) -> bool:
    """Return whether a redacted text holds a letter, a digit or an emoji apart from placeholders."""
    said = without_placeholders(text) if "[redacted: " in text else text
    # Arrows, boxes and blocks stand before the emoji, and are ornament.
    emoji = (char for char in said if char >= _FIRST_EMOJI and unicodedata.category(char) == "So")
    return any(map(str.isalnum, said)) or any(emoji)


def statement_spans(text: str, max_chars: int) -> list[Span]:
    """Return the spans of the statements of a text, without surrounding white space.

    A text of at most ``max_chars`` characters is one statement. A longer one is split into the largest pieces that fit:
    between paragraphs (a code fence is one), then lines, sentences, clauses and words. Only a word can exceed
    ``max_chars``, and only a word of more than `MAX_WORD` characters is cut. Pieces that say nothing are left out.
    """
    whole = _trimmed(text, 0, len(text))
    if whole[1] - whole[0] <= max_chars:
        pieces = [whole]
    else:
        borders = (LINE_END, SENTENCE_END, _CLAUSE)
        fitting = (part for block in _blocks(text, whole) for part in _finer(text, block, max_chars, borders))
        pieces = [_trimmed(text, *piece) for piece in _packed(text, fitting, max_chars)]
    return [(start, end) for start, end in pieces if says_something(text[start:end])]


def _trimmed(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())


def _packed(text: str, spans: Iterable[Span], max_chars: int) -> list[Span]:
    """Join neighbours that fit together."""
    packed: list[Span] = []
    for start, end in spans:
        if packed and _length(text, packed[-1][0], end) <= max_chars:
            packed[-1] = packed[-1][0], end
        else:
            packed.append((start, end))
    return packed


def _length(text: str, start: int, end: int) -> int:
    return len(text[start:end].rstrip())


def _finer(text: str, span: Span, max_chars: int, borders: tuple[re.Pattern[str], ...]) -> Iterator[Span]:
    """Yield neighbouring spans that fit, split at the coarsest borders possible."""
    if _length(text, *span) <= max_chars:
        yield span
    elif not borders:
        yield from _words(text, span, max_chars)
    else:
        parts = [
            part for piece in _between(text, span, borders[0]) for part in _finer(text, piece, max_chars, borders[1:])
        ]
        yield from _packed(text, parts, max_chars)


def _between(text: str, span: Span, border: re.Pattern[str]) -> Iterator[Span]:
    """Split after each border: the end of a sentence belongs to it."""
    start, end = span
    for match in border.finditer(text, start, end):
        if start < match.end() < end:
            yield start, match.end()
            start = match.end()
    yield start, end


def _words(text: str, span: Span, max_chars: int) -> Iterator[Span]:
    for match in _WORD.finditer(text, *span):
        if _length(text, *match.span()) <= MAX_WORD:
            yield match.span()
        else:
            size = min(max_chars, MAX_WORD)
            yield from ((at, min(at + size, match.end())) for at in range(match.start(), match.end(), size))


def _blocks(text: str, span: Span) -> Iterator[Span]:
    """Split between paragraphs. Fenced code is one block."""
    at = span[0]
    for start, end in fenced(text[: span[1]]):
        yield from _between(text, (at, start), _PARAGRAPH)
        yield start, end
        at = end
    yield from _between(text, (at, span[1]), _PARAGRAPH)
