"""Safe reading and atomic replacement of single files; symbolic links are refused by default."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from factmem.errors import CodecError, MemoryFileError, StateConflictError
from factmem.legal_names import checked_path
from factmem.private_files import replacing, sync_file, write_all

_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_OPEN: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NEW_MODE: Final = 0o644


@attrs.frozen(kw_only=True)
class Content:
    """The content of a file, or its start.

    Attributes:
        data: Bytes that were read, from the start.
        size: Size of the whole file in bytes.
        mode: Permissions of the file.
    """

    data: bytes = attrs.field(repr=False)
    size: int
    mode: int

    @property
    def cut(self) -> bool:
        """Whether only the start of the file was read."""
        return self.size > len(self.data)


def expanded(path: str | os.PathLike[str], folder: Path | None = None) -> Path:
    """Return a path with ``~`` expanded; a relative path is relative to the folder, or else the working directory.

    Raises:
        InvalidDataError: The path is not legal; see `factmem.legal_names.checked_path`.
    """
    found = checked_path(path, what="sources")
    return found if folder is None else folder / found


def read_file(path: Path, *, most: int | None = None, follow_links: bool) -> Content | None:
    """Read a file, or its first bytes; return None if it does not exist.

    Args:
        path: Path of the file.
        most: Maximum number of bytes read.
        follow_links: Whether symbolic links are followed.

    Raises:
        MemoryFileError: The path is a symbolic link or not a regular file, or cannot be read.
    """
    with _file_errors(path):
        if path.is_symlink() and not follow_links:
            raise MemoryFileError(_LINK, file=str(path))
        flags = _OPEN if follow_links else _OPEN | getattr(os, "O_NOFOLLOW", 0)
        try:
            handle = os.open(path, flags)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise MemoryFileError(_NO_FILE, file=str(path))
            data = file.read(-1 if most is None else most)
            return Content(data=data, size=max(found.st_size, len(data)), mode=stat.S_IMODE(found.st_mode))


def replace_file(path: Path, data: bytes, before: Content | None, *, follow_links: bool = False) -> None:
    """Replace a file atomically, and keep its permissions.

    Args:
        path: Path of the file.
        data: New content.
        before: Whole content as read before; None if the file did not exist.
        follow_links: Whether to replace the target of a symbolic link.

    Raises:
        StateConflictError: The file was written in the meantime; it is not replaced.
        MemoryFileError: The file cannot be written; it stays unchanged.
    """
    with _file_errors(path):
        target = Path(os.path.realpath(path)) if follow_links else path
        with replacing(target, mode=_NEW_MODE if before is None else before.mode, durable=False) as file:
            write_all(file, data)
            sync_file(file)
            now = read_file(path, follow_links=follow_links)
            if (now and now.data) != (before and before.data):
                raise StateConflictError(f"{path}: somebody else wrote this file meanwhile: read it again")


def decoded(data: bytes, name: str, *, cut: bool = False) -> str:
    """Return the text of a file, without a byte order mark.

    Args:
        data: Content of the file.
        name: Name of the file, for the error.
        cut: Whether the content is truncated, so that its last character may be incomplete.

    Raises:
        CodecError: The content is not UTF-8. The message names the file and the offset, and quotes no content.
    """
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        if cut and error.end == len(data.removeprefix(codecs.BOM_UTF8)) and error.reason == "unexpected end of data":
            return data.removeprefix(codecs.BOM_UTF8)[: error.start].decode()
        kind = "it looks like UTF-16" if data.startswith(_UTF_16) else f"byte {error.start} is wrong"
        raise CodecError(f"{name} is not UTF-8 ({kind}): save it as UTF-8") from None


_LINK: Final = "this is a symbolic link, and where it leads may change: name the file itself, or set follow_links"
_NO_FILE: Final = "this is a directory or a device: name a file"


@contextlib.contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        match error.errno:
            case errno.ELOOP:
                what = _LINK
            case errno.EISDIR:
                what = _NO_FILE
            case errno.EACCES | errno.EPERM:
                what = "you may not read or write this: see its permissions"
            case _:
                what = error.strerror or type(error).__name__
        raise MemoryFileError(what, file=str(path)) from None
