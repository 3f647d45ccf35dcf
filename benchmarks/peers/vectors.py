"""The vectors passed to every peer: those of the default embedder, computed once and stored."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

import anyio
import numpy as np
from peers.environments import cache_folder
from peers.protocol import write_vectors

from factmem import Embedder
from factmem.recall.embedders import default_embedder

__all__ = ["embedder_name", "vectors_of"]


def embedder_name() -> str:
    """Return the name of the embedder that made the vectors."""
    return anyio.run(_embedder().identity).name


def vectors_of(texts: Iterable[str]) -> Path:
    """Return the folder of a `VectorTable` with the unit vectors of texts, which is made if it does not exist yet."""
    distinct = list(dict.fromkeys(texts))
    digest = hashlib.sha256("\0".join([embedder_name(), *distinct]).encode()).hexdigest()[:16]
    folder = cache_folder() / "vectors" / digest
    if not (folder / "vectors.f32").exists():
        rows = np.array(anyio.run(_embedder().embed, distinct), np.float32)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        write_vectors(folder, distinct, (rows / np.where(lengths > 0, lengths, 1)).tolist())
    return folder


@functools.cache
def _embedder() -> Embedder:
    return default_embedder()  # its weights are loaded once
