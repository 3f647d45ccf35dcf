"""Words that a user asks to keep off the record.

The wordings are data, in ``off_the_record.toml``. Those of somebody else count for nothing: quotations, code, mails and
texts to be worked on; see `factmem.own_words.own_words`. What is not kept is lost, so an unclear wording asks nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from factmem.detection.words import fenced, quoted
from factmem.languages import Language, Span, clause_spans, folded, language_of, sentence_spans
from factmem.own_words import own_words
from factmem.patterns import any_of, lazy_pattern
from factmem.toml_tables import filled, table

_TABLE: Final = table("detection/off_the_record")
_HINTS: Final = any_of(_TABLE["hints"])


def _pattern(text: str) -> re.Pattern[str]:
    kinds = {kind: f"(?:{'|'.join(_TABLE[kind].values())})" for kind in ("named", "orders", "requests", "polite")}
    return lazy_pattern(filled(text, _TABLE["parts"] | kinds), re.IGNORECASE | re.MULTILINE)


_LABEL: Final = _pattern(r"^«lead»(?:«named»«sign»|(?P<order>«orders»)«colon»)")
_BRACKET_LABEL: Final = _pattern(
    r"(?<=[(\[（【])«lead»(?:«named»«sign»|«orders»(?:«colon»|，))"
    r"(?:[^()\[\]（）【】]++|«open»[^()\[\]（）【】]*+«close»)*+"
)
_BRACKET: Final = _pattern(r"«open»(?:«lead»(?:«named»|«request»))«close»")
_FIRST: Final = _pattern(r"\A«lead»«request»\Z")
_LAST: Final = _pattern(r"(?:\A«lead»|[,，、;–—][ ]?(?:«before»,? ?){1,2})«request»\Z")
_QUOTED_LINE: Final = lazy_pattern(r"^[ \t]*>.*$", re.MULTILINE)
_LETTER: Final = lazy_pattern(r"[^\W_]")


def unsaved_in(text: str) -> Iterator[Span]:
    """Yield the spans of what a user's text asks to keep off the record.

    A label at the beginning of a line ("off the record: …", "don't remember this: …") takes the rest of the line, one
    in a bracket the rest of the bracket. A request in brackets takes its sentence, and one that is the first or the
    last sentence all of the user's own words: "This is off the record."

    Args:
        text: The text.
    """
    if not _HINTS.occurs_in(text.lower()):
        return
    chars, rest = list(text), list(text)
    lines = (line.span() for line in _QUOTED_LINE.finditer(text))
    for start, end in (*fenced(text), *quoted(text), *lines):
        chars[start:end] = _LETTER.sub("x", text[start:end])
        rest[start:end] = " " * (end - start)
    typed, mine = "".join(chars), "".join(rest)
    language = language_of(folded(typed))
    own = typed[: own_words(typed, language)]
    sentences = [(start, end) for start, end in sentence_spans(own) if _LETTER.search(mine, start, end)]
    if len(own) < len(typed) and own.rstrip().endswith((":", "：")):
        del sentences[-1:]  # it announces what is somebody else's
    if sentences and (_FIRST.match(own[slice(*sentences[0])]) or _LAST.search(own[slice(*sentences[-1])])):
        yield 0, sentences[-1][1]
        return
    for label in _LABEL.finditer(own):
        end = _line_end(typed, label.end())
        if not (label["order"] and _is_told(typed[label.end() : end], language)):
            yield label.start(), end
    yield from (label.span() for label in _BRACKET_LABEL.finditer(own))
    for bracket in _BRACKET.finditer(own):
        yield from _said_with(own, bracket.span(), sentences)


def _line_end(text: str, at: int) -> int:
    """Return the end of the line with the first word from an offset."""
    while at < len(text) and text[at].isspace():
        at += 1
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _is_told(words: str, language: Language) -> bool:
    """Return whether words name somebody who said what is before them: "it goes off, says my mother"."""
    lowered = folded(words)
    clauses = clause_spans(lowered, (0, len(lowered)))
    return any(language.finds("quotes", lowered[start:end]) is not None for start, end in clauses)


def _said_with(text: str, bracket: Span, sentences: Iterable[Span]) -> Iterator[Span]:
    """Yield the sentence that holds a bracket, or the one before it on its line if the bracket is a whole one."""
    before: Span | None = None
    for start, end in sentences:
        if start < bracket[1] and bracket[0] < end:
            whole = start == bracket[0] and text[bracket[1] : end].strip(" .!") == ""
            beside = whole and before is not None and "\n" not in text[before[1] : start]
            yield before[0] if before is not None and beside else start, end
        before = start, end
