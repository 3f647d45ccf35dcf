"""Cosine similarity of embeddings, whatever their length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs

from factmem.consolidation.newcomers import Vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ROUNDING", "Directions"]

ROUNDING: Final = 1e-6
"""By how much the cosine of a vector with itself may miss 1 in float32."""


@attrs.frozen(eq=False)
class Directions:
    """Vectors as rows of length 1. A vector that is missing, NaN or of another dimension is like nothing.

    Attributes:
        rows: float32 of shape (vectors, dimension).
        usable: which rows are like anything at all.
    """

    rows: NDArray[np.float32] = attrs.field(repr=False)
    usable: NDArray[np.bool_] = attrs.field(repr=False)

    @classmethod
    def of(cls, vectors: Sequence[Vector], dimension: int) -> Directions:
        """Normalise vectors of a dimension."""
        import numpy as np

        rows = np.zeros((len(vectors), dimension), dtype=np.float32)
        for number, vector in enumerate(vectors):
            if vector is not None and np.shape(vector) == (dimension,):
                rows[number] = vector
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
        usable = np.isfinite(lengths) & (lengths > 0)
        rows[~usable] = 0
        unit = (rows / np.where(usable, lengths, 1)[:, None]).astype(np.float32)
        return cls(unit, usable)

    def cosines(self, vector: Vector) -> NDArray[np.float32]:
        """Return the cosine of each row with a vector; -1 where there is none to tell."""
        import numpy as np

        unlike = np.full(len(self.rows), -1, dtype=np.float32)
        if vector is None:
            return unlike
        wanted = Directions.of([vector], self.rows.shape[1])
        if not wanted.usable[0]:
            return unlike
        return np.where(self.usable, self.rows @ wanted.rows[0], unlike).astype(np.float32)
