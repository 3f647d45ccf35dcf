"""Every store that keeps history, by the name of its provider. Another store needs one more line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import apsw
from factmem_encrypted import EncryptedMemoryProvider
from factmem_encrypted_sqlite import EncryptedSqliteMemoryProvider
from factmem_file import LocalFileMemoryProvider
from factmem_postgres import PostgresMemoryProvider
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem import InMemoryProvider
from factmem.abc.clock import Clock
from factmem.crypto import SecretKey
from tests.postgres import postgres_address

_KEY: Final = SecretKey(bytes(range(32)))

STORES: Final[dict[str, Callable[[Path, Clock], Any]]] = {
    "memory": lambda path, clock: InMemoryProvider(clock=clock),
    "sqlite-vec": lambda path, clock: SqliteVecMemoryProvider(path / "facts.db", clock=clock),
    "encrypted": lambda path, clock: EncryptedMemoryProvider(path / "vault", _KEY, clock=clock),
    "file": lambda path, clock: LocalFileMemoryProvider(path / "facts", clock=clock),
    "postgres": lambda path, clock: PostgresMemoryProvider(postgres_address(path), clock=clock),
}
"""Functions that open a store in a folder; no static type combines all capabilities of what they return."""

if hasattr(apsw, "mc_version"):  # without it this environment's SQLite cannot encrypt
    STORES["encrypted-sqlite"] = lambda path, clock: EncryptedSqliteMemoryProvider(path / "vault.db", _KEY, clock=clock)
