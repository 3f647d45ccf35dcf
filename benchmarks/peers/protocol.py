"""Protocol of both sides: the stored items, their precomputed vectors, and the interface of an adapter.

It runs in the peers' environments as well, so it uses only the standard library.
"""

from __future__ import annotations

import json
import mmap
from array import array
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

__all__ = ["Item", "Peer", "VectorTable", "write_vectors"]


class Item(NamedTuple):
    """An item to store.

    Attributes:
        id: the id that a search returns.
        text: the searched text: the words with their speaker; also the key of the vector.
        words: the same without the speaker.
        speaker: the speaker.
        role: ``user`` or ``assistant``.
        session: the conversation it belongs to; None if it stands alone.
        at: its time, in seconds since 1970; None if unknown.
    """

    id: str
    text: str
    words: str
    speaker: str | None = None
    role: str = "user"
    session: str | None = None
    at: float | None = None


class VectorTable:
    """Every text with its unit vector, precomputed by one embedder for all peers, read from two files."""

    def __init__(self, folder: Path) -> None:
        texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
        self._rows: Mapping[str, int] = {text: row for row, text in enumerate(texts)}
        with (folder / "vectors.f32").open("rb") as file:
            self._all = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)).cast("f")
        self.dimension: int = len(self._all) // len(texts)

    def __contains__(self, text: str) -> bool:
        return text in self._rows

    def row(self, text: str) -> memoryview[float]:
        """Return the vector of a text without a copy: 32-bit floats, in the buffer protocol."""
        start = self._rows[text] * self.dimension
        return self._all[start : start + self.dimension]

    def vector(self, text: str) -> list[float]:
        """Return the vector of a text as a list of numbers."""
        return list(self.row(text))

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of texts, in the form of an embedding function."""
        return [self.vector(text) for text in texts]


def write_vectors(folder: Path, texts: Sequence[str], rows: Sequence[Sequence[float]]) -> None:
    """Write the files of a `VectorTable`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    with (folder / "vectors.f32").open("wb") as file:
        for row in rows:
            array("f", row).tofile(file)


class Peer(Protocol):
    """One peer, in its own environment: a module of ``adapters`` with a class ``Adapter`` of this shape.

    Its methods may all be coroutine functions instead; then they run in one event loop.

    Attributes:
        ways: its kinds of search; the first is its default.
        batch: the best number of items per call of `add`.
        durable: whether items are still stored in the next process.
    """

    ways: ClassVar[tuple[str, ...]]
    batch: ClassVar[int]
    durable: ClassVar[bool]

    def open(self, folder: Path, vectors: VectorTable) -> Awaitable[None] | None:
        """Open a store in a folder, which is empty or holds an earlier one."""
        ...

    def add(self, items: Sequence[Item]) -> Awaitable[None] | None:
        """Store items; on return, they are as safe as the peer can make them."""
        ...

    def search(self, query: str, limit: int, way: str) -> Awaitable[list[str]] | list[str]:
        """Return the ids of the best items, best first."""
        ...

    def close(self) -> Awaitable[None] | None:
        """Close the store."""
        ...
