"""Provider of encrypted files."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeVar

from factmem_file import LocalFileMemoryProvider
from factmem_file.engine import FileEngine
from factmem_file.log_storage import LocalLogStorage
from factmem_file.logs import ARRIVAL_KIND
from typing_extensions import override

from factmem.abc import system_clock
from factmem.abc.clock import Clock
from factmem.abc.log_storage import LogName
from factmem.crypto.keys import Keyring, KeySource, keyring_of, one_keyring
from factmem.errors import InvalidDataError
from factmem.progress import Progress, no_report
from factmem.providers.threaded import flag_option
from factmem_encrypted.log_storage import EncryptedLogStorage
from factmem_encrypted.manifest import Unit

_FORM: Final = "factmem-encrypted"

T = TypeVar("T")


class EncryptedMemoryProvider(LocalFileMemoryProvider):
    """Keeps facts in encrypted files, with every capability of the plain ones, and the same ranking.

    No value, concept, subject, scope, category, owner or vector can be found on the disk, nor in the names of
    files: each frame is sealed with AES-256-GCM (`factmem.crypto`) and bound to the store, the tenant, the scope, the
    subject and its position in the file; files have random names, and a sealed manifest lists their contents. Recall
    decrypts the records that it ranks into memory.

    *Visible without a key*: the number of places, the number, length and time of the commits of each, which files grew
    together, and the ids of the keys.

    *Changes without a key* are detected: changed, swapped, cut and deleted files, files put back to
    an earlier state or taken from a copy of the store, and an earlier manifest raise a `CorruptStoreError` of their
    kind. Damaged vectors are made again. The store alone cannot reveal

    - that *all* of it, or all that a call reads, was put back to one earlier state: for a single `load` that is the
      manifest, its head (``head.note``) and the file of the place;
    - that the manifest and its head were put back together by the last commit: it looks as if its writer had died;
    - that another store of the same key stands in its place, as a whole: give each store a key of its own.

    *Erasing.* Each subject has a key of its own (or each tenant). When the last fact about it is forgotten, its key
    is destroyed: copies of its files in backups cannot be read any more with the key file of today. So keep
    fewer old copies of ``store.keys`` than of the files. Old copies of the manifest, which hold names of subjects and
    scopes and no values, can be read until `rotate`.

    A transaction is atomic over all its places.

    Args:
        root: Folder; the first write creates it.
        key: Key, or a keyring with former ones.
        key_env: Environment variable that holds the key, instead of ``key``.
        passphrase_env: Environment variable that holds a passphrase, instead of ``key``.
        os_keyring: Service under which the system's keyring holds the key, instead of ``key``.
        weak_passphrase: Take any passphrase of ``passphrase_env`` for a new store; see `factmem.crypto.Passphrase`.
        key_per: Unit that has a key of its own: each ``"subject"`` of a tenant, or each ``"tenant"``.
        clock: Returns the time of recording, and decides on expiry.
        lock_timeout: Longest wait for other processes that write, in seconds.

    Raises:
        InvalidDataError: No way to a key is given, or more than one.
    """

    _kind: ClassVar[str] = "encrypted"

    def __init__(
        self,
        root: str | os.PathLike[str],
        key: Keyring | KeySource | None = None,
        *,
        key_env: str | None = None,
        passphrase_env: str | None = None,
        os_keyring: str | None = None,
        weak_passphrase: bool | str = False,
        key_per: Literal["subject", "tenant"] | str = "subject",
        clock: Clock = system_clock,
        lock_timeout: float | str = 30.0,
    ) -> None:
        self._keyring = one_keyring(
            key,
            key_env,
            passphrase_env,
            os_keyring,
            allow_weak=flag_option(weak_passphrase, "weak_passphrase"),
            example="encrypted:facts?key_env=FACTMEM_KEY",
        )
        self._key_per = key_per
        self._sealed = EncryptedLogStorage(LocalLogStorage(root, form=_FORM), self._keyring, _units(key_per))
        super().__init__(root, storage=self._sealed, clock=clock, lock_timeout=lock_timeout)

    async def rotate(self, key: Keyring | KeySource | None = None, *, progress: Progress | None = None) -> bool:
        """See `factmem.crypto.key_file.RotatesKeys.rotate`; pieces are logs, and others may write between two."""
        report = progress or no_report
        if key is not None:
            keyring = keyring_of(key)
            await self._locked(partial(self._sealed.begin_rotation, keyring))
            self._keyring = keyring
        waiting = await self._locked(lambda: self._sealed.rotating() if self._sealed.exists() else ())
        for done, log in enumerate(waiting):
            report(done, len(waiting))
            await self._locked(partial(self._sealed.rotate, log))
        ended = await self._locked(self._sealed.end_rotation)
        report(len(waiting), len(waiting))
        return ended

    async def verify(self) -> int:
        """Open every frame of every log, and return the number of logs.

        Raises:
            CorruptStoreError: The store is damaged or was changed; the subclass names the cause.
        """
        return await self._write(lambda _: self._scanned())

    @override
    def at(self, path: Path) -> EncryptedMemoryProvider:
        return EncryptedMemoryProvider(
            path, self._keyring, key_per=self._key_per, clock=self._clock, lock_timeout=self._lock_timeout
        )

    def _scanned(self) -> int:
        if not self._sealed.exists():
            return 0
        with self._sealed.lock(self._lock_timeout):  # a write under way could be taken for damage
            logs = self._sealed.logs(kinds=("facts", "erased", "vectors", "accesses", ARRIVAL_KIND))
            for log in logs:
                self._sealed.scan(log)
        return len(logs)

    async def _locked(self, work: Callable[[], T]) -> T:
        def locked(_: FileEngine) -> T:
            with self._sealed.lock(self._lock_timeout):
                return work()

        return await self._write(locked)


def _units(key_per: str) -> Callable[[LogName], Unit]:
    if key_per not in ("subject", "tenant"):
        raise InvalidDataError("key_per must be 'subject' or 'tenant'", path="$.key_per")

    def unit_of(log: LogName) -> Unit:
        tenant = log.folder[0]
        if log.kind in ("erased", ARRIVAL_KIND):
            return ("tombstones", tenant)
        return ("tenant", tenant) if key_per == "tenant" else ("subject", tenant, *log.name)

    return unit_of
