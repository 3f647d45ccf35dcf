"""Seal beside a database: the newest sequence number that was acknowledged, which the database must have reached.

It is written after each commit and before its acknowledgement, in place and without a flush. The commit was flushed
before. So the seal may be behind the database, where a writer died or the power failed, and is never ahead of it: a
database with a lower number, or none at all, has lost what was acknowledged. It always has the same length, and fits
into one sector of a disk. Until the first acknowledgement it says that the store was only begun.
"""

from __future__ import annotations

import contextlib
import hmac
import sys
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Final

from factmem.crypto.key_file import Root, Roots
from factmem.errors import NewerVersionError, RolledBackStoreError, TamperedStoreError
from factmem.private_files import FlushError, open_to_change, replace_file, sync_file, write_all

__all__ = ["Seal"]

_VERSION: Final = b"factmem-seal 1"
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
        if len(data) == _BYTES and found == _VERSION:
            return content
        kind, _, version = _VERSION.rpartition(b" ")
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
    return (_VERSION + b" " + content).ljust(_BYTES - 1) + b"\n"


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
