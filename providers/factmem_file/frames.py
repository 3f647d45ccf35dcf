r"""The frames of a log: lines of ``<crc32 hex> <JSON>\n``, and what a damaged one means.

One append is one frame, written with its line feed last and flushed before the next one begins. So only
the last frame can be unacknowledged, and of it:

- *no line feed at the end*: the write was cut short; it was never acknowledged and is passed over.
  Only when all but the very last byte is a sound frame was it the line feed itself that changed: damage.
- *a line feed, a wrong checksum and NULs where a disk block begins*: a power cut that wrote the blocks out
  of order. JSON holds no NUL and one flipped bit makes no row of them, so that it passes for cut short.
- *a line feed and a wrong checksum otherwise*: an acknowledged frame was changed: damage.

A frame before the last one that is not sound is always damage.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

import attrs

__all__ = ["CRC_LENGTH", "DamagedFrameError", "Parsed", "framed", "parse"]

CRC_LENGTH: Final = 8
"""Number of hex digits at the beginning of a frame."""

_UNWRITTEN: Final = re.compile(rb"\A\0|\0{512}")


class DamagedFrameError(ValueError):
    """Raised when bytes are no sequence of frames.

    Attributes:
        start: the offset of the bad frame in the data.
    """

    def __init__(self, start: int) -> None:
        super().__init__(f"no sound frame at {start}")
        self.start = start


@attrs.frozen(kw_only=True)
class Parsed:
    """Whole frames.

    Attributes:
        payloads: of the frames, in order.
        start: the offset of the last frame; 0 if there is none.
        end: the offset behind it; what follows was never acknowledged.
    """

    payloads: tuple[bytes, ...]
    start: int
    end: int


def framed(payload: bytes) -> bytes:
    """Return the frame of a payload, which holds no line feed."""
    return b"%08x %b\n" % (zlib.crc32(payload), payload)


def parse(data: bytes, *, limit: int | None = None) -> Parsed:
    """Read frames up to a number of them, to the end or to what was never acknowledged.

    Raises:
        DamagedFrameError: an acknowledged frame was changed.
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
