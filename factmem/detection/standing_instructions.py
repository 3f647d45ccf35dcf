"""Standing instructions: a user's wishes for every later conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import Final

import attrs

from factmem.patterns import lazy_pattern
from factmem.wording import (
    WORD,
    Language,
    Span,
    clause_spans,
    content_words,
    folded,
    is_question,
    language_of,
    sentence_spans,
)

__all__ = ["instructions_in", "overtakes"]

_LONGEST: Final = 250
"""Maximum length of a sentence with a standing instruction, in characters."""
_LONGEST_TEXT: Final = 1_000
"""A longer text is pasted rather than typed, and orders in it are not the user's own."""
_FENCE: Final = lazy_pattern(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)
_BESIDE: Final = 1
"""Maximum number of words with content beside the manner that an order asks for; more are a task."""
_SAME_WORDS: Final = 0.85


def instructions_in(text: str) -> tuple[Span, ...]:
    """Return the spans of the standing instructions in a user's text, sentence by sentence.

    A standing instruction tells an assistant how to behave from now on: "always cite your sources", "when I ask about
    dinner, suggest something vegetarian", "no more emojis", "call me Bo". It is recognized by its wording, in texts
    that people type: an order or a wish that is lasting, or that is about the manner of answers and nothing else.
    Habits ("I always walk"), tasks ("translate this letter"), questions and code are not instructions.
    """
    if len(text) > _LONGEST_TEXT:
        return ()
    lowered = folded(text)
    language = language_of(lowered)
    fences = [fence.span() for fence in _FENCE.finditer(text)]
    return tuple(
        (start, end)
        for start, end in sentence_spans(text)
        if end - start <= _LONGEST
        and not any(opens <= start < closes for opens, closes in fences)
        and text[start] != ">"
        and _instructs(lowered[start:end], language)
    )


def overtakes(newer: str, older: str) -> bool:
    """Return whether a standing instruction replaces an older one, because both are about the same.

    They are if nearly all words with content of the shorter are in the other. Instructions that differ in their
    subject, if only by a word, stand side by side.
    """
    new, old = _content(newer), _content(older)
    fewer = min(len(new), len(old))
    return fewer > 1 and len(new & old) >= _SAME_WORDS * fewer


def _content(text: str) -> frozenset[str]:
    lowered = folded(text)
    return frozenset(content_words(lowered, language_of(lowered)))


def _instructs(sentence: str, language: Language) -> bool:
    if _has(sentence, language, "sayings"):
        return False
    lasting = any(_has(sentence, language, cue) for cue in ("lasting", "asked")) or language.ends("closing", sentence)
    bare = _is_bare(sentence, language)
    asks = is_question(sentence, language)
    if language.orders_last:
        ordered = language.ends("orders", sentence) or language.ends("forbids", sentence)
        return ordered and not asks and (lasting or bare or _has(sentence, language, "named"))
    said = _Said(sentence, language, lasting=lasting, bare=bare, asks=asks)
    if any(said.orders_from(start, beside=beside) for start, beside in said.starts()) or said.follows_question():
        return True
    if bare and not asks and _has(sentence, language, "yours") and _has(sentence, language, "should"):
        return True
    return bare and not asks and _has(sentence, language, "please") and not _has(sentence, language, "self")


def _has(sentence: str, language: Language, cue: str) -> bool:
    return language.finds(cue, sentence) is not None


def _is_bare(sentence: str, language: Language) -> bool:
    """Return whether a sentence is about the manner of answers and hardly anything else."""
    if _has(sentence, language, "theirs"):
        return False
    if _has(sentence, language, "yours"):
        return True
    rest, count = language.cues["manner"].subn(" ", sentence)
    if not count or _has(rest, language, "once") or any(map(str.isdigit, rest)):
        return False
    for cue in ("orders", "forbids", "nominal", "lasting", "wishes", "requests"):
        rest = language.cues[cue].sub(" ", rest)
    own = _has(sentence, language, "wishes") and not _has(sentence, language, "lasting")
    at_hand = _has(rest, language, "definite") and not _has(sentence, language, "forbids")
    return len(content_words(rest, language)) <= (0 if at_hand or own else _BESIDE)


_LEADS: Final = ("please", "first", "requests", "nominal", "lasting", "forbids", "wishes")
"""Lists of words that may stand before the verb of an order."""


