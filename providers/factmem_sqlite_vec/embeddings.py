"""The embeddings: sqlite-vec's table, and the tables beneath it where these are faster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import apsw
import attrs

from factmem.abc import EmbedderIdentity
from factmem.errors import CapabilityError
from factmem.vectors import unit_vector
from factmem_sqlite_vec.reading import bound_embedder
from factmem_sqlite_vec.rows import select
from factmem_sqlite_vec.sums import OF_VECTORS, sum_of_vectors_kept
from factmem_sqlite_vec.writing import Batch, mismatch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "bind",
    "check_dimension",
    "nearest",
    "numbers",
    "products",
    "put_vectors",
    "some_vectors",
    "vectors",
    "vectors_with_sum",
]

_MOST_DIMENSIONS: Final = 8192
_VECTORS_PER_CHUNK: Final = 256

_MOST_NEIGHBOURS: Final = 4096
"""The largest k that sqlite-vec takes."""

_LARGEST: Final = 2**63 - 1

_MAPPED_BESIDES: Final = 2**28
"""How much of the file may be mapped into memory besides the vectors, in bytes, while these are read."""


def bind(connection: apsw.Connection, batch: Batch, *, identity: EmbedderIdentity, replace: bool) -> None:
    """See `KeepsVectors.use_embedder`; in a transaction."""
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


def put_vectors(connection: apsw.Connection, batch: Batch, *, vectors: Mapping[int, NDArray[np.float32]]) -> None:
    """See `KeepsVectors.put_vectors`; in a transaction."""
    batch.replace_vectors({seq: batch.checked_vector(unit_vector(vector)) for seq, vector in vectors.items()})


def check_dimension(identity: EmbedderIdentity) -> None:
    """Raise `CapabilityError` if sqlite-vec cannot keep an embedder's vectors."""
    if not 1 <= identity.dimension <= _MOST_DIMENSIONS:
        raise CapabilityError(
            f"sqlite-vec keeps vectors of 1 to {_MOST_DIMENSIONS} dimensions, not of {identity.dimension}: "
            "use an embedder with fewer"
        )


def vectors_with_sum(
    connection: apsw.Connection, tenant: str | None, since: int
) -> tuple[list[int], NDArray[np.float32], int | None]:
    """See `KeepsVectors.vectors`.

    Returns:
        The numbers, the vectors, and what their sum must be, if that is known: a part has none.
    """
    expected = sum_of_vectors_kept(connection, tenant or "") if since <= 0 else None
    return *vectors(connection, tenant, since), expected


def vectors(connection: apsw.Connection, tenant: str | None, since: int) -> tuple[list[int], NDArray[np.float32]]:
    """See `KeepsVectors.vectors`; they are not looked at."""
    import numpy as np

    identity = bound_embedder(connection)
    if identity is None:
        return [], np.empty((0, 0), dtype=np.float32)
    if since <= 0 and _is_alone(connection, tenant):
        return _all_vectors(connection, identity.dimension)
    # One look-up a row is faster here than sqlite-vec's own scan, and reads no other tenant's.
    rows = select(
        connection,
        "SELECT a.seq, v.embedding FROM assertions a CROSS JOIN vectors v ON v.rowid = a.seq"
        " WHERE a.tenant = ? AND a.seq > ? ORDER BY a.seq",
        (tenant or "", min(since, _LARGEST)),
    )
    matrix = np.empty((len(rows), identity.dimension), dtype=np.float32)
    for index, (_, embedding) in enumerate(rows):
        matrix[index] = np.frombuffer(embedding, dtype=np.float32)
    return [seq for seq, _ in rows], matrix


def _is_alone(connection: apsw.Connection, tenant: str | None) -> bool:
    return select(connection, "SELECT min(tenant), max(tenant) FROM assertions")[0] == (tenant or "", tenant or "")


def _all_vectors(connection: apsw.Connection, dimension: int) -> tuple[list[int], NDArray[np.float32]]:
    import numpy as np

    valid = select(connection, "SELECT validity FROM vectors_chunks")
    matrix = np.empty((sum(int.from_bytes(bits, "little").bit_count() for (bits,) in valid), dimension), np.float32)
    held, start = [np.empty(0, np.int64)], 0
    for seqs, rows in _chunks(connection, dimension):
        matrix[start : start + len(seqs)] = rows
        held.append(seqs)
        start += len(seqs)
    seqs, matrix = np.concatenate(held), matrix[:start]
    if (np.diff(seqs) < 0).any():
        order = np.argsort(seqs)
        seqs, matrix = seqs[order], matrix[order]
    return seqs.tolist(), matrix


