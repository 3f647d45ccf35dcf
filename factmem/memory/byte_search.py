"""Search of files for many pieces at once, and the encodings that a text or a vector may have in them. Pure."""

from __future__ import annotations

import base64
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "SHORTEST",
    "Scanner",
    "base64_forms",
    "folded",
    "index_pieces",
    "pieces",
    "tells",
    "text_forms",
    "vector_pieces",
]

T = TypeVar("T")

SHORTEST: Final = 6
"""Minimum length in bytes: shorter pieces occur by chance in files of the size of stores."""

_SHORTEST_NUMBER: Final = 10
_SHORTEST_HEX: Final = 12
_PIECE: Final = 32
_VECTOR_PIECE: Final = 32
_VECTOR_PIECES: Final = 8
_CHUNK: Final = 16 * 2**20
_KEY_MASK: Final = 2 ** (8 * SHORTEST) - 1
_SPREAD: Final = 0x9E3779B97F4A7C15
_WORD: Final = re.compile(r"\w+")
_NUMBER: Final = re.compile(r"[\d\s.,:+-]*")
_HEX: Final = re.compile(r"[0-9a-fA-F]*")
_ESCAPE: Final = re.compile(r"\\u[0-9a-f]{4}")


def tells(text: str) -> bool:
    """Whether a text is long enough not to occur by chance among numbers, times and ids."""
    text = text.strip()
    written = text.encode(errors="replace")
    if len(written) < SHORTEST or len(set(written)) < 3:
        return False
    if _NUMBER.fullmatch(text):
        return len(text) >= _SHORTEST_NUMBER
    return len(text) >= _SHORTEST_HEX or not _HEX.fullmatch(text)


def folded(text: str) -> str:
    """Return a text as a full-text index stores its words: lowercase, without accents."""
    apart = unicodedata.normalize("NFD", text.lower())
    return "".join(char for char in apart if not unicodedata.combining(char))


def pieces(text: str) -> Iterator[str]:
    """Split a text into significant pieces: a file may hold a part of it, or split it between two pages."""
    whole = unicodedata.normalize("NFC", text.strip())
    starts = range(0, max(1, len(whole) - _PIECE // 2), _PIECE)
    for start in starts:
        end = len(whole) if start == starts[-1] else start + _PIECE
        if tells(whole[start:end]):
            yield whole[start:end]


def index_pieces(text: str) -> Iterator[str]:
    """Split a text into word suffixes, as a full-text index with prefix compression stores them."""
    for word in _WORD.findall(folded(text)):
        end = word[len(word) // 3 :]
        if len(word) >= 9 and tells(end):
            yield end


def text_forms(text: str) -> set[bytes]:
    """Return the bytes that a text may have in a file: composed or not, escaped or not, in UTF-8, UTF-16 or base64."""
    forms: set[bytes] = set()
    for same in {text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)}:
        escaped = json.dumps(same)[1:-1]
        upper = _ESCAPE.sub(lambda found: r"\u" + found[0][2:].upper(), escaped)
        written = {same, escaped, upper, json.dumps(same, ensure_ascii=False)[1:-1]}
        forms |= {form.encode(errors="replace") for form in written}
        forms |= {same.encode(encoding, errors="replace") for encoding in ("utf-16-le", "utf-16-be")}
        forms |= base64_forms(same.encode(errors="replace"))
    return {form for form in forms if len(form) >= SHORTEST}


def base64_forms(data: bytes) -> set[bytes]:
    """Return the base64 forms of data inside of a longer base64 text, at each of the three alignments."""
    bodies = (data[skip : skip + (len(data) - skip) // 3 * 3] for skip in range(3))
    return {base64.b64encode(body) for body in bodies if len(body) >= SHORTEST}


def vector_pieces(row: bytes) -> Iterator[bytes]:
    """Return significant pieces of the float32 numbers of a vector, spread over its length."""
    starts = range(0, max(1, len(row) - _VECTOR_PIECE + 1), _VECTOR_PIECE)
    telling = [
        row[start : start + _VECTOR_PIECE] for start in starts if _is_telling(row[start : start + _VECTOR_PIECE])
    ]
    yield from telling[:: max(1, len(telling) // _VECTOR_PIECES)]


def _is_telling(piece: bytes) -> bool:
    numbers = {piece[at : at + 4] for at in range(0, len(piece), 4)}
    return len(numbers) >= 3 and len(piece) >= SHORTEST


class Scanner(Generic[T]):
    """Finds any number of pieces of bytes in one pass.

    Args:
        needles: Meaning of each piece; pieces shorter than `SHORTEST` are skipped.
    """

    def __init__(self, needles: Mapping[bytes, T]) -> None:
        import numpy as np

        self._by_key: dict[int, list[tuple[int, bytes, T]]] = {}
        for needle, meaning in needles.items():
            if len(needle) >= SHORTEST:
                at = _most_telling(needle)
                key = int.from_bytes(needle[at : at + SHORTEST], "little")
                self._by_key.setdefault(key, []).append((at, needle, meaning))
        self._longest = max(map(len, needles), default=0)
        self._keys = np.sort(np.fromiter(self._by_key, dtype=np.uint64, count=len(self._by_key)))
        bits = min(26, max(16, len(self._keys).bit_length() + 4))
        self._shift = np.uint64(64 - bits)
        self._maybe = np.zeros(2**bits, dtype=np.bool_)
        self._maybe[self._places(self._keys)] = True

    def _places(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        import numpy as np

        places: NDArray[np.uint64] = (values * np.uint64(_SPREAD)) >> self._shift
        return places

    def matches(self, data: bytes) -> Iterator[tuple[int, int, T]]:
        """Yield start, end and meaning of each piece found, in no particular order."""
        import numpy as np

        if not self._by_key:
            return
        padded = data + bytes(8)
        for shift in range(8):
            values = np.frombuffer(padded, "<u8", (len(padded) - shift) // 8, shift) & np.uint64(_KEY_MASK)
            rows = np.flatnonzero(self._maybe[self._places(values)])
            rows = rows[np.isin(values[rows], self._keys)]
            for row, key in zip(rows.tolist(), values[rows].tolist(), strict=True):
                for at, needle, meaning in self._by_key[key]:
                    start = 8 * row + shift - at
                    if start >= 0 and data.startswith(needle, start):
                        yield start, start + len(needle), meaning

    def search(self, file: Path) -> Iterator[T]:
        """Yield the meaning of each piece found in a file, once per occurrence.

        Raises:
            OSError: The file cannot be read.
        """
        with file.open("rb") as stream:
            before = b""
            while chunk := stream.read(_CHUNK):
                data = before + chunk
                yield from (meaning for _, end, meaning in self.matches(data) if end > len(before))
                before = data[max(0, len(data) - self._longest + 1) :]

    def found(self, data: bytes) -> set[T]:
        """Return the meanings of the pieces found in some data."""
        return {meaning for _, _, meaning in self.matches(data)}


def _most_telling(needle: bytes) -> int:
    """Return the offset in a piece to compare first: one without NULs, which are frequent in files."""
    best, most = 0, 0
    for start in range(0, len(needle) - SHORTEST + 1, 2):
        distinct = len(set(needle[start : start + SHORTEST]))
        if distinct >= SHORTEST - 1:
            return start
        if distinct > most:
            best, most = start, distinct
    return best
