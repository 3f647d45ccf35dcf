"""Contract of embedders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from factmem.abc.capabilities import EmbedderIdentity

__all__ = ["Embedder"]


@runtime_checkable
class Embedder(Protocol):
    """Embeds texts as vectors.

    The engine normalises vectors to length 1, checks that they are finite, and calls with batches of any size but never
    an empty one. Texts without a letter or digit are not embedded.
    """

    async def identity(self) -> EmbedderIdentity:
        """Return the embedder's name and dimension; may load the model.

        Raises:
            EmbedderError: The model cannot be loaded or reached.
        """
        ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector a text: float32 of shape (len(texts), dimension).

        It must not block the event loop.

        Raises:
            EmbedderError: The model failed or returned another shape or type.
        """
        ...
