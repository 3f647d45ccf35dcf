r"""Frames of a log: lines of ``<crc32 hex> <JSON>\n``, and the interpretation of a damaged one.

One append is one frame, written with its line feed last and flushed before the next one begins. So only the last frame
can be unacknowledged:

- *No line feed at the end*: the write was cut short; it was never acknowledged and is skipped. Only if all but the very
  last byte is a valid frame was the line feed itself changed: damage.
- *A line feed, a wrong checksum and two NULs in a row*: a power cut that left out sectors of the disk, or the later
  part of one. JSON holds no NUL and one flipped bit makes no row of them, so this counts as cut short.
- *A line feed and a wrong checksum otherwise*: an acknowledged frame was changed: damage.

An invalid frame before the last one is always damage.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

import attrs

__all__ = ["CRC_LENGTH", "DamagedFrameError", "Parsed", "framed", "parse"]

CRC_LENGTH: Final = 8
"""Number of hex digits at the beginning of a frame."""

_UNWRITTEN: Final = re.compile(rb"\A\0|\0\0")


class DamagedFrameError(ValueError):
    """Raised when bytes are not a sequence of frames.

    Attributes:
        start: Offset of the bad frame in the data.
    """

    def __init__(self, start: int) -> None:
        super().__init__(f"no sound frame at {start}")
        self.start = start


@attrs.frozen(kw_only=True)
class Parsed:
    """Whole frames.

    Attributes:
        payloads: Payloads of the frames, in order.
        start: Offset of the last frame; 0 if there is none.
        end: Offset behind it; the rest was never acknowledged.
    """

    payloads: tuple[bytes, ...]
    start: int
    end: int


def framed(payload: bytes) -> bytes:
    """Return the frame of a payload, which must not hold a line feed."""
    return b"%08x %b\n" % (zlib.crc32(payload), payload)


def parse(data: bytes, *, limit: int | None = None) -> Parsed:
    """Read frames up to a number of them, or to the first unacknowledged byte.

    Raises:
        DamagedFrameError: An acknowledged frame was changed.
    """
    *lines, tail = data.split(b"\n")
    payloads: list[bytes] = []
    start = end = 0
    for line in lines[:limit]:
        payload = _payload(line)
        if payload is None:
            if end + len(line) + 1 == len(data) and _UNWRITTEN.search(line):
                break
            raise DamagedFrameError(end)
        payloads.append(payload)
        start, end = end, end + len(line) + 1
    else:
        if len(payloads) != limit and tail and tail[-1] != 0 and _payload(tail[:-1]) is not None:
            raise DamagedFrameError(end)
    return Parsed(payloads=tuple(payloads), start=start, end=end)


def _payload(line: bytes) -> bytes | None:
    crc, space, payload = line[:CRC_LENGTH], line[CRC_LENGTH : CRC_LENGTH + 1], line[CRC_LENGTH + 1 :]
    return payload if space == b" " and crc == b"%08x" % zlib.crc32(payload) else None
