"""Layer of SQLite (VFS) that reports to a simulated disk, and fails where it does."""

# ruff: noqa: N802  (SQLite names these methods)

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import apsw

from tests.simulation.disk import SimulatedDisk

_SYSTEM: Final = "unix"
_ENCRYPTING: Final = "multipleciphers-"
"""Beginning of the name of the layer that encrypts, in builds of SQLite that have it; one is made over any other."""

_JOURNALS: Final = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL


@contextmanager
def layer_over(disk: SimulatedDisk) -> Iterator[None]:
    """Let all connections that are opened meanwhile report to a disk."""
    former = apsw.vfs_names()[0]
    layer = _Layer(f"simulated-{id(disk):x}", disk)
    name = f"{_ENCRYPTING}{layer.name}" if former.startswith(_ENCRYPTING) else layer.name
    apsw.Connection(":memory:", vfs=name).close()  # makes the encrypting layer
    apsw.set_default_vfs(name)
    try:
        yield
    finally:
        apsw.set_default_vfs(former)
        if name != layer.name:
            apsw.unregister_vfs(name)
        layer.unregister()


class _Layer(apsw.VFS):
    def __init__(self, name: str, disk: SimulatedDisk) -> None:
        super().__init__(name, _SYSTEM)
        self.name = name
        self._disk = disk

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = name if isinstance(name, str | None) else name.filename()
        if path is None or not self._disk.holds(path):
            return apsw.VFSFile(_SYSTEM, name, flags)
        if flags[0] & apsw.SQLITE_OPEN_CREATE:
            with _reported(apsw.SQLITE_CANTOPEN):
                self._disk.create(self._disk.below(path))
        return _LayerFile(name, flags, self._disk, self._disk.below(path))

    def xDelete(self, filename: str, syncdir: bool) -> None:
        with _reported(apsw.SQLITE_IOERR_DELETE):
            self._disk.unlink(self._disk.below(filename))
        super().xDelete(filename, False)
        if syncdir:
            _flush_folder(self._disk, self._disk.below(filename))


class _LayerFile(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int], disk: SimulatedDisk, path: str) -> None:
        wanted = flags[0]
        super().__init__(_SYSTEM, name, flags)
        self._disk = disk
        self._path = path
        # SQLite's own layer does this at the first flush of each journal that it opens.
        self._flushes_folder = bool(wanted & apsw.SQLITE_OPEN_CREATE and wanted & _JOURNALS)

    def xLock(self, level: int) -> None:
        try:
            super().xLock(level)
        except apsw.IOError:
            # SQLite tries this of a file that was opened for reading, and does not mind.
            raise apsw.BusyError from None

    def xWrite(self, data: bytes, offset: int) -> None:
        with _reported(apsw.SQLITE_IOERR_WRITE):
            length = self._disk.write(self._path, offset, data)
        super().xWrite(data[:length], offset)
        if length < len(data):
            raise apsw.exception_for(apsw.SQLITE_FULL)

    def xTruncate(self, newsize: int) -> None:
        with _reported(apsw.SQLITE_IOERR_TRUNCATE):
            self._disk.cut(self._path, newsize)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        with _reported(apsw.SQLITE_IOERR_FSYNC):
            self._disk.flush(self._path)
        if self._flushes_folder:
            _flush_folder(self._disk, self._path)
            self._flushes_folder = False


def _flush_folder(disk: SimulatedDisk, path: str) -> None:
    with _reported(apsw.SQLITE_IOERR_DIR_FSYNC):
        disk.flush(path.rpartition("/")[0])


@contextmanager
def _reported(code: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise apsw.exception_for(apsw.SQLITE_FULL if error.errno == errno.ENOSPC else code) from None