@attrs.frozen
class _Said:
    """A sentence of a language with the verb before its object.

    Attributes:
        sentence: The folded sentence.
        language: Its language.
        lasting: Whether it holds for more than this time.
        bare: Whether it is about the manner of answers only.
        asks: Whether it is a question.
    """

    sentence: str
    language: Language
    lasting: bool = attrs.field(kw_only=True)
    bare: bool = attrs.field(kw_only=True)
    asks: bool = attrs.field(kw_only=True)

    def starts(self) -> Iterator[tuple[int, bool]]:
        """Yield the offsets at which an order may begin, and whether a clause with a subject of its own stands before.

        These are clauses, and "call me" after "please", "but" or the like.
        """
        for named in self.language.cues["named"].finditer(self.sentence):
            if not self.language.unspaced and self.language.ends("opening", self.sentence[: named.start()]):
                yield named.start(), True
        beside = False
        for start, end in clause_spans(self.sentence, (0, len(self.sentence))):
            yield start, beside
            clause = self.sentence[start:end]
            leads = self.language.opens("conditions", clause) or self.language.opens("nominal", clause)
            beside = beside or not (leads or self.language.finds("lasting", clause))

    def orders_from(self, start: int, *, beside: bool) -> bool:
        """Return whether a standing instruction begins at an offset; see `starts`."""
        passed: set[str] = set()
        at, ordered, named = self._after(start), False, None
        while True:
            named = named or self._match("named", at)
            ordered = ordered or named is not None or self._match("orders", at) is not None
            leads = _LEADS if not passed else (*_LEADS, "objects")
            cue, lead = next(((cue, match) for cue in leads if (match := self._match(cue, at))), ("", None))
            if lead is None:
                break
            passed.add(cue)
            at = self._after(lead.end())
        if self.asks and not ("requests" in passed and self._insists(passed)):
            return False
        if named and self._names(named.end()):
            return True
        if ordered and self.lasting and not (beside and passed.isdisjoint({"lasting", "please", "forbids"})):
            return True
        if self._match("being", at) and not beside and not self.asks and self._is_short():
            return True
        if ordered and "forbids" in passed and not beside and self._is_general(at, polite="please" in passed):
            return True
        if ordered and self._find("only") and not beside and self._is_general(at, polite=False):
            return True
        if "wishes" in passed and not ordered and self.sentence.startswith("to ", at):
            return False  # what somebody wants to do
        if "wishes" in passed and ("lasting" in passed or self.language.ends("lasting", self.sentence)):
            return True
        return self.bare and (ordered or not passed.isdisjoint({"forbids", "nominal", "requests", "wishes"}))

    def _insists(self, passed: Set[str]) -> bool:
        """Return whether a polite question is meant for good: "could you stop using emojis?"."""
        ends = self.language.ends("lasting", self.sentence)
        return ends or (self.bare and not passed.isdisjoint({"lasting", "forbids"}))

    def follows_question(self) -> bool:
        """Return whether the sentence says what to do when something is asked: its last clause has no subject."""
        asked = self._find("asked")
        clauses = clause_spans(self.sentence, (0, len(self.sentence)))
        if asked is None or self.asks or len(clauses) < 2 or not self.language.opens("conditions", self.sentence):
            return False
        start, end = clauses[-1]
        first = WORD.search(self.sentence, self.language.start_of(self.sentence[start:end]) + start, end)
        return start >= asked.end() and first is not None and first[0] not in self.language.everyday

    def _is_short(self) -> bool:
        """Return whether the sentence names hardly anything beside how to be."""
        if self._find("once") or any(map(str.isdigit, self.sentence)):
            return False
        return len(content_words(self.sentence, self.language)) <= 1 + _BESIDE

    def _is_general(self, at: int, *, polite: bool) -> bool:
        """Return whether the rest of a clause names something, and nothing at hand."""
        clauses = clause_spans(self.sentence, (at, len(self.sentence)))
        rest = self.sentence[slice(*clauses[0])] if clauses else ""
        if self._find("once"):
            return False
        if polite:
            return len(rest.split()) > 1
        return bool(content_words(rest, self.language)) and not self.language.finds("definite", rest)

    def _find(self, cue: str) -> re.Match[str] | None:
        return self.language.finds(cue, self.sentence)

    def _match(self, cue: str, at: int) -> re.Match[str] | None:
        return self.language.cues[cue].match(self.sentence, at)

    def _names(self, at: int) -> bool:
        """Return whether the first word from an offset may be a name."""
        name = _FIRST_WORD.match(self.sentence, self.language.start_of(self.sentence[at:]) + at)
        return name is not None and bool(content_words(name[1], self.language))

    def _after(self, at: int) -> int:
        """Return the offset of the next letter or digit."""
        found = _LETTER.search(self.sentence, at)
        return found.start() if found else len(self.sentence)


_FIRST_WORD: Final = lazy_pattern(r"\W*([^\s,.!;]+)")
_LETTER: Final = lazy_pattern(r"[^\W_]")
