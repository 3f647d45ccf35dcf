"""Interception of the calls of this process that change a simulated disk, in Python and in SQLite.

Python's calls are those of `os`, `open` and `FileIO`; SQLite's come from `apsw`, where that is imported, through a
layer (VFS) that is the default one meanwhile. Nothing is changed in the folder before the disk has noted it, and a
flush is only noted. Calls outside of the folder pass. What would run in a worker thread runs in place, so that the same
test makes the same calls in the same order.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar
from unittest import mock

import anyio.to_thread

from tests.simulation.disk import SimulatedDisk

T = TypeVar("T")

_AnyPath: TypeAlias = str | os.PathLike[str]


@contextmanager
def intercepted(disk: SimulatedDisk) -> Iterator[None]:
    """Report to a simulated disk what this process does to its folder.

    Modules that imported `FileIO` by name are covered if they are factmem's, or of a package called ``factmem_*``.
    """
    calls = _PythonCalls(disk)
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(anyio.to_thread, "run_sync", _in_place))
        for name in (
            *("open", "close", "fsync", "fdatasync", "write", "ftruncate", "truncate"),
            *("mkdir", "rmdir", "unlink", "remove", "rename", "replace"),
        ):
            patches.enter_context(mock.patch.object(os, name, getattr(calls, name)))
        for module, name in ((io, "open"), (builtins, "open")):
            patches.enter_context(mock.patch.object(module, name, calls.open_file))
        for module in [module for name, module in sys.modules.items() if name.partition(".")[0].startswith("factmem")]:
            # Not by `getattr`: for a name that a package does not have, factmem looks through its sources.
            if vars(module).get("FileIO") is io.FileIO and module.__name__ != __name__:
                patches.enter_context(mock.patch.object(module, "FileIO", calls.file))
        if "apsw" in sys.modules:
            from tests.simulation.sqlite_layer import layer_over

            patches.enter_context(layer_over(disk))
        yield


async def _in_place(work: Callable[..., T], *args: Any, **_: Any) -> T:
    return work(*args)


class _File(io.FileIO):
    """An unbuffered file that reports what is written to it."""

    def __init__(self, calls: _PythonCalls, file: _AnyPath | int, mode: str = "r", opener: Any = None) -> None:
        self._calls = calls
        if not isinstance(file, int) and opener is None:  # else it was opened by `os.open`, or will be
            calls.opening(file, is_emptied="w" in mode)
        super().__init__(file, mode, opener=opener)
        if not isinstance(file, int):
            calls.paths[self.fileno()] = calls.disk.below(file)
        self._path = calls.paths[self.fileno()]

    def write(self, data: Any) -> int:
        """Write a part of the data, all of it as a rule."""
        content = bytes(data)
        # A file that is appended to has its position at its end after each write only.
        offset = os.fstat(self.fileno()).st_size if self._appends() else self.tell()
        return super().write(content[: self._calls.disk.write(self._path, offset, content)])

    def truncate(self, size: int | None = None) -> int:
        """Set the length of the file."""
        length = self.tell() if size is None else size
        self._calls.disk.cut(self._path, length)
        return super().truncate(length)

    def _appends(self) -> bool:
        import fcntl

        return bool(fcntl.fcntl(self.fileno(), fcntl.F_GETFL) & os.O_APPEND)


class _PythonCalls:
    """The calls of Python that change a disk, as they are called meanwhile.

    Args:
        disk: Disk to report to.

    Attributes:
        disk: Disk to report to.
        paths: Paths below the root of the open file descriptors.
    """

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk: SimulatedDisk = disk
        self.paths: dict[int, str] = {}
        self._os: dict[str, Callable[..., Any]] = dict(vars(os))
        self._open = io.open

    def opening(self, path: _AnyPath, *, is_emptied: bool) -> None:
        """Report that a file is opened for writing, and made or emptied by that."""
        below = self.disk.below(path)
        self.disk.create(below)
        if is_emptied and Path(path).exists() and Path(path).stat().st_size:
            self.disk.cut(below, 0)

    def file(self, file: _AnyPath | int, mode: str = "r", closefd: bool = True, opener: Any = None) -> io.FileIO:
        """Stand in for `io.FileIO`."""
        ours = file in self.paths if isinstance(file, int) else self.disk.holds(file) and _writes(mode)
        return _File(self, file, mode, opener) if ours else io.FileIO(file, mode, closefd, opener)

    def open_file(self, file: Any, mode: str = "r", buffering: int = -1, *args: Any, **named: Any) -> IO[Any]:
        """Stand in for `open`."""
        if isinstance(file, int) or not self.disk.holds(file) or not _writes(mode):
            return self._open(file, mode, buffering, *args, **named)
        raw = _File(self, file, mode.replace("b", "").replace("t", ""))
        if not buffering:
            return raw
        buffered: Any = io.BufferedRandom(raw) if raw.readable() else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *args, **named)

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """Stand in for `os.open`."""
        ours = self.disk.holds(path)
        if ours and flags & os.O_CREAT and not (flags & os.O_EXCL and os.path.lexists(path)):
            self.opening(path, is_emptied=bool(flags & os.O_TRUNC))
        descriptor: int = self._os["open"](path, flags, mode, dir_fd=dir_fd)
        if ours:
            self.paths[descriptor] = self.disk.below(path)
        return descriptor

    def close(self, descriptor: int) -> None:
        """Stand in for `os.close`."""
        self.paths.pop(descriptor, None)
        self._os["close"](descriptor)

    def fsync(self, descriptor: int) -> None:
        """Stand in for `os.fsync`."""
        path = self.paths.get(descriptor)
        if path is not None:
            self.disk.flush(path)

    fdatasync = fsync

    def write(self, descriptor: int, data: Any) -> int:
        """Stand in for `os.write`."""
        content = bytes(data)
        if descriptor in self.paths:
            offset = os.lseek(descriptor, 0, os.SEEK_CUR)
            content = content[: self.disk.write(self.paths[descriptor], offset, content)]
        written: int = self._os["write"](descriptor, content)
        return written

    def ftruncate(self, descriptor: int, length: int) -> None:
        """Stand in for `os.ftruncate`."""
        if descriptor in self.paths:
            self.disk.cut(self.paths[descriptor], length)
        self._os["ftruncate"](descriptor, length)

    def truncate(self, path: Any, length: int) -> None:
        """Stand in for `os.truncate`."""
        if self.disk.holds(path):
            self.disk.cut(self.disk.below(path), length)
        self._os["truncate"](path, length)

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        """Stand in for `os.mkdir`."""
        if self.disk.holds(path) and not os.path.lexists(path) and Path(path).parent.is_dir():
            self.disk.make_folder(self.disk.below(path))
        self._os["mkdir"](path, mode, dir_fd=dir_fd)

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        """Stand in for `os.rmdir`."""
        if self.disk.holds(path) and Path(path).is_dir() and not any(Path(path).iterdir()):
            self.disk.remove_folder(self.disk.below(path))
        self._os["rmdir"](path, dir_fd=dir_fd)

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        """Stand in for `os.unlink`."""
        if self.disk.holds(path):
            self.disk.unlink(self.disk.below(path))
        self._os["unlink"](path, dir_fd=dir_fd)

    remove = unlink

    def rename(self, path: Any, to: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        """Stand in for `os.rename` and `os.replace`."""
        if self.disk.holds(path) and os.path.lexists(path):
            self.disk.rename(self.disk.below(path), self.disk.below(to))
        self._os["replace"](path, to, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    replace = rename


def _writes(mode: str) -> bool:
    return not set(mode).isdisjoint("wax+")
