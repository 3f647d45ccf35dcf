"""Bindings of stores to the embedder that their vectors come from."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING

import attrs

from factmem.abc import EmbedderIdentity
from factmem.errors import EmbedderMismatchError, InvalidVectorError
from factmem.vectors import unit_vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["binds_anew", "read_embedder", "storable_vector", "written_embedder"]


@functools.lru_cache(maxsize=16)
def read_embedder(text: str | None) -> EmbedderIdentity | None:
    """Read the identity of an embedder as it is stored; None for None."""
    return None if text is None else EmbedderIdentity(**json.loads(text))


def written_embedder(identity: EmbedderIdentity) -> str:
    """Return the identity of an embedder as it is stored."""
    return json.dumps(attrs.asdict(identity), ensure_ascii=False)


def binds_anew(stored: EmbedderIdentity | None, wanted: EmbedderIdentity, *, replace: bool) -> bool:
    """Return whether binding a store to an embedder changes it; see `KeepsVectors.use_embedder`.

    Raises:
        EmbedderMismatchError: The store is bound to another one.
    """
    if stored not in (None, wanted) and not replace:
        raise _mismatch(stored, wanted)
    return replace or stored != wanted


def storable_vector(
    vector: NDArray[np.float32], stored: EmbedderIdentity | None, bound: EmbedderIdentity | None
) -> bytes:
    """Return a vector of length 1 in its stored form.

    Args:
        vector: Vector.
        stored: Embedder that the store is bound to.
        bound: Embedder in use in this process, if any.

    Raises:
        InvalidVectorError: It is of another dimension than the store's.
        EmbedderMismatchError: The store was bound to another embedder meanwhile.
    """
    if stored is None:
        raise InvalidVectorError("the store has no embedder yet: call use_embedder before you pass vectors")
    if bound not in (None, stored):
        raise _mismatch(stored, bound)
    if len(vector) != stored.dimension:
        unit_vector(vector, dimension=stored.dimension)
    return vector.tobytes()


def _mismatch(stored: EmbedderIdentity | None, wanted: EmbedderIdentity | None) -> EmbedderMismatchError:
    return EmbedderMismatchError(
        f"this store's vectors come from {stored}, not from {wanted}: "
        "open it with that embedder, or embed it again with Admin.reembed() or `factmem reembed`"
    )
