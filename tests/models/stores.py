"""The stores under test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import attrs
from factmem_file import LocalFileMemoryProvider
from factmem_postgres import PostgresMemoryProvider
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.abc.clock import Clock
from factmem.providers.memory import InMemoryProvider
from tests import stores

FullProvider: TypeAlias = InMemoryProvider | LocalFileMemoryProvider | PostgresMemoryProvider | SqliteVecMemoryProvider
"""A provider with every capability."""


@attrs.frozen
class Store:
    """One kind of store.

    Attributes:
        name: name of the provider.
        open: opens the provider in a folder.
        durable: whether it can be opened twice, and again later.
    """

    name: str
    open: Callable[[Path, Clock], FullProvider]
    durable: bool = True


STORES: Final = tuple(Store(name, opener, durable=name != "memory") for name, opener in stores.STORES.items())
