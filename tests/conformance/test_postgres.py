"""`PostgresMemoryProvider` keeps every promise of the kit."""

from __future__ import annotations

from pathlib import Path

from factmem_postgres import PostgresMemoryProvider

from factmem.abc import Clock
from factmem.testing import ProviderConformance
from tests.postgres import postgres_address


class TestPostgresMemoryProvider(ProviderConformance):
    durable = True
    capabilities = (
        "KeepsHistory",
        "FeedsChanges",
        "KeepsVectors",
        "Erases",
        "CopiesLogs",
        "ChecksItself",
        "UpgradesFormat",
    )

    async def open_provider(self, directory: Path) -> PostgresMemoryProvider:
        return PostgresMemoryProvider(postgres_address(directory))

    async def open_provider_with_clock(self, directory: Path, clock: Clock) -> PostgresMemoryProvider:
        return PostgresMemoryProvider(postgres_address(directory), clock=clock)
