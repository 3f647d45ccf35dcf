"""Contract of the log storages below file providers: framed logs, one for each place, and a few small notes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import attrs

from factmem.progress import Progress
from factmem.store_findings import Finding


@attrs.frozen(kw_only=True)
class LogName:
    """The name of a log. Its parts are arbitrary text; the storage maps them to legal file names.

    Attributes:
        folder: The path of its folder; an empty segment is legal and distinct.
        name: One or more names inside the folder; a log and a folder of the same name never clash.
        kind: The kind of its contents, ``[a-z]+``; logs that differ in kind alone are stored side by side.
    """

    folder: tuple[str, ...]
    name: tuple[str, ...]
    kind: str


@attrs.frozen(kw_only=True)
class Position:
    """The position up to which a log was read. Only the storage interprets the fields.

    Attributes:
        generation: The generation of the log; `LogStorage.replace` begins a new one.
        start: The offset of the last frame read, in bytes.
        end: The offset behind it; 0 before anything was read.
        mark: A mark that distinguishes the last frame read from another one at the same offset.
        stamp: The state of the file if it ended here; equal stamps mean that nothing is new.
    """

    generation: str = ""
    start: int = 0
    end: int = 0
    mark: bytes = b""
    stamp: tuple[int, ...] | None = None


@attrs.frozen(kw_only=True)
class Scan:
    """The result of a scan.

    Attributes:
        payloads: The payloads of the whole frames, in order.
        position: The position to continue from.
        fresh: True if these are all frames of the log, and those read before are void.
    """

    payloads: tuple[bytes, ...]
    position: Position
    fresh: bool


class LogStorage(Protocol):
    """Append, scan and replace of framed logs. Synchronous: it is called from worker threads only.

    A frame is whole or absent. Readers ignore the rest of an append that a kill or a power cut interrupted at the end
    of a log, and the next append removes it. Damage anywhere else raises `CorruptStoreError`, and a damaged log is not
    written. A storage may hide appended frames until `seal`, so that several logs change at once. A ciphering storage
    binds its frames to the name of the log. A payload holds no line feed and no NUL.

    Several processes may use one storage: writers hold `lock`, readers need not. Every method but `close` raises
    `StoreUnavailableError` when the I/O fails. After a failed flush the contents of the disk are unknown, and the
    instance refuses to write any more.
    """

    def exists(self) -> bool:
        """Return whether the storage was ever written to.

        Raises:
            NewerVersionError: A newer factmem wrote it.
            CorruptStoreError: The marker of its format is damaged.
            StoreUnavailableError: The path exists and is something else.
        """
        ...

    @property
    def read_only(self) -> bool:
        """Whether the storage lies on a disk that is mounted read-only: `lock` needs not write to it then."""
        return False

    def lock(self, timeout: float) -> AbstractContextManager[None]:
        """Lock the storage against every other writer, of any process; create it if necessary.

        Args:
            timeout: The longest wait for other writers, in seconds.

        Raises:
            StoreUnavailableError: The wait timed out.
            NewerVersionError: See `exists`.
            CorruptStoreError: See `exists`.
        """
        ...

    def append(self, log: LogName, payload: bytes, after: Position, *, durable: bool = True) -> None:
        """Append one frame, all or nothing, creating the log if necessary. Needs `lock`.

        Args:
            log: The log.
            payload: The payload of the frame.
            after: The position that a scan under the same lock returned; anything behind it is dropped.
            durable: Return only when the frame would survive a power cut.

        Raises:
            StoreUnavailableError: It could not be written; the log is as it was.
            CorruptStoreError: The log is shorter than when it was read.
        """
        ...

    def seal(self) -> None:
        """Make everything that was appended under this lock visible; otherwise it may stay invisible. Needs `lock`.

        Raises:
            StoreUnavailableError: It could not be written, or the outcome is unknown.
        """
        ...

    def settle(self, log: LogName, upto: Position) -> None:
        """Make the frames up to a position durable, in case their writer died before that. Needs `lock`."""
        ...

    def scan(self, log: LogName, since: Position | None = None, *, limit: int | None = None) -> Scan:
        """Return the whole frames after a position; an empty scan if there is no such log.

        Args:
            log: The log.
            since: The position of an earlier scan, or None for all.
            limit: The largest number of frames.

        A reader without the lock may see an append under way. It scans again with the lock before it reports damage.

        Raises:
            CorruptStoreError: A frame is damaged, or the log is not the one of this name.
            NewerVersionError: A newer factmem wrote the log.
        """
        ...

    def last(self, log: LogName) -> bytes | None:
        """Return the payload of the last whole frame without reading the log, or None.

        Raises:
            CorruptStoreError: The log's end is damaged.
        """
        ...

    def replace(self, log: LogName, payloads: Sequence[bytes], *, durable: bool = True) -> None:
        """Replace a log's frames atomically and at once; no payloads removes the log. Needs `lock`."""
        ...

    def sweep(self) -> None:
        """Remove the remains of each interrupted `replace`. Needs `lock`."""
        ...

    def logs(self, folder: Sequence[str] = (), *, kinds: Collection[str]) -> Sequence[LogName]:
        """Return the names of the logs of some kinds in a folder and below, in no particular order.

        Raises:
            CorruptStoreError: The name that such a log carries is damaged.
        """
        ...

    def check(self, progress: Progress) -> Sequence[Finding]:
        """Read every file without changing it, and return the faults of each.

        Args:
            progress: Called with the number of files read and the total.
        """
        ...

    def read_note(self, name: str) -> bytes | None:
        """Return a note, or None if it is absent or damaged; a note holds only what can be recomputed.

        Args:
            name: The name of the note, ``[a-z]+``.
        """
        ...

    def write_note(self, name: str, payload: bytes, *, durable: bool = True) -> None:
        """Write a note, replacing the one of this name. Needs `lock`."""
        ...

    def close(self) -> None:
        """Release every resource; repeated calls are harmless."""
        ...
