"""LanceDB: a vector database with full-text search; exact vectors (no index, as advised for this size) and BM25."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
from lancedb.rerankers import RRFReranker
from peers.protocol import Item, VectorTable

__all__ = ["Adapter"]


class Adapter:
    """LanceDB's own hybrid search: both result lists fused by reciprocal rank."""

    ways = ("hybrid", "semantic")
    batch = 500
    durable = True

    def open(self, folder: Path, vectors: VectorTable) -> None:
        """Open or make the table."""
        self._vectors: VectorTable = vectors
        self._reranker: Any = RRFReranker()
        database = lancedb.connect(str(folder))
        schema = pa.schema(
            [("id", pa.string()), ("text", pa.string()), ("vector", pa.list_(pa.float32(), vectors.dimension))]
        )
        self._table: Any = database.create_table("memories", schema=schema, exist_ok=True)

    def add(self, items: Sequence[Item]) -> None:
        """Add rows."""
        self._table.add(
            [{"id": item.id, "text": item.text, "vector": self._vectors.vector(item.text)} for item in items]
        )

    def search(self, query: str, limit: int, way: str) -> list[str]:
        """Search by words and by meaning, or by meaning alone."""
        vector = self._vectors.vector(query)
        if way == "hybrid":
            asked = self._table.search(query_type="hybrid").vector(vector).text(query).rerank(self._reranker)
        else:
            asked = self._table.search(vector)
        asked = asked.distance_type("cosine").limit(limit).select(["id", "text"])
        return [row["id"] for row in asked.to_list()]

    def close(self) -> None:
        """Index the words, and compact the one file per call of `add`."""
        if not self._table.list_indices():
            self._table.create_fts_index("text")
        self._table.optimize()
