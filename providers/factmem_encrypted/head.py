"""The head: which commit is the last, in a note of its own, so that a manifest that lost its end shows.

It is written after each commit, in place and without a flush: so it may be behind the manifest, where a
writer died or the power failed, and never ahead of it. It has the same length always.
"""

from __future__ import annotations

import base64
import contextlib
from typing import Final

from factmem.abc import Storage
from factmem.crypto import Roots, SealBrokenError, seal, unseal
from factmem.errors import RolledBackStoreError, TamperedStoreError

__all__ = ["Head"]

_NOTE: Final = "head"


class Head:
    """The note as one process sees it.

    Args:
        storage: where it lies.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def there(self) -> bool:
        """Return whether there is one that is whole; it is made before the manifest."""
        return self._storage.read_note(_NOTE) is not None

    def read(self, roots: Roots) -> int:
        """Return the number of a commit that the manifest must have.

        Raises:
            RolledBackStoreError: it is missing, or damaged.
            TamperedStoreError: it was changed.
        """
        payload = self._storage.read_note(_NOTE)
        if payload is None:
            raise RolledBackStoreError(
                f"{_NOTE}.note of the store is missing or damaged: restore the whole store from one backup"
            )
        for root in reversed(roots.of_epochs):
            with contextlib.suppress(SealBrokenError, ValueError):
                return int(unseal(root.key, base64.b64decode(payload, validate=True), (_NOTE, roots.store)))
        raise TamperedStoreError(f"{_NOTE}.note of the store was changed: restore the whole store from one backup")

    def write(self, number: int, roots: Roots, *, durable: bool = False) -> None:
        """Say which commit is the last. Needs the storage's lock.

        Raises:
            StoreUnavailableError: it could not be written.
        """
        text = base64.b64encode(seal(roots.current.key, b"%020d" % number, (_NOTE, roots.store)))
        self._storage.write_note(_NOTE, text, durable=durable)
