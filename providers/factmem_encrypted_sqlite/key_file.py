"""Key file beside a database: its keys, wrapped."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from factmem_sqlite_vec.codecs import key_file_of
from filelock import FileLock, Timeout

from factmem.crypto import Keyring, Roots, locked_roots, unlocked_roots
from factmem.errors import CorruptStoreError, RolledBackStoreError, StoreUnavailableError
from factmem.private_files import make_folders, remove_leftovers, replace_file

__all__ = ["KeyFile"]

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
        """The keyring that opens the keys."""
        return self._keyring

    def exists(self) -> bool:
        """Return whether the file exists, without opening it."""
        return self._path.exists()

    def roots(self) -> Roots:
        """Return the present roots; the key is fetched again only after a change.

        Raises:
            RolledBackStoreError: The file is missing.
            ProviderError: See `factmem.crypto.unlocked_roots`.
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
        lock = FileLock(self._path.with_name(f"{self._path.name}.lock"), timeout=self._lock_timeout, mode=0o600)
        try:
            lock.acquire()
        except Timeout:
            raise StoreUnavailableError(
                f"another process is changing {self._path.name}: try again when it is done"
            ) from None
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
