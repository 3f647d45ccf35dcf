"""Embeddings of assertions, and the embedder that they come from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import apsw

from factmem.abc import EmbedderIdentity
from factmem.errors import CapabilityError
from factmem.providers.bindings import binds_anew, written_embedder
from factmem.providers.rows import SEQ_MASK
from factmem.vectors import unit_vector
from factmem_sqlite_vec.chunks import VECTORS, read_slots, slots_of
from factmem_sqlite_vec.outlines import MOVED
from factmem_sqlite_vec.reading import bound_embedder
from factmem_sqlite_vec.rows import select
from factmem_sqlite_vec.sequences import base_of, of_tenant
from factmem_sqlite_vec.sums import OF_SLOTS, OF_VECTORS, sum_of_vectors, sum_of_vectors_kept
from factmem_sqlite_vec.writing import Batch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "bind",
    "check_dimension",
    "numbers",
    "products",
    "put_vectors",
    "some_vectors",
    "vectors",
]

_MOST_DIMENSIONS: Final = 8192


def bind(connection: apsw.Connection, batch: Batch, *, identity: EmbedderIdentity, replace: bool) -> None:
    """Bind the store to an embedder; in a transaction."""
    if binds_anew(batch.embedder, identity, replace=replace):
        connection.execute(f"DROP TABLE vectors; {VECTORS}; UPDATE assertions SET vector = NULL; {MOVED}")
        connection.execute("DELETE FROM sums WHERE place IN (?, ?)", (OF_VECTORS, OF_SLOTS))
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('embedder', ?)", (written_embedder(identity),))


def put_vectors(
    connection: apsw.Connection, batch: Batch, *, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]
) -> None:
    """Store vectors of a tenant's assertions; in a transaction."""
    batch.replace_vectors(tenant or "", {seq: batch.storable(unit_vector(vector)) for seq, vector in vectors.items()})


def check_dimension(identity: EmbedderIdentity) -> None:
    """Raise `CapabilityError` if sqlite-vec cannot keep an embedder's vectors."""
    if not 1 <= identity.dimension <= _MOST_DIMENSIONS:
        raise CapabilityError(
            f"sqlite-vec keeps vectors of 1 to {_MOST_DIMENSIONS} dimensions, not of {identity.dimension}: "
            "use an embedder with fewer"
        )


def vectors(
    connection: apsw.Connection, tenant: str | None, since: int
) -> tuple[Sequence[int], NDArray[np.float32], bool]:
    """Return sequence numbers and vectors of a tenant's assertions after a sequence number, and whether they are whole.

    Vectors are whole if they were not changed; this is known if all are read of a store that keeps their sum.
    """
    import numpy as np

    kept = sum_of_vectors_kept(connection, tenant or "") if since <= 0 else None
    identity = bound_embedder(connection)
    if identity is None:
        return [], np.empty((0, 0), dtype=np.float32), not kept
    keys, slots = slots_of(connection, of_tenant(connection, tenant, since))
    seqs = (keys & SEQ_MASK).tolist()
    matrix = _gathered(connection, slots, identity.dimension)
    return seqs, matrix, kept in (None, sum_of_vectors(seqs, matrix))


def numbers(connection: apsw.Connection, tenant: str | None, since: int) -> NDArray[np.int64]:
    """Return the sequence numbers of a tenant's assertions after a sequence number that have vectors, ascending."""
    import numpy as np

    if bound_embedder(connection) is None:
        return np.empty(0, np.int64)
    keys: NDArray[np.int64] = slots_of(connection, of_tenant(connection, tenant, since))[0]
    return keys & SEQ_MASK


def products(
    connection: apsw.Connection, tenant: str | None, vector: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return sequence numbers and inner products with a vector, of all vectors of a tenant, in no order."""
    import numpy as np

    keys, slots = slots_of(connection, of_tenant(connection, tenant))
    dots = np.zeros(len(keys), np.float32)
    for places, rows in read_slots(connection, slots, len(vector)):
        dots[places] = rows @ vector
    return keys & SEQ_MASK, dots


def some_vectors(
    connection: apsw.Connection, tenant: str | None, seqs: NDArray[np.int64], dimension: int
) -> NDArray[np.float32]:
    """Return vectors of a tenant by sequence numbers, one a row; zeros where there is none."""
    rows = select(
        connection,
        "SELECT coalesce(a.vector, -1) FROM json_each(?) j LEFT JOIN assertions a ON a.seq = j.value ORDER BY j.key",
        (json.dumps((seqs + base_of(connection, tenant)).tolist()),),
    )
    import numpy as np

    return _gathered(connection, np.array([slot for (slot,) in rows], np.int64), dimension)


def _gathered(connection: apsw.Connection, slots: NDArray[np.int64], dimension: int) -> NDArray[np.float32]:
    """Return vectors by their slots, one a row; zeros where there is none."""
    import numpy as np

    matrix = np.zeros((len(slots), dimension), np.float32)  # numpy asks for huge pages, which are scanned faster
    for places, rows in read_slots(connection, slots, dimension):
        matrix[places] = rows
    return matrix
