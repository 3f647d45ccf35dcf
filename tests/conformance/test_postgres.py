"""`PostgresMemoryProvider` keeps every promise of the kit, behind a pooler too."""

from __future__ import annotations

from pathlib import Path

import pytest
from factmem_postgres import PostgresMemoryProvider

from factmem.abc.clock import Clock
from factmem.testing import ProviderConformance
from tests.postgres import pooler_address, postgres_address


@pytest.fixture(params=["asyncio", pytest.param("trio", marks=pytest.mark.big)])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """All waiting is in the adapter of logs, which SQLite's tests run on both event loops."""
    return str(request.param)


class TestPostgresMemoryProvider(ProviderConformance):
    durable = True
    capabilities = ("KeepsLog", "KeepsOutlines", "UpgradesFormat")

    async def open_provider(self, directory: Path) -> PostgresMemoryProvider:
        return PostgresMemoryProvider(postgres_address(directory))

    async def open_provider_with_clock(self, directory: Path, clock: Clock) -> PostgresMemoryProvider:
        return PostgresMemoryProvider(postgres_address(directory), clock=clock)


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
class TestPostgresMemoryProviderBehindPgBouncer(TestPostgresMemoryProvider):
    """In transaction mode: each transaction of a connection may run in another session."""

    async def open_provider(self, directory: Path) -> PostgresMemoryProvider:
        return PostgresMemoryProvider(postgres_address(directory, server=pooler_address()))

    async def open_provider_with_clock(self, directory: Path, clock: Clock) -> PostgresMemoryProvider:
        return PostgresMemoryProvider(postgres_address(directory, server=pooler_address()), clock=clock)
