"""Keys of a store on disk: the key file, and below it one key for each subject or tenant.

They are in a log of their own, ``keys``. Its first frame is the key file (`factmem.crypto`), each later one the key of
one *unit* in one epoch, sealed with that epoch's root. Every frame of a unit's files is sealed with the unit's key:
without it the files are unreadable, including copies of them in backups.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
from collections.abc import Collection
from typing import Final

from factmem.abc.log_storage import LogName, LogStorage, Position
from factmem.crypto.key_file import Roots, locked_roots, opening, unlocked_roots
from factmem.crypto.keys import Keyring
from factmem.crypto.sealing import KEY_BYTES
from factmem.errors import RolledBackStoreError, TamperedStoreError
from factmem_encrypted.manifest import Unit

_LOG: Final = LogName(folder=(), name=("store",), kind="keys")
_KIND: Final = "unit"


class KeyTable:
    """The keys, as one process sees them. Methods that write need the storage's lock.

    Args:
        storage: Log storage of the keys.
        keyring: Opens the keys.
    """

    def __init__(self, storage: LogStorage, keyring: Keyring) -> None:
        self._storage = storage
        self._keyring = keyring
        self._guard = threading.RLock()
        self._position = Position()
        self._roots: Roots | None = None
        self._units: dict[tuple[Unit, int], bytes] = {}
        self._draft: bytes | None = None
        self._opened: tuple[bytes, Roots] | None = None
        self._there = False

    def roots(self) -> Roots:
        """Return the roots, opened on first use and again after a change.

        Raises:
            WrongKeyError: The keyring does not open them.
            RolledBackStoreError: The store has no keys.
        """
        with self._guard:
            self._catch_up()
            if self._roots is None:
                raise RolledBackStoreError(
                    "store.keys, the file with the store's keys, is missing: restore it; without it nothing can be read"
                )
            return self._roots

    def prepare(self) -> None:
        """Prepare the keys of a new store without writing them, so that a missing key is reported first.

        Raises:
            KeyUnavailableError: The key that wraps them is not available.
        """
        with self._guard:
            self._draft = self._draft or locked_roots(Roots.new(), self._keyring)

    def create(self) -> None:
        """Write the keys of a new store."""
        self.prepare()
        with self._guard:
            assert self._draft is not None
            self._storage.replace(_LOG, [self._draft])
            self._draft = None

    def there(self) -> bool:
        """Return whether there are keys, without opening them."""
        with self._guard:
            self._there = self._there or self._storage.scan(_LOG, limit=1).position.end > 0
            return self._there

    def empty(self) -> bool:
        """Return whether nothing was ever sealed with these keys, or all of it is forgotten."""
        with self._guard:
            self.roots()
            return not self._units

    def of(self, unit: Unit, epoch: int) -> bytes:
        """Return the key of a unit.

        Raises:
            RolledBackStoreError: It has none, so its files cannot be read.
        """
        with self._guard:
            if (unit, epoch) not in self._units:
                self._catch_up()
            if (unit, epoch) not in self._units:
                raise RolledBackStoreError(
                    "the key of a part of this store is missing: it was destroyed, or the file of keys is an older one"
                )
            return self._units[unit, epoch]

    def has(self, unit: Unit, epoch: int) -> bool:
        """Return whether a unit has a key."""
        with self._guard:
            self._catch_up()
            return (unit, epoch) in self._units

    def give(self, unit: Unit, epoch: int) -> bytes:
        """Return the key of a unit; make one if there is none."""
        with self._guard:
            roots = self.roots()
            if (unit, epoch) not in self._units:
                frame = _sealed(unit, epoch, secrets.token_bytes(KEY_BYTES), roots)
                self._storage.append(_LOG, frame, self._position)
                self._catch_up()
            return self._units[unit, epoch]

    def keep(self, wanted: Collection[tuple[Unit, int]]) -> None:
        """Destroy the keys of all units but these."""
        with self._guard:
            roots = self.roots()
            if self._units.keys() - set(wanted):
                self._units = {unit: key for unit, key in self._units.items() if unit in wanted}
                self._rewrite(self._storage.scan(_LOG, limit=1).payloads[0], roots)

    @property
    def keyring(self) -> Keyring:
        """The keyring, with the key that opens the keys now as its current one."""
        return opening(self._storage.scan(_LOG, limit=1).payloads[0], self._keyring)

    def rekey(self, roots: Roots, keyring: Keyring) -> None:
        """Replace the roots, for another keyring alone."""
        with self._guard:
            self.roots()
            document = locked_roots(roots, keyring)
            try:
                self._rewrite(document, roots)
            finally:
                # A flush may fail before the file is in its place, and after.
                if self._storage.scan(_LOG, limit=1).payloads[:1] == (document,):
                    self._keyring, self._opened = keyring, (document, roots)

    def _rewrite(self, document: bytes, roots: Roots) -> None:
        self._units = {unit: key for unit, key in self._units.items() if roots.of(unit[1]) is not None}
        kept = [_sealed(unit, epoch, key, roots) for (unit, epoch), key in self._units.items()]
        self._storage.replace(_LOG, [document, *kept])

    def _catch_up(self) -> None:
        scan = self._storage.scan(_LOG, self._position)
        payloads = list(scan.payloads)
        if scan.fresh:
            self._roots, self._units = None, {}
            self._position = Position()
            if not payloads:
                return
            self._roots = self._unlocked(payloads.pop(0))
        if self._roots is not None:
            for payload in payloads:
                unit, epoch, key = _opened(payload, self._roots)
                self._units[unit, epoch] = key
        self._position = scan.position

    def _unlocked(self, document: bytes) -> Roots:
        """Open the key file; an unchanged one is not opened again, which would stretch a passphrase again."""
        if self._opened is None or self._opened[0] != document:
            self._opened = (document, unlocked_roots(document, self._keyring))
        return self._opened[1]


def _sealed(unit: Unit, epoch: int, key: bytes, roots: Roots) -> bytes:
    content = json.dumps([list(unit), base64.b64encode(key).decode()]).encode()
    return roots.sealed_frame(content, epoch, _KIND)


def _opened(payload: bytes, roots: Roots) -> tuple[Unit, int, bytes]:
    """Return a unit, an epoch, and the key of the two."""
    try:
        epoch, content = roots.opened_frame(payload, _KIND)
        unit, key = json.loads(content)
        return tuple(unit), epoch, base64.b64decode(key)
    except ValueError:
        raise TamperedStoreError(
            "store.keys, the store's file of keys, was changed: restore it from a backup"
        ) from None
