"""Failed reads of the disk, distinguished from damaged pages.

SQLite reports EIO of the operating system as a malformed database. No backup should be restored because of a
cable, so the files are queried for their last error.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from factmem.errors import CorruptStoreError
from factmem_sqlite_vec.faults import ReadError

__all__ = ["detecting_failed_reads"]

_ERRORS_OF_DISKS: Final = frozenset({errno.EIO, errno.ENXIO, errno.ERANGE})
"""Errors that SQLite takes for damage, on POSIX alone."""

_METHODS_BEFORE: Final = 9
"""Number of methods before ``xFileControl`` in ``sqlite3_io_methods``."""


class _Methods(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int),
        ("before", ctypes.c_void_p * _METHODS_BEFORE),
        ("control", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)),
    )


class _File(ctypes.Structure):
    _fields_ = (("methods", ctypes.POINTER(_Methods)),)


@contextmanager
def detecting_failed_reads(connection: apsw.Connection) -> Iterator[None]:
    """Distinguish damage found in the block from a failure to read.

    Raises:
        ReadError: The disk failed to return data. Close the connection: it does not reset the error.
    """
    try:
        yield
    except (apsw.CorruptError, CorruptStoreError) as error:
        if os.name == "posix" and not _ERRORS_OF_DISKS.isdisjoint({_of_database(connection), _of_log(connection)}):
            raise ReadError(errno.EIO, os.strerror(errno.EIO)) from error
        raise


def _of_database(connection: apsw.Connection) -> int:
    """Return the last error of reading the file, or 0."""
    found = ctypes.c_int(0)
    connection.file_control("main", apsw.SQLITE_FCNTL_LAST_ERRNO, ctypes.addressof(found))
    return found.value


def _of_log(connection: apsw.Connection) -> int:
    """Return the last error of reading the write-ahead log, or 0; only its own file can be queried."""
    file, found = ctypes.c_void_p(), ctypes.c_int(0)
    connection.file_control("main", apsw.SQLITE_FCNTL_JOURNAL_POINTER, ctypes.addressof(file))
    methods = ctypes.cast(file, ctypes.POINTER(_File)).contents.methods if file.value else None
    if methods:
        methods.contents.control(file, apsw.SQLITE_FCNTL_LAST_ERRNO, ctypes.addressof(found))
    return found.value
