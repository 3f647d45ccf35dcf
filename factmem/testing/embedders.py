"""An embedder without a model, for tests."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from factmem.abc.capabilities import EmbedderIdentity
from factmem.errors import InvalidDataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["HashEmbedder"]

_WORD: Final = re.compile(r"\w+")


class HashEmbedder:
    """A `factmem.Embedder` that counts words in hashed columns: texts that share words are close.

    The same text has the same vector in every process and on every machine. No number is negative, so no cosine is.

    Args:
        dimension: Dimension of the vectors; at least 1.

    Raises:
        InvalidDataError: The dimension is less than 1.
    """

    def __init__(self, dimension: int = 256) -> None:
        if dimension < 1:
            raise InvalidDataError("an embedder needs at least one dimension", path="$.dimension")
        self._identity = EmbedderIdentity(name="factmem-hash-1", dimension=dimension)

    async def identity(self) -> EmbedderIdentity:
        """See `factmem.Embedder.identity`."""
        return self._identity

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.Embedder.embed`; each vector has length 1."""
        import numpy as np

        rows = np.zeros((len(texts), self._identity.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for column in self._columns(text):
                rows[row, column] += 1
        lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        rows /= lengths
        return rows

    def _columns(self, text: str) -> list[int]:
        normal = unicodedata.normalize("NFKC", text).casefold()
        words = _WORD.findall(normal) or [normal]
        return [self._column(word) for word in words]

    def _column(self, word: str) -> int:
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self._identity.dimension
