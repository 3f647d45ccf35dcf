"""`LocalFileMemoryProvider` keeps every promise of the kit."""

from __future__ import annotations

from pathlib import Path

from factmem_file import LocalFileMemoryProvider

from factmem.abc.clock import Clock
from factmem.testing import ProviderConformance


class TestLocalFileMemoryProvider(ProviderConformance):
    durable = True

    async def open_provider(self, directory: Path) -> LocalFileMemoryProvider:
        return LocalFileMemoryProvider(directory / "facts")

    async def open_provider_with_clock(self, directory: Path, clock: Clock) -> LocalFileMemoryProvider:
        return LocalFileMemoryProvider(directory / "facts", clock=clock)
