"""Codec of encrypted databases, the file beside each with its keys, wrapped, and the seal beside each.

The seal is the newest sequence number that was acknowledged, which the database must have reached. It is written after
each commit and before its acknowledgement, in place and without a flush. The commit was flushed before. So the seal may
be behind the database, where a writer died or the power failed, and is never ahead of it: a database with a lower
number, or none at all, has lost what was acknowledged. It always has the same length, and fits into one sector of a
disk. Until the first acknowledgement it says that the store was only begun.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Final

import apsw
from factmem_sqlite_vec.codecs import (
    BESIDE,
    PageCodec,
    closing_on_error,
    connected,
    create_database,
    key_file_of,
    starts_in_clear,
)
from factmem_sqlite_vec.schema import last_write, select
from factmem_sqlite_vec.sqlite_errors import detecting_failed_reads
from typing_extensions import override

from factmem.crypto.key_file import Root, Roots, locked_roots, opening, unlocked_roots
from factmem.crypto.keys import Keyring
from factmem.errors import (
    CorruptStoreError,
    DowngradedStoreError,
    FactMemError,
    MissingPackageError,
    NewerVersionError,
    RolledBackStoreError,
    TamperedStoreError,
)
from factmem.private_files import (
    FlushError,
    held_lock,
    make_folders,
    open_to_change,
    remove_leftovers,
    replace_file,
    sync_file,
    write_all,
)

_MOST_BYTES: Final = 1 << 20


class KeyFile:
    """The keys of a database, as one process sees them.

    Args:
        database: File of the database.
        keyring: Opens the keys.
        lock_timeout: Longest wait for another process that makes or changes them, in seconds.
    """

    def __init__(self, database: Path, keyring: Keyring, lock_timeout: float) -> None:
        self._path = key_file_of(database)
        self._keyring = keyring
        self._lock_timeout = lock_timeout
        self._guard = threading.Lock()
        self._seen: tuple[bytes, Roots] | None = None

    @property
    def keyring(self) -> Keyring:
        """The keyring, with the key that opens the keys now as its current one."""
        return opening(self._read(), self._keyring)

    def exists(self) -> bool:
        """Return whether the file exists, without opening it."""
        return self._path.exists()

    def roots(self) -> Roots:
        """Return the present roots; the key is fetched again only after a change.

        Raises:
            RolledBackStoreError: The file is missing.
            ProviderError: See `factmem.crypto.key_file.unlocked_roots`.
        """
        document = self._read()
        with self._guard:
            if self._seen is None or self._seen[0] != document:
                self._seen = (document, unlocked_roots(document, self._keyring))
            return self._seen[1]

    def make(self, first: Callable[[], None]) -> None:
        """Create the file with the keys of a new database, unless another process was first.

        Args:
            first: Called before that, once the key is known to be available.

        Raises:
            KeyUnavailableError: The key that wraps them is not available; nothing was created.
        """
        document = None if self.exists() else locked_roots(Roots.new(), self._keyring)
        make_folders(self._path.parent)
        with self.locked():
            first()
            if document is not None and not self.exists():
                replace_file(self._path, document)

    def replace(self, roots: Roots, keyring: Keyring) -> None:
        """Replace the roots, for another keyring alone; needs the lock.

        Raises:
            KeyUnavailableError: The new key is not available; nothing was changed.
        """
        document = locked_roots(roots, keyring)
        try:
            replace_file(self._path, document)
        finally:
            # A flush may fail before the file is in its place, and after.
            if self._read() == document:
                with self._guard:
                    self._keyring, self._seen = keyring, (document, roots)

    def copy_to(self, path: Path) -> None:
        """Copy the file to another path, where the same key opens it.

        Raises:
            OSError: It cannot be written.
        """
        replace_file(path, self._read())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from making or changing the keys.

        Raises:
            StoreUnavailableError: Another process holds the lock for longer than the timeout.
        """
        refusal = f"another process is changing {self._path.name}: try again when it is done"
        lock = held_lock(self._path.with_name(f"{self._path.name}.lock"), refusal, timeout=self._lock_timeout)
        try:
            remove_leftovers(self._path)
            yield
        finally:
            lock.release()

    def _read(self) -> bytes:
        try:
            with self._path.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                document = file.read(min(size, _MOST_BYTES) + 1)
        except FileNotFoundError:
            raise RolledBackStoreError(
                f"{self._path.name}, which holds the keys of this store, is missing: restore it; "
                "without it nothing can be read"
            ) from None
        if len(document) > _MOST_BYTES:
            raise CorruptStoreError(f"{self._path.name} cannot be read: restore it from a backup")
        return document


