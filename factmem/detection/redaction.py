"""Redaction of secrets, before anything is sent, journalled or stored.

The rules that find them are data, in ``secrets.toml``. Some know secrets by their own form: issued tokens, key blocks,
URLs, card and account numbers. Others know them by their surroundings: ``password: …``, ``my PIN is …``,
``Authorization: Bearer …``. There, a value is redacted if it is quoted or looks like a secret, also on the line below.
After "password is" a plain word is redacted too that ends the clause and is not among the words that people say about
passwords, and so are words that make no sentence, as a passphrase does. Right behind "password", a word of letters and
digits is redacted.

A rule has hints, of which one must occur before its pattern is tried: ordinary prose has none, and costs one search
for all of them. Every pattern is linear: an unbounded run is either possessive and last, or cannot start inside another
run.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from factmem.abc.detector import Conversation
from factmem.details import Origin
from factmem.detection.off_the_record import unsaved_in
from factmem.languages import Span, content_words, folded, language_of
from factmem.patterns import LinearPattern, any_of, lazy_pattern
from factmem.toml_tables import filled, table

OFF_THE_RECORD: Final = "off the record"
"""Kind of the words that a user asks not to keep."""
_SHORTEST_TOKEN: Final = 16

_SEED_WORDS: Final = 12
"""Smallest number of words of a wallet's recovery phrase."""


@attrs.frozen(kw_only=True)
class SecretRule:
    """A rule that finds one kind of secret.

    Attributes:
        kind: the kind, shown in the placeholder.
        hints: pattern of the texts of which one must occur for the rule to be tried; made of these texts.
        pattern: pattern of the secret, or of the beginning of a block.
        end: pattern of the end of a block; None for other secrets.
        check: a further condition on a secret and the text behind it, if any; None stands for what is behind a quoted
            value.
        announced: whether only its surroundings reveal it. The hints are then looked for in the lower-cased text.
        long: whether it is in a word of at least 16 characters; the rule is skipped in texts of shorter words.
    """

    kind: str
    hints: LinearPattern = attrs.field(converter=any_of)
    pattern: re.Pattern[str]
    end: re.Pattern[str] | None
    check: Callable[[str, str | None], bool] | None
    announced: bool
    long: bool

    def find(self, text: str) -> Iterator[Span]:
        """Yield the spans of such secrets in a text."""
        if self.end is not None:
            yield from _blocks(text, self.pattern, self.end)
            return
        for match in self.pattern.finditer(text):
            group = match.lastgroup if match.lastgroup in _GROUPS else 0
            start, end = match.span(group)
            value, is_bare = match[group], group == "bare"
            if group in _VALUES and _PLACEHOLDER.match(value):
                continue
            if self.check is None or self.check(value, text[end : end + 8] if is_bare else None):
                yield start, end - (is_bare and value[-1] in ".,;:")


_VALUES: Final = ("quoted", "bare")
_GROUPS: Final = ("secret", *_VALUES)
_PLACEHOLDER: Final = lazy_pattern(table("detection/secrets")["placeholder"], re.IGNORECASE)
_CUT_BODY: Final = lazy_pattern(r"(?:\s++|\\[nr]|[A-Za-z0-9+/=]{16,}+|(?:Proc-Type|DEK-Info|Version|Comment):[^\n]*+)*")


def _blocks(text: str, begin: re.Pattern[str], end: re.Pattern[str]) -> Iterator[Span]:
    at = 0
    while opened := begin.search(text, at):
        closed = end.search(text, opened.end())
        if closed is None:  # no later block is closed either: what looks like a body goes with each
            yield from ((cut.start(), _cut_end(text, cut.end())) for cut in begin.finditer(text, opened.start()))
            return
        yield opened.start(), closed.end()
        at = closed.end()


def _cut_end(text: str, start: int) -> int:
    body = _CUT_BODY.match(text, start)
    return body.end() if body and body[0].strip() else start


def _is_card_number(value: str, rest: str | None) -> bool:
    """Return whether digits are a payment card's, by the issuer's prefix, the length and the Luhn sum."""
    number = value.replace(" ", "").replace("-", "")
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in number[-2::-2])
    summed = doubled + sum(int(digit) for digit in number[-1::-2])
    return re.fullmatch(table("detection/secrets")["card"], number) is not None and summed % 10 == 0


def _is_iban(value: str, rest: str | None) -> bool:
    """Return whether a text is an international bank account number, by its length and check sum (ISO 13616)."""
    number = value.replace(" ", "")
    digits = "".join(str(int(char, 36)) for char in number[4:] + number[:4])
    return 15 <= len(number) <= 34 and int(digits) % 97 == 1


