"""The stores under test, in one list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import attrs
from factmem_encrypted import EncryptedMemoryProvider
from factmem_file import LocalFileMemoryProvider
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.abc import Clock
from factmem.crypto import SecretKey
from factmem.providers import InMemoryProvider

__all__ = ["STORES", "FullProvider", "Store"]

FullProvider: TypeAlias = InMemoryProvider | LocalFileMemoryProvider | SqliteVecMemoryProvider
"""A provider with every capability."""


@attrs.frozen
class Store:
    """One kind of store.

    Attributes:
        name: of the provider.
        open: opens one in a folder.
        durable: whether it can be opened twice, and again.
    """

    name: str
    open: Callable[[Path, Clock], FullProvider]
    durable: bool = True


_KEY: Final = SecretKey(bytes(range(32)))

STORES: Final = (
    Store("InMemory", lambda _, clock: InMemoryProvider(clock=clock), durable=False),
    Store("file", lambda folder, clock: LocalFileMemoryProvider(folder / "facts", clock=clock)),
    Store("encrypted", lambda folder, clock: EncryptedMemoryProvider(folder / "facts", _KEY, clock=clock)),
    Store("sqlite-vec", lambda folder, clock: SqliteVecMemoryProvider(folder / "facts.db", clock=clock)),
)
