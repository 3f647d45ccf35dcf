"""factmem, with its default settings and no model."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from peers.protocol import Item, VectorTable

from factmem import Conversation, Memory, Message
from factmem.abc.capabilities import EmbedderIdentity
from factmem.recall.embedders import default_embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Adapter"]


class Adapter:
    """Recall by words and by meaning, which is the default, and by meaning alone."""

    ways = ("hybrid", "semantic")
    batch = 500
    durable = True
    _newest = 0.0

    async def open(self, folder: Path, vectors: VectorTable) -> None:
        """Open one SQLite file, with a clock of the day after the newest item."""
        if not await anyio.Path(folder).exists():
            self._newest = 0.0
        self._memory: Memory = Memory(f"sqlite-vec:{folder}/facts.db", embedder=_Known(vectors), clock=self._now)
        await self._memory.__aenter__()

    def _now(self) -> dt.datetime:
        at = dt.datetime.fromtimestamp(self._newest, dt.UTC) if self._newest else dt.datetime.now(dt.UTC)
        return at + dt.timedelta(days=1)

    async def add(self, items: Sequence[Item]) -> None:
        """Remember messages, in their conversations if they have one."""
        self._newest = max([self._newest, *(item.at for item in items if item.at is not None)])
        said: list[Message | Conversation] = []
        for session, group in itertools.groupby(items, key=lambda item: item.session):
            messages = [_message(item) for item in group]
            said += [Conversation(messages=tuple(messages), id=session)] if session else messages
        if len(said) == 1:
            await self._memory.remember(said[0])
        else:
            await self._memory.remember_many(said)

    async def search(self, query: str, limit: int, way: str) -> list[str]:
        """Recall."""
        matches = await self._memory.recall(query, limit=limit, lexical=way == "hybrid")
        return [match.record.evidence[0].message_id or "" for match in matches]

    async def close(self) -> None:
        """Close the file."""
        await self._memory.__aexit__(None, None, None)


class _Known:
    """An embedder that looks vectors up, and embeds texts that factmem changed (redacted or cut)."""

    def __init__(self, vectors: VectorTable) -> None:
        self._vectors = vectors
        self._other = default_embedder()

    async def identity(self) -> EmbedderIdentity:
        own = await self._other.identity()  # that of the vectors of words; generated ones have another dimension
        if own.dimension == self._vectors.dimension:
            return own
        return EmbedderIdentity(name="known", dimension=self._vectors.dimension)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        known = self._vectors
        if all(text in known for text in texts):
            return np.asarray([known.row(text) for text in texts], np.float32)
        rows = np.array(await self._other.embed(texts), np.float32)
        unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


def _message(item: Item) -> Message:
    at = None if item.at is None else dt.datetime.fromtimestamp(item.at, dt.UTC)
    return Message(content=item.words, role=item.role, name=item.speaker, id=item.id, timestamp=at)
