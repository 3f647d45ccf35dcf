"""The system calls that durability depends on, each in the order that survives a power cut."""

from __future__ import annotations

import os
import sys
from io import FileIO
from pathlib import Path

__all__ = ["FlushError", "make_folders", "replace_file", "sync_file", "sync_folder", "write_all"]


class FlushError(OSError):
    """A flush to the disk failed: the contents of the disk are unknown, and a second flush may falsely succeed."""


def sync_file(file: FileIO) -> None:
    """Flush a file to the disk.

    Raises:
        FlushError: It failed.
    """
    _sync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, if the system supports it.

    Raises:
        FlushError: It failed.
    """
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    try:
        if sys.platform == "darwin":
            import fcntl

            # On macOS, fsync leaves the data in the drive's own cache.
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fsync(descriptor)
    except OSError as error:
        raise FlushError(error.errno, error.strerror) from error


def make_folders(folder: Path, *, durable: bool = True) -> None:
    """Create a folder and its parents, and flush the name of each new one."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        if durable:
            sync_folder(path.parent)


def write_all(file: FileIO, data: bytes) -> None:
    """Write all of the data; the system may write it in pieces, and fail at any of them."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def replace_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a file's content atomically, for readers and for a power cut."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb", buffering=0) as file:
            write_all(file, data)
            if durable:
                sync_file(file)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)
