"""Failed reads of the disk, distinguished from damaged pages.

SQLite reports EIO of the operating system as a malformed database, and sets neither an error code nor
`sqlite3_system_errno` that tells them apart. No backup should be restored because of a cable. So the database file is
asked for its last error, and the write-ahead log, which cannot be asked, is read again: by itself, and with the
database through another connection.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import apsw

from factmem.errors import CorruptStoreError
from factmem_sqlite_vec.faults import ReadError

__all__ = ["detecting_failed_reads"]

_ERRORS_OF_DISKS: Final = frozenset({errno.EIO, errno.ENXIO, errno.ERANGE})
"""Errors that SQLite takes for damage, on POSIX alone."""

_CHUNK: Final = 1 << 20


@contextmanager
def detecting_failed_reads(connection: apsw.Connection, again: Callable[[], apsw.Connection]) -> Iterator[None]:
    """Distinguish damage found in the block from a failure to read.

    Args:
        connection: The connection that the block reads with.
        again: Opens another one.

    Raises:
        ReadError: The disk failed to return data. Close the connection: it does not reset the error.
    """
    try:
        yield
    except (apsw.CorruptError, CorruptStoreError) as error:
        if os.name != "posix":
            raise
        log = Path(connection.filename_wal)
        failed = _last_error(connection) in _ERRORS_OF_DISKS or _fails_to_read(log)
        if failed or (isinstance(error, apsw.CorruptError) and log.exists() and _is_whole(again)):
            raise ReadError(errno.EIO, os.strerror(errno.EIO)) from error
        raise


def _last_error(connection: apsw.Connection) -> int:
    """Return the last error of reading the file, or 0."""
    found = ctypes.c_int(0)
    connection.file_control("main", apsw.SQLITE_FCNTL_LAST_ERRNO, ctypes.addressof(found))
    return found.value


def _fails_to_read(log: Path) -> bool:
    """Return whether the disk fails to return a write-ahead log; no lock lies on it that closing it would release."""
    try:
        with log.open("rb") as file:
            while file.read(_CHUNK):
                pass
    except OSError as error:
        return error.errno in _ERRORS_OF_DISKS
    return False


def _is_whole(again: Callable[[], apsw.Connection]) -> bool:
    """Return whether another connection finds no damage: then what the first one found was a failed read."""
    try:
        with closing(again()) as other:
            return other.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
    except apsw.Error:
        return False
