"""The other limit: the default embedder alone, which stores and finds nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from peers.protocol import Item, VectorTable

from factmem.recall.embedders import default_embedder

__all__ = ["Adapter"]


class Adapter:
    """Adapter that only embeds, to measure the cost that the comparison excludes for the others."""

    ways = ("embedding",)
    batch = 500
    durable = False

    async def open(self, folder: Path, vectors: VectorTable) -> None:
        """Load the weights."""
        self._embedder = default_embedder()
        await self._embedder.embed(["to load the weights"])

    async def add(self, items: Sequence[Item]) -> None:
        """Embed items."""
        await self._embedder.embed([item.text for item in items])

    async def search(self, query: str, limit: int, way: str) -> list[str]:
        """Embed a query."""
        await self._embedder.embed([query])
        return []

    async def close(self) -> None:
        """Do nothing: no resource is open."""
