"""Manifest on disk: a log of sealed commits, each bound to those before it, read incrementally."""

from __future__ import annotations

import base64
import binascii
import contextlib
import threading
from typing import Final

from factmem.abc import LogName, LogStorage, Position
from factmem.crypto import Roots, SealBrokenError, seal, unseal
from factmem.errors import RolledBackStoreError, StoreUnavailableError, TamperedStoreError
from factmem_encrypted.head import HeadNote, ManifestHead
from factmem_encrypted.manifest import Commit, Listing, chained, commit_from, commit_to

__all__ = ["ManifestLog"]

_LOG: Final = LogName(folder=(), name=("store",), kind="manifest")
_SPARE_FRAMES: Final = 256


class ManifestLog:
    """The manifest, as one process sees it. Methods that write need the storage's lock.

    Args:
        storage: Log storage of the manifest.
    """

    def __init__(self, storage: LogStorage) -> None:
        self._storage = storage
        self._head = HeadNote(storage)
        self._guard = threading.RLock()
        self._position = Position()
        self._frames = 0
        self._digest = ""
        self._digests: dict[int, str] = {}
        self._listing = Listing()
        self._newest = 0
        self._unproven = False
        self._there = False

    def there(self) -> bool:
        """Return whether there is a manifest; a store is created with it."""
        with self._guard:
            self._there = self._there or self._storage.scan(_LOG, limit=1).position.end > 0
            return self._there

    def begun(self) -> bool:
        """Return whether a store was created here, as far as that is visible without its keys."""
        return self.there() or self._head.there()

    def used(self, roots: Roots) -> bool:
        """Return whether anything was ever committed, as far as that is visible without the manifest."""
        return self._head.there() and self._head.read(roots).number > 0

    def create(self, roots: Roots) -> None:
        """Write the manifest of a new store."""
        self._head.write(ManifestHead(0, ""), roots, durable=True)
        self._write_anew(Listing(), roots)

    def listing(self, roots: Roots) -> Listing:
        """Return the current listing; not to be changed.

        Raises:
            RolledBackStoreError: The manifest is older than at the last read, or than its head.
            TamperedStoreError: It was changed.
        """
        with self._guard:
            self._catch_up(roots)
            if self._unproven:
                self._check_head(roots)
            if self._listing.number < self._newest:
                raise _older()
            self._newest = self._listing.number
            return self._listing

    def _check_head(self, roots: Roots) -> None:
        """Compare the manifest, read from the beginning, with the head; nothing of it is trusted before they match."""
        head = self._head.read(roots)
        if self._listing.number < head.number:
            # Other processes may have written between the two.
            self._catch_up(roots)
        if self._listing.number < head.number or (
            head.digest and self._digests.get(head.number, head.digest) != head.digest
        ):
            raise _older()
        self._unproven = False

    def _catch_up(self, roots: Roots) -> None:
        """Read new commits."""
        scan = self._storage.scan(_LOG, self._position)
        if scan.fresh:
            self._unproven = scan.position.end > 0
            if self._unproven and not scan.payloads:
                raise _older()
            self._listing, self._frames, self._digest, self._digests = Listing(), 0, "", {}
        elif scan.payloads:
            self._listing = self._listing.copy()
        self._position = Position()
        for payload in scan.payloads:
            commit = _opened(payload, roots, self._digest)
            if self._frames and commit.number != self._listing.number + 1:
                raise _changed()
            self._listing.take(commit)
            self._frames += 1
            self._digest = self._digests[commit.number] = chained(self._digest, (payload,))
        self._position = scan.position

    def add(self, commit: Commit, roots: Roots) -> None:
        """Append a commit, or rewrite the manifest if it has grown long."""
        with self._guard:
            listing = self.listing(roots)
            if self._frames > _SPARE_FRAMES + 2 * len(listing.logs):
                listing = listing.copy()
                listing.take(commit)
                digest = self._write_anew(listing, roots)
            else:
                frame = _sealed(commit, roots, self._digest)
                digest = chained(self._digest, (frame,))
                self._storage.append(_LOG, frame, self._position)
            # It counts already: the head may be behind.
            with contextlib.suppress(StoreUnavailableError):
                self._head.write(ManifestHead(commit.number, digest), roots)

    def reseal(self, roots: Roots) -> None:
        """Seal the manifest with the current root, so that it needs no other."""
        with self._guard:
            listing = self.listing(roots).copy()
            listing.number += 1
            digest = self._write_anew(listing, roots)
            self._head.write(ManifestHead(listing.number, digest), roots, durable=True)

    def _write_anew(self, listing: Listing, roots: Roots) -> str:
        """Replace all frames by one snapshot, sealed with the current root, and return its digest."""
        self._position = Position()
        frame = _sealed(listing.snapshot(), roots, "")
        self._storage.replace(_LOG, [frame])
        return chained("", (frame,))

    def settle(self) -> None:
        """Make all commits read so far durable."""
        with self._guard:
            self._storage.settle(_LOG, self._position)


def _sealed(commit: Commit, roots: Roots, before: str) -> bytes:
    root = roots.current
    text = base64.b64encode(seal(root.key, commit_to(commit), ("manifest", roots.store, root.epoch, before)))
    return b"%d %b" % (root.epoch, text)


def _opened(payload: bytes, roots: Roots, before: str) -> Commit:
    try:
        number, text = payload.split(b" ")
        root = roots.of(int(number))
        if root is None:
            raise SealBrokenError("no such epoch")
        content = unseal(root, base64.b64decode(text, validate=True), ("manifest", roots.store, int(number), before))
    except (SealBrokenError, ValueError, binascii.Error):
        raise _changed() from None
    return commit_from(content)


def _older() -> RolledBackStoreError:
    return RolledBackStoreError(
        "the store's manifest is gone, cut short or another one than it was: restore the whole store from one backup"
    )


def _changed() -> TamperedStoreError:
    return TamperedStoreError("the store's manifest was changed: restore the store from a backup")
