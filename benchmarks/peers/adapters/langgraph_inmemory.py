"""LangGraph's InMemoryStore, which is not durable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langgraph.store.memory import InMemoryStore
from peers.protocol import Item, VectorTable

__all__ = ["Adapter"]

NAMESPACE = ("memories",)


class Adapter:
    """A namespace of a store with a vector index."""

    ways = ("semantic",)
    batch = 500
    durable = False

    def open(self, folder: Path, vectors: VectorTable) -> None:
        """Make an empty store."""
        self._store: Any = InMemoryStore(
            index={"dims": vectors.dimension, "embed": vectors.vectors, "fields": ["text"]}
        )

    def add(self, items: Sequence[Item]) -> None:
        """Put items one by one, because ``batch`` miscounts equal texts in one call."""
        for item in items:
            self._store.put(NAMESPACE, item.id, {"text": item.text})

    def search(self, query: str, limit: int, way: str) -> list[str]:
        """Search the namespace."""
        return [found.key for found in self._store.search(NAMESPACE, query=query, limit=limit)]

    def close(self) -> None:
        """Do nothing: no resource is open."""
