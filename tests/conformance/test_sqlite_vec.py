"""`SqliteVecMemoryProvider` keeps every promise of the kit."""

from __future__ import annotations

from pathlib import Path

from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.abc.clock import Clock
from factmem.testing import ProviderConformance


class TestSqliteVecMemoryProvider(ProviderConformance):
    durable = True
    capabilities = ("KeepsLog", "KeepsOutlines", "ScansVectors", "KeepsFiles", "UpgradesFormat")

    async def open_provider(self, directory: Path) -> SqliteVecMemoryProvider:
        return SqliteVecMemoryProvider(directory / "facts.db")

    async def open_provider_with_clock(self, directory: Path, clock: Clock) -> SqliteVecMemoryProvider:
        return SqliteVecMemoryProvider(directory / "facts.db", clock=clock)
