"""Capability of being backed up: a store that lies at one path, and can be copied while others use it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

import attrs

from factmem.abc.capabilities import ChecksItself

__all__ = ["BacksUp", "StoreLocation"]


@attrs.frozen(kw_only=True)
class StoreLocation:
    """The place of a store on the disk.

    Attributes:
        kind: Name of the provider in addresses, such as ``sqlite-vec``.
        path: Path of the store, a file or a folder.
        suffixes: Suffixes of the files that may lie beside it; the empty one is the store itself.
    """

    kind: str
    path: Path
    suffixes: tuple[str, ...] = ("",)

    def beside(self, path: Path) -> dict[str, Path]:
        """Return what exists of the files of such a store at any path, by suffix."""
        paths = {suffix: path.with_name(path.name + suffix) for suffix in self.suffixes}
        return {suffix: path for suffix, path in paths.items() if os.path.lexists(path)}

    def is_vacant(self) -> bool:
        """Return whether nothing lies there, but an empty folder at most."""
        return all(path.is_dir() and not any(path.iterdir()) for path in self.beside(self.path).values())


@runtime_checkable
class BacksUp(ChecksItself, Protocol):
    """Keeps its store at one path of a local disk, where it can be copied and replaced as a whole.

    `factmem.providers.back_up` and `factmem.providers.restore_backup` do the rest. A provider refuses to open a store
    whose restore is not finished; see `factmem.providers.refuse_unfinished_restore`.
    """

    @property
    def location(self) -> StoreLocation:
        """The place of the store."""
        ...

    def at(self, path: Path) -> BacksUp:
        """Return a provider with the same options and the same key, for a store at another path."""
        ...

    async def copy_to(self, path: Path, *, progress: Callable[[int, int], None] | None = None) -> None:
        """Copy the store, as it is at one moment, to a path where nothing lies yet; its folder exists.

        Others may use the store meanwhile. An encrypted store stays encrypted, and the copy opens with the same key.

        Args:
            path: Path of the copy.
            progress: Called with the number of finished parts and the total, in any thread.

        Raises:
            StoreUnavailableError: There is no store, or the copy cannot be written; a part of it may be left.
            CorruptStoreError: The store is damaged.
        """
        ...

    async def check_unused(self) -> None:
        """Raise if anybody else has the store open, as far as that can be known; a damaged store counts as unused.

        Raises:
            StoreUnavailableError: Somebody else uses it.
        """
        ...

    async def aclose(self) -> None:
        """See `AgentMemoryProvider.aclose`."""
        ...
