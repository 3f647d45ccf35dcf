"""Flagging texts that read like instructions or hide something. A flag is a warning, and its absence no promise."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from factmem.detection.flag_rules import RULES
from factmem.hidden import HIDDEN

__all__ = ["DISGUISED", "ENCODED", "HIDES", "flags_in"]

HIDES: Final = "hidden characters"
"""The flag of a text with characters that people do not see and models read, or that a terminal obeys."""
ENCODED: Final = "encoded text"
"""The flag of a text that holds another one in base64 or hexadecimal digits."""
DISGUISED: Final = "disguised letters"
"""The flag of a text with words of letters that look alike from several scripts."""

_SMUGGLED: Final = re.compile(
    "[\u202d\u202e]|[\u200b-\u200d\u2060-\u2064\ufeff]{4}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3}"
    "|\U000e0001|(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0020-\U000e007f]"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]"
)
_BLOB: Final = re.compile(r"(?<![\w+/=])(?:[A-Za-z0-9+/]{4}){8,}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?(?![\w+/])")
_DIGITS: Final = re.compile(r"(?<!\w)(?:[0-9a-fA-F]{2}){20,}(?!\w)")
_MIXED: Final = re.compile("[a-z][\u0430-\u044f\u0451-\u045f\u03b1-\u03c9]+[a-z]|[\u0430-\u044f][a-z]+[\u0430-\u044f]")
_SPACES: Final = re.compile(r"[ \t]{2,}|\r\n?")
_LONGEST_WORD: Final = 32
_DEEPEST: Final = 2


def flags_in(*texts: str) -> tuple[str, ...]:
    """Return the flags of some texts, each once; none for what looks like anything people say.

    It looks for wordings in English, and for the plainest in some other languages, in which text gives orders to
    an assistant (instructions to override or to wait for a trigger, data to send away, a user to keep in the dark),
    and for ways to hide such: invisible and control characters, encoded text, role markers, calls of tools, images
    whose address carries data. It takes time linear in the text, some ten microseconds for an ordinary message, and
    neither logs nor raises. Whoever knows the rules can word an order so that it has no flag: what keeps planted
    words out is `factmem.Origin`, and a flag only adds to that.
    """
    return tuple(dict.fromkeys(flag for text in dict.fromkeys(texts) for flag in _flags(text)))


def _flags(text: str, depth: int = 0) -> Iterator[str]:
    lowered, ascii_only = text.lower(), text.isascii()
    if not ascii_only:
        if _MIXED.search(lowered):
            yield DISGUISED
        lowered = unicodedata.normalize("NFKC", HIDDEN.sub("", text)).lower()
    if not (ascii_only and text.isprintable()) and _SMUGGLED.search(text):
        yield HIDES
    plain = _SPACES.sub(_one, lowered)
    for rule in RULES:
        for hint in rule.hints:  # a plain loop: this is what every text pays for
            if hint in plain:
                if rule.pattern.search(plain):
                    yield rule.flag
                break
    if max(map(len, text.split()), default=0) >= _LONGEST_WORD:
        for inner in _decoded(text):
            yield ENCODED
            if depth < _DEEPEST:
                yield from _flags(inner, depth + 1)


def _one(spaces: re.Match[str]) -> str:
    return "\n" if spaces[0][0] == "\r" else " "


def _decoded(text: str) -> Iterable[str]:
    """Return the texts that are encoded in a text; what is encoded and no text, such as an image, is none."""
    blobs = (_from_base64(found[0]) for found in _BLOB.finditer(text))
    digits = (bytes.fromhex(found[0]) for found in _DIGITS.finditer(text))
    return [words for data in (*blobs, *digits) if (words := _words(data)) is not None]


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""


def _words(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if " " in text.strip() and text.replace("\n", " ").isprintable() else None
