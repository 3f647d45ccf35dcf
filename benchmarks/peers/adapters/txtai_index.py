"""txtai: a hybrid embeddings database, which is held in memory and written as a whole."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers.protocol import Item, VectorTable
from txtai import Embeddings

__all__ = ["Adapter"]

WEIGHTS = {"hybrid": 0.5, "semantic": 1.0}


class Adapter:
    """``upsert``, ``save`` and ``search``, with a Faiss index, which is flat while it is small, and one of words."""

    ways = ("hybrid", "semantic")
    batch = 500
    durable = True

    def open(self, folder: Path, vectors: VectorTable) -> None:
        """Load an index, or start one."""
        self._path: str = str(folder / "index")
        own = {"transform": lambda texts: vectors.vectors(texts)}  # txtai expects a function, not a method
        self._embeddings: Any = Embeddings(method="external", hybrid=True, content=True, **own)
        if self._embeddings.exists(self._path):
            self._embeddings.load(self._path, config=own)

    def add(self, items: Sequence[Item]) -> None:
        """Upsert, and save: until then it is in memory only."""
        self._embeddings.upsert([(item.id, item.text, None) for item in items])
        self._embeddings.save(self._path)

    def search(self, query: str, limit: int, way: str) -> list[str]:
        """Search with txtai's default weights, or without the words."""
        return [found["id"] for found in self._embeddings.search(query, limit, weights=WEIGHTS[way])]

    def close(self) -> None:
        """Close the index."""
        self._embeddings.close()
