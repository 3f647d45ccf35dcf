"""Embeddings, in a table of sqlite-vec that is used by its public SQL alone."""

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
from factmem_sqlite_vec.sequences import base_of, is_only_tenant, of_tenant
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

_VECTORS_PER_CHUNK: Final = 64
"""Size of a chunk, which sqlite-vec opens for each row that it reads or writes: small ones are faster to read whole."""


_AT_ONCE: Final = 256
"""Number of rows held at once: thousands of tuples trigger full garbage collections."""

_OF_TENANT: Final = "a.tenant = ? AND a.rowid > ? AND a.rowid <= ?"
"""Condition on assertions of a part of a tenant's log; see `of_tenant`."""


def bind(connection: apsw.Connection, batch: Batch, *, identity: EmbedderIdentity, replace: bool) -> None:
    """Bind the store to an embedder; in a transaction."""
    if batch.embedder not in (None, identity) and not replace:
        raise mismatch(batch.embedder, identity)
    if replace or batch.embedder != identity:
        connection.execute("DROP TABLE IF EXISTS vectors")
        connection.execute("DELETE FROM sums WHERE place = ?", (OF_VECTORS,))
        # No partition keys: each value of one would take a chunk of its own.
        connection.execute(
            f"CREATE VIRTUAL TABLE vectors USING vec0("
            f"embedding float[{identity.dimension}] distance_metric=cosine, chunk_size={_VECTORS_PER_CHUNK})"
        )
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
        return [], np.empty((0, 0), dtype=np.float32), kept in (None, 0)
    part = of_tenant(connection, tenant, since)
    if since <= 0 and is_only_tenant(connection, tenant):
        ((most,),) = select(connection, "SELECT count(*) FROM assertions")
        rows = connection.execute("SELECT rowid, embedding FROM vectors")
    else:
        ((most,),) = select(connection, f"SELECT count(*) FROM assertions a WHERE {_OF_TENANT}", part)
        rows = connection.execute(
            "SELECT a.rowid, v.embedding FROM assertions a CROSS JOIN vectors v ON v.rowid = a.rowid"
            f" WHERE {_OF_TENANT} ORDER BY a.rowid",
            part,
        )
    seqs = array("q")
    matrix = np.empty((most, identity.dimension), np.float32)  # numpy asks for huge pages, which are scanned faster
    place, size, total = matrix.reshape(-1).view(np.uint8).data, matrix.itemsize * identity.dimension, 0
    while some := list(itertools.islice(rows, _AT_ONCE)):
        numbers = [key & SEQ_MASK for key, _ in some]
        embeddings = [embedding for _, embedding in some]
        place[len(seqs) * size : (len(seqs) + len(some)) * size] = b"".join(embeddings)
        seqs.extend(numbers)
        total += sum_of_vectors(numbers, embeddings)
    found = matrix[: len(seqs)]
    if any(after < before for before, after in itertools.pairwise(seqs)):
        order = np.argsort(seqs)
        return np.array(seqs)[order].tolist(), found[order], kept in (None, total)
    return seqs, found, kept in (None, total)


def numbers(connection: apsw.Connection, tenant: str | None, since: int) -> NDArray[np.int64]:
    """Return the sequence numbers of a tenant's assertions after a sequence number that have vectors, ascending."""
    import numpy as np

    if bound_embedder(connection) is None:
        return np.empty(0, np.int64)
    embedded = np.array([key for (key,) in connection.execute("SELECT rowid FROM vectors")], np.int64)
    said = connection.execute(
        "SELECT rowid FROM assertions WHERE tenant = ? AND rowid > ? AND rowid <= ? ORDER BY rowid",
        of_tenant(connection, tenant, since),
    )
    return np.intersect1d(np.array([key for (key,) in said], np.int64), embedded, assume_unique=True) & SEQ_MASK


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
        "SELECT rowid, vec_distance_cosine(embedding, ?) FROM vectors",
        (np.ascontiguousarray(vector, np.float32).tobytes(),),
    )
    keys = np.array([key for key, _ in rows], np.int64)
    dots = ((1.0 - np.array([distance for _, distance in rows], np.float64)) * length).astype(np.float32)
    if is_only_tenant(connection, tenant):
        return keys & SEQ_MASK, dots
    own = np.isin(keys, numbers(connection, tenant, 0) + base_of(connection, tenant))
    return keys[own] & SEQ_MASK, dots[own]


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
        "SELECT j.key, v.embedding FROM json_each(?) j CROSS JOIN assertions a ON a.rowid = j.value"
        " CROSS JOIN vectors v ON v.rowid = a.rowid WHERE a.tenant = ?",
        (json.dumps((seqs + base_of(connection, tenant)).tolist()), tenant or ""),
    )
    for row, embedding in rows:
        matrix[row] = np.frombuffer(embedding, np.float32)
    return matrix
