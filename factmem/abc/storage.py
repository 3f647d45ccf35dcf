"""The seam below the file providers: framed logs, one a place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import attrs

__all__ = ["Frame", "LogName", "Storage"]

LogName: TypeAlias = tuple[str, ...]
"""The name of a log: path segments of any text; the storage makes legal file names of them."""


@attrs.frozen
class Frame:
    """One payload of a log.

    Attributes:
        payload: the bytes, as they were appended; they hold no line break.
        end: the offset just behind the frame, from where a later scan goes on.
    """

    payload: bytes
    end: int


class Storage(Protocol):
    """Append, scan and replace of framed logs. Synchronous: it is called from worker threads only.

    A frame is whole or not there. What a kill or a power cut left of an unfinished append at the end of
    a log is dropped by the next append; damage anywhere else is `CorruptStoreError`. The name of a
    log is the context that a ciphering storage binds its frames to.
    """

    def append(self, log: LogName, payloads: Sequence[bytes]) -> int:
        """Append frames durably, all or nothing, creating the log if need be; return the log's new end.

        Must be called while holding `lock`.

        Raises:
            StoreUnavailableError: it could not be written; the log is as it was.
        """
        ...

    def scan(self, log: LogName, offset: int = 0) -> Sequence[Frame]:
        """Return the whole frames from an offset on; none if there is no such log.

        Raises:
            CorruptStoreError: a frame is damaged, or the log is shorter than the offset.
        """
        ...

    def replace(self, log: LogName, payloads: Sequence[bytes]) -> None:
        """Replace a log's frames atomically and durably; no payloads removes the log."""
        ...

    def logs(self, prefix: LogName = ()) -> Sequence[LogName]:
        """Return the names of the logs below a prefix."""
        ...