_SEAL_VERSION: Final = b"factmem-seal 1"
_BEGUN: Final = b"begun"
_BYTES: Final = 256
_DIGITS: Final = 20
_POLL_SECONDS: Final = 0.001


class Seal:
    """The seal of a database, as one process sees it.

    Args:
        path: File of the seal.
        lock_timeout: Longest wait for another process that writes it, in seconds.
    """

    def __init__(self, path: Path, lock_timeout: float) -> None:
        self._path = path
        self._lock_timeout = lock_timeout
        self._written: tuple[bytes, int] | None = None
        self._flushes = True

    def exists(self) -> bool:
        """Return whether there is a seal."""
        return self._path.exists()

    def is_begun(self) -> bool:
        """Return whether nothing was ever acknowledged, as far as that is visible without a key."""
        return self._content() == _BEGUN

    def begin(self) -> None:
        """Create the seal of a new store."""
        replace_file(self._path, _framed(_BEGUN))

    def create(self, number: int, roots: Roots) -> None:
        """Write the seal of an existing store, in place of any other."""
        replace_file(self._path, _framed(_sealed(number, roots)))

    def copy_to(self, path: Path) -> None:
        """Copy the seal to another path, if there is one.

        Raises:
            OSError: It cannot be written.
        """
        if self.exists():
            replace_file(path, _framed(self._content()))

    def number(self, roots: Roots) -> int | None:
        """Return the number that the database must have reached; None if the store was only begun.

        Raises:
            RolledBackStoreError: The seal is missing.
            TamperedStoreError: It was changed.
            NewerVersionError: A newer factmem wrote it.
        """
        content = self._content()
        return None if content == _BEGUN else self._opened(content, roots)

    def check_sealed(self, roots: Roots) -> None:
        """Raise unless there is a number.

        Raises:
            RolledBackStoreError: The seal is missing.
            TamperedStoreError: It was changed.
        """
        if self.number(roots) is None:
            raise self._changed()

    @contextlib.contextmanager
    def locked(self) -> Iterator[FileIO]:
        """Keep other processes from writing the seal.

        Raises:
            TimeoutError: Another process holds the lock for longer than the timeout.
            OSError: The seal cannot be opened.
        """
        deadline = time.monotonic() + self._lock_timeout
        with open_to_change(self._path) as file:
            while not _try_lock(file):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self._path.name} is locked")
                time.sleep(_POLL_SECONDS)
            yield file  # closing the file releases the lock

    def raise_to(self, number: int, roots: Roots, file: FileIO) -> bool:
        """Write a number unless the seal has reached it, and return whether it is the first; needs the lock.

        Raises:
            OSError: It cannot be written.
        """
        content = self._checked(file.read(_BYTES + 1))
        begun = content == _BEGUN
        if begun or self._opened(content, roots) < number:
            # The first write of a process is flushed: the flush of the process that began the seal may have failed. One
            # that fails is never tried again: it would succeed, whatever the disk holds.
            durable = self._flushes and (begun or self._written is None)
            try:
                self.write(number, roots, file, durable=durable)
            except FlushError:
                self._flushes = False
                raise
        return begun

    def flush(self) -> None:
        """Write and flush the seal as it is: the flush of the process that wrote it may have failed.

        Raises:
            TimeoutError: Another process holds the lock for longer than the timeout.
            OSError: It cannot be written.
        """
        with self.locked() as file:
            content = file.readall()
            file.seek(0)
            write_all(file, content)
            sync_file(file)

    def write(self, number: int, roots: Roots, file: FileIO, *, durable: bool) -> None:
        """Write a number, sealed with the newest root; needs the lock.

        Raises:
            OSError: It cannot be written.
        """
        content = _sealed(number, roots)
        file.seek(0)
        write_all(file, _framed(content))
        if durable:
            sync_file(file)
        self._written = (content, number)

    def _content(self) -> bytes:
        try:
            with self._path.open("rb", buffering=0) as file:
                return self._checked(file.read(_BYTES + 1))
        except FileNotFoundError:
            raise RolledBackStoreError(
                f"{self._path.name}, which says how far the store has come, is missing: restore all files of the store "
                "from one backup, or open it with accept_older=True to take it as it is"
            ) from None

    def _checked(self, data: bytes) -> bytes:
        found, _, content = data.strip().rpartition(b" ")
        if len(data) == _BYTES and found == _SEAL_VERSION:
            return content
        kind, _, version = _SEAL_VERSION.rpartition(b" ")
        name, _, number = found.rpartition(b" ")
        if name == kind and number.isdigit() and int(number) > int(version):
            raise NewerVersionError(f"{self._path.name} was written by a newer factmem: upgrade factmem")
        raise self._changed()

    def _opened(self, content: bytes, roots: Roots) -> int:
        if self._written is not None and self._written[0] == content:
            return self._written[1]
        number, _, found = content.partition(b".")
        if any(hmac.compare_digest(_code(number, root, roots.store), found) for root in roots.of_epochs):
            return int(number)
        raise self._changed()

    def _changed(self) -> TamperedStoreError:
        return TamperedStoreError(
            f"{self._path.name} was changed, or is that of another store: restore all files of the store from one "
            "backup, or open it with accept_older=True to take it as it is"
        )


