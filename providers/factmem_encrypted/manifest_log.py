"""The manifest on disk: a log of sealed commits, read as it grows."""

from __future__ import annotations

import base64
import binascii
import threading
from typing import Final

from factmem.abc import LogName, Position, Storage
from factmem.crypto import Roots, SealBrokenError, seal, unseal
from factmem.errors import RolledBackStoreError, TamperedStoreError
from factmem_encrypted.manifest import Commit, Listing, commit_from, commit_to

__all__ = ["ManifestLog"]

_LOG: Final = LogName(folder=(), name=("store",), kind="manifest")
_SPARE_FRAMES: Final = 256


class ManifestLog:
    """The manifest, as one process sees it. What writes needs the storage's lock.

    Args:
        storage: where it lies.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._guard = threading.RLock()
        self._position = Position()
        self._frames = 0
        self._listing = Listing()
        self._newest = 0
        self._there = False

    def there(self) -> bool:
        """Return whether there is one; a store is made with it."""
        with self._guard:
            self._there = self._there or self._storage.scan(_LOG, limit=1).position.end > 0
            return self._there

    def listing(self, roots: Roots) -> Listing:
        """Return what is listed now; not to be changed.

        Raises:
            RolledBackStoreError: the manifest is older than it was a moment ago.
            TamperedStoreError: it was changed.
        """
        with self._guard:
            scan = self._storage.scan(_LOG, self._position)
            if scan.fresh:
                self._listing, self._frames = Listing(), 0
            elif scan.payloads:
                self._listing = Listing(self._listing.number, dict(self._listing.logs), dict(self._listing.files))
            self._position = Position()
            for payload in scan.payloads:
                commit = _opened(payload, roots, self._frames)
                if self._frames and commit.number != self._listing.number + 1:
                    raise _changed()
                self._listing.take(commit)
                self._frames += 1
            self._position = scan.position
            if self._listing.number < self._newest:
                raise RolledBackStoreError(
                    "the store's manifest is gone or older than it was: restore the whole store from one backup"
                )
            self._newest = self._listing.number
            return self._listing

    def add(self, commit: Commit, roots: Roots) -> None:
        """Append a commit, or write the manifest anew where it has grown long."""
        with self._guard:
            listing = self.listing(roots)
            if self._frames > _SPARE_FRAMES + 2 * len(listing.logs):
                listing.take(commit)
                self.write_anew(listing, roots)
            else:
                self._storage.append(_LOG, _sealed(commit, roots, self._frames), self._position)

    def write_anew(self, listing: Listing, roots: Roots) -> None:
        """Put one snapshot in place of all frames, sealed with the current root."""
        with self._guard:
            self._position = Position()
            self._storage.replace(_LOG, [_sealed(listing.snapshot(), roots, 0)])

    def settle(self) -> None:
        """Make what was read durable."""
        with self._guard:
            self._storage.settle(_LOG, self._position)


def _sealed(commit: Commit, roots: Roots, index: int) -> bytes:
    root = roots.current
    text = base64.b64encode(seal(root.key, commit_to(commit), ("manifest", roots.store, root.epoch, index)))
    return b"%d %b" % (root.epoch, text)


def _opened(payload: bytes, roots: Roots, index: int) -> Commit:
    try:
        number, text = payload.split(b" ")
        root = roots.of(int(number))
        if root is None:
            raise SealBrokenError("no such epoch")
        content = unseal(root, base64.b64decode(text, validate=True), ("manifest", roots.store, int(number), index))
    except (SealBrokenError, ValueError, binascii.Error):
        raise _changed() from None
    return commit_from(content)


def _changed() -> TamperedStoreError:
    return TamperedStoreError("the store's manifest was changed: restore the store from a backup")
