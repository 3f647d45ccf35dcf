"""Capability of providers with encrypted stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from factmem.crypto.keys import Keyring, KeySource
from factmem.findings import Finding, FindingKind

__all__ = ["RotatesKeys", "pending_rotation"]


@runtime_checkable
class RotatesKeys(Protocol):
    """Keeps its store under a key that can be changed."""

    async def rotate(
        self, key: Keyring | KeySource | None = None, *, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Change the key of the store, and seal everything again with fresh keys.

        From the first moment on, the new key opens the whole store and the old one nothing. A rotation may be
        interrupted at any point, even by a kill: the store then works as before, and calling this without a key, with
        the store opened by the new one, continues it. Other processes need the new key at once; if their keyring has it
        already, they are not affected.

        Args:
            key: New key; None continues an interrupted rotation, if there is one.
            progress: Called with the number of pieces done, and the total.

        Raises:
            WrongKeyError: The store was not opened with its key.
            KeyUnavailableError: The new key is not available.
        """
        ...


def pending_rotation() -> Finding:
    """Return the finding of a store whose rotation was interrupted."""
    return Finding(
        kind=FindingKind.PENDING_ROTATION,
        part="keys",
        problem="a rotation was interrupted: parts are still sealed with the key before",
        advice="run `factmem rotate-key --resume`",
    )
