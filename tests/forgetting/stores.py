"""The durable stores, facts to forget, and a search of their files that is independent of factmem's own."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from factmem_encrypted import EncryptedMemoryProvider
from factmem_encrypted_sqlite import EncryptedSqliteMemoryProvider
from factmem_file import LocalFileMemoryProvider
from factmem_postgres import PostgresMemoryProvider
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem import AgentMemoryProvider, Concept, MultipleFacts
from factmem.abc.capabilities import EmbedderIdentity
from factmem.crypto import SecretKey
from tests.postgres import postgres_address, tables_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


KEY: Final = SecretKey(bytes(range(32)))

STORES: Final[Mapping[str, Callable[[Path], AgentMemoryProvider]]] = {
    "sqlite-vec": lambda folder: SqliteVecMemoryProvider(folder / "facts.db", busy_timeout=1),
    "file": lambda folder: LocalFileMemoryProvider(folder / "facts"),
    "postgres": lambda folder: PostgresMemoryProvider(postgres_address(folder)),
    "encrypted": lambda folder: EncryptedMemoryProvider(folder / "facts", KEY),
    "encrypted-sqlite": lambda folder: EncryptedSqliteMemoryProvider(folder / "facts.db", KEY, busy_timeout=1),
}
"""Every durable store, by a factory that takes an empty folder."""

STAYS_PENDING: Final = {"postgres"}
"""Stores on a server, which writes over its log later, and has no files to look into from here."""


LIKES: Final = Concept.multiple("likes", "what they like")


def likes(*texts: str) -> MultipleFacts[str]:
    """Return a fact with a person's likes."""
    return MultipleFacts(LIKES, texts)


class DenseEmbedder:
    """An embedder whose vectors have no zeros and differ for each text."""

    async def identity(self) -> EmbedderIdentity:
        return EmbedderIdentity(name="dense", dimension=64)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        return np.array([vector_of(text) for text in texts], dtype=np.float32)


def vector_of(text: str) -> NDArray[np.float32]:
    """Return the vector that `DenseEmbedder` makes of a text."""
    import numpy as np

    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    row = np.random.default_rng(seed).standard_normal(64).astype(np.float32)
    unit: NDArray[np.float32] = (row / np.sqrt(np.einsum("i,i->", row, row, dtype=np.float64))).astype(np.float32)
    return unit


def word(kind: str, number: int = 0) -> str:
    """Return a word that occurs nowhere else."""
    return "q" + hashlib.sha256(f"{kind} {number}".encode()).hexdigest()[:20].translate(_LETTERS)


_LETTERS: Final = str.maketrans("0123456789", "ghijklmnop")


def files_of(folder: Path) -> bytes:
    """Return the bytes of every file in a folder, and the files' names; of a store on a server, those of its tables."""
    found = tables_of(folder)
    for path in sorted(folder.rglob("*")):
        found += str(path.relative_to(folder)).encode() + b"\0"
        with contextlib.suppress(FileNotFoundError):
            found += path.read_bytes() if path.is_file() else b""
    return found


def hits(folder: Path, words: Collection[str], vectors: Collection[NDArray[np.float32]] = ()) -> list[str]:
    """Return those of some words and vectors that occur in the files of a folder, in any encoding."""
    content = files_of(folder)
    found = [text for text in words if any(form in content for form in _forms(text))]
    return found + [f"vector {row[:2]}" for row in vectors if any(piece in content for piece in _pieces(row))]


def _forms(text: str) -> set[bytes]:
    same = {text, text.lower(), unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)}
    forms = {form.encode(encoding) for form in same for encoding in ("utf-8", "utf-16-le", "utf-16-be")}
    forms |= {json.dumps(form)[1:-1].encode() for form in same}
    # A full-text index omits the prefix that a word shares with the previous one, and stores prefixes of some words.
    return forms | {text.lower()[len(text) // 2 :].encode(), text.lower()[: len(text) // 2].encode()}


def _pieces(row: NDArray[np.float32]) -> set[bytes]:
    raw = row.astype("<f4").tobytes()
    pieces = {raw[start : start + 12] for start in range(0, len(raw), 12) if start + 12 <= len(raw)}
    return pieces | {base64.b64encode(raw[start : start + 12]) for start in range(len(raw) - 12)}