def _sealed(number: int, roots: Roots) -> bytes:
    text = f"{number:0{_DIGITS}d}".encode()
    return text + b"." + _code(text, roots.current, roots.store)


def _code(number: bytes, root: Root, store: str) -> bytes:
    """Return the authentication code of a number: HMAC-SHA-256, with a key of its own for each root."""
    key = hmac.digest(root.key, f"factmem seal {store}".encode(), "sha512")
    return hmac.digest(key, number, "sha256").hex().encode()


def _framed(content: bytes) -> bytes:
    return (_SEAL_VERSION + b" " + content).ljust(_BYTES - 1) + b"\n"


def _try_lock(file: FileIO) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            # Far behind the content: Windows lets nobody read what is locked.
            file.seek(1 << 20)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            file.seek(0)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


_PAGE_BYTES: Final = 4096
_SEALED: Final = "sealed"
_TRIES: Final = 2
"""Number of attempts with unchanged keys before they are reported as wrong."""

_PRAGMAS: Final = (
    # The whole of SQLCipher's format 4: every byte of a page is covered by its HMAC, and other tools can read it.
    "cipher='sqlcipher'",
    "legacy=4",
    f"legacy_page_size={_PAGE_BYTES}",
    "hmac_check=1",
)


class SealedCodec(PageCodec):
    """SQLCipher's format 4 by SQLite3 Multiple Ciphers: AES-256-CBC with HMAC-SHA-512 for each page and its number.

    Args:
        keys: Keys of the database.
        seal: Seal of the database.
        accept_older: Take a database as it is, and seal it anew.
    """

    is_keyed: bool = True
    beside: Sequence[str] = (*BESIDE, ".keys", ".keys.lock", ".seal")

    def __init__(self, keys: KeyFile, seal: Seal, *, accept_older: bool) -> None:
        self._keys = keys
        self._seal = seal
        self._accept_older = accept_older

    @override
    def is_there(self, path: Path) -> bool:
        _sealing_layer()
        if starts_in_clear(path):
            raise DowngradedStoreError(
                f"{path.name} is a plain database, and an encrypted one was asked for: open it with sqlite-vec:, "
                "or copy the whole of it into a new store with `factmem move`"
            )
        size = path.stat().st_size if path.exists() else 0
        if size or self._keys.exists() or (self._seal.exists() and not self._seal.is_begun()):
            self._check_seal(size, path)
        if 0 < size < _PAGE_BYTES and not path.with_name(f"{path.name}-journal").exists():
            # SQLite would take it for an empty database.
            raise _cut_short(path)
        return size > 0

    @override
    def is_only_begun(self, path: Path) -> bool:
        return path.stat().st_size <= _PAGE_BYTES

    @override
    def begin(self, path: Path) -> None:
        self._keys.make(self._begin_seal)
        create_database(path)

    def _begin_seal(self) -> None:
        if self._accept_older or not self._seal.exists():
            self._seal.begin()

    def _check_seal(self, size: int, path: Path) -> None:
        """Raise if a database that was sealed is missing or empty."""
        roots = self._keys.roots()
        if not size and not self._accept_older and self._seal.number(roots):
            raise RolledBackStoreError(
                f"{path.name} is missing or empty, and nothing was written: restore all files of the store from one "
                "backup, or open it with accept_older=True to start over"
            )

    def blamed(self, error: CorruptStoreError, path: Path) -> CorruptStoreError:
        """See `factmem_sqlite_vec.codecs.PageCodec.blamed`: a sealed page is not damaged by SQLite itself."""
        if type(error) is not CorruptStoreError:
            return error
        if path.exists() and path.stat().st_size % _PAGE_BYTES:
            return _cut_short(path)
        return TamperedStoreError(
            f"{path.name} was changed by someone who has not its key, or cut short, or its disk fails; "
            "nothing was written to it: restore it from a backup"
        )

    def connect(self, path: Path, flags: int, busy_timeout: float) -> apsw.Connection:
        """See `factmem_sqlite_vec.codecs.PageCodec.connect`.

        Raises:
            TamperedStoreError: No key of the store opens the database.
        """
        tries, tried = 0, None
        while tries < _TRIES:
            roots = self._keys.roots()
            tries, tried = tries + 1 if roots is tried else 1, roots
            # The older root first: once it is gone, the newer one fits as long as these keys are on disk.
            for root in roots.of_epochs:
                # Read first: the database may only get ahead of it meanwhile.
                least = self._seal.number(roots) if self._seal.exists() and not self._accept_older else None
                connection = _opened(path, flags, busy_timeout, root)
                if connection is not None:
                    with _checking(connection, path, busy_timeout, root):
                        self._check_reached(connection, least, path)
                    return connection
        raise TamperedStoreError(
            f"{path.name} does not open with the keys beside it: its beginning was changed, or one of the two files "
            "is that of another store; restore both from one backup"
        )

    @contextlib.contextmanager
    def copying(self, target: Path) -> Iterator[apsw.Connection]:
        """See `factmem_sqlite_vec.codecs.PageCodec.copying`."""
        with self._keys.locked():
            # Before the database is read: its copy may only be ahead of the copy of the seal.
            self._seal.copy_to(target.with_name(f"{target.name}.seal"))
            self._keys.copy_to(key_file_of(target))
            create_database(target)
            connection = _opened(target, apsw.SQLITE_OPEN_READWRITE, 0, self._keys.roots().current)
            if connection is None:
                raise _cut_short(target)
            with contextlib.closing(connection):
                yield connection

    def ready(self, connection: apsw.Connection, path: Path) -> None:
        """See `factmem_sqlite_vec.codecs.PageCodec.ready`: seal a store of an earlier factmem, or one as it is."""
        if self._accept_older or not self._seal.exists():
            self._seal.create(last_write(connection), self._keys.roots())
        if not self._seal.is_begun() and not _says_sealed(connection):
            self._seal.flush()
            _say_sealed(connection)

    def committed(self, connection: apsw.Connection, path: Path) -> None:
        """See `factmem_sqlite_vec.codecs.PageCodec.committed`: a seal that cannot be written stays behind."""
        with contextlib.suppress(OSError, FactMemError), self._seal.locked() as file:
            first = self._seal.raise_to(last_write(connection), self._keys.roots(), file)
            if first:
                _say_sealed(connection)

    def end_rotation(self, connection: apsw.Connection) -> None:
        """Seal with the newest key, and destroy the others.

        Raises:
            OSError: It cannot be written; the other keys stay.
        """
        with self._seal.locked() as file:
            roots = self._keys.roots()
            self._seal.write(last_write(connection), roots, file, durable=True)
            self._keys.replace(roots.end_epochs(), self._keys.keyring)

    def _check_reached(self, connection: apsw.Connection, least: int | None, path: Path) -> None:
        if self._accept_older:
            return
        if least is None and _says_sealed(connection):
            self._seal.check_sealed(self._keys.roots())  # another process may just have done it
        if least is not None and (last_write(connection) if _has_meta(connection) else 0) < least:
            raise RolledBackStoreError(
                f"{path.name} has lost what was saved last: it, or {path.name}-wal, is an earlier one, damaged or "
                "cut short. Restore all files of the store from one backup, or open it with accept_older=True to "
                "go on with what is left"
            )


