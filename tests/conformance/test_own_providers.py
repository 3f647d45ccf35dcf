"""Each provider of this repository keeps every promise of the kit.

What waits is the adapter of logs. The store in SQLite shows that it does so on both event loops.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest
from factmem_encrypted import EncryptedMemoryProvider
from factmem_encrypted_sqlite import EncryptedSqliteMemoryProvider
from factmem_file import LocalFileMemoryProvider
from factmem_postgres import PostgresMemoryProvider
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem import AgentMemoryProvider
from factmem.abc.clock import Clock
from factmem.crypto import SecretKey
from factmem.providers.memory import InMemoryProvider
from factmem.testing import ProviderConformance
from tests.postgres import pooler_address, postgres_address

KEY = SecretKey(bytes(range(32)))
OF_SQLITE = ("KeepsLog", "KeepsOutlines", "ScansVectors", "KeepsFiles", "UpgradesFormat")
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
on_trio_with_big = pytest.mark.parametrize("anyio_backend", ["asyncio", pytest.param("trio", marks=pytest.mark.big)])


class OwnProvider(ProviderConformance):
    """A provider that is made in one way, with a clock or without."""

    durable = True

    def made(self, directory: Path, **clock: Any) -> AgentMemoryProvider:
        raise NotImplementedError

    async def open_provider(self, directory: Path) -> AgentMemoryProvider:
        return self.made(directory)

    async def open_provider_with_clock(self, directory: Path, clock: Clock) -> AgentMemoryProvider:
        return self.made(directory, clock=clock)


@on_trio_with_big
class TestInMemoryProvider(OwnProvider):
    durable = False
    capabilities = ("KeepsLog",)

    def made(self, directory: Path, **clock: Any) -> InMemoryProvider:
        return InMemoryProvider(**clock)


class TestSqliteVecMemoryProvider(OwnProvider):
    capabilities = OF_SQLITE

    def made(self, directory: Path, **clock: Any) -> SqliteVecMemoryProvider:
        return SqliteVecMemoryProvider(directory / "facts.db", **clock)


@on_trio_with_big
class TestLocalFileMemoryProvider(OwnProvider):
    def made(self, directory: Path, **clock: Any) -> LocalFileMemoryProvider:
        return LocalFileMemoryProvider(directory / "facts", **clock)


@on_asyncio
class TestEncryptedMemoryProvider(OwnProvider):
    def made(self, directory: Path, **clock: Any) -> EncryptedMemoryProvider:
        return EncryptedMemoryProvider(directory / "facts", KEY, **clock)


@on_asyncio
@pytest.mark.skipif(
    not hasattr(apsw, "mc_version"), reason="apsw here cannot encrypt: apsw-sqlite3mc is not installed, or overwritten"
)
class TestEncryptedSqliteMemoryProvider(OwnProvider):
    capabilities = OF_SQLITE

    def made(self, directory: Path, **clock: Any) -> EncryptedSqliteMemoryProvider:
        return EncryptedSqliteMemoryProvider(directory / "facts.db", KEY, **clock)


@on_trio_with_big
class TestPostgresMemoryProvider(OwnProvider):
    capabilities = ("KeepsLog", "KeepsOutlines", "UpgradesFormat")

    def made(self, directory: Path, **clock: Any) -> PostgresMemoryProvider:
        return PostgresMemoryProvider(postgres_address(directory), **clock)


@pytest.mark.slow
@on_asyncio
class TestPostgresMemoryProviderBehindPgBouncer(OwnProvider):
    """In transaction mode: each transaction of a connection may run in another session."""

    capabilities = TestPostgresMemoryProvider.capabilities

    def made(self, directory: Path, **clock: Any) -> PostgresMemoryProvider:
        return PostgresMemoryProvider(postgres_address(directory, server=pooler_address()), **clock)
