"""Standing instructions: a user's wishes for every later conversation."""

from __future__ import annotations

import re
from typing import Final

from factmem.detection.redaction import Span
from factmem.wording import sentence_spans
from factmem.patterns import LinearPattern, lazy_pattern

__all__ = ["instructions_in", "overtakes"]

_LONGEST: Final = 400
"""Maximum length of a sentence with a standing instruction, in characters."""
_LONGEST_TEXT: Final = 1_000
"""A longer text is pasted rather than typed, and orders in it are not the user's own."""

_HINT: Final = LinearPattern(
    r"always|never|from (?:now|here|today|this)|going forward|henceforth|future|when|\bif\b|time|don't|do not"
)
_FENCE: Final = lazy_pattern(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)
_REQUEST: Final = lazy_pattern(r"(?:could|can|would|will) you\b")

_DO: Final = (
    r"(?:abbreviate|add(?:ress)?|adopt|aim|answer|append|apply|ask|assume|attach|avoid|be|begin|book|break|call"
    r"|capitali[sz]e|check|cite|comment|compare|confirm|consider|convert|credit|define|deliver|describe|display"
    r"|double[- ]check|emphasi[sz]e|end|ensure|explain|express|favou?r|feature|finish|focus|follow|format"
    r"|give(?! up)|greet|group|highlight|illustrate|include|indicate|insert|introduce|keep|label|lead|leave|limit"
    r"|link|list|maintain|make|measure|mention|name|note|offer|omit|open|order|organi[sz]e|outline|pick|place|point"
    r"|prefer|present|prioriti[sz]e|propose|provide|put|quote|recommend|refer|remind|repeat|reply|respond|return"
    r"|round|say(?! never| die| goodbye)|separate|share|show|sign|skip|sort|speak|specify|spell|start|state|stick"
    r"|structure|suggest|summari[sz]e|supply|support|tag|take into account|talk|tell(?! any| him| her| them)"
    r"|translate|treat|try to|use|verify|wait|warn|write)\b"
)
"""Verbs of requests to an assistant. Phrases between people ("never mind", "always remember") are excluded."""
_OPENING: Final = (
    r"^(?:[-*•]\s*)?(?:(?:ok(?:ay)?|and|also|but|so|oh|hey|hi|thanks|thank you|note|important|remember|btw|by the way)"
    r"[,:]? )*(?:(?:could|can|would|will) you )?(?:please )?"
)
_YOU: Final = (
    r"(?:you(?: should| must| have to| need to| are to)"
    r"|i(?:'d| would)? (?:want|like|need|prefer|ask|expect|appreciate)(?: it)?(?: if)? you(?: to)?)"
)
_NOT: Final = r"(?:do not |don't )"
_HOW: Final = rf"(?:please )?(?:always |never |only |just |{_NOT}|{_YOU} )?(?:always |never )?"
_FROM_NOW: Final = r"(?:from (?:now|here|this point|today) on(?:wards?)?|going forward|in all future \w+|henceforth)\b"
_ASKED: Final = (
    r"(?:when(?:ever)?|if|each time|every time|any ?time|in case) (?:i|we) (?:\w+ )?"
    r"(?:ask|am asking|request|inquire|query|mention|talk|bring|discuss|want (?:to know|advice)|need (?:help|advice)"
    r"|say|share|send|paste|post|upload|work on|look for|search)\b"
)

_SAME_WORDS: Final = 0.85
_EMPTY: Final = frozenset(
    {
        *("a", "about", "again", "all", "always", "an", "and", "any", "anymore", "ask", "asking", "at", "be"),
        *("by", "can", "could", "do", "don", "ever", "every", "for", "from", "give", "going", "i", "if", "in"),
        *("include", "is", "it", "just", "keep", "me", "my", "never", "no", "not", "now", "of", "on", "only"),
        *("or", "please", "provide", "should", "so", "t", "tell", "that", "the", "them", "then", "to", "up"),
        *("us", "use", "we", "when", "whenever", "with", "would", "you", "your"),
    }
)
"""Words without a bearing on the subject of an instruction."""

_RULES: Final = tuple(
    lazy_pattern(rule)
    for rule in (
        rf"{_OPENING}(?:always|never)(?: ever)?,? (?:please )?{_DO}",
        rf"\b{_YOU} (?:please )?(?:always|never)(?: ever)? {_DO}",
        rf"\b(?:remember|make sure|be sure)(?: that)? (?:you )?(?:to )?(?:always|never) (?:to )?{_DO}",
        rf"{_OPENING}(?:{_FROM_NOW}|in (?:the )?future)[,:]? {_HOW}{_DO}",
        rf"{_OPENING}{_HOW}{_DO}.*\b{_FROM_NOW}",
        rf"{_OPENING}{_ASKED}[^,]*,? (?:then )?{_HOW}{_DO}",
        rf"{_OPENING}{_HOW}{_DO}.*\b{_ASKED}",
        rf"{_OPENING}(?<=please ){_NOT}(?:ever )?{_DO}",
        rf"{_OPENING}{_NOT}ever {_DO}",
        rf"{_OPENING}{_NOT}{_DO}.*\b(?:ever again|any ?more|in your (?:answers|replies|responses))\b",
    )
)


def instructions_in(text: str) -> tuple[Span, ...]:
    """Return the spans of the standing instructions in a user's text, sentence by sentence.

    A standing instruction tells an assistant how to behave from now on: "always cite your sources", "when I ask about
    dinner, suggest something vegetarian", "please don't use emojis", "from now on, call me Bo". It is recognized by its
    wording, in English, in texts that people type. Habits ("I always walk"), questions and code are not instructions.
    """
    if len(text) > _LONGEST_TEXT or not _HINT.occurs_in(lowered := _lowered(text)):
        return ()
    fences = [fence.span() for fence in _FENCE.finditer(text)]
    return tuple(
        (start, end)
        for start, end in sentence_spans(lowered)
        if _instructs(lowered[start:end]) and not any(opens <= start < closes for opens, closes in fences)
    )


def overtakes(newer: str, older: str) -> bool:
    """Return whether a standing instruction replaces an older one, because both are about the same.

    They are if nearly all significant words of the shorter are in the other. Instructions that differ in their subject,
    if only by a word, stand side by side.
    """
    new, old = _content(newer), _content(older)
    fewer = min(len(new), len(old))
    return fewer > 1 and len(new & old) >= _SAME_WORDS * fewer


def _content(text: str) -> frozenset[str]:
    return frozenset(word for word in re.findall(r"\w+", _lowered(text)) if word not in _EMPTY)


def _lowered(text: str) -> str:
    """Return a text in lower case, character by character, so that the spans of both agree."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = "".join(char if len(char.lower()) > 1 else char.lower() for char in text)
    return lowered.replace("’", "'")


def _instructs(sentence: str) -> bool:
    if len(sentence) > _LONGEST or (sentence.endswith("?") and not _REQUEST.match(sentence)):
        return False
    return any(rule.search(sentence) for rule in _RULES)