def _has_digit(value: str, rest: str | None) -> bool:
    return any(map(str.isdigit, value))


def _looks_secret(value: str, rest: str | None) -> bool:
    letters = any(map(str.isalpha, value))
    if _has_digit(value, rest):
        word = value.strip(".,;:!?").lower().replace("-", "")
        return value.isdigit() or (letters and word not in table("detection/secrets")["said_beside_passwords"].split())
    return letters and any(char in "!@#$%^&*+=~?" for char in value[:-1])


def _is_mixed(value: str, rest: str | None) -> bool:
    """Return whether a word has a letter and a digit, and is not one that people say beside the word "password"."""
    return _looks_secret(value, rest) and _has_digit(value, rest) and any(map(str.isalpha, value))


def _is_passphrase(value: str, rest: str | None) -> bool:
    """Return whether words make no sentence: in lower case, and none is an everyday word or one said of passwords.

    Of twelve and more, as wallets give them out, a quarter may be.
    """
    text = folded(value.replace("-", " "))
    words, language = text.split(), language_of(text)
    others = len(words) - sum(not _is_said(word) for word in content_words(text, language))
    return value.islower() and others <= (len(words) // 4 if len(words) >= _SEED_WORDS else 0)


@functools.cache
def _said() -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the words that people say of passwords, and the beginnings of such words, folded."""
    words = [folded(word) for said in table("detection/secrets")["said_of_passwords"].values() for word in said.split()]
    return frozenset(words), tuple(word[:-1] for word in words if word.endswith("-"))


def _is_said(word: str) -> bool:
    words, beginnings = _said()
    return folded(word) in words or folded(word).startswith(beginnings)


def _looks_issued(value: str, rest: str | None) -> bool:
    return len(value) >= 8 and _has_digit(value, rest) and not re.search(r"\s", value)


def _is_password(value: str, rest: str | None) -> bool:
    """Return whether a value is quoted, looks like a secret, or is a word that ends the clause and tells nothing."""
    if rest is None or _looks_secret(value, rest):
        return True
    word = value.rstrip(".!?:")
    ends_clause = value[-1] in ".!?" or rest.lstrip(" \t")[:1] in ("", "\n", ",", ";", ")")
    return ends_clause and len(word) >= 4 and word.isalpha() and not _is_said(word)


_CHECKS: Final[Mapping[str, Callable[[str, str | None], bool]]] = {
    "has_digit": _has_digit,
    "card": _is_card_number,
    "iban": _is_iban,
    "issued": _looks_issued,
    "mixed": _is_mixed,
    "password": _is_password,
    "secret": _looks_secret,
    "words": _is_passphrase,
}


def _rules() -> Iterator[SecretRule]:
    data = table("detection/secrets")
    parts = data["parts"]
    hints: Sequence[str] = ()
    for rule in data["rules"]:
        hints = rule.get("hints", hints)
        announced, token = "announced" in rule, rule.get("token", "").replace("~", "[A-Za-z0-9_-]")
        pattern = rf"(?<![A-Za-z0-9])(?:{token})" if token else filled(rule.get("pattern") or rule["begin"], parts)
        yield SecretRule(
            kind=rule["kind"],
            hints=hints,
            pattern=lazy_pattern(pattern, re.IGNORECASE if announced else re.ASCII if token else 0),
            end=lazy_pattern(rule["end"]) if "end" in rule else None,
            check=_CHECKS[rule["check"]] if "check" in rule else None,
            announced=announced,
            long=bool(token),
        )


RULES: Final[tuple[SecretRule, ...]] = tuple(_rules())
"""The rules in the order in which they are tried."""
_HINTS: Final = LinearPattern("|".join(rule.hints.pattern for rule in RULES if not rule.announced))
_FOLDED_HINTS: Final = LinearPattern("|".join(rule.hints.pattern for rule in RULES if rule.announced))
"""Hints of all rules; ordinary prose holds none."""
_KINDS: Final = (*(rule.kind for rule in RULES), OFF_THE_RECORD)
"""Kinds of what is redacted, by the ranks of hits."""
_REPEATABLE: Final = lazy_pattern(r"(?=\S*\d)(?=\S*[^\W\d])\S{6,}$")
"""A word with a letter and a digit, which nobody repeats by chance."""
_MOST_REPEATED: Final = 50
_PLACEHOLDERS: Final = lazy_pattern(r"\[redacted: [a-z ]{1,40}\]")


@attrs.frozen(kw_only=True)
class RedactedSecret:
    """A secret that was found, without its text.

    Attributes:
        kind: its kind: ``password``, ``aws key``, ….
        start: offset of its placeholder in the redacted text, in characters.
        end: offset of the placeholder's end.
    """

    kind: str
    start: int
    end: int


@attrs.frozen
class Redacted:
    """A text without its secrets.

    Attributes:
        text: the text, with a placeholder for each secret: ``[redacted: aws key]``.
        findings: the secrets, in the order of the text.
    """

    text: str = attrs.field(repr=False)
    findings: tuple[RedactedSecret, ...] = ()


@attrs.frozen
class _Hit:
    start: int
    end: int
    rank: int


def without_placeholders(text: str) -> str:
    """Return a redacted text without its placeholders."""
    return _PLACEHOLDERS.sub(" ", text)


def redact(text: str, origin: Origin | None = None) -> Redacted:
    """Replace the secrets in a text by placeholders with their kinds.

    Known secrets are issued tokens by their form, whole private key blocks, passwords in URLs, card and account numbers
    by their check sums, US social security numbers, and values announced by phrases like "password is". An announced
    value is redacted wherever it is repeated. It takes time linear in the text, some ten microseconds for an ordinary
    message, and neither logs nor raises.

    Args:
        text: the text.
        origin: its origin; what the user asks to keep off the record is redacted as well, see `redact_conversation`.

    Example:
        >>> redact("my password is hunter2!").text
        'my password is [redacted: password]'
    """
    hits = _hits(text, origin)
    return _replaced(text, hits + _repeats(text, _announced([(text, hits)]))) if hits else Redacted(text)


def redact_conversation(conversation: Conversation) -> Conversation:
    """Return a conversation without the secrets in its messages; the same object if there are none.

    A secret that one message announces is redacted in the others too. See `redact`. What the user asks to keep off the
    record is redacted like a secret; see `factmem.detection.off_the_record.unsaved_in`.
    """
    found = [(message.content, _hits(message.content, message.origin)) for message in conversation.messages]
    if not any(hits for _, hits in found):
        return conversation
    announced = _announced(found)
    redacted = [_replaced(text, hits + _repeats(text, announced)) for text, hits in found]
    pairs = zip(conversation.messages, redacted, strict=True)
    messages = tuple(attrs.evolve(message, content=of.text) if of.findings else message for message, of in pairs)
    return attrs.evolve(conversation, messages=messages)


def _hits(text: str, origin: Origin | None) -> list[_Hit]:
    lowered = text.lower()
    unsaved = unsaved_in(text) if origin is Origin.USER else ()
    hits = [_Hit(start, end, len(RULES)) for start, end in unsaved]
    if not (_HINTS.occurs_in(text) or _FOLDED_HINTS.occurs_in(lowered)):
        return hits
    longest = max(map(len, text.split()), default=0)
    return hits + [
        _Hit(start, end, rank)
        for rank, rule in enumerate(RULES)
        if (longest >= _SHORTEST_TOKEN or not rule.long) and rule.hints.occurs_in(lowered if rule.announced else text)
        for start, end in rule.find(text)
    ]


def _announced(found: Iterable[tuple[str, list[_Hit]]]) -> dict[str, int]:
    """Return the secrets that only their surroundings reveal, with their rules: repetitions must be searched for."""
    secrets = ((text[it.start : it.end], it.rank) for text, hits in found for it in hits if it.rank < len(RULES))
    announced = ((secret, rank) for secret, rank in secrets if RULES[rank].announced)
    telling = ((secret, rank) for secret, rank in announced if _REPEATABLE.match(secret))
    return dict(itertools.islice(telling, _MOST_REPEATED))


def _repeats(text: str, secrets: Mapping[str, int]) -> list[_Hit]:
    return [
        _Hit(match.start(), match.end(), rank)
        for secret, rank in secrets.items()
        for match in re.finditer(re.escape(secret), text)
    ]


def _replaced(text: str, hits: list[_Hit]) -> Redacted:
    parts: list[str] = []
    findings: list[RedactedSecret] = []
    length = at = 0
    for hit in _merged(sorted(hits, key=lambda hit: (hit.start, hit.rank))):
        kind, start = _KINDS[hit.rank], length + hit.start - at
        placeholder = f"[redacted: {kind}]"
        parts += (text[at : hit.start], placeholder)
        length, at = start + len(placeholder), hit.end
        findings.append(RedactedSecret(kind=kind, start=start, end=length))
    return Redacted("".join((*parts, text[at:])), tuple(findings))


def _merged(hits: list[_Hit]) -> list[_Hit]:
    """Unite overlapping hits, so that no part of a secret is left. The first rule gives the kind."""
    merged: list[_Hit] = []
    for hit in hits:
        if merged and hit.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = _Hit(last.start, max(last.end, hit.end), min(last.rank, hit.rank))
        else:
            merged.append(hit)
    return merged
