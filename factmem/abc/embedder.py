"""Contract of embedders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from factmem.abc.capabilities import EmbedderIdentity


@runtime_checkable
class Embedder(Protocol):
    """Embeds texts as vectors.

    The engine normalizes vectors to length 1, checks that they are finite, and calls with batches of any size but never
    an empty one. Texts without a letter or digit are not embedded.
    """

    async def identity(self) -> EmbedderIdentity:
        """Return the embedder's name and dimension; may load the model.

        Raises:
            EmbedderError: The model cannot be loaded or reached.
        """
        ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text: float32 of shape (len(texts), dimension).

        The texts are documents, and queries too unless the embedder distinguishes them (see `EmbedsQueries`). It must
        not block the event loop.

        Raises:
            EmbedderError: The model failed or returned another shape or type.
        """
        ...


@runtime_checkable
class EmbedsQueries(Embedder, Protocol):
    """Embeds queries differently from documents; the two are compared by cosine similarity.

    A store keeps vectors of documents only. If documents get a prefix or another mark, the identity's name includes the
    mark, so vectors with and without it are never mixed in one store.
    """

    async def embed_query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per query, like `Embedder.embed`.

        Raises:
            EmbedderError: See `Embedder.embed`.
        """
        ...


@runtime_checkable
class KnowsTexts(Embedder, Protocol):
    """Distinguishes texts that its model was made for, such as those in English, from others.

    Recall ranks by the meaning of every question, but the meaning of an unknown question adds no confidence.
    """

    async def knows(self, text: str) -> bool:
        """Return whether the embedder knows most of the words of a text.

        Raises:
            EmbedderError: See `Embedder.embed`.
        """
        ...
