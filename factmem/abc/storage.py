"""The seam below the file providers: framed logs, one a place, and a few small notes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import attrs

__all__ = ["LogName", "Position", "Scan", "Storage"]


@attrs.frozen(kw_only=True)
class LogName:
    """What a log is called: names of any text, of which the storage makes legal file names.

    Attributes:
        folder: the path of folders it lies in; an empty segment is legal and differs from every other.
        name: one name or more inside the folder; a log and a folder of the same name never clash.
        kind: what it holds, ``[a-z]+``; logs that differ in kind alone lie side by side.
    """

    folder: tuple[str, ...]
    name: tuple[str, ...]
    kind: str


@attrs.frozen(kw_only=True)
class Position:
    """How far a log was read. The fields are the storage's own; a caller keeps it and hands it back.

    Attributes:
        generation: of which life of the log this is; `Storage.replace` begins another.
        start: the offset of the last frame read, in bytes.
        end: the offset behind it; 0 before anything was read.
        mark: tells the last frame read from another one at the same offset.
        stamp: what the file looked like if it ended here; equal stamps mean that nothing is new.
    """

    generation: str = ""
    start: int = 0
    end: int = 0
    mark: bytes = b""
    stamp: tuple[int, ...] | None = None


@attrs.frozen(kw_only=True)
class Scan:
    """What a scan found.

    Attributes:
        payloads: of the whole frames, in order.
        position: where a later scan goes on.
        fresh: True if these are all of the log and not only what is new; what was read before is void.
    """

    payloads: tuple[bytes, ...]
    position: Position
    fresh: bool


class Storage(Protocol):
    """Append, scan and replace of framed logs. Synchronous: it is called from worker threads only.

    A frame is whole or not there. What a kill or a power cut left of an unfinished append at the end of
    a log is passed over by readers and dropped by the next append; damage anywhere else is
    `CorruptStoreError`, and the log is not written while it lasts. A storage may keep what is appended
    out of sight until `seal`, so that several logs change at once. The name of a log is the
    context that a ciphering storage binds its frames to. A payload holds no line feed and no NUL.

    Several processes may use one storage: writers hold `lock`, readers need not. Every method but
    `close` raises `StoreUnavailableError` when the I/O fails. After a failed flush to the disk nobody
    knows what is on it, so that the instance refuses to write any more.
    """

    def exists(self) -> bool:
        """Return whether the storage was ever written to.

        Raises:
            NewerVersionError: a newer factmem wrote it.
            CorruptStoreError: what says which format it has is damaged.
            StoreUnavailableError: the place is taken by something else.
        """
        ...

    def lock(self, timeout: float) -> AbstractContextManager[None]:
        """Hold the storage against every other writer, of any process; create it if need be.

        Args:
            timeout: how long to wait for the others, in seconds.

        Raises:
            StoreUnavailableError: others held it all that time.
            NewerVersionError: see `exists`.
            CorruptStoreError: see `exists`.
        """
        ...

    def append(self, log: LogName, payload: bytes, after: Position, *, durable: bool = True) -> None:
        """Append one frame, all or nothing, creating the log if need be. Needs `lock`.

        Args:
            log: where.
            payload: what.
            after: the position that a scan under the same lock gave; what lies behind it is dropped.
            durable: return only when it would survive a power cut.

        Raises:
            StoreUnavailableError: it could not be written; the log is as it was.
            CorruptStoreError: the log is shorter than it was read.
        """
        ...

    def seal(self) -> None:
        """Let all that was appended under this lock count; without it, it may never. Needs `lock`.

        Raises:
            StoreUnavailableError: it could not be written; nothing of it counts, or nobody knows.
        """
        ...

    def settle(self, log: LogName, upto: Position) -> None:
        """Make what was read durable, in case that its writer died before it could. Needs `lock`."""
        ...

    def scan(self, log: LogName, since: Position | None = None, *, limit: int | None = None) -> Scan:
        """Return the whole frames behind a position; nothing if there is no such log.

        Args:
            log: which.
            since: where an earlier scan ended, or None for all.
            limit: how many frames at the most, counted from where this scan begins.

        A reader without the lock may see what is being written. It takes the lock and looks again
        before it believes in damage.

        Raises:
            CorruptStoreError: a frame is damaged, or the log is not the one of this name.
            NewerVersionError: a newer factmem wrote the log.
        """
        ...

    def last(self, log: LogName) -> bytes | None:
        """Return the payload of the last whole frame without reading the log, or None.

        Raises:
            CorruptStoreError: the log's end is damaged.
        """
        ...

    def replace(self, log: LogName, payloads: Sequence[bytes], *, durable: bool = True) -> None:
        """Replace a log's frames atomically and at once; no payloads removes the log. Needs `lock`."""
        ...

    def sweep(self) -> None:
        """Remove what writers that died left of a `replace`. Needs `lock`."""
        ...

    def logs(self, folder: Sequence[str] = (), *, kinds: Collection[str]) -> Sequence[LogName]:
        """Return the names of the logs of some kinds in a folder and below, in no particular order.

        Raises:
            CorruptStoreError: the name that such a log carries is damaged.
        """
        ...

    def read_note(self, name: str) -> bytes | None:
        """Return a note; None if there is none or it is damaged: a note holds only what can be found out again.

        Args:
            name: of the note, ``[a-z]+``.
        """
        ...

    def write_note(self, name: str, payload: bytes, *, durable: bool = True) -> None:
        """Write a note in place of the one of this name. Needs `lock`."""
        ...

    def close(self) -> None:
        """Let go of everything; harmless when repeated."""
        ...
