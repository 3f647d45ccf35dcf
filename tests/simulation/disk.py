"""Model of a disk: what was written, what of it was flushed, and what may be left when the machine dies.

A simulated disk is a real folder, beside a model of what a power cut would leave of it. The calls that change the
folder (`tests.simulation.intercepting`) are reported here first. Each may fail, write a part, or be the last
one before the process dies; then it is carried out, and noted as not yet durable.

The model is the one of POSIX, which is weaker than any file system in use:

- the contents of a file last once the file is flushed, its name once its folder is flushed;
- what was not flushed lasts wholly, in part or not at all, in any order, in sectors of 512 bytes, which are written
  whole; a hole reads as zeros;
- a renaming happens or does not;
- after a flush that failed, the bytes in question may never reach the disk, though the next flush succeeds.
"""

from __future__ import annotations

import enum
import errno
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import attrs

from factmem.validators import check_number

_SECTOR: Final = 512


class CallKind(enum.StrEnum):
    """Kinds of calls that change a disk."""

    CREATE = "create"
    WRITE = "write"
    CUT = "cut"
    FLUSH = "flush"
    FLUSH_FOLDER = "flush folder"
    RENAME = "rename"
    UNLINK = "unlink"
    MAKE_FOLDER = "make folder"
    REMOVE_FOLDER = "remove folder"


_ERRORS: Final[Mapping[CallKind, tuple[int, ...]]] = {
    CallKind.CREATE: (errno.ENOSPC, errno.EIO),
    CallKind.WRITE: (errno.ENOSPC, errno.EIO),
    CallKind.CUT: (errno.EIO,),
    CallKind.FLUSH: (errno.EIO, errno.ENOSPC),
    CallKind.FLUSH_FOLDER: (errno.EIO,),
    CallKind.RENAME: (errno.ENOSPC, errno.EIO),
    CallKind.UNLINK: (errno.EIO,),
    CallKind.MAKE_FOLDER: (errno.ENOSPC, errno.EIO),
    CallKind.REMOVE_FOLDER: (errno.EIO,),
}
"""Errors that a call may fail with."""


@attrs.frozen
class DiskCall:
    """A call that changes the disk.

    Attributes:
        kind: Kind of the call.
        path: Path below the root, with slashes.
    """

    kind: CallKind
    path: str


@attrs.define
class _Change:
    """Bytes written at an offset, or with None the end of the file set to it; ``lasts`` once it was flushed."""

    offset: int
    data: bytes | None
    lasts: bool = False
    doomed: bool = False


@attrs.define(eq=False)
class _File:
    """A file: its contents as far as they last, the changes since, and its length with them."""

    base: bytearray = attrs.field(factory=bytearray)
    changes: list[_Change] = attrs.field(factory=list)
    length: int = attrs.field(default=attrs.Factory(lambda self: len(self.base), takes_self=True))

    def flush(self) -> None:
        for change in self.changes:
            change.lasts = not change.doomed
        while self.changes and self.changes[0].lasts:
            _apply(self.base, self.changes.pop(0))

    def doom(self) -> None:
        for change in self.changes:
            change.doomed = not change.lasts

    def left(self, chance: Random) -> bytes:
        """Return contents that a power cut may leave."""
        content = bytearray(self.base)
        mode = chance.choice(("none", "all", "first", "some"))
        until = chance.randrange(len(self.changes) + 1)
        for number, change in enumerate(self.changes):
            if change.lasts or mode == "all" or (mode == "first" and number < until):
                _apply(content, change)
            elif mode == "some" or (mode == "first" and number == until):
                _apply_some(content, change, chance)
        return bytes(content)


class _Folder:
    """A folder, which has no content of its own: each name is noted with its path."""


_Node: TypeAlias = _File | _Folder


@attrs.frozen(eq=False)
class _Renaming:
    """A change of names in one folder; None stands for a name that is gone."""

    folder: str
    names: Mapping[str, _Node | None]


