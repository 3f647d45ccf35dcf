"""Taking secrets out of texts before anything is sent, journalled or stored."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from factmem.abc import Conversation, Message
from factmem.detection.secret_phrases import PHRASE_RULES
from factmem.detection.secret_tokens import TOKEN_RULES, Rule

__all__ = ["Finding", "Redacted", "placeholder", "redact", "redact_conversation", "without_placeholders"]

_RULES: Final[tuple[Rule, ...]] = (*TOKEN_RULES, *PHRASE_RULES)
_FIRST_PHRASE: Final = len(TOKEN_RULES)
_REPEATABLE: Final = re.compile(r"(?=\S*\d)(?=\S*[^\W\d])\S{6,}$")
"""A secret that nobody would say by chance: a word with a letter and a digit."""
_MOST_REPEATED: Final = 50
_PLACEHOLDER: Final = re.compile(r"\[redacted: [a-z ]{1,40}\]")


@attrs.frozen(kw_only=True)
class Finding:
    """That a secret was found, and nothing of the secret.

    Attributes:
        kind: what it was: ``password``, ``aws key``, ….
        start: where in the redacted text its placeholder starts, in characters.
        end: where the placeholder ends.
    """

    kind: str
    start: int
    end: int


@attrs.frozen
class Redacted:
    """A text without its secrets.

    Attributes:
        text: the text, each secret replaced by a `placeholder`.
        findings: what was replaced, in the order of the text.
    """

    text: str = attrs.field(repr=False)
    findings: tuple[Finding, ...] = ()


@attrs.frozen
class _Hit:
    start: int
    end: int
    rank: int


def placeholder(kind: str) -> str:
    """What stands in the place of a secret: ``[redacted: aws key]``."""
    return f"[redacted: {kind}]"


def without_placeholders(text: str) -> str:
    """Return a redacted text without its placeholders: what was said apart from secrets."""
    return _PLACEHOLDER.sub(" ", text)


def redact(text: str) -> Redacted:
    """Replace the secrets in a text by placeholders that tell their kind.

    It knows issued tokens by their shapes, whole private key blocks, the passwords in URLs, card and
    account numbers by their check sums, and what words like "password is" announce; what was announced
    once goes wherever it is repeated. It takes time linear in the text, some ten microseconds for an
    ordinary message, and neither logs nor raises.
    """
    hits = _hits(text)
    return _replaced(text, hits + _repeats(text, _announced([(text, hits)]))) if hits else Redacted(text)


def redact_conversation(conversation: Conversation) -> Conversation:
    """Return a conversation without the secrets in its messages; the same one if there are none.

    What one message announces as a secret goes from the others too. See `redact`.
    """
    found = [(message.content, _hits(message.content)) for message in conversation.messages]
    if not any(hits for _, hits in found):
        return conversation
    announced = _announced(found)
    messages = tuple(
        _with_content(message, _replaced(text, hits + _repeats(text, announced)))
        for message, (text, hits) in zip(conversation.messages, found, strict=True)
    )
    return attrs.evolve(conversation, messages=messages)


def _with_content(message: Message, redacted: Redacted) -> Message:
    return attrs.evolve(message, content=redacted.text) if redacted.findings else message


def _hits(text: str) -> list[_Hit]:
    lowered = text.lower()
    longest = max(map(len, text.split()), default=0)
    hits: list[_Hit] = []
    for rank, rule in enumerate(_RULES):
        if longest < rule.word:
            continue
        where = lowered if rule.folded else text
        for hint in rule.hints:  # a plain loop: this is what every message pays for
            if hint in where:
                hits += (_Hit(start, end, rank) for start, end in rule.find(text))
                break
    return hits


def _announced(found: Iterable[tuple[str, list[_Hit]]]) -> dict[str, int]:
    """Return the secrets, with their rules, that would not be known if they stood elsewhere."""
    phrases = (
        (text[hit.start : hit.end], hit.rank) for text, hits in found for hit in hits if hit.rank >= _FIRST_PHRASE
    )
    telling = ((secret, rank) for secret, rank in phrases if _REPEATABLE.match(secret))
    return dict(itertools.islice(telling, _MOST_REPEATED))


def _repeats(text: str, secrets: Mapping[str, int]) -> list[_Hit]:
    return [
        _Hit(match.start(), match.end(), rank)
        for secret, rank in secrets.items()
        for match in re.finditer(re.escape(secret), text)
    ]


def _replaced(text: str, hits: list[_Hit]) -> Redacted:
    parts: list[str] = []
    findings: list[Finding] = []
    length = at = 0
    for hit in _merged(sorted(hits, key=lambda hit: (hit.start, hit.rank))):
        before, stand_in = text[at : hit.start], placeholder(_RULES[hit.rank].kind)
        start = length + len(before)
        findings.append(Finding(kind=_RULES[hit.rank].kind, start=start, end=start + len(stand_in)))
        parts += (before, stand_in)
        length, at = start + len(stand_in), hit.end
    return Redacted("".join((*parts, text[at:])), tuple(findings))


def _merged(hits: list[_Hit]) -> list[_Hit]:
    """Unite hits that overlap, so that no part of a secret is left; the first rule's kind stays."""
    merged: list[_Hit] = []
    for hit in hits:
        if merged and hit.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = _Hit(last.start, max(last.end, hit.end), min(last.rank, hit.rank))
        else:
            merged.append(hit)
    return merged
