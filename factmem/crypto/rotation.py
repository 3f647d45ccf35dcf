"""The capability of providers with encrypted stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from factmem.crypto.keys import Keyring, KeySource

__all__ = ["RotatesKeys"]


@runtime_checkable
class RotatesKeys(Protocol):
    """Keeps its store under a key that can be changed."""

    async def rotate(
        self, key: Keyring | KeySource | None = None, *, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Put the store under another key, and seal everything anew with fresh keys.

        From the first moment on, the new key opens all of it and the old one nothing. It may be broken off at any
        point, by a kill as well: the store then works as before, and calling this without a key, with the
        store opened by the new one, goes on. Other processes need the new key at once; where their keyring has
        it already, they notice nothing.

        Args:
            key: the new one; None goes on with a rotation that was broken off, if there is one.
            progress: called with how many pieces are done, and how many there are.

        Raises:
            WrongKeyError: the store was not opened with its key.
            KeyUnavailableError: the new key cannot be had.
        """
        ...