def _chunks(connection: apsw.Connection, dimension: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Read the chunks that sqlite-vec keeps its rows in, one blob each, without a copy on the way."""
    import numpy as np

    chunks = select(connection, "SELECT chunk_id, size, validity, rowids FROM vectors_chunks ORDER BY chunk_id")
    ((mapped,),) = select(connection, "PRAGMA mmap_size")
    size_of_all = 4 * dimension * sum(size for _, size, _, _ in chunks)
    connection.execute(f"PRAGMA mmap_size={2 * size_of_all + _MAPPED_BESIDES}")
    try:
        for chunk, size, valid, rowids in chunks:
            there = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[:size] > 0
            seqs = np.frombuffer(rowids, np.int64)[there]
            ((blob,),) = select(connection, "SELECT vectors FROM vectors_vector_chunks00 WHERE rowid = ?", (chunk,))
            rows = np.frombuffer(blob, np.float32).reshape(size, dimension)
            yield seqs, rows[: len(seqs)] if there[: len(seqs)].all() else rows[there]
    finally:
        connection.execute(f"PRAGMA mmap_size={mapped}")


def numbers(connection: apsw.Connection, tenant: str | None, since: int) -> NDArray[np.int64]:
    """See `ScansVectors.vector_numbers`."""
    import numpy as np

    if bound_embedder(connection) is None:
        return np.empty(0, np.int64)
    rows = select(
        connection,
        "SELECT a.seq FROM assertions a CROSS JOIN vectors_rowids v ON v.rowid = a.seq"
        " WHERE a.tenant = ? AND a.seq > ? ORDER BY a.seq",
        (tenant or "", min(since, _LARGEST)),
    )
    return np.array([seq for (seq,) in rows], np.int64)


def products(
    connection: apsw.Connection, tenant: str | None, vector: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """See `ScansVectors.products`."""
    import numpy as np

    identity = bound_embedder(connection)
    chunks = () if identity is None else _chunks(connection, identity.dimension)
    found = [(np.empty(0, np.int64), np.empty(0, np.float32)), *((seqs, rows @ vector) for seqs, rows in chunks)]
    seqs, dots = np.concatenate([seqs for seqs, _ in found]), np.concatenate([dots for _, dots in found])
    if _is_alone(connection, tenant):
        return seqs, dots
    own = np.isin(seqs, numbers(connection, tenant, 0))
    return seqs[own], dots[own]


def some_vectors(
    connection: apsw.Connection, tenant: str | None, seqs: NDArray[np.int64], dimension: int
) -> NDArray[np.float32]:
    """See `ScansVectors.vectors_of`."""
    import numpy as np

    matrix = np.zeros((len(seqs), dimension), np.float32)
    if bound_embedder(connection) is None:
        return matrix
    rows = select(
        connection,
        "SELECT j.key, v.embedding FROM json_each(?) j CROSS JOIN assertions a ON a.seq = j.value"
        " CROSS JOIN vectors v ON v.rowid = a.seq WHERE a.tenant = ?",
        (json.dumps(seqs.tolist()), tenant or ""),
    )
    for row, embedding in rows:
        matrix[row] = np.frombuffer(embedding, np.float32)
    return matrix


def nearest(
    connection: apsw.Connection, vector: NDArray[np.float32], limit: int, tenant: str | None
) -> list[tuple[int, float]]:
    """See `SearchesVectors.nearest`."""
    identity = bound_embedder(connection)
    wanted = unit_vector(vector, dimension=identity.dimension if identity else None)
    if identity is None or limit < 1:
        return []
    if limit > _MOST_NEIGHBOURS:
        return _nearest_of_all(*vectors(connection, tenant, 0), wanted, limit)
    if _is_alone(connection, tenant):
        where, tenants = "", []
    else:
        # Among the rows of the tenant, not after the search: a filter never hides a neighbour.
        where = " AND rowid IN (SELECT seq FROM assertions WHERE tenant = ?)"
        tenants = [tenant or ""]
    found = select(
        connection,
        f"SELECT rowid, distance FROM vectors WHERE embedding MATCH ? AND k = ?{where}",
        (wanted.tobytes(), limit, *tenants),
    )
    return [(seq, 1.0 - distance) for seq, distance in sorted(found, key=lambda row: (row[1], row[0]))]


def _nearest_of_all(
    seqs: Sequence[int], rows: NDArray[np.float32], wanted: NDArray[np.float32], limit: int
) -> list[tuple[int, float]]:
    import numpy as np

    cosines = rows @ wanted
    return [(seqs[row], float(cosines[row])) for row in np.argsort(-cosines, kind="stable")[:limit]]
