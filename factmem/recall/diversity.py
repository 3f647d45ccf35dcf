"""Results that do not say the same: chosen one by one, each for its score and for what it adds to those before.

``gain = score · (1 - d · max over those chosen of overlap)``, with ``overlap = ½ · cos + ½ · [same conversation]``:
maximal marginal relevance (Carbonell and Goldstein, 1998), as a factor, so that a gain stays between 0 and the score.
What is left out of a pool of the best scores gains no more than the least of these: where that could still
matter, the pool grows, and so the choice is that of the whole store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from factmem.fold import Current
from factmem.recall.corpus import Corpus
from factmem.recall.laying_out import conversation_keys
from factmem.recall.second_pass import Found

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Ranking", "diverse"]

_POOL: Final = 8
"""The pool has so many results for each that is wanted, to begin with."""


@attrs.frozen(eq=False)
class Ranking:
    """Results in their order, with their records in full."""

    found: Found
    currents: Sequence[Current]

    def at(self, rows: NDArray[np.intp]) -> Ranking:
        """Return some of the results, in the order of ``rows``."""
        return Ranking(self.found.at(rows), [self.currents[row] for row in rows.tolist()])


def diverse(corpus: Corpus, best: Callable[[int], Ranking | None], limit: int, diversity: float) -> Ranking | None:
    """Return results that say different things, in the order of what they add; None if there are none.

    Args:
        corpus: what there is.
        best: returns so many of the best; all that there are, if they are fewer.
        limit: how many are wanted.
        diversity: ``d``, from 0 to 1.
    """
    size = _POOL * limit
    while (pool := best(size)) is not None:
        chosen = _chosen(corpus, pool.found, limit, diversity, whole=len(pool.currents) < size)
        if chosen is not None:
            return pool.at(chosen)
        size *= _POOL
    return None


def _chosen(corpus: Corpus, pool: Found, limit: int, diversity: float, *, whole: bool) -> NDArray[np.intp] | None:
    """Choose; None if something that is not in the pool could gain more."""
    vectors = corpus.vectors.take(pool.slots).astype(np.float64)
    talks = conversation_keys(corpus.columns, pool.rows)
    overlap = np.zeros(len(pool.rows))
    left = np.ones(len(pool.rows), np.bool_)
    chosen: list[int] = []
    for _ in range(min(limit, len(pool.rows))):
        gains = np.where(left, pool.score * (1 - diversity * overlap), -1)
        best = int(np.argmax(gains))
        if not whole and gains[best] < pool.score[-1]:
            return None
        chosen.append(best)
        left[best] = False
        cosines = np.maximum(np.einsum("ij,j->i", vectors, vectors[best]), 0)
        same = (talks == talks[best]) & (talks > 0)
        np.maximum(overlap, (cosines + same) / 2, out=overlap)
    return np.array(chosen, np.intp)
