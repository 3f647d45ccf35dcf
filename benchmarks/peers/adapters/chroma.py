"""Chroma: a vector database; a persistent client, cosine, and default settings otherwise."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chromadb
from peers.protocol import Item, VectorTable

__all__ = ["Adapter"]


class Adapter:
    """Adapter with precomputed vectors of texts and queries."""

    ways = ("semantic",)
    batch = 500
    durable = True

    def open(self, folder: Path, vectors: VectorTable) -> None:
        """Open a collection."""
        self._vectors: VectorTable = vectors
        settings = chromadb.Settings(anonymized_telemetry=False)
        self._client: Any = chromadb.PersistentClient(path=str(folder), settings=settings)
        self._collection: Any = self._client.get_or_create_collection(
            "memories", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )

    def add(self, items: Sequence[Item]) -> None:
        """Add documents with their vectors."""
        texts = [item.text for item in items]
        self._collection.add(ids=[item.id for item in items], documents=texts, embeddings=self._vectors.vectors(texts))

    def search(self, query: str, limit: int, way: str) -> list[str]:
        """Query, and include the documents."""
        found = self._collection.query(
            query_embeddings=[self._vectors.vector(query)], n_results=limit, include=["documents", "distances"]
        )
        return list(found["ids"][0])

    def close(self) -> None:
        """Close the client."""
        self._client.close()
