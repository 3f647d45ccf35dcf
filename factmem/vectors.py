"""Checks of embeddings that enter a store."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from factmem.errors import InvalidVectorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

PROBE: Final = "dimension"
"""Text whose vector shows that an embedder answers, and its dimension."""

_ROUNDING: Final = 1e-6
"""Difference from 1 of the square of a length that is 1 but for rounding to float32."""


def unit_vector(vector: Any, *, dimension: int | None = None) -> NDArray[np.float32]:
    """Return a vector as float32 of shape (dimension,) and length 1.

    Raises:
        InvalidVectorError: it is not a vector, holds NaN or infinity, is zero, or has another dimension.
    """
    import numpy as np

    row = _numbers(vector)
    if row.ndim != 1:
        raise InvalidVectorError(f"an embedding must have one axis, not {row.ndim}")
    _check_dimension(len(row), dimension)
    wide = row.astype(np.float64)
    square = float(wide @ wide)
    if abs(square - 1) <= _ROUNDING:  # never true of NaN
        return row.copy()
    if not 0 < square < math.inf:
        raise _no_direction(0, square)
    return (wide / math.sqrt(square)).astype(np.float32)


def unit_vectors(vectors: Sequence[Any]) -> list[NDArray[np.float32] | None]:
    """Return vectors, of any dimensions, as `unit_vector` does; None for None.

    Raises:
        InvalidVectorError: see `unit_vector`.
    """
    import numpy as np

    given = [vector for vector in vectors if vector is not None]
    alike = all(isinstance(vector, np.ndarray) and vector.ndim == 1 for vector in given)
    if len(given) > 1 and alike and len({len(vector) for vector in given}) == 1:
        units = iter(unit_rows(np.stack(given)))  # one batch is much faster than many rows
    else:
        units = map(unit_vector, given)
    return [None if vector is None else next(units) for vector in vectors]


def storable_vector(vector: Any, *, dimension: int | None) -> NDArray[np.float32]:
    """Return a vector in the form that stores keep; see `unit_vector`.

    Args:
        vector: the vector.
        dimension: dimension of the embedder that the store is bound to; None if it is bound to none.

    Raises:
        InvalidVectorError: see `unit_vector`; or the store is bound to no embedder yet.
    """
    if dimension is None:
        raise InvalidVectorError("the store has no embedder yet: call use_embedder before saving vectors")
    return unit_vector(vector, dimension=dimension)


def unit_rows(matrix: Any, *, dimension: int | None = None) -> NDArray[np.float32]:
    """Return a matrix as float32 of shape (rows, dimension), each row of length 1.

    Raises:
        InvalidVectorError: a row holds NaN or infinity or is zero, or the shape is wrong; the path
            names the row.
    """
    import numpy as np

    rows = _numbers(matrix)
    if rows.ndim != 2:
        raise InvalidVectorError(f"embeddings must be a matrix, not of {rows.ndim} axes")
    if len(rows) == 1:  # as for each single save
        return unit_vector(rows[0], dimension=dimension)[None, :]
    _check_dimension(rows.shape[1], dimension)
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    if len(squares) and np.abs(squares - 1).max() <= _ROUNDING:  # never true of NaN
        return rows.copy()
    lengths = np.sqrt(squares)
    bad = ~np.isfinite(lengths) | (lengths == 0)
    if bad.any():
        row = int(np.argmax(bad))
        raise _no_direction(row, float(lengths[row]))
    unit: NDArray[np.float32] = (rows / lengths[:, None]).astype(np.float32)
    return unit


def _check_dimension(found: int, dimension: int | None) -> None:
    if dimension is not None and found != dimension:
        raise InvalidVectorError(f"the embedding has {found} dimensions; this store's have {dimension}")


def _no_direction(row: int, length: float) -> InvalidVectorError:
    what = "is zero" if length == 0 else "holds NaN or infinity"
    return InvalidVectorError(f"the embedding {what}", path=f"$[{row}]")


def _numbers(data: Any) -> NDArray[np.float32]:
    """Read an array; a number too large for float32 becomes infinite, and is refused later."""
    import numpy as np

    if type(data) is np.ndarray and data.dtype == np.float32 and data.flags.c_contiguous:
        return data
    try:
        if np.iscomplexobj(data):
            raise TypeError
        with np.errstate(over="ignore"):
            return np.asarray(data, dtype=np.float32, order="C")
    except (TypeError, ValueError):
        raise InvalidVectorError("an embedding must be a sequence of real numbers") from None
