"""Flags of texts that read like instructions or hide something.

A flag is a warning. Its absence promises nothing.
"""

from __future__ import annotations

import base64
import contextlib
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

import attrs

from factmem.hidden_characters import HIDDEN
from factmem.patterns import LinearPattern, any_of, lazy_pattern
from factmem.toml_tables import filled, table


@attrs.frozen
class FlagRule:
    """A wording that gives a text a flag.

    Attributes:
        flag: the flag.
        hints: pattern of the texts of which one must occur for the other pattern to be tried; made of these texts.
        pattern: the wording, in lower case.
    """

    flag: str
    hints: LinearPattern = attrs.field(converter=any_of)
    pattern: re.Pattern[str]


_DATA: Final = table("detection/flags")
RULES: Final = tuple(
    FlagRule(rule["flag"], rule["hints"], lazy_pattern(filled("|".join(rule["patterns"]), _DATA["parts"])))
    for rule in _DATA["rules"]
)
_HINTS: Final = LinearPattern("|".join(rule.hints.pattern for rule in RULES))
_SUSPICIOUS: Final = LinearPattern(rf"{_HINTS.pattern}|[a-z0-9+/]{{32}}|\s\s|[^\n -~]")
"""Hints of all rules, parts of encoded texts, white space to fold, and what is not printable ASCII."""

HIDES: Final = "hidden characters"
"""Flag of a text with characters that models read or terminals obey, and people do not see."""
ENCODED: Final = "encoded text"
"""Flag of a text that holds another one in base64 or hexadecimal digits."""
DISGUISED: Final = "disguised letters"
"""Flag of a text with words of look-alike letters from several scripts."""

_SMUGGLED: Final = lazy_pattern(_DATA["smuggled"])
_BLOB: Final = lazy_pattern(r"(?<![\w+/=])(?:[A-Za-z0-9+/]{4}){8,}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?(?![\w+/])")
_DIGITS: Final = lazy_pattern(r"(?<!\w)(?:[0-9a-fA-F]{2}){20,}(?!\w)")
_MIXED: Final = lazy_pattern(_DATA["mixed"])
_SPACES: Final = lazy_pattern(r"[ \t]{2,}")
_LONG_WORD: Final = LinearPattern("[A-Za-z0-9+/]{32}")
"""Part of every encoded text."""
_DEEPEST: Final = 2


def flags_in(*texts: str) -> tuple[str, ...]:
    """Return the flags of some texts, each once; none for ordinary texts.

    Two kinds of texts are flagged. The first gives orders to an assistant, in English and in the plainest wordings of
    some other languages: to override its instructions, to wait for a trigger, to send data away, to keep the user in
    the dark. The second hides something: invisible and control characters, encoded text, role markers, tool calls,
    images whose address carries data.

    It takes time linear in the text, some ten microseconds for an ordinary message, and neither logs nor raises. An
    author who knows the rules can avoid every flag: protection against planted words is the task of `factmem.Origin`,
    to which flags only add.
    """
    if not any(_SUSPICIOUS.occurs_in(text.lower()) for text in texts):
        return ()  # as nearly always
    return tuple(dict.fromkeys(flag for text in dict.fromkeys(texts) for flag in _flags(text)))


def _flags(text: str, depth: int = 0) -> Iterator[str]:
    plain = text.lower()
    if not text.isascii():
        if _MIXED.search(plain):
            yield DISGUISED
        plain = unicodedata.normalize("NFKC", HIDDEN.sub("", text)).lower()
    if _SMUGGLED.search(text):
        yield HIDES
    if "  " in plain or "\t" in plain or "\r" in plain:
        plain = _SPACES.sub(" ", plain.replace("\r\n", "\n").replace("\r", "\n"))
    if _HINTS.occurs_in(plain):
        for rule in RULES:
            if rule.hints.occurs_in(plain) and rule.pattern.search(plain):
                yield rule.flag
    if _LONG_WORD.occurs_in(text):
        for inner in _decoded(text):
            yield ENCODED
            if depth < _DEEPEST:
                yield from _flags(inner, depth + 1)


def _decoded(text: str) -> Iterator[str]:
    """Yield the texts that are encoded in a text. Encoded data that is not text, such as an image, is left out."""
    for pattern, decoded in ((_BLOB, base64.b64decode), (_DIGITS, bytes.fromhex)):
        for found in pattern.finditer(text):
            with contextlib.suppress(ValueError):
                words = decoded(found[0]).decode()
                if " " in words.strip() and words.replace("\n", " ").isprintable():
                    yield words
