"""The limit: a bare scan of the float32 matrix, without words, times or a disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from peers.protocol import Item, VectorTable

__all__ = ["Adapter"]


class Adapter:
    """``M @ q`` and a partial sort."""

    ways = ("semantic",)
    batch = 1000
    durable = False

    def open(self, folder: Path, vectors: VectorTable) -> None:
        """Start with an empty matrix."""
        self._vectors: VectorTable = vectors
        self._matrix = np.zeros((0, vectors.dimension), np.float32)
        self._ids: list[str] = []

    def add(self, items: Sequence[Item]) -> None:
        """Append rows."""
        rows = np.asarray([self._vectors.row(item.text) for item in items], np.float32)
        self._matrix = np.concatenate([self._matrix, rows])
        self._ids += [item.id for item in items]

    def search(self, query: str, limit: int, way: str) -> list[str]:
        """Scan."""
        scores = self._matrix @ np.asarray(self._vectors.row(query))
        top = np.argpartition(-scores, limit)[:limit] if limit < len(scores) else np.arange(len(scores))
        return [self._ids[row] for row in top[np.argsort(-scores[top])]]

    def close(self) -> None:
        """Do nothing: no resource is open."""
