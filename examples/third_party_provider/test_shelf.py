"""The shelf keeps the promises of the four verbs."""

from __future__ import annotations

from pathlib import Path

from factmem_shelf import ShelfProvider

from factmem.abc.clock import Clock
from factmem.testing import WaistConformance


class TestShelfProvider(WaistConformance):
    durable = True

    async def open_provider(self, directory: Path) -> ShelfProvider:
        return ShelfProvider(directory / "shelf")

    async def open_provider_with_clock(self, directory: Path, clock: Clock) -> ShelfProvider:
        return ShelfProvider(directory / "shelf", clock=clock)
