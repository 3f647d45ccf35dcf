"""Short answers and corrections of a user, which mean something by what was said before them.

"Yes, I am." tells something behind "Are you vegetarian?", and "No, Braga." behind "I moved to Porto.". No word of an
answer shows that: whatever a question about somebody is answered with tells something, except another question. A
correction that opens a conversation tells something too: what it corrects was said in an earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from factmem.details import Evidence, Origin
from factmem.detection.flags import flags_in
from factmem.detection.redaction import redact
from factmem.sentences import (
    A_WORD,
    ASKS_SOMEBODY,
    CORRECTS,
    ENOUGH,
    content_words,
    folded,
    language_of,
    sentence_spans,
    stated_spans,
    telling,
)

__all__ = ["Turn", "is_short", "meant"]

Turn: TypeAlias = tuple[Origin, str]
"""The origin and the text of a message."""

_FEW: Final = 3
"""Maximum number of words with content of a text that may need what was said before it to be understood."""

_LONGEST: Final = 200
"""Maximum length of such a text, and of what is kept of the words before it, in characters."""

_BACK: Final = 6
"""Number of messages before a correction among which the first of a chain of them is looked for."""


def is_short(text: str) -> bool:
    """Return whether a text may need what was said before it to be understood."""
    if len(text) > _LONGEST:
        return False
    return not telling(text) & ENOUGH or len(_content(text)) <= _FEW


def meant(words: Evidence, before: Sequence[Turn]) -> Evidence:
    """Return the evidence of a short text of a user with the question that it answers, or the words that it corrects.

    Args:
        words: The text.
        before: What the user and the assistant said before it, in order; empty texts for words that are not believed.
    """
    text, recent = words.quote, before[-_BACK:]
    if not is_short(text):
        return words
    if recent and recent[-1][0] is Origin.ASSISTANT:
        if _answers(text, recent[-1][1]):
            return attrs.evolve(words, answers=_last_of(recent[-1][1]))
        recent = recent[:-1]
    if not telling(text) & CORRECTS:
        return words
    if all(origin is not Origin.USER for origin, _ in before):
        return attrs.evolve(words, corrects="")
    return attrs.evolve(words, corrects=_last_of(recent[-1][1])) if recent and _told(recent) else words


def _told(turns: Sequence[Turn]) -> bool:
    """Return whether the last of some messages is the user's and tells something, by itself or by those before it."""
    origin, text = turns[-1]
    if origin is not Origin.USER:
        return False
    return telling(text) & ENOUGH != 0 or meant(Evidence(quote=text), turns[:-1]).before is not None


def _answers(text: str, asked: str) -> bool:
    """Return whether a text answers a question: one about somebody, with a word of its own if the text has none."""
    if not telling(asked) & ASKS_SOMEBODY:
        return False
    if telling(text) & (ENOUGH | A_WORD):
        return True
    return bool(_content(_last_sentence(asked))) and any(True for _ in stated_spans(text, language_of(folded(text))))


def _content(text: str) -> Sequence[str]:
    lowered = folded(text)
    return content_words(lowered, language_of(lowered))


def _last_sentence(text: str) -> str:
    return text[slice(*sentence_spans(text)[-1])]


def _last_of(text: str) -> str | None:
    """Return the last sentence of a message, cut if it is long; None if the message is flagged."""
    if flags_in(text):
        return None
    last = _last_sentence(redact(text).text)
    return last if len(last) <= _LONGEST else f"{last[:_LONGEST].rpartition(' ')[0]}…"
