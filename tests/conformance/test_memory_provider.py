"""`InMemoryProvider` keeps every promise of the kit."""

from __future__ import annotations

from pathlib import Path

from factmem.abc.clock import Clock
from factmem.providers.memory import InMemoryProvider
from factmem.testing import ProviderConformance


class TestInMemoryProvider(ProviderConformance):
    capabilities = ("KeepsLog",)

    async def open_provider(self, directory: Path) -> InMemoryProvider:
        return InMemoryProvider()

    async def open_provider_with_clock(self, directory: Path, clock: Clock) -> InMemoryProvider:
        return InMemoryProvider(clock=clock)
