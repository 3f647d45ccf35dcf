"""Embeddings, in a plain table; sqlite-vec compares them where memory is limited."""

from __future__ import annotations

import itertools
import json
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import apsw
import attrs

from factmem.abc import EmbedderIdentity
from factmem.errors import CapabilityError
from factmem.providers.rows import SEQ_MASK
from factmem.vectors import unit_vector
from factmem_sqlite_vec.reading import bound_embedder
from factmem_sqlite_vec.rows import select
from factmem_sqlite_vec.schema import VECTORS
from factmem_sqlite_vec.sequences import base_of, of_tenant
from factmem_sqlite_vec.sums import OF_VECTORS, sum_of_vectors, sum_of_vectors_kept
from factmem_sqlite_vec.writing import Batch, mismatch

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

_AT_ONCE: Final = 256
"""Number of rows held at once: thousands of tuples trigger full garbage collections."""

_OF_TENANT: Final = "assertion > ? AND assertion <= ?"
"""Condition on the vectors of a part of a tenant's log; see `of_tenant`."""


def bind(connection: apsw.Connection, batch: Batch, *, identity: EmbedderIdentity, replace: bool) -> None:
    """Bind the store to an embedder; in a transaction."""
    if batch.embedder not in (None, identity) and not replace:
        raise mismatch(batch.embedder, identity)
    if replace or batch.embedder != identity:
        connection.execute(f"DROP TABLE vectors; {VECTORS}")
        connection.execute("DELETE FROM sums WHERE place = ?", (OF_VECTORS,))
        written = json.dumps(attrs.asdict(identity), ensure_ascii=False)
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('embedder', ?)", (written,))


def put_vectors(
    connection: apsw.Connection, batch: Batch, *, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]
) -> None:
    """Store vectors of a tenant's assertions; in a transaction."""
    batch.replace_vectors(
        tenant or "", {seq: batch.checked_vector(unit_vector(vector)) for seq, vector in vectors.items()}
    )


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
    part = of_tenant(connection, tenant, since)
    ((most,),) = select(connection, f"SELECT count(*) FROM vectors WHERE {_OF_TENANT}", part)
    rows = connection.execute(f"SELECT assertion, embedding FROM vectors WHERE {_OF_TENANT} ORDER BY assertion", part)
    seqs = array("q")
    matrix = np.empty((most, identity.dimension), np.float32)  # numpy asks for huge pages, which are scanned faster
    place, size, total = matrix.reshape(-1).view(np.uint8).data, matrix.itemsize * identity.dimension, 0
    while some := list(itertools.islice(rows, _AT_ONCE)):
        numbers = [key & SEQ_MASK for key, _ in some]
        embeddings = [embedding for _, embedding in some]
        place[len(seqs) * size : (len(seqs) + len(some)) * size] = b"".join(embeddings)
        seqs.extend(numbers)
        total += sum_of_vectors(numbers, embeddings)
    return seqs, matrix, kept in (None, total)


def numbers(connection: apsw.Connection, tenant: str | None, since: int) -> NDArray[np.int64]:
    """Return the sequence numbers of a tenant's assertions after a sequence number that have vectors, ascending."""
    import numpy as np

    if bound_embedder(connection) is None:
        return np.empty(0, np.int64)
    rows = connection.execute(
        f"SELECT assertion FROM vectors WHERE {_OF_TENANT} ORDER BY assertion", of_tenant(connection, tenant, since)
    )
    return np.array([key for (key,) in rows], np.int64) & SEQ_MASK


def products(
    connection: apsw.Connection, tenant: str | None, vector: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return sequence numbers and inner products with a vector, of all vectors of a tenant, in no order."""
    import numpy as np

    if bound_embedder(connection) is None:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    # All vectors in the store have length 1.
    length = float(np.linalg.norm(vector))
    rows = select(
        connection,
        f"SELECT assertion, vec_distance_cosine(embedding, ?) FROM vectors WHERE {_OF_TENANT}",
        (np.ascontiguousarray(vector, np.float32).tobytes(), *of_tenant(connection, tenant)),
    )
    keys = np.array([key for key, _ in rows], np.int64)
    dots = ((1.0 - np.array([distance for _, distance in rows], np.float64)) * length).astype(np.float32)
    return keys & SEQ_MASK, dots


def some_vectors(
    connection: apsw.Connection, tenant: str | None, seqs: NDArray[np.int64], dimension: int
) -> NDArray[np.float32]:
    """Return vectors of a tenant by sequence numbers, one a row; zeros where there is none."""
    import numpy as np

    matrix = np.zeros((len(seqs), dimension), np.float32)
    if bound_embedder(connection) is None:
        return matrix
    rows = select(
        connection,
        "SELECT j.key, v.embedding FROM json_each(?) j CROSS JOIN vectors v ON v.assertion = j.value",
        (json.dumps((seqs + base_of(connection, tenant)).tolist()),),
    )
    for row, embedding in rows:
        matrix[row] = np.frombuffer(embedding, np.float32)
    return matrix
