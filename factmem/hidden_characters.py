"""Characters that people do not see, and models and terminals do; and escaping that makes them visible."""

from __future__ import annotations

import html
import re
from typing import Final

CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")
"""Control characters, except tabs and line ends. Terminals obey some of them."""
HIDDEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    "|[\u200c\u200d\ufe0e\ufe0f]{4,}"
)
"""Invisible characters, characters that change the writing direction, and odd line ends.

The joiners and variation selectors of emoji and some scripts are not among them, unless many stand together.
"""


_HARMLESS: Final = re.compile("[ !#-%'-;=?-~]*")
"""A text with nothing to escape, as most are."""


def visible(text: str) -> str:
    """Return a text with its hidden characters as references such as ``&#8203;``, which can be seen and read back."""
    return text if text.isascii() else HIDDEN.sub(_coded, text)


def escaped(text: str) -> str:
    """Return a text for an attribute in double quotes or an element: it can neither close nor open anything, nor hide.

    No angle bracket, ampersand or double quote is left. Control characters become spaces, and hidden ones are
    `visible`.
    """
    return text if _HARMLESS.fullmatch(text) else _shown(html.escape(text, quote=False).replace('"', "&quot;"))


def escaped_words(text: str) -> str:
    """Return a text for the inside of an element. Quotes stay as they are, so that quoted words look the same."""
    return text if _HARMLESS.fullmatch(text) else _shown(html.escape(text, quote=False))


def _shown(text: str) -> str:
    return visible(CONTROL.sub(" ", text)).replace("\r", "&#13;")


def _coded(found: re.Match[str]) -> str:
    return "".join(f"&#{ord(char)};" for char in found[0])
