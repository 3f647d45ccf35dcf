"""Reads of one log file: new frames, the last frame, the name in its header."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

import attrs

from factmem.abc import LogName, Position, Scan
from factmem.errors import CorruptStoreError, MisplacedDataError, NewerVersionError
from factmem_file.frames import CRC_LENGTH, DamagedFrameError, Parsed, parse
from factmem_file.names import file_path

__all__ = ["START", "LogFile", "new_header"]

START: Final = Position()
"""Position before the first read."""

_HEADER_VERSION: Final = 1
_TAIL: Final = 1 << 16


def new_header(log: LogName) -> bytes:
    """Return the payload of the first frame of a file: the name of the log, and its generation."""
    header = {"factmem": _HEADER_VERSION, **attrs.asdict(log), "generation": uuid.uuid4().hex}
    return json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()


@attrs.frozen
class LogFile:
    """The file of a log, for reading. A missing file raises `FileNotFoundError`.

    Attributes:
        path: Path of the file.
        shown: Path below the root, for errors.
    """

    path: Path
    shown: str

    def scan(self, log: LogName, since: Position, limit: int | None) -> Scan:
        """Return the frames behind a position, or all of them if the earlier ones were replaced."""
        if _stamp(self.path.stat()) == since.stamp:
            return Scan(payloads=(), position=since, fresh=False)
        with self.path.open("rb") as file:
            return self._resumed(file, log, since, limit) or self._afresh(file, log, limit)

    def _resumed(self, file: BufferedReader, log: LogName, since: Position, limit: int | None) -> Scan | None:
        size = os.fstat(file.fileno()).st_size
        # A file that changed without growing was changed in place.
        if not since.end or size <= since.end or self._generation(file.readline(), log) != since.generation:
            return None
        file.seek(since.start)
        data = file.read()
        if not data.startswith(since.mark):
            return None
        parsed = self._parsed(data, since.start, limit)
        position = _position(parsed, data, since.generation, file, offset=since.start)
        return Scan(payloads=parsed.payloads[1:], position=position, fresh=False)

    def _afresh(self, file: BufferedReader, log: LogName, limit: int | None) -> Scan:
        file.seek(0)
        data = file.read()
        parsed = self._parsed(data, limit=limit)
        if not parsed.payloads:
            return Scan(payloads=(), position=START, fresh=True)
        generation = self._checked_header(parsed.payloads[0], log)
        position = _position(parsed, data, generation, file, offset=0)
        return Scan(payloads=parsed.payloads[1:], position=position, fresh=True)

    def last(self) -> bytes | None:
        """Return the last payload behind the header; only the end of the file is read."""
        with self.path.open("rb") as file:
            size, length = os.fstat(file.fileno()).st_size, _TAIL
            while True:
                start = max(0, size - length)
                file.seek(start)
                data = file.read(size - start)
                skipped = data.find(b"\n") + 1 if start else 0
                payloads = self._parsed(data[skipped:], start + skipped).payloads
                if start == 0:
                    return payloads[-1] if len(payloads) > 1 else None
                if skipped and payloads:
                    return payloads[-1]
                length *= 8

    def name(self, root: Path) -> LogName | None:
        """Return the name in the file; None if its writer died before writing it."""
        log = self._named(root)
        # Logs outside of any folder are the storage's own, and are not listed.
        if log is not None and not log.folder:
            raise self._misplaced()
        return log

    def check(self, root: Path) -> None:
        """Read the whole file.

        Raises:
            CorruptStoreError: It is damaged, or holds another log than its path says.
            NewerVersionError: A newer factmem wrote it.
        """
        log = self._named(root)
        if log is not None:
            self.scan(log, START, None)

    def _named(self, root: Path) -> LogName | None:
        with self.path.open("rb") as file:
            payloads = self._parsed(file.readline()).payloads
        if not payloads:
            return None
        log, _ = self._header(payloads[0])
        if root.joinpath(*file_path(log)) != self.path:
            raise self._misplaced()
        return log

    def _generation(self, line: bytes, log: LogName) -> str | None:
        payloads = self._parsed(line).payloads
        return self._checked_header(payloads[0], log) if payloads else None

    def _checked_header(self, payload: bytes, log: LogName) -> str:
        named, generation = self._header(payload)
        if named != log:
            raise self._misplaced()
        return generation

    def _header(self, payload: bytes) -> tuple[LogName, str]:
        try:
            header = json.loads(payload)
        except (ValueError, RecursionError):
            header = None
        match header:
            case {"factmem": int() as version} if version > _HEADER_VERSION:
                raise NewerVersionError(f"{self.shown} was written by a newer factmem: upgrade factmem to read it")
            case {
                "folder": [*_] as folder,
                "name": [_, *_] as name,
                "kind": str() as kind,
                "generation": str() as life,
            } if _are_names([*folder, *name, kind]):
                return LogName(folder=tuple(folder), name=tuple(name), kind=kind), life
            case _:
                raise CorruptStoreError(f"{self.shown} does not begin with a header: restore it from a backup")

    def _misplaced(self) -> MisplacedDataError:
        return MisplacedDataError(f"{self.shown} holds another log than its path says: move it back")

    def _parsed(self, data: bytes, offset: int = 0, limit: int | None = None) -> Parsed:
        try:
            # One frame more is the header, or the last one read.
            return parse(data, limit=None if limit is None else limit + 1)
        except DamagedFrameError as error:
            raise CorruptStoreError(
                f"{self.shown} is damaged at byte {offset + error.start}, and is not written to in this state: "
                "restore it from a backup, or remove the damaged line to give up what it held"
            ) from None


def _are_names(parts: Sequence[Any]) -> bool:
    try:
        "".join(parts).encode()
    except (TypeError, UnicodeEncodeError):
        return False
    return True


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return (status.st_ino, status.st_size, status.st_mtime_ns)


def _position(parsed: Parsed, data: bytes, generation: str, file: BufferedReader, *, offset: int) -> Position:
    stamp, end = _stamp(os.fstat(file.fileno())), offset + parsed.end
    return Position(
        generation=generation,
        start=offset + parsed.start,
        end=end,
        mark=data[parsed.start : parsed.start + CRC_LENGTH],
        stamp=stamp if stamp[1] == end else None,
    )
