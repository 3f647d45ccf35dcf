"""Contract of rerankers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Reranker(Protocol):
    """Reads a question and texts together, and scores how well each text answers.

    A memory passes the best records of a search in one call. Scores are compared within one call only: they may be
    probabilities, logits or ranks.
    """

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return one score for each text, in the order of the texts; a higher one answers better.

        The method must not block the event loop. The engine never passes an empty list, and checks that scores are
        finite.

        Raises:
            ModelError: The reranker failed.
        """
        ...
