"""LangGraph's SqliteStore, with sqlite-vec."""

# pyright: reportMissingImports=false

from __future__ import annotations

import importlib
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from langgraph.store.base import PutOp
from peers.protocol import Item, VectorTable

if not hasattr(sqlite3.Connection, "enable_load_extension"):  # many builds of Python cannot load sqlite-vec
    sys.modules["sqlite3"] = importlib.import_module("pysqlite3")

SqliteStore: Any = importlib.import_module("langgraph.store.sqlite").SqliteStore

__all__ = ["Adapter"]

NAMESPACE = ("memories",)


class Adapter:
    """A namespace of a store with a vector index."""

    ways = ("semantic",)
    batch = 500
    durable = True

    def open(self, folder: Path, vectors: VectorTable) -> None:
        """Open one SQLite file."""
        self._stack: ExitStack = ExitStack()
        index = {"dims": vectors.dimension, "embed": vectors.vectors, "text_fields": ["text"]}
        self._store: Any = self._stack.enter_context(
            SqliteStore.from_conn_string(str(folder / "store.db"), index=index)
        )
        self._store.setup()

    def add(self, items: Sequence[Item]) -> None:
        """Put all items at once."""
        self._store.batch([PutOp(NAMESPACE, item.id, {"text": item.text}) for item in items])

    def search(self, query: str, limit: int, way: str) -> list[str]:
        """Search the namespace."""
        return [found.key for found in self._store.search(NAMESPACE, query=query, limit=limit)]

    def close(self) -> None:
        """Close the file."""
        self._stack.close()