class SimulatedDisk:
    """A folder whose power can be cut. Its methods may be called in any thread.

    Args:
        root: Existing folder of the disk; what it holds lasts.
        chance: Decides on faults, and on what is left.
        fault_rate: Probability that a call fails.
        dies_at: Number of the call during which the process dies; None for never. From then on every call fails.

    Attributes:
        root: Folder of the disk.
        calls: Calls so far.
        faults: Number of calls that failed.
    """

    def __init__(self, root: Path, chance: Random, *, fault_rate: float = 0.0, dies_at: int | None = None) -> None:
        self.root: Path = root.absolute()
        self._prefix = f"{self.root}{os.sep}"
        self.calls: list[DiskCall] = []
        self.faults: int = 0
        self._chance = chance
        self._fault_rate = check_number(fault_rate, "fault_rate", most=1)
        self._dies_at = dies_at
        self._dead = False
        self._guard = threading.RLock()
        self._lasting: dict[str, _Node] = {}
        self._names: dict[str, _Node] = {}
        self._renamings: list[_Renaming] = []
        for path in sorted(self.root.rglob("*")):
            node = _Folder() if path.is_dir() else _File(bytearray(path.read_bytes()))
            self._lasting[self.below(path)] = self._names[self.below(path)] = node

    @property
    def dead(self) -> bool:
        """Whether the process has died."""
        return self._dead

    def holds(self, path: str | os.PathLike[str] | int) -> bool:
        """Return whether a path lies on the disk, below its root; file descriptors do not."""
        return not isinstance(path, int) and f"{_absolute(path)}{os.sep}".startswith(self._prefix)

    def below(self, path: str | os.PathLike[str]) -> str:
        """Return a path below the root, with slashes; the root itself is empty."""
        return _absolute(path)[len(self._prefix) :].replace(os.sep, "/")

    def create(self, path: str) -> None:
        """Note that an empty file is made; nothing if there is one.

        Raises:
            OSError: It fails.
        """
        with self._guard:
            if path not in self._names:
                self._begin(CallKind.CREATE, path)
                self._rename({path: _File()})

    def write(self, path: str, offset: int, data: bytes) -> int:
        """Note that bytes are written, and return how many of them; fewer if the call fails after those.

        Raises:
            OSError: It fails before the first byte.
        """
        with self._guard:
            file, length, end = self._file(path), len(data), offset + len(data)
            # Within a sector that exists, all of it is written or nothing.
            sectors = range(offset - offset % _SECTOR + _SECTOR, end, _SECTOR)
            tears = [*sectors, *range(max(offset, file.length) + 1, end)]
            if self._begin(CallKind.WRITE, path, may_be_torn=bool(tears)):
                length = self._chance.choice(tears) - offset
            file.changes.append(_Change(offset, data[:length]))
            file.length = max(file.length, offset + length)
            return length

    def cut(self, path: str, length: int) -> None:
        """Note that a file gets another length.

        Raises:
            OSError: It fails.
        """
        with self._guard:
            self._begin(CallKind.CUT, path)
            file = self._file(path)
            file.changes.append(_Change(length, None))
            file.length = length

    def flush(self, path: str) -> None:
        """Make the contents of a file last, or the names in a folder.

        Raises:
            OSError: It fails.
        """
        with self._guard:
            node = self._names.get(path)
            if isinstance(node, _File):
                try:
                    self._begin(CallKind.FLUSH, path)
                except OSError:
                    if not self._dead:
                        node.doom()
                    raise
                node.flush()
            else:
                self._begin(CallKind.FLUSH_FOLDER, path)
                for renaming in self._renamings:
                    if renaming.folder == path:
                        _set(self._lasting, renaming.names)
                self._renamings = [item for item in self._renamings if item.folder != path]

    def rename(self, path: str, to: str) -> None:
        """Note that a file gets another name in the same folder.

        Raises:
            OSError: It fails.
        """
        with self._guard:
            self._begin(CallKind.RENAME, to)
            self._rename({path: None, to: self._names[path]})

    def unlink(self, path: str) -> None:
        """Note that a file is removed.

        Raises:
            OSError: It fails.
        """
        with self._guard:
            if path in self._names:
                self._begin(CallKind.UNLINK, path)
                self._rename({path: None})

    def make_folder(self, path: str) -> None:
        """Note that a folder is made.

        Raises:
            OSError: It fails.
        """
        with self._guard:
            self._begin(CallKind.MAKE_FOLDER, path)
            self._rename({path: _Folder()})

    def remove_folder(self, path: str) -> None:
        """Note that an empty folder is removed.

        Raises:
            OSError: It fails.
        """
        with self._guard:
            self._begin(CallKind.REMOVE_FOLDER, path)
            self._rename({path: None})

    def kill(self) -> None:
        """Let the process die now."""
        self._dead = True

    def restart(self, *, dies_at: int | None = None, fault_rate: float = 0.0) -> None:
        """Begin another process on the disk as it is, with all that was written: the machine went on.

        Args:
            dies_at: Number of the call, from now on, during which that process dies.
            fault_rate: Probability that one of its calls fails.
        """
        with self._guard:
            self._dead, self._dies_at, self._fault_rate = False, dies_at, fault_rate
            self.calls.clear()

    def cut_power(self, into: Path) -> None:
        """Write what the disk may hold after a power cut into an empty folder."""
        with self._guard:
            names = dict(self._lasting)
            lost: set[str] = set()
            keeps = self._chance.choice((0.0, 0.5, 1.0))
            for renaming in self._renamings:
                if lost.isdisjoint(renaming.names) and self._chance.random() < keeps:
                    _set(names, renaming.names)
                else:
                    lost.update(renaming.names)
            for path, node in sorted(names.items()):
                if not (into / path).parent.is_dir():
                    continue  # its folder is lost
                if isinstance(node, _File):
                    (into / path).write_bytes(node.left(self._chance))
                else:
                    (into / path).mkdir()

    def _begin(self, kind: CallKind, path: str, *, may_be_torn: bool = False) -> bool:
        """Note a call, and return whether it is torn.

        Raises:
            OSError: It fails, or the process is dead.
        """
        if self._dead:
            raise _error(errno.EIO)
        self.calls.append(DiskCall(kind, path))
        if self._dies_at is not None and len(self.calls) >= self._dies_at:
            self._dead = True
            if self._chance.random() < 0.5:
                raise _error(errno.EIO)
            return may_be_torn
        if self._chance.random() >= self._fault_rate:
            return False
        self.faults += 1
        if may_be_torn and self._chance.random() < 0.5:
            return True
        raise _error(self._chance.choice(_ERRORS[kind]))

    def _file(self, path: str) -> _File:
        node = self._names[path]
        assert isinstance(node, _File), path
        return node

    def _rename(self, names: Mapping[str, _Node | None]) -> None:
        folder = next(iter(names)).rpartition("/")[0]
        self._renamings.append(_Renaming(folder, names))
        _set(self._names, names)


def _absolute(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.fsdecode(path))  # noqa: PTH100  (`Path.resolve` would follow links, slowly)


def _apply(content: bytearray, change: _Change) -> None:
    if change.data is None:
        if change.offset < len(content):
            del content[change.offset :]
        content.extend(bytes(change.offset - len(content)))
    else:
        content.extend(bytes(max(0, change.offset - len(content))))
        content[change.offset : change.offset + len(change.data)] = change.data


def _apply_some(content: bytearray, change: _Change, chance: Random) -> None:
    """Apply some sectors of a change, or none; what was not written of a longer file may read as zeros."""
    if change.data is None:
        if chance.random() < 0.5:
            _apply(content, change)
        return
    end = change.offset + len(change.data)
    start = change.offset
    while start < end:
        stop = min(end, (start // _SECTOR + 1) * _SECTOR)
        if chance.random() < 0.5:
            _apply(content, _Change(start, change.data[start - change.offset : stop - change.offset]))
        start = stop
    if end > len(content) and chance.random() < 0.25:
        content.extend(bytes(end - len(content)))


def _set(names: dict[str, _Node], changed: Mapping[str, _Node | None]) -> None:
    for name, node in changed.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))
