"""MemPalace over its default backend, Chroma: one drawer per text, and its own search."""

# pyright: reportMissingImports=false

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers.protocol import Item, VectorTable

# Its own embedder behind a URL is the only kind that can be replaced; the setting is read on import.
os.environ |= {
    "MEMPALACE_EMBEDDING_MODEL": "openai-compat",
    "MEMPALACE_EMBEDDING_API_URL": "http://127.0.0.1:9",
    "MEMPALACE_EMBEDDING_API_MODEL": "known",
}

from mempalace.embedding import OpenAICompatEmbeddingFunction
from mempalace.palace import get_collection
from mempalace.searcher import search_memories

__all__ = ["Adapter"]

STRATEGIES = {"hybrid": "vector", "hybrid, union": "union"}
"""Candidates of its ranking by words and meaning: the nearest vectors (its default), or matches of words too."""


class Adapter:
    """``upsert`` into its collection, as its miners do, and ``search_memories``."""

    ways = ("hybrid", "hybrid, union", "semantic")
    batch = 500
    durable = True

    def open(self, folder: Path, vectors: VectorTable) -> None:
        """Open a palace."""

        def embedded(self: object, input: Sequence[str]) -> list[list[float]]:
            return vectors.vectors(input)

        OpenAICompatEmbeddingFunction.__call__ = embedded
        OpenAICompatEmbeddingFunction.embed_query = embedded
        self._palace: str = str(folder)
        self._drawers: Any = get_collection(self._palace)

    def add(self, items: Sequence[Item]) -> None:
        """File drawers in one room."""
        self._drawers.upsert(
            ids=[item.id for item in items],
            documents=[item.text for item in items],
            metadatas=[
                {"wing": "talks", "room": "said", "source_file": item.id, "chunk_index": 0, "added_by": "peers"}
                for item in items
            ],
        )

    def search(self, query: str, limit: int, way: str) -> list[str]:
        """Search as its tools do, or query the collection directly."""
        if way == "semantic":
            found = self._drawers.query(query_texts=[query], n_results=limit)
            return list(found["ids"][0])
        answer = search_memories(query, self._palace, n_results=limit, candidate_strategy=STRATEGIES[way])
        return [hit["drawer_id"] for hit in answer["results"]]

    def close(self) -> None:
        """Do nothing: a palace cannot be closed before its process ends."""
