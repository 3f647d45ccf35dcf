"""Plain storage: one readable file a log, below one folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout
from typing_extensions import override

from factmem.abc import LogName, LogStorage, Position, Scan
from factmem.errors import CorruptStoreError, NewerVersionError, StoreUnavailableError
from factmem.findings import Finding, FindingKind, finding_of
from factmem.names import checked_path
from factmem.private_files import (
    TEMPORARY,
    FlushError,
    is_exposed,
    make_folders,
    open_to_append,
    open_to_change,
    remove_leftovers,
    replace_file,
    sync_file,
    sync_folder,
    write_all,
)
from factmem.providers import refuse_unfinished_restore
from factmem_file.frames import DamagedFrameError, framed, parse
from factmem_file.marker import LOCK_NAME, MARKER_NAME, PLAIN, check_marker, is_vacant, marker
from factmem_file.names import file_path, folder_path, suffix
from factmem_file.reading import START, LogFile, new_header

__all__ = ["LocalLogStorage"]

_POLL_SECONDS: Final = 0.01
_NOTE_SUFFIX: Final = ".note"


class LocalLogStorage(LogStorage):
    """Keeps framed logs as files of readable lines, safe against kills, power cuts and other processes.

    The first frame of a file is its header: the exact name of the log, and a generation that changes when the log is
    replaced. See `factmem_file.frames` for damaged frames.

    Args:
        root: Folder; the first write creates it.
        form: Form of the store in its marker, so that it is not taken for another one.
    """

    def __init__(self, root: str | os.PathLike[str], *, form: str = PLAIN) -> None:
        self._root = checked_path(root, what="root").absolute()
        self._form = form
        self._found = False
        self._distrusted = False
        self._anchored = False
        self._durable: dict[Path, int] = {}
        self._names: dict[Path, LogName] = {}

    @override
    def exists(self) -> bool:
        if not self._found:
            with self._own_errors("read"):
                self._found = self._look()
        return self._found

    @override
    @contextlib.contextmanager
    def lock(self, timeout: float) -> Iterator[None]:
        self._refuse_distrusted()
        with self._own_errors("locked"):
            self._look()
            make_folders(self._root)
            held = FileLock(self._root / LOCK_NAME, timeout=timeout, mode=0o600, poll_interval=_POLL_SECONDS)
            try:
                held.acquire()
            except Timeout:
                raise StoreUnavailableError(
                    f"the store at {self._root} was locked by others for {timeout:g} s: "
                    "try again, or open it with a longer lock_timeout"
                ) from None
        try:
            with self._own_errors("written"):
                if not self._look():
                    replace_file(self._root / MARKER_NAME, marker(self._form))
                self._anchor_root()
            self._found = True
            yield
        finally:
            held.release()

    def _look(self) -> bool:
        """Return whether there is a store; raise if there is something else."""
        refuse_unfinished_restore(self._root)
        while True:
            try:
                check_marker((self._root / MARKER_NAME).read_bytes(), self._root, self._form)
            except FileNotFoundError:
                if is_vacant(self._root):
                    return False
            else:
                return True

    @override
    def append(self, log: LogName, payload: bytes, after: Position, *, durable: bool = True) -> None:
        self._refuse_distrusted()
        path = self._path(log)
        data = framed(payload) if after.end else framed(new_header(log)) + framed(payload)
        with self._own_errors("written"):
            if durable:
                self._settle(path, after)
            make_folders(path.parent, durable=False)  # a durable append flushes their names itself
            with open_to_append(path) as file:
                self._write(path, file, after.end, data, durable=durable)
        self._durable[path] = after.end + len(data) if durable else 0

    def _write(self, path: Path, file: FileIO, end: int, data: bytes, *, durable: bool) -> None:
        size = os.fstat(file.fileno()).st_size
        if size < end:
            raise CorruptStoreError(f"{self._shown(path)} was cut shorter: restore it from a backup")
        try:
            if size > end:
                file.truncate(end)
            write_all(file, data)
            if durable:
                sync_file(file)
                if not end:
                    self._anchor(path)
        except OSError:
            self._take_back(file, end)
            raise

    def _take_back(self, file: FileIO, end: int) -> None:
        try:
            file.truncate(end)
        except OSError:
            self._distrusted = True

    def seal(self) -> None:
        """See `factmem.abc.LogStorage.seal`: here each append counts at once."""

    @override
    def settle(self, log: LogName, upto: Position) -> None:
        self._refuse_distrusted()
        with self._own_errors("written"):
            self._settle(self._path(log), upto)

    def _settle(self, path: Path, upto: Position) -> None:
        if upto.end and self._durable.get(path) != upto.end:
            with open_to_change(path) as file:
                sync_file(file)
            self._anchor(path)
            self._durable[path] = upto.end

    def _anchor(self, path: Path) -> None:
        """Flush the names on the way to a file: the process that created them may have died before flushing."""
        while path != self._root:
            path = path.parent
            sync_folder(path)

    def _anchor_root(self) -> None:
        """Flush the name of the marker, and of the root: without them, nothing below would be a store."""
        if not self._anchored:
            sync_folder(self._root)
            for folder in self._root.parents[:2]:
                with contextlib.suppress(PermissionError):
                    sync_folder(folder)
            self._anchored = True

    @override
    def scan(self, log: LogName, since: Position | None = None, *, limit: int | None = None) -> Scan:
        with self._own_errors("read"):
            try:
                return self._file(self._path(log)).scan(log, since or START, limit)
            except FileNotFoundError:
                return Scan(payloads=(), position=START, fresh=True)

    @override
    def last(self, log: LogName) -> bytes | None:
        with self._own_errors("read"):
            try:
                return self._file(self._path(log)).last()
            except FileNotFoundError:
                return None

    @override
    def replace(self, log: LogName, payloads: Sequence[bytes], *, durable: bool = True) -> None:
        self._refuse_distrusted()
        path = self._path(log)
        self._durable.pop(path, None)
        with self._own_errors("written"):
            # Remains of an interrupted replacement may hold what is being erased.
            remove_leftovers(path)
            if payloads:
                make_folders(path.parent, durable=durable)
                replace_file(path, b"".join(map(framed, (new_header(log), *payloads))), durable=durable)
                if durable:
                    self._anchor(path.parent)
            elif path.parent.is_dir():
                path.unlink(missing_ok=True)
                self._names.pop(path, None)
                if durable:
                    sync_folder(path.parent)
                self._prune(path.parent)

    def _prune(self, folder: Path) -> None:
        """Remove empty folders: their names reveal removed places."""
        while folder != self._root:
            try:
                folder.rmdir()
            except OSError:  # not empty
                return
            folder = folder.parent
            sync_folder(folder)

    @override
    def sweep(self) -> None:
        self._refuse_distrusted()
        with self._own_errors("written"):
            for path in _log_files(self._root, {TEMPORARY}):
                path.unlink(missing_ok=True)

    @override
    def logs(self, folder: Sequence[str] = (), *, kinds: Collection[str]) -> Sequence[LogName]:
        top = self._root.joinpath(*folder_path(folder[:1]))
        with self._own_errors("read"):
            found = [self._name_of(path) for path in _log_files(top, set(map(suffix, kinds)))]
        return [log for log in found if log is not None and log.folder[: len(folder)] == tuple(folder)]

    def _name_of(self, path: Path) -> LogName | None:
        """Return the name in a file, read once: no other name has the same path."""
        if path not in self._names:
            try:
                name = self._file(path).name(self._root)
            except FileNotFoundError:
                return None
            if name is None:
                return None
            self._names[path] = name
        return self._names[path]

    @override
    def check(self, progress: Callable[[int, int], None]) -> Sequence[Finding]:
        found: list[Finding] = []
        with self._own_errors("read"):
            paths = sorted(self._root.rglob("*"))
            for done, path in enumerate(paths, start=1):
                with contextlib.suppress(FileNotFoundError):  # a writer has just removed it
                    found += self._findings(path)
                progress(done, len(paths))
        return found

    def _findings(self, path: Path) -> Iterator[Finding]:
        part = self._shown(path)
        if is_exposed(path):
            yield Finding(
                kind=FindingKind.EXPOSED,
                part=part,
                problem="others than its owner may use it",
                advice=f"run  chmod -R go= {self._root}",
            )
        if path.is_dir() or path.name in (LOCK_NAME, MARKER_NAME):
            return
        if path.suffix == TEMPORARY:
            yield Finding(
                kind=FindingKind.LEFTOVER,
                part=part,
                problem="a writer died while it was made",
                advice="nothing: it is not read",
            )
        elif path.suffix == _NOTE_SUFFIX:
            if self.read_note(path.stem) is None:
                yield Finding(
                    kind=FindingKind.REMAKEABLE,
                    part=part,
                    problem="the note is damaged",
                    advice="nothing: the next write makes it again (`factmem reembed`, if it is embedder.note)",
                )
        else:
            try:
                self._file(path).check(self._root)
            except (CorruptStoreError, NewerVersionError) as error:
                yield finding_of(error, part)

    @override
    def read_note(self, name: str) -> bytes | None:
        with self._own_errors("read"):
            try:
                payloads = parse(self._note(name).read_bytes()).payloads
            except (FileNotFoundError, DamagedFrameError):
                return None
        return payloads[0] if len(payloads) == 1 else None

    @override
    def write_note(self, name: str, payload: bytes, *, durable: bool = True) -> None:
        self._refuse_distrusted()
        path, data = self._note(name), framed(payload)
        with self._own_errors("written"):
            if durable or not path.exists():
                replace_file(path, data, durable=durable)
                return
            # In place: this works on a full disk, and a torn note is detected by its checksum.
            with open_to_change(path) as file:
                write_all(file, data)
                file.truncate()

    @override
    def close(self) -> None:
        self._durable.clear()
        self._names.clear()

    def _path(self, log: LogName) -> Path:
        return self._root.joinpath(*file_path(log))

    def _note(self, name: str) -> Path:
        return self._root / f"{name}{_NOTE_SUFFIX}"

    def _file(self, path: Path) -> LogFile:
        return LogFile(path, self._shown(path))

    def _shown(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _refuse_distrusted(self) -> None:
        if self._distrusted:
            raise StoreUnavailableError(
                f"writing to the store at {self._root} failed in a way that leaves open what is on the disk: "
                "check the disk, then open the store again"
            )

    @contextlib.contextmanager
    def _own_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, FlushError):
                self._distrusted = True
            after = "; open the store again once the disk is well" if self._distrusted else ""
            raise StoreUnavailableError(
                f"the store at {self._root} could not be {what}: {error.strerror or type(error).__name__}{after}"
            ) from error


def _log_files(top: Path, suffixes: Collection[str]) -> Iterator[Path]:
    def complain(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for folder, _, files in os.walk(top, onerror=complain):
        for name in files:
            path = Path(folder, name)
            if path.suffix in suffixes:
                yield path
