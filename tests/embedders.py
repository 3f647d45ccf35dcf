"""Embedders that cannot be reached, or that are watched."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from factmem.errors import EmbedderError
from factmem.testing import HashEmbedder


class Away(HashEmbedder):
    """An embedder whose model cannot be reached for a while."""

    away = True

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.away:
            raise EmbedderError("the embedder cannot be reached")
        return await super().embed(texts)


class Counted(HashEmbedder):
    """An embedder that records its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.batches.append(list(texts))
        return await super().embed(texts)
