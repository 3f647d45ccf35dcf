"""Codec of encrypted databases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import apsw
from factmem_sqlite_vec.codecs import BESIDE, PageCodec, connected, create_database, starts_in_clear
from factmem_sqlite_vec.failed_reads import detecting_failed_reads
from typing_extensions import override

from factmem.crypto import Root
from factmem.errors import (
    CorruptStoreError,
    DowngradedStoreError,
    MissingPackageError,
    RolledBackStoreError,
    TamperedStoreError,
)
from factmem_encrypted_sqlite.key_file import KeyFile

__all__ = ["SealedCodec", "rekey"]

_PAGE_BYTES: Final = 4096
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
    """

    is_keyed: bool = True
    beside: Sequence[str] = (*BESIDE, ".keys", ".keys.lock")

    def __init__(self, keys: KeyFile) -> None:
        self._keys = keys

    @override
    def is_there(self, path: Path) -> bool:
        _sealing_layer()
        if starts_in_clear(path):
            raise DowngradedStoreError(
                f"{path.name} is a plain database, and an encrypted one was asked for: open it with sqlite-vec:, "
                "or export it and import it into a new store"
            )
        size = path.stat().st_size if path.exists() else 0
        if size or self._keys.exists():
            self._keys.roots()
        if 0 < size < _PAGE_BYTES and not path.with_name(f"{path.name}-journal").exists():
            # SQLite would take it for an empty database.
            raise _cut_short(path)
        return size > 0

    @override
    def is_only_begun(self, path: Path) -> bool:
        return path.stat().st_size <= _PAGE_BYTES

    @override
    def begin(self, path: Path) -> None:
        if not self._keys.exists():
            self._keys.make()
        create_database(path)

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
                connection = _opened(path, flags, busy_timeout, root)
                if connection is not None:
                    return connection
        raise TamperedStoreError(
            f"{path.name} does not open with the keys beside it: its beginning was changed, or one of the two files "
            "is that of another store; restore both from one backup"
        )


def rekey(connection: apsw.Connection, root: Root) -> None:
    """Seal every page with another key, in one transaction.

    Raises:
        apsw.Error: nothing was changed.
    """
    connection.execute(f"PRAGMA rekey={_literal(root)}", can_cache=False).fetchall()


def _opened(path: Path, flags: int, busy_timeout: float, root: Root) -> apsw.Connection | None:
    """Open a database with one key; return None if it does not fit."""
    connection = connected(str(path), flags, busy_timeout, vfs=_sealing_layer())
    try:
        with detecting_failed_reads(connection):
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}").fetchall()
            connection.execute(f"PRAGMA key={_literal(root)}", can_cache=False).fetchall()
            connection.execute("PRAGMA temp_store=MEMORY")
            connection.execute("PRAGMA schema_version").fetchall()
    except apsw.NotADBError:
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
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
