r"""Plain storage: one readable file a log, below one folder with a marker of its format (``factmem.json``).

A file is a sequence of *frames*: lines of ``<crc32 hex> <JSON>\n``. One append is one frame, written with its line feed
last and flushed before the next one begins. So only the last frame can be unacknowledged:

- *No line feed at the end*: the write was cut short; it was never acknowledged and is skipped. Only if all but the very
  last byte is a valid frame was the line feed itself changed: damage.
- *A line feed, a wrong checksum and two NULs in a row*: a power cut that left out sectors of the disk, or the later
  part of one. JSON holds no NUL and one flipped bit makes no row of them, so this counts as cut short.
- *A line feed and a wrong checksum otherwise*: an acknowledged frame was changed: damage.

An invalid frame before the last one is always damage.

File names are readable if possible, and distinct for distinct names. A name of only ``a-z``, ``0-9``, ``_`` and ``-``
that is short and no device of Windows stays as it is. Any other becomes ``<slug>~<hash>``: its readable ASCII part, and
128 bits of hash over the exact name. Upper and lower case, composed and decomposed letters thus never collide in a file
system that conflates them, and no name leads out of its folder. No file name is decoded: each file holds its own name.

``@default`` is the empty segment (the tenant without a name), ``@`` joins the names of a subject and an individual,
``deep~~<hash>`` replaces the rest of a path that is too long. Names of folders hold no full stop and names of files do,
so that a folder and a file never clash.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import unicodedata
import uuid
import zlib
from collections.abc import Collection, Iterator, Sequence
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any, Final

import attrs
from typing_extensions import override

from factmem.abc.log_storage import LogName, LogStorage, Position, Scan
from factmem.errors import (
    CorruptStoreError,
    DowngradedStoreError,
    MisplacedDataError,
    NewerVersionError,
    StoreUnavailableError,
)
from factmem.legal_names import checked_path
from factmem.private_files import (
    TEMPORARY,
    FlushError,
    held_lock,
    is_exposed,
    is_leftover,
    is_read_only,
    make_folders,
    may_write,
    open_to_append,
    open_to_change,
    remove_leftovers,
    replace_file,
    sync_file,
    sync_folder,
    write_all,
)
from factmem.progress import Progress
from factmem.providers.backups import refuse_unfinished_restore
from factmem.store_findings import Finding, FindingKind, exposed, finding_of, leftover

CRC_LENGTH: Final = 8
"""Number of hex digits at the beginning of a frame."""

_UNWRITTEN: Final = re.compile(rb"\A\0|\0\0")


class DamagedFrameError(ValueError):
    """Raised when bytes are not a sequence of frames.

    Attributes:
        start: Offset of the bad frame in the data.
    """

    def __init__(self, start: int) -> None:
        super().__init__(f"no sound frame at {start}")
        self.start = start


@attrs.frozen(kw_only=True)
class Parsed:
    """Whole frames.

    Attributes:
        payloads: Payloads of the frames, in order.
        start: Offset of the last frame; 0 if there is none.
        end: Offset behind it; the rest was never acknowledged.
    """

    payloads: tuple[bytes, ...]
    start: int
    end: int


def framed(payload: bytes) -> bytes:
    """Return the frame of a payload, which must not hold a line feed."""
    return b"%08x %b\n" % (zlib.crc32(payload), payload)


def parse(data: bytes, *, limit: int | None = None) -> Parsed:
    """Read frames up to a number of them, or to the first unacknowledged byte.

    Raises:
        DamagedFrameError: An acknowledged frame was changed.
    """
    *lines, tail = data.split(b"\n")
    payloads: list[bytes] = []
    start = end = 0
    for line in lines[:limit]:
        payload = _payload(line)
        if payload is None:
            if end + len(line) + 1 == len(data) and _UNWRITTEN.search(line):
                break
            raise DamagedFrameError(end)
        payloads.append(payload)
        start, end = end, end + len(line) + 1
    else:
        if len(payloads) != limit and tail and tail[-1] != 0 and _payload(tail[:-1]) is not None:
            raise DamagedFrameError(end)
    return Parsed(payloads=tuple(payloads), start=start, end=end)


def _payload(line: bytes) -> bytes | None:
    crc, space, payload = line[:CRC_LENGTH], line[CRC_LENGTH : CRC_LENGTH + 1], line[CRC_LENGTH + 1 :]
    return payload if space == b" " and crc == b"%08x" % zlib.crc32(payload) else None


def read_json(content: bytes) -> Any:
    """Read a document of JSON; None if it is invalid."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


