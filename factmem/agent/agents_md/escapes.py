"""Any text as one line of Markdown that opens nothing and closes nothing, and back."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from factmem.hidden import visible

__all__ = ["one_line", "original"]

_LOOKS_ESCAPED: Final = re.compile(r"&(?=(?:amp|lt|gt|#\d{1,7});)")
_ESCAPED: Final = re.compile(r"&(?:(?P<name>amp|lt|gt)|#(?P<code>\d{1,7}));|<br\s*/?>")
_NAMES: Final = {"amp": "&", "lt": "<", "gt": ">"}
_OPENS_BLOCK: Final = ("```", "~~~", "**")
_SEPARATORS: Final = frozenset("\u2028\u2029")
_SURROGATES: Final = range(0xD800, 0xE000)


def one_line(text: str) -> str:
    """Return a text as one line: no line end, comment, tag, fence or hidden character is left in it.

    Plain text stays as it was. `original` gives the text back.
    """
    text = _LOOKS_ESCAPED.sub("&amp;", text).replace("<", "&lt;").replace("-->", "--&gt;").replace("\n", "<br>")
    text = visible("".join(_coded(char) if _breaks(char) else char for char in text))
    if text[:1].isspace() or text.startswith(_OPENS_BLOCK):
        text = _coded(text[0]) + text[1:]
    return text[:-1] + _coded(text[-1]) if text[-1:].isspace() else text


def original(line: str) -> str:
    """Return the text that a line stands for; what is no escape stays as it is."""
    return _ESCAPED.sub(_decoded, line)


def _decoded(found: re.Match[str]) -> str:
    if name := found["name"]:
        return _NAMES[name]
    if code := found["code"]:
        legal = int(code) < 0x110000 and int(code) not in _SURROGATES
        return chr(int(code)) if legal else found[0]
    return "\n"


def _coded(char: str) -> str:
    return f"&#{ord(char)};"


def _breaks(char: str) -> bool:
    return char in _SEPARATORS or unicodedata.category(char) == "Cc"
