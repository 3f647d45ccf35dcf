"""Errors of SQLite as errors of factmem, with the next step."""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import apsw

from factmem.errors import CorruptStoreError, InvalidDataError, ProviderError, StoreUnavailableError
from factmem.private_files import FlushError

# If SQLite rejects a statement of ours, the schema or an index is not as we created it.
_DAMAGE: Final = (
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.FormatError,
    apsw.SQLError,
    apsw.ConstraintError,
    apsw.MismatchError,
)

_ADVICE: Final[tuple[tuple[tuple[type[apsw.Error], ...], str], ...]] = (
    (
        (apsw.BusyError, apsw.LockedError, apsw.ProtocolError),
        "another process or connection holds {name}: try again, or open it with a longer busy_timeout",
    ),
    ((apsw.FullError,), "{name} cannot grow: free some disk space, and save again"),
    (
        (apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError),
        "{name} cannot be written: check the permissions of the file and its folder",
    ),
    ((apsw.CantOpenError,), "{name} cannot be opened: check that its folder is there and may be written"),
    ((apsw.NoMemError, apsw.TooBigError), "there is not enough memory to work on {name}"),
)

_FAILED_FLUSHES: Final = frozenset({apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC})


class ReadError(OSError):
    """The disk failed to return data, which reveals nothing about its contents."""


def is_failed_flush(error: BaseException) -> bool:
    """Return whether an error means that a flush to the disk failed."""
    return isinstance(error, FlushError) or getattr(error, "extendedresult", 0) in _FAILED_FLUSHES


def _damaged(name: str) -> CorruptStoreError:
    """Return the error for a file whose contents were changed."""
    return CorruptStoreError(
        f"{name} is damaged or no factmem store; nothing was written to it: restore it from a backup"
    )


def distrusted(name: str) -> StoreUnavailableError:
    """Return the error for a failed flush, and for every call after it."""
    return StoreUnavailableError(
        f"{name} could not be flushed to its disk, and nothing was written: check the disk, then open it again"
    )


def _own_error(error: apsw.Error, name: str) -> ProviderError:
    """Return the error of factmem for an error of SQLite.

    Args:
        error: Error of SQLite.
        name: File name of the store.
    """
    if isinstance(error, _DAMAGE):
        return _damaged(name)
    if is_failed_flush(error):
        return distrusted(name)
    for kinds, advice in _ADVICE:
        if isinstance(error, kinds):
            return StoreUnavailableError(advice.format(name=name))
    return StoreUnavailableError(f"{name} cannot be read or written just now ({type(error).__name__}): check its disk")


@contextmanager
def own_errors(name: str) -> Iterator[None]:
    """Convert errors of SQLite and of the operating system to errors of factmem."""
    try:
        yield
    except apsw.Error as error:
        raise _own_error(error, name) from error
    except FlushError as error:
        raise distrusted(name) from error
    except ReadError as error:
        raise StoreUnavailableError(
            f"{name} could not be read from its disk: check the disk, then try again"
        ) from error
    except IsADirectoryError as error:
        raise StoreUnavailableError(
            f"{name} is a folder: add the name of a file to its path, such as facts.db, or keep readable files in it "
            "with file:PATH"
        ) from error
    except OSError as error:
        where = error.filename or name
        raise StoreUnavailableError(f"{where} cannot be reached ({type(error).__name__}): check its folder") from error
    except UnicodeDecodeError as error:
        raise _damaged(name) from error
    except UnicodeEncodeError:
        raise InvalidDataError("a text holds a lone surrogate, which no store can carry") from None


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
    found = array("i", [0])
    connection.file_control("main", apsw.SQLITE_FCNTL_LAST_ERRNO, found.buffer_info()[0])
    return found[0]


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