_READABLE: Final = "facts"

_PLAIN_NAME: Final = re.compile(r"[a-z0-9_][a-z0-9_-]{0,39}")
_DEVICES: Final = frozenset(["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))])
_SLUG_LENGTH: Final = 20
_LONGEST_FOLDER: Final = 150
_DEFAULT_NAME: Final = "@default"


def encoded(name: str) -> str:
    """Return the file name of one name."""
    if not name:
        return _DEFAULT_NAME
    if _PLAIN_NAME.fullmatch(name) and name not in _DEVICES:
        return name
    return f"{_slug(name)}~{_hash(name)}"


def suffix(kind: str) -> str:
    """Return the suffix of the file names of a kind of log."""
    return ".jsonl" if kind == _READABLE else f".{kind}"


def folder_path(folder: Sequence[str]) -> tuple[str, ...]:
    """Return the folders of a path, at most about 150 characters in all."""
    parts = tuple(map(encoded, folder))
    if len("/".join(parts)) <= _LONGEST_FOLDER:
        return parts
    rest = f"deep~~{_hash(json.dumps(list(folder)))}"
    kept = 1
    while len("/".join((*parts[: kept + 1], rest))) <= _LONGEST_FOLDER:
        kept += 1
    return (*parts[:kept], rest)


def file_path(log: LogName) -> tuple[str, ...]:
    """Return the path of a log's file below the root."""
    return (*folder_path(log.folder), "@".join(map(encoded, log.name)) + suffix(log.kind))


def _slug(name: str) -> str:
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9_]+", "-", ascii_only)[:_SLUG_LENGTH].strip("-")
    return slug or "name"


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


STORE_FORMAT: Final = 1
"""Format of the stores that this factmem writes, and the newest that it reads."""

_PLAIN: Final = "factmem"
"""Name of plain files in a marker."""

_MARKER_NAME: Final = "factmem.json"
LOCK_NAME: Final = ".lock"


def _marker(form: str) -> bytes:
    """Return the content of the marker of a new store of some form."""
    return json.dumps({"format": STORE_FORMAT, "store": form}).encode() + b"\n"


def _check_marker(content: bytes, root: Path, form: str) -> None:
    """Raise unless this factmem can use the store.

    Raises:
        NewerVersionError: A newer factmem wrote it.
        DowngradedStoreError: It holds plain files, and another form was requested.
        StoreUnavailableError: It is of another form than plain files.
        CorruptStoreError: The marker is damaged.
    """
    match read_json(content):
        case {"format": int() as version, "store": str()} if version > STORE_FORMAT:
            raise NewerVersionError(
                f"the store at {root} is of format {version}, newer than {STORE_FORMAT}: upgrade factmem to use it"
            )
        case {"format": 1, "store": str() as found} if found == form:
            return
        case {"format": 1, "store": "factmem"}:
            raise DowngradedStoreError(
                f"the store at {root} is of plain files, and {form} was asked for: open it with file:, "
                "or copy the whole of it into a new store with `factmem move`"
            )
        case {"format": 1, "store": str() as found} if found.startswith(f"{_PLAIN}-"):
            raise StoreUnavailableError(
                f"the store at {root} is {found}, and {form} was asked for: "
                f"open it with {found.removeprefix(f'{_PLAIN}-')}:"
            )
        case _:
            raise CorruptStoreError(
                f"{_MARKER_NAME} in {root} is damaged: restore it, or write {_marker(form).decode().strip()} into it"
            )


def _is_vacant(root: Path) -> bool:
    """Return whether a store can be created here; False if another process has just created one.

    Raises:
        StoreUnavailableError: The folder holds something else.
    """
    try:
        names = {path.name for path in root.iterdir()}
    except FileNotFoundError:
        return True
    if _MARKER_NAME in names:
        return False
    # Judged by the names that were read: a temporary file may have become the marker meanwhile.
    if any(name != LOCK_NAME and not is_leftover(name, _MARKER_NAME) for name in names):
        raise StoreUnavailableError(
            f"{root} holds other files and no {_MARKER_NAME}: nothing was written. "
            "Name an empty folder, or restore the file if this was a store"
        )
    return True


START: Final = Position()
"""Position before the first read."""

_HEADER_VERSION: Final = 1
_TAIL: Final = 1 << 16


def _new_header(log: LogName) -> bytes:
    """Return the payload of the first frame of a file: the name of the log, and its generation."""
    header = {"factmem": _HEADER_VERSION, **attrs.asdict(log), "generation": uuid.uuid4().hex}
    return json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()


@attrs.frozen
class _LogFile:
    """The file of a log, for reading. A missing file raises `FileNotFoundError`.

    Attributes:
        path: Path of the file.
        shown: Path below the root, for errors.
    """

    path: Path
    shown: str

    def scan(self, log: LogName, since: Position, limit: int | None) -> Scan:
        """Return the frames behind a position, or all of them if the earlier ones were replaced."""
        if _stamp(self.path.stat()) == since.stamp:
            return Scan(payloads=(), position=since, fresh=False)
        with self.path.open("rb") as file:
            return self._resumed(file, log, since, limit) or self._afresh(file, log, limit)

    def _resumed(self, file: BufferedReader, log: LogName, since: Position, limit: int | None) -> Scan | None:
        size = os.fstat(file.fileno()).st_size
        # A file that changed without growing was changed in place.
        if not since.end or size <= since.end or self._generation(file.readline(), log) != since.generation:
            return None
        file.seek(since.start)
        data = file.read()
        if not data.startswith(since.mark):
            return None
        parsed = self._parsed(data, since.start, limit)
        position = _position(parsed, data, since.generation, file, offset=since.start)
        return Scan(payloads=parsed.payloads[1:], position=position, fresh=False)

    def _afresh(self, file: BufferedReader, log: LogName, limit: int | None) -> Scan:
        file.seek(0)
        data = file.read()
        parsed = self._parsed(data, limit=limit)
        if not parsed.payloads:
            return Scan(payloads=(), position=START, fresh=True)
        generation = self._checked_header(parsed.payloads[0], log)
        position = _position(parsed, data, generation, file, offset=0)
        return Scan(payloads=parsed.payloads[1:], position=position, fresh=True)

    def last(self) -> bytes | None:
        """Return the last payload behind the header; only the end of the file is read."""
        with self.path.open("rb") as file:
            size, length = os.fstat(file.fileno()).st_size, _TAIL
            while True:
                start = max(0, size - length)
                file.seek(start)
                data = file.read(size - start)
                skipped = data.find(b"\n") + 1 if start else 0
                payloads = self._parsed(data[skipped:], start + skipped).payloads
                if start == 0:
                    return payloads[-1] if len(payloads) > 1 else None
                if skipped and payloads:
                    return payloads[-1]
                length *= 8

    def name(self, root: Path) -> LogName | None:
        """Return the name in the file; None if its writer died before writing it."""
        log = self._named(root)
        # Logs outside of any folder are the storage's own, and are not listed.
        if log is not None and not log.folder:
            raise self._misplaced()
        return log

    def check(self, root: Path) -> None:
        """Read the whole file.

        Raises:
            CorruptStoreError: It is damaged, or holds another log than its path says.
            NewerVersionError: A newer factmem wrote it.
        """
        log = self._named(root)
        if log is not None:
            self.scan(log, START, None)

    def _named(self, root: Path) -> LogName | None:
        with self.path.open("rb") as file:
            payloads = self._parsed(file.readline()).payloads
        if not payloads:
            return None
        log, _ = self._header(payloads[0])
        if root.joinpath(*file_path(log)) != self.path:
            raise self._misplaced()
        return log

    def _generation(self, line: bytes, log: LogName) -> str | None:
        payloads = self._parsed(line).payloads
        return self._checked_header(payloads[0], log) if payloads else None

    def _checked_header(self, payload: bytes, log: LogName) -> str:
        named, generation = self._header(payload)
        if named != log:
            raise self._misplaced()
        return generation

    def _header(self, payload: bytes) -> tuple[LogName, str]:
        match read_json(payload):
            case {"factmem": int() as version} if version > _HEADER_VERSION:
                raise NewerVersionError(f"{self.shown} was written by a newer factmem: upgrade factmem to read it")
            case {
                "folder": [*_] as folder,
                "name": [_, *_] as name,
                "kind": str() as kind,
                "generation": str() as life,
            } if _are_names([*folder, *name, kind]):
                return LogName(folder=tuple(folder), name=tuple(name), kind=kind), life
            case _:
                raise CorruptStoreError(f"{self.shown} does not begin with a header: restore it from a backup")

    def _misplaced(self) -> MisplacedDataError:
        return MisplacedDataError(f"{self.shown} holds another log than its path says: move it back")

    def _parsed(self, data: bytes, offset: int = 0, limit: int | None = None) -> Parsed:
        try:
            # One frame more is the header, or the last one read.
            return parse(data, limit=None if limit is None else limit + 1)
        except DamagedFrameError as error:
            raise CorruptStoreError(
                f"{self.shown} is damaged at byte {offset + error.start}, and is not written to in this state: "
                "restore it from a backup, or remove the damaged line to give up what it held"
            ) from None


def _are_names(parts: Sequence[Any]) -> bool:
    try:
        "".join(parts).encode()
    except (TypeError, UnicodeEncodeError):
        return False
    return True


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return (status.st_ino, status.st_size, status.st_mtime_ns)


def _position(parsed: Parsed, data: bytes, generation: str, file: BufferedReader, *, offset: int) -> Position:
    stamp, end = _stamp(os.fstat(file.fileno())), offset + parsed.end
    return Position(
        generation=generation,
        start=offset + parsed.start,
        end=end,
        mark=data[parsed.start : parsed.start + CRC_LENGTH],
        stamp=stamp if stamp[1] == end else None,
    )


_NOTE_SUFFIX: Final = ".note"


class LocalLogStorage(LogStorage):
    """Keeps framed logs as files of readable lines, safe against kills, power cuts and other processes.

    The first frame of a file is its header: the exact name of the log, and a generation that changes when the log is
    replaced. See `parse` for damaged frames.

    Args:
        root: Folder; the first write creates it.
        form: Form of the store in its marker, so that it is not taken for another one.
    """

    def __init__(self, root: str | os.PathLike[str], *, form: str = _PLAIN) -> None:
        self._root = checked_path(root, what="root").absolute()
        self._form = form
        self._found = False
        self._distrusted = self._unlocked = False
        self._anchored = False
        self._durable: dict[Path, int] = {}
        self._names: dict[Path, LogName] = {}

    @override
    def exists(self) -> bool:
        if not self._found:
            with self._own_errors("read"):
                self._found = self._look()
        return self._found

    @property
    @override
    def read_only(self) -> bool:
        return is_read_only(self._root) and not may_write(self._root / LOCK_NAME)

    @override
    @contextlib.contextmanager
    def lock(self, timeout: float) -> Iterator[None]:
        self._refuse_distrusted()
        with self._own_errors("locked"):
            if self._look() and self.read_only:
                self._unlocked = True
                try:
                    yield
                finally:
                    self._unlocked = False
                return
            make_folders(self._root)
            refusal = (
                f"the store at {self._root} was locked by others for {timeout:g} s: "
                "try again, or open it with a longer lock_timeout"
            )
            held = held_lock(self._root / LOCK_NAME, refusal, timeout=timeout)
        try:
            with self._own_errors("written"):
                if not self._look():
                    replace_file(self._root / _MARKER_NAME, _marker(self._form))
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
                _check_marker((self._root / _MARKER_NAME).read_bytes(), self._root, self._form)
            except FileNotFoundError:
                if _is_vacant(self._root):
                    return False
            else:
                return True

    @override
    def append(self, log: LogName, payload: bytes, after: Position, *, durable: bool = True) -> None:
        self._refuse_distrusted()
        path = self._path(log)
        data = framed(payload) if after.end else framed(_new_header(log)) + framed(payload)
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
        """See `factmem.abc.log_storage.LogStorage.seal`: here each append counts at once."""

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
                replace_file(path, b"".join(map(framed, (_new_header(log), *payloads))), durable=durable)
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
    def check(self, progress: Progress) -> Sequence[Finding]:
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
            yield exposed(part, f"chmod -R go= {self._root}")
        if path.is_dir() or path.name in (LOCK_NAME, _MARKER_NAME):
            return
        if path.suffix == TEMPORARY:
            yield leftover(part, "a writer died while it was made", "it is not read")
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

    def _file(self, path: Path) -> _LogFile:
        return _LogFile(path, self._shown(path))

    def _shown(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _refuse_distrusted(self) -> None:
        if self._unlocked:
            raise StoreUnavailableError(
                f"the store at {self._root} could not be written: this process may not write into its folder"
            )
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
