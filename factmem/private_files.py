"""Creation of files and folders for their owner alone, each step in the order that survives a power cut.

Every file that factmem makes is made here, whatever the umask: files with mode 600, folders with 700. A new file never
follows a link that lies in its place, and a temporary one has a name that nobody can guess. Files and folders that
exist already keep their modes.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from factmem.errors import StoreUnavailableError

if TYPE_CHECKING:
    from filelock import FileLock

TEMPORARY: Final = ".tmp"
"""Suffix of the temporary files of `replacing`; what lies there after a kill is rubbish."""

_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_POLL_SECONDS: Final = 0.01
_FLAGS: Final = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


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


def may_write(path: Path) -> bool:
    """Return whether there is a file or folder that this process may write to."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def is_read_only(folder: Path) -> bool:
    """Return whether a folder lies on a disk that is mounted read-only, or this process may not write into it.

    So it is with a part of a container's image, and with a store of another account.
    """
    if sys.platform == "win32" or not folder.exists():
        return False
    return not may_write(folder) or bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def make_folders(folder: Path, *, durable: bool = True) -> None:
    """Create a folder and its parents, and flush the name of each new one.

    Raises:
        OSError: One cannot be created, or is a link to nothing.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        try:
            path.mkdir(mode=_FOLDER_MODE)
        except FileExistsError:
            if not path.exists():  # a link to nothing
                raise
            continue
        path.chmod(_FOLDER_MODE)
        if durable:
            sync_folder(path.parent)


def is_exposed(path: Path) -> bool:
    """Return whether others than its owner may read, write or enter a file or a folder; False if it is gone."""
    try:
        return os.name == "posix" and bool(path.stat().st_mode & 0o077)
    except FileNotFoundError:
        return False


def create_file(path: Path, *, mode: int = _FILE_MODE) -> FileIO:
    """Create an empty file and open it for writing.

    Raises:
        FileExistsError: Something lies there already, be it a link to nothing.
        OSError: It cannot be created.
    """
    file = _opened(path, os.O_CREAT | os.O_EXCL, mode)
    if sys.platform != "win32":
        os.fchmod(file.fileno(), mode)
    return file


def open_to_change(path: Path) -> FileIO:
    """Open an existing file for writing, without emptying it.

    Raises:
        OSError: It cannot be opened, or is a link.
    """
    return _opened(path)


def open_to_append(path: Path) -> FileIO:
    """Open a file to append to it; a missing one is created.

    Raises:
        OSError: It cannot be opened or created, or is a link.
    """
    with suppress(FileNotFoundError):
        return _opened(path, os.O_APPEND)
    with suppress(FileExistsError):
        create_file(path).close()
    return _opened(path, os.O_APPEND)


def _opened(path: Path, flags: int = 0, mode: int = _FILE_MODE) -> FileIO:
    return FileIO(path, "r+", opener=lambda name, _: os.open(name, os.O_RDWR | flags | _FLAGS, mode))


def write_all(file: FileIO, data: bytes) -> None:
    """Write all of the data; the system may write it in pieces, and fail at any of them."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


@contextmanager
def replacing(path: Path, *, mode: int = _FILE_MODE, durable: bool = True) -> Iterator[FileIO]:
    """Replace a file by what the block writes, atomically for readers and for a power cut.

    If the block raises, the file stays as it was. A link in its place is replaced, and not followed.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}{TEMPORARY}")
    try:
        with create_file(temporary, mode=mode) as file:
            yield file
            if durable:
                sync_file(file)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def replace_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a file's content atomically, for readers and for a power cut."""
    with replacing(path, durable=durable) as file:
        write_all(file, data)


@contextmanager
def writing(path: Path) -> Iterator[IO[str]]:
    """Write a text file anew, by `replacing`; a device or a pipe is written to as it is.

    Raises:
        OSError: It cannot be written, or is a link to a file.
    """
    kind = path.stat().st_mode if path.exists() else stat.S_IFREG
    if not stat.S_ISREG(kind):
        with path.open("w", encoding="utf-8") as device:
            yield device
        return
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link: name the file itself")
    with replacing(path) as raw, os.fdopen(raw.fileno(), "w", encoding="utf-8", closefd=False) as file:
        yield file


def leftovers(path: Path) -> list[Path]:
    """Return the temporary files of replacements of a file that were interrupted or are under way."""
    try:
        return sorted(there for there in path.parent.iterdir() if is_leftover(there.name, path.name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def is_leftover(name: str, of: str) -> bool:
    """Return whether a name is that of a temporary file for replacing the file of another name."""
    return re.fullmatch(rf"{re.escape(of)}(\.[0-9a-f]{{16}})?{re.escape(TEMPORARY)}", name) is not None


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files of interrupted replacements of a file; none may be under way."""
    for temporary in leftovers(path):
        temporary.unlink(missing_ok=True)


def held_lock(path: Path, refusal: str, *, timeout: float = 0) -> FileLock:
    """Return the lock of a file against other processes, held; it may be released in another thread.

    Args:
        path: File of the lock.
        refusal: Text of the error.
        timeout: Longest wait, in seconds.

    Raises:
        StoreUnavailableError: Another process holds it for longer.
    """
    from filelock import FileLock, Timeout  # most of what imports this module locks nothing

    lock = FileLock(path, timeout=timeout, mode=_FILE_MODE, poll_interval=_POLL_SECONDS, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise StoreUnavailableError(refusal) from None
    return lock
