"""`LocalFileMemoryProvider` keeps every promise of the kit."""

from __future__ import annotations

from pathlib import Path

import pytest
from factmem_file import LocalFileMemoryProvider

from factmem.abc.clock import Clock
from factmem.testing import ProviderConformance


@pytest.fixture(params=["asyncio", pytest.param("trio", marks=pytest.mark.big)])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """All waiting is in the adapter of logs, which SQLite's tests run on both event loops."""
    return str(request.param)


class TestLocalFileMemoryProvider(ProviderConformance):
    durable = True

    async def open_provider(self, directory: Path) -> LocalFileMemoryProvider:
        return LocalFileMemoryProvider(directory / "facts")

    async def open_provider_with_clock(self, directory: Path, clock: Clock) -> LocalFileMemoryProvider:
        return LocalFileMemoryProvider(directory / "facts", clock=clock)