def _says_sealed(connection: apsw.Connection) -> bool:
    """Return whether a database says that it has a seal with a number."""
    return _has_meta(connection) and bool(select(connection, f"SELECT 1 FROM meta WHERE key = '{_SEALED}'"))


def _say_sealed(connection: apsw.Connection) -> None:
    if not _says_sealed(connection):
        connection.execute(f"INSERT OR IGNORE INTO meta VALUES ('{_SEALED}', 1)")


def _has_meta(connection: apsw.Connection) -> bool:
    return bool(select(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'meta'"))


def rekey(connection: apsw.Connection, root: Root) -> None:
    """Seal every page with another key, in one transaction.

    Raises:
        apsw.Error: Nothing was changed.
    """
    connection.execute(f"PRAGMA rekey={_literal(root)}", can_cache=False).fetchall()


def _opened(path: Path, flags: int, busy_timeout: float, root: Root) -> apsw.Connection | None:
    """Open a database with one key; return None if it does not fit."""
    connection = _keyed(path, flags, busy_timeout, root)
    try:
        with _checking(connection, path, busy_timeout, root):
            connection.execute("PRAGMA schema_version").fetchall()
    except apsw.NotADBError:
        return None
    return connection


@contextlib.contextmanager
def _checking(connection: apsw.Connection, path: Path, busy_timeout: float, root: Root) -> Iterator[None]:
    """Close a connection if the block fails, and distinguish damage from a failure to read."""

    def again() -> apsw.Connection:
        return _keyed(path, apsw.SQLITE_OPEN_READONLY, busy_timeout, root)

    with closing_on_error(connection), detecting_failed_reads(connection, again):
        yield


def _keyed(path: Path, flags: int, busy_timeout: float, root: Root) -> apsw.Connection:
    """Open a database with a key, which nothing is read with yet."""
    connection = connected(str(path), flags, busy_timeout, vfs=_sealing_layer())
    with closing_on_error(connection):
        for pragma in (*_PRAGMAS, f"key={_literal(root)}", "temp_store=MEMORY"):
            connection.execute(f"PRAGMA {pragma}", can_cache=False).fetchall()
    return connection


def _cut_short(path: Path) -> RolledBackStoreError:
    return RolledBackStoreError(f"{path.name} was cut short, and nothing was written to it: restore it from a backup")


def _literal(root: Root) -> str:
    return f"\"x'{root.key.hex()}'\""


def _sealing_layer() -> str:
    """Return SQLite's layer that encrypts; named, because another layer may have been made the default."""
    layer = next((name for name in apsw.vfs_names() if name.startswith("multipleciphers-")), None)
    if layer is None:
        raise MissingPackageError("apsw-sqlite3mc", extra=None)
    return layer
