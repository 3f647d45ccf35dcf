"""CrewAI's memory over its default store, LanceDB, with every field given, so that no model is called."""

# pyright: reportMissingImports=false

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crewai import BaseLLM
from crewai.memory.unified_memory import Memory
from peers.protocol import Item, VectorTable

__all__ = ["Adapter"]

GIVEN: dict[str, Any] = {"scope": "/said", "categories": ["said"], "importance": 0.5}


class NoModel(BaseLLM):
    """A model that raises if it is called, because it would affect the figures."""

    def call(self, messages: Any, *args: Any, **options: Any) -> str:
        """Raise an error."""
        raise RuntimeError("a model was called")


class Adapter:
    """``remember``, ``remember_many`` and shallow ``recall``."""

    ways = ("semantic",)
    batch = 100
    durable = True

    def open(self, folder: Path, vectors: VectorTable) -> None:
        """Open, with a threshold that prevents consolidation, which takes a model."""
        self._memory: Any = Memory(
            storage=str(folder / "lance"),
            embedder=vectors.vectors,
            llm=NoModel(model="none"),
            consolidation_threshold=1.0,
        )
        self._kept: Path = folder.with_suffix(".ids.json")  # several texts may be passed at once, but no ids
        self._ids: dict[str, list[str]] = {}
        if self._kept.exists():
            self._ids = json.loads(self._kept.read_text(encoding="utf-8"))

    def add(self, items: Sequence[Item]) -> None:
        """Remember, and wait for background saves."""
        for item in items:
            self._ids.setdefault(item.text, []).append(item.id)
        if len(items) == 1:
            self._memory.remember(items[0].text, **GIVEN)
        else:
            self._memory.remember_many([item.text for item in items], **GIVEN)
            self._memory.drain_writes()

    def search(self, query: str, limit: int, way: str) -> list[str]:
        """Recall."""
        matches = self._memory.recall(query, limit=limit, depth="shallow")
        return [item for match in matches for item in self._ids[match.record.content]]

    def close(self) -> None:
        """Close the memory."""
        self._memory.close()
        self._kept.write_text(json.dumps(self._ids), encoding="utf-8")
