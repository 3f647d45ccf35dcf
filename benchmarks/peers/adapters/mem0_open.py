"""mem0 without inference, over its default store, Qdrant on disk.

Its keyword models need a network, which is absent.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mem0 import Memory
from peers.protocol import Item, VectorTable

__all__ = ["Adapter"]

logging.disable(logging.WARNING)  # every call warns about its keyword models
USER = "user"


class Adapter:
    """``add(infer=False)`` and ``search``. It accepts neither given ids nor several memories at once."""

    ways = ("semantic",)
    batch = 100
    durable = True

    def open(self, folder: Path, vectors: VectorTable) -> None:
        """Open with one of mem0's own embedders, which is then replaced."""
        self._memory: Any = Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": {
                        "path": str(folder / "qdrant"),
                        "on_disk": True,
                        "embedding_model_dims": vectors.dimension,
                    },
                },
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._known: _Known = _Known(vectors)
        self._memory.embedding_model = self._known

    def add(self, items: Sequence[Item]) -> None:
        """Add items one by one."""
        for item in items:
            said = [{"role": item.role, "content": item.text}]
            self._memory.add(said, user_id=USER, metadata={"item": item.id}, infer=False)

    def search(self, query: str, limit: int, way: str) -> list[str]:
        """Search without a minimum score."""
        self._known.asked = query
        found = self._memory.search(query, filters={"user_id": USER}, top_k=limit, threshold=0.0)
        return [memory["metadata"]["item"] for memory in found["results"]]

    def close(self) -> None:
        """Close the history and the store."""
        self._memory.vector_store.client.close()
        self._memory.close()


class _Known:
    def __init__(self, vectors: VectorTable) -> None:
        self._vectors = vectors
        self.asked = ""  # a query reaches the embedder stripped

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self._vectors.vector(self.asked if text == self.asked.strip() else text)

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        return self._vectors.vectors(texts)
