"""Provider of encrypted SQLite files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

import apsw
from factmem_sqlite_vec import SqliteVecMemoryProvider
from factmem_sqlite_vec.codecs import PageCodec
from factmem_sqlite_vec.schema import select
from factmem_sqlite_vec.sqlite_errors import own_errors
from factmem_sqlite_vec.store import Store
from typing_extensions import override

from factmem.abc import system_clock
from factmem.abc.clock import Clock
from factmem.crypto.key_file import pending_rotation
from factmem.crypto.keys import Keyring, KeySource, keyring_of, one_keyring
from factmem.errors import CorruptStoreError
from factmem.progress import Progress, no_report
from factmem.providers.threaded import flag_option
from factmem.store_findings import Finding
from factmem_encrypted_sqlite.codec import KeyFile, Seal, SealedCodec, rekey


class EncryptedSqliteMemoryProvider(SqliteVecMemoryProvider):
    """Keeps facts in one encrypted SQLite file, with every capability of the plain one, and the same ranking.

    Every page of the database and of its write-ahead log is sealed, in SQLCipher's format 4: AES-256-CBC with a
    random vector, then HMAC-SHA-512 over the page and its number. So no value, concept, subject, scope, category,
    owner or vector can be found on the disk; SQLite sorts in memory. The key of the database is random; it lies,
    wrapped with the given key, in a file beside the database: ``facts.db.keys``. **Keep a copy of that
    file**: without it nothing can be read.

    *Visible without a key*: the size of the store, the number of its entries, which pages change when, and the ids of
    the keys.

    *Changes without a key* are detected when the changed part is read: changed pages, pages put in another's place
    and a database cut short raise a `CorruptStoreError` of their kind; a plain database in place of this one raises
    `DowngradedStoreError`. An authenticated number in ``facts.db.seal`` follows every acknowledged write: a database
    that is missing, emptied or an earlier one, and a write-ahead log that was damaged, cut short or deleted, raise
    `RolledBackStoreError`. `verify` reads everything. The files alone cannot reveal that the seal was put back or
    deleted *together* with the log and the database that it seals; nor, after a power cut, that the database was put
    back to what the seal on the disk had reached.

    Compacting a file of an older format, or after new outlines, needs as much memory as the file is long.

    Args:
        path: File; the first write creates it and its folders.
        key: Key, or a keyring with former ones.
        key_env: Environment variable that holds the key, instead of ``key``.
        passphrase_env: Environment variable that holds a passphrase, instead of ``key``.
        os_keyring: Service under which the system's keyring holds the key, instead of ``key``.
        accept_older: Take the database as it is, older than its seal or without one, and seal it anew: once, after a
            restore from a backup.
        weak_passphrase: Take any passphrase of ``passphrase_env`` for a new store; see `factmem.crypto.Passphrase`.
        clock: Returns the time of recording, and decides on expiry; called in a worker thread.
        read_only: Never write; a missing file is an error then.
        busy_timeout: Longest wait for another process that is writing, in seconds.

    Raises:
        InvalidDataError: No way to a key is given, or more than one; or an option's text cannot be parsed.
    """

    _kind: ClassVar[str] = "encrypted-sqlite"

    def __init__(
        self,
        path: str | os.PathLike[str],
        key: Keyring | KeySource | None = None,
        *,
        key_env: str | None = None,
        passphrase_env: str | None = None,
        os_keyring: str | None = None,
        weak_passphrase: bool | str = False,
        accept_older: bool | str = False,
        clock: Clock = system_clock,
        read_only: bool | str = False,
        busy_timeout: float | str = 10.0,
    ) -> None:
        self._accept_older = flag_option(accept_older, "accept_older")
        self._keyring = one_keyring(
            key,
            key_env,
            passphrase_env,
            os_keyring,
            allow_weak=flag_option(weak_passphrase, "weak_passphrase"),
            example="encrypted-sqlite:facts.db?key_env=FACTMEM_KEY",
        )
        super().__init__(path, clock=clock, read_only=read_only, busy_timeout=busy_timeout)

    async def rotate(self, key: Keyring | KeySource | None = None, *, progress: Progress | None = None) -> bool:
        """See `factmem.crypto.key_file.RotatesKeys.rotate`; the pieces are the key file, and all pages at once.

        Other writers wait meanwhile. The disk needs room for a second copy of the file.

        Raises:
            StoreUnavailableError: Other processes read or write for too long; call it again, without a key.
        """
        report = progress or no_report
        report(0, 2)
        if key is not None:
            keyring = keyring_of(key)
            await self._write(lambda engine: self._begin_rotation(engine.store, keyring))
        report(1, 2)
        ended = await self._write(lambda engine: self._end_rotation(engine.store))
        report(2, 2)
        return ended

    async def verify(self) -> int:
        """Open every page that is in use, and return the number of pages.

        Raises:
            CorruptStoreError: A page is damaged or was changed.
        """
        return await self._read(lambda engine: engine.store.read(_verified))

    @override
    async def check(self, *, progress: Progress | None = None) -> Sequence[Finding]:
        found = await super().check(progress=progress)
        rotates = await self._read(lambda _: self._keys.exists() and len(self._keys.roots().of_epochs) > 1)
        return [*found, pending_rotation()] if rotates else found

    @override
    def at(self, path: Path) -> EncryptedSqliteMemoryProvider:
        return EncryptedSqliteMemoryProvider(path, self._keyring, clock=self._clock, busy_timeout=self._busy_timeout)

    def _codec(self) -> PageCodec:
        self._keys = KeyFile(self._path, self._keyring, self._busy_timeout)
        seal = Seal(self._path.with_name(f"{self._path.name}.seal"), self._busy_timeout)
        self._sealed = SealedCodec(self._keys, seal, accept_older=self._accept_older)
        return self._sealed

    def _begin_rotation(self, store: Store, keyring: Keyring) -> None:
        # Create the database first: created during the rotation, it could get a key that is being removed.
        store.write(lambda connection: None)
        with own_errors(store.name), self._keys.locked():
            roots = self._keys.roots()
            try:
                self._keys.replace(roots if len(roots.of_epochs) > 1 else roots.begin_epoch(), keyring)
            finally:
                self._keyring = self._keys.keyring

    def _end_rotation(self, store: Store) -> bool:
        if not self._keys.exists():
            return False
        with own_errors(store.name), self._keys.locked():
            roots = self._keys.roots()
            if rotates := len(roots.of_epochs) > 1:
                try:
                    store.write(partial(rekey, root=roots.current))
                finally:
                    # The key of the database is detected again.
                    store.reopen_to_write()
                # Until the WAL is empty, the file itself holds the old pages.
                store.write(_empty_log)
                store.write(self._sealed.end_rotation)
        return rotates


def _empty_log(connection: apsw.Connection) -> None:
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def _verified(connection: apsw.Connection) -> int:
    ((found,),) = select(connection, "PRAGMA integrity_check(1)")
    if found != "ok":
        raise CorruptStoreError("the parts of the store do not fit together: restore it from a backup")
    ((pages,),) = select(connection, "PRAGMA page_count")
    return int(pages)
