"""Head: the number of the last commit in a note of its own, to detect a manifest that lost its end.

It is written after each commit, in place and without a flush: so it may be behind the manifest, where a writer died or
the power failed, and never ahead of it. It always has the same length, and fits into one sector of a disk.
"""

from __future__ import annotations

import base64
import contextlib
from typing import Final

import attrs

from factmem.abc import LogStorage
from factmem.crypto import Roots, SealBrokenError, seal, unseal
from factmem.errors import RolledBackStoreError, TamperedStoreError

__all__ = ["HeadNote", "ManifestHead"]

_NOTE: Final = "head"
_DIGITS: Final = 20


@attrs.frozen
class ManifestHead:
    """A commit that the manifest must have.

    Attributes:
        number: Number of the commit.
        digest: Digest of the manifest's frames up to it; empty before the manifest is created.
    """

    number: int
    digest: str


class HeadNote:
    """The note as one process sees it.

    Args:
        storage: Log storage of the note.
    """

    def __init__(self, storage: LogStorage) -> None:
        self._storage = storage

    def there(self) -> bool:
        """Return whether there is an undamaged note; it is created before the manifest."""
        return self._storage.read_note(_NOTE) is not None

    def read(self, roots: Roots) -> ManifestHead:
        """Return the head.

        Raises:
            RolledBackStoreError: It is missing, or damaged.
            TamperedStoreError: It was changed.
        """
        payload = self._storage.read_note(_NOTE)
        if payload is None:
            raise RolledBackStoreError(
                f"{_NOTE}.note of the store is missing or damaged: restore the whole store from one backup"
            )
        for root in reversed(roots.of_epochs):
            with contextlib.suppress(SealBrokenError, ValueError):
                text = unseal(root.key, base64.b64decode(payload, validate=True), (_NOTE, roots.store)).decode()
                return ManifestHead(int(text[:_DIGITS]), text[_DIGITS:].strip())
        raise TamperedStoreError(f"{_NOTE}.note of the store was changed: restore the whole store from one backup")

    def write(self, head: ManifestHead, roots: Roots, *, durable: bool = False) -> None:
        """Write the head. Needs the storage's lock.

        Raises:
            StoreUnavailableError: It could not be written.
        """
        text = f"{head.number:0{_DIGITS}d}{head.digest:64}"
        sealed = base64.b64encode(seal(roots.current.key, text.encode(), (_NOTE, roots.store)))
        self._storage.write_note(_NOTE, sealed, durable=durable)
