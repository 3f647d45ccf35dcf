"""The stores under test. Each is used by one process only, so waits for locks are short."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import apsw
import attrs
from factmem_encrypted import EncryptedMemoryProvider
from factmem_encrypted_sqlite import EncryptedSqliteMemoryProvider
from factmem_file import LocalFileMemoryProvider
from factmem_postgres import PostgresMemoryProvider
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.abc.clock import Clock
from factmem.crypto import SecretKey
from factmem.providers.memory import InMemoryProvider
from tests.postgres import postgres_address

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


_KEY: Final = SecretKey(bytes(range(32)))


def _in_memory(_: Path, clock: Clock) -> InMemoryProvider:
    return InMemoryProvider(clock=clock)


def _file(folder: Path, clock: Clock) -> LocalFileMemoryProvider:
    return LocalFileMemoryProvider(folder / "facts", clock=clock, lock_timeout=1)


def _encrypted(folder: Path, clock: Clock) -> EncryptedMemoryProvider:
    return EncryptedMemoryProvider(folder / "facts", _KEY, clock=clock, lock_timeout=1)


def _sqlite(folder: Path, clock: Clock) -> SqliteVecMemoryProvider:
    return SqliteVecMemoryProvider(folder / "facts.db", clock=clock, busy_timeout=1)


def _postgres(folder: Path, clock: Clock) -> PostgresMemoryProvider:
    return PostgresMemoryProvider(postgres_address(folder), clock=clock)


def _encrypted_sqlite(folder: Path, clock: Clock) -> EncryptedSqliteMemoryProvider:
    return EncryptedSqliteMemoryProvider(folder / "facts.db", _KEY, clock=clock, busy_timeout=1)


STORES: Final = (
    Store("memory", _in_memory, durable=False),
    Store("file", _file),
    Store("encrypted", _encrypted),
    Store("sqlite-vec", _sqlite),
    Store("postgres", _postgres),
    # The installed apsw may lack encryption.
    *([Store("encrypted-sqlite", _encrypted_sqlite)] if hasattr(apsw, "mc_version") else []),
)
