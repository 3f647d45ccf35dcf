"""Sources of importers: files, archives, databases and folders of somebody else, opened as if they meant harm.

No file is written or unpickled, and no link is followed but the path that a person names. Sizes are checked before
anything is read, and what an archive unpacks to while it is.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import io
import itertools
import json
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Final, TextIO
from urllib.parse import quote

import attrs

from factmem.errors import FileFormatError
from factmem.importers.contract import Problem, Skipped
from factmem.importers.rows import Row, guarded, parsed
from factmem.json_stream import json_rows
from factmem.validators import positive

if TYPE_CHECKING:
    import sqlite3
    import zipfile

_GZIP: Final = b"\x1f\x8b"
_ZIP: Final = b"PK\x03\x04"
_SQLITE: Final = b"SQLite format 3\x00"
_LINES: Final = (".jsonl", ".ndjson")


@attrs.frozen(kw_only=True)
class Limits:
    """Sizes beyond which a source is refused.

    Attributes:
        row_chars: Maximum length of one row, conversation or line, in characters.
        file_bytes: Maximum size of a file that is read as a whole, such as a note.
        unpacked_bytes: Maximum size of what an archive unpacks to.
        ratio: Maximum ratio of unpacked to packed bytes, beyond the first megabytes.
        files: Maximum number of files in a folder or an archive.
        depth: Maximum depth of a folder.

    Raises:
        InvalidDataError: A limit is not a whole number of at least 1.
    """

    row_chars: int = attrs.field(default=32 * 1024 * 1024, validator=positive)
    file_bytes: int = attrs.field(default=8 * 1024 * 1024, validator=positive)
    unpacked_bytes: int = attrs.field(default=8 * 1024 * 1024 * 1024, validator=positive)
    ratio: int = attrs.field(default=200, validator=positive)
    files: int = attrs.field(default=100_000, validator=positive)
    depth: int = attrs.field(default=32, validator=positive)


_NEXT: Final = ("next", "next_page", "nextPageToken", "next_page_token", "next_cursor")
_TOTALS: Final = ("count", "total", "totalSize", "total_size")


def _unread(where: str, others: Mapping[str, Any], rows: int) -> Iterator[Problem | Skipped]:
    """Yield what an answer says of rows that are not in it, and the lists beside its rows."""
    most = max((number for key in _TOTALS if type(number := others.get(key)) is int), default=0)
    if any(others.get(key) for key in _NEXT) or most > rows:
        error = FileFormatError("the answer is one page of several: write the rows of all pages", path=where)
        yield Problem(where, error)
    for key, value in others.items():
        if isinstance(value, list) and value:
            yield Skipped(f"they stand under {key[:100]}, which is not read", len(value))


def _row(where: str, value: object) -> Iterator[Row]:
    yield Row.of(where, value)


def _row_in(where: str, line: str) -> Iterator[Row]:
    yield Row.of(where, parsed(line, where))


def _first_in(folder: Path, names: Iterable[str]) -> Path | None:
    """Return the first file of these names in a folder, or None.

    Raises:
        FileFormatError: It is a link.
    """
    for name in names:
        found = folder / name
        if found.is_symlink():
            raise FileFormatError(f"{found} is a link, which is not followed: name the file that it leads to")
        if found.is_file():
            return found
    return None


_UNSUSPICIOUS: Final = 16 * 1024 * 1024
"""Unpacked bytes that are never too many: a small file may shrink to almost nothing."""


class Source:
    """A file or a folder to import from.

    Args:
        path: Its path.
        limits: Sizes beyond which it is refused.

    Attributes:
        path: Its path.
        is_folder: Whether it is a folder.
        size: Bytes to read, for a progress bar; 0 if that is not known beforehand.

    Raises:
        FileFormatError: There is no such file, or it is neither a regular file nor a folder.
    """

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        self.path = path
        self.limits: Limits = limits or Limits()
        self._done = 0
        self._open: list[io.FileIO] = []
        with _reading(path):
            found = path.stat()
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise FileFormatError(f"{path} is neither a file nor a folder")
        self.is_folder: bool = stat.S_ISDIR(found.st_mode)
        self.size: int = 0 if self.is_folder else found.st_size

    def changed_at(self, path: Path | None = None) -> dt.datetime:
        """Return the time of a file's last change, in whole seconds, as every copy of a file keeps it."""
        with _reading(path or self.path):
            return dt.datetime.fromtimestamp(int((path or self.path).stat().st_mtime), dt.UTC)

    def file(self, *names: str) -> Path | None:
        """Return the first file of these names in the folder, or None; the source itself if it is a file.

        Raises:
            FileFormatError: It is a link.
        """
        return _first_in(self.path, names) if self.is_folder else self.path

    def needed(self, *names: str) -> Path:
        """Return the first file of these names in the folder, or the source itself.

        Raises:
            FileFormatError: The folder has no such file.
        """
        if (found := self.file(*names)) is None:
            raise FileFormatError(f"{self.path} holds no {' or '.join(names)}")
        return found

    def together(self, *stems: str) -> list[Path]:
        """Return the JSON files of these names in the folder: ``nodes`` is nodes.jsonl or nodes.json.

        A file of one of these names stands for its folder: those beside it are read with it. Any other file is alone.

        Raises:
            FileFormatError: One is a link.
        """
        if not self.is_folder and self.path.name.partition(".")[0] not in stems:
            return [self.path]
        folder = self.path if self.is_folder else self.path.parent
        found = [_first_in(folder, (f"{stem}.jsonl", f"{stem}.json")) for stem in stems]
        return list(dict.fromkeys([*filter(None, found), *([] if self.is_folder else [self.path])]))

    # -- Text and JSON --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def text(self, path: Path | None = None) -> Iterator[TextIO]:
        """Open a text file, gzipped or not, in any encoding of Unicode.

        Raises:
            FileFormatError: It cannot be read, is not text, or unpacks to too much.
        """
        path = path or self.path
        with _reading(path), self._opened(path) as raw:
            file: io.RawIOBase = raw
            head = raw.read(len(_GZIP))
            raw.seek(0)
            if head == _GZIP:
                file = _Unpacked(gzip.GzipFile(fileobj=raw), self.limits, raw.tell)
            with _decoded(file) as text:
                yield text

    @contextlib.contextmanager
    def _opened(self, path: Path) -> Iterator[io.FileIO]:
        """Open a file whose bytes count as read."""
        with path.open("rb", buffering=0) as raw:
            self._open.append(raw)
            try:
                yield raw
            finally:
                self._open.remove(raw)
                self._done += raw.tell()

    @property
    def bytes_read(self) -> int:
        """Bytes read so far."""
        return self._done + sum(raw.tell() for raw in self._open)

    def rows(self, path: Path, *keys: str) -> Iterator[Row | Problem | Skipped]:
        """Yield the rows of a JSON or JSON Lines file; see `json_rows`.

        A malformed line of JSON Lines (``.jsonl``) is a `Problem`, and so is an answer that lacks further pages. Other
        lists beside the rows are `Skipped`.
        """
        name = path.name.lower().removesuffix(".gz")
        with self.text(path) as text:
            if name.endswith(_LINES):
                yield from self.json_lines(text)
            else:
                unread: list[Problem | Skipped] = []
                found = json_rows(
                    text, *keys, most=self.limits.row_chars, beside=lambda *others: unread.extend(_unread(*others))
                )
                for where, value in found:
                    yield from guarded(where, _row, where, value)
                yield from unread

    def json_lines(self, text: TextIO) -> Iterator[Row | Problem]:
        """Yield the rows of JSON Lines; a malformed line is a `Problem`."""
        for where, line in self.lines(text):
            yield from guarded(where, _row_in, where, line)

    def lines(self, text: TextIO) -> Iterator[tuple[str, str]]:
        """Yield the lines that are not blank, with their places.

        Raises:
            FileFormatError: A line is too long.
        """
        number = 0
        while line := text.readline(self.limits.row_chars):
            number += 1
            if len(line) >= self.limits.row_chars:
                raise FileFormatError(f"line {number} is longer than {self.limits.row_chars:,} characters")
            if line.strip():
                yield f"line {number}", line

    def document(self, path: Path) -> Row:
        """Return a file that holds one JSON object.

        Raises:
            FileFormatError: It holds something else, or is too large.
        """
        with self.text(path) as text:
            values = list(itertools.islice(json_rows(text, most=self.limits.row_chars), 2))
        if len(values) != 1:
            raise FileFormatError(f"{path} does not hold one JSON object")
        return Row.of(*values[0])

    def whole(self, path: Path) -> str:
        """Return the text of a small file, with its lines separated by line feeds.

        Raises:
            FileFormatError: It is too large, or no text.
        """
        with self.text(path) as text:
            found = text.read(self.limits.file_bytes + 1)
        if len(found) > self.limits.file_bytes:
            raise FileFormatError(f"{path} is larger than {self.limits.file_bytes:,} bytes: split it")
        return found.replace("\r\n", "\n").replace("\r", "\n")

    # -- Folders --------------------------------------------------------------------------------------------------

    def walk(self, suffix: str = "") -> Iterator[Path | Problem]:
        """Yield the files of a folder in the order of their paths, or the file that the source is.

        A link in a folder is a `Problem`.

        Args:
            suffix: Suffix of the files of a folder that are wanted (default: all files).

        Raises:
            FileFormatError: There are too many, or too deep.
        """
        if not self.is_folder:
            yield self.path
            return
        for path in self._below(self.path, self.limits.depth, itertools.count(1)):
            if isinstance(path, Problem) or path.name.endswith(suffix):
                yield path

    def _below(self, folder: Path, depth: int, numbers: Iterator[int]) -> Iterator[Path | Problem]:
        if depth == 0:
            raise FileFormatError(f"{self.path} is nested more than {self.limits.depth} deep")
        with _reading(folder), os.scandir(folder) as listed:
            entries = list(itertools.islice(listed, self.limits.files + 1))
        for entry in sorted(entries, key=lambda entry: entry.name):
            if next(numbers) > self.limits.files:
                raise FileFormatError(f"{self.path} holds more than {self.limits.files:,} files")
            path = folder / entry.name
            if entry.is_symlink():
                yield Problem(self.place(path), FileFormatError("it is a link, which is not followed"))
            elif entry.is_dir(follow_symlinks=False):
                yield from self._below(path, depth - 1, numbers)
            elif entry.is_file(follow_symlinks=False):
                yield path
            else:
                yield Problem(self.place(path), FileFormatError("it is neither a file nor a folder"))

    def place(self, path: Path) -> str:
        """Return the place of a file, as reports name it: its path below the source."""
        return path.name if path == self.path else path.relative_to(self.path).as_posix()

    # -- Archives -------------------------------------------------------------------------------------------------

    def _starts_with(self, head: bytes, path: Path | None = None) -> bool:
        path = path or self.path
        if path == self.path and self.is_folder:
            return False
        with _reading(path), path.open("rb") as file:
            return file.read(len(head)) == head

    def member_values(self, pattern: str, *, needed: bool = True) -> Iterator[tuple[str, Any]]:
        """Yield the JSON values of all files with names of a pattern, in a zip archive or a folder.

        Args:
            pattern: Regular expression of the file's name, without its folder.
            needed: Raise if no file has such a name, and take a source that is neither an archive nor a folder for it.

        Raises:
            FileFormatError: There is no such file, the archive is unsafe, or a file cannot be read.
        """
        wanted = re.compile(pattern)
        found = 0
        for name, opened in self._members(wanted, alone=needed):
            found += 1
            with opened as text:
                for path, value in json_rows(text, most=self.limits.row_chars):
                    yield f"{name} {path}", value
        if needed and not found:
            raise FileFormatError(f"{self.path} holds no file such as {pattern}: is it this system's export?")

    def _members(
        self, wanted: re.Pattern[str], *, alone: bool
    ) -> Iterator[tuple[str, contextlib.AbstractContextManager[TextIO]]]:
        if self._starts_with(_ZIP):
            yield from self._archived(wanted)
        elif self.is_folder:
            for path in self.walk():
                if isinstance(path, Path) and wanted.fullmatch(path.name):
                    yield self.place(path), self.text(path)
        elif alone:
            yield self.path.name, self.text()

    def _archived(self, wanted: re.Pattern[str]) -> Iterator[tuple[str, contextlib.AbstractContextManager[TextIO]]]:
        import zipfile

        with _reading(self.path), zipfile.ZipFile(self.path) as archive:
            members = archive.infolist()
            _check_members(members, self.limits)
            for member in sorted(members, key=lambda member: member.filename):
                if not member.is_dir() and wanted.fullmatch(PurePosixPath(member.filename).name):
                    yield member.filename, self._member(archive, member)

    @contextlib.contextmanager
    def _member(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[TextIO]:
        with _reading(Path(member.filename)), archive.open(member) as packed:
            unpacked = _Unpacked(packed, self.limits, lambda: member.compress_size)
            with _decoded(unpacked) as text:
                yield text
        self._done += member.compress_size

    # -- SQLite ---------------------------------------------------------------------------------------------------

    def is_database(self, path: Path | None = None) -> bool:
        """Return whether a file is an SQLite database."""
        return self._starts_with(_SQLITE, path)

    def table(self, table: str, columns: Sequence[str], *, order: str, path: Path | None = None) -> Iterator[Row]:
        """Yield the rows of a table of an SQLite database.

        Args:
            table: Name of the table.
            columns: Columns that it must have; others are read as well.
            order: Columns to order by.
            path: The file, if it is not the source itself.

        Raises:
            FileFormatError: It is not such a database, has no such table, or is damaged.
        """
        import sqlite3

        path = path or self.path
        if not self.is_database(path):
            raise FileFormatError(f"{path} is not an SQLite database")
        try:
            with contextlib.closing(_opened_database(path, self.limits)) as database:
                names = _columns(database, table, columns, path)
                listed = ", ".join(f'"{name}"' for name in names)
                cursor = database.execute(f'SELECT {listed} FROM "{table}" ORDER BY {order}')
                for number, values in enumerate(cursor, 1):
                    yield Row(f"row {number} of {table}", dict(zip(names, values, strict=True)))
        except (sqlite3.Error, OverflowError) as error:
            raise FileFormatError(f"{path} cannot be read: {type(error).__name__}; copy it again") from None
        self._done += path.stat().st_size


def _columns(database: sqlite3.Connection, table: str, columns: Iterable[str], path: Path) -> list[str]:
    """Return the names of a table's plain columns, if it is a plain table: a view would run SQL of somebody else."""
    found = database.execute("SELECT type, sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    if found is None or found[0] != "table" or re.match(r"\s*CREATE\s+VIRTUAL", found[1] or "", re.IGNORECASE):
        raise FileFormatError(f"{path} has no table {table}: is it this system's database?")
    names = [row[1] for row in database.execute(f'PRAGMA table_xinfo("{table}")') if row[6] == 0]  # none computed
    if missing := [name for name in columns if name not in names]:
        raise FileFormatError(f"the table {table} of {path} has no column {missing[0]}: is it this system's?")
    return [name for name in names if '"' not in name]


def _opened_database(path: Path, limits: Limits) -> sqlite3.Connection:
    import sqlite3

    # Without a log beside it, the file is all there is: SQLite then makes no file of its own there either.
    whole = not path.with_name(f"{path.name}-wal").exists()
    address = f"file:{quote(str(path.absolute()))}?mode=ro{'&immutable=1' if whole else ''}"
    database = sqlite3.connect(address, uri=True, check_same_thread=False)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.row_chars)
    for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
        database.execute(f"PRAGMA {pragma}")
    database.text_factory = _text_of
    return database


def _text_of(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _check_members(members: Sequence[zipfile.ZipInfo], limits: Limits) -> None:
    """Refuse an archive whose members lie outside of it, are links, or unpack to too much."""
    if len(members) > limits.files:
        raise FileFormatError(f"the archive holds more than {limits.files:,} files")
    if sum(member.file_size for member in members) > limits.unpacked_bytes:
        raise FileFormatError(f"the archive unpacks to more than {limits.unpacked_bytes:,} bytes")
    for member in members:
        path = PurePosixPath(member.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", member.filename):
            raise FileFormatError("the archive holds a path that leads out of it: it is not an export")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise FileFormatError("the archive holds a link: it is not an export")
        if member.flag_bits & 0x1:
            raise FileFormatError("the archive is locked with a password: unpack it first, and name the folder")


class _Unpacked(io.RawIOBase):
    """A packed file that is refused as soon as it has unpacked to too much.

    Args:
        file: The unpacking file.
        limits: Sizes beyond which it is refused.
        packed: Returns the number of packed bytes so far.
    """

    def __init__(self, file: IO[bytes] | gzip.GzipFile, limits: Limits, packed: Callable[[], int]) -> None:
        super().__init__()
        self._file = file
        self._limits = limits
        self._packed = packed
        self._unpacked = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read some bytes.

        Raises:
            FileFormatError: It has unpacked to too much.
        """
        data = self._file.read(len(buffer))
        self._unpacked += len(data)
        allowed = max(_UNSUSPICIOUS, self._limits.ratio * self._packed())
        if self._unpacked > min(allowed, self._limits.unpacked_bytes):
            raise FileFormatError("the file unpacks to far more than it holds: it is not an export")
        buffer[: len(data)] = data
        return len(data)


@contextlib.contextmanager
def _decoded(raw: io.RawIOBase) -> Iterator[TextIO]:
    """Decode a binary file in the encoding that its first bytes show."""
    buffered = io.BufferedReader(raw)
    text = io.TextIOWrapper(buffered, encoding=json.detect_encoding(buffered.peek(4)[:4]), newline="")
    try:
        yield text
    finally:
        text.detach()
        buffered.detach()


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise errors of a file as errors of factmem that name the file."""
    import zipfile

    try:
        yield
    except FileFormatError as error:
        raise _naming(path, error) from None
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is not {error.encoding} text; save it as UTF-8") from None
    except (gzip.BadGzipFile, zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError):
        raise FileFormatError(f"{path} is damaged or incomplete; fetch it again") from None
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from None
    except ValueError:
        raise FileFormatError(f"{path} cannot be read: it is not a file's name") from None


def _naming(path: Path, error: FileFormatError) -> FileFormatError:
    """Return an error whose message names the file, which may be one of many in a folder or an archive."""
    if path.name in str(error):
        return error
    named = type(error)(f"{path}: {error}")
    named.path = error.path
    return named
