"""What is read, from one state of the store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import apsw

from factmem.abc import EmbedderIdentity
from factmem.records import LogEntry, Place, Tombstone
from factmem.vectors import unit_vector
from factmem_sqlite_vec.rows import ASSERTION_COLUMNS, place_digest, read_assertion, read_state, select
from factmem_sqlite_vec.sums import check_place, check_tenant, last_seq, sum_of_vectors_kept

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["bound_embedder", "changes", "entries", "matching", "nearest", "newest_seq", "vectors", "vectors_with_sum"]

_MOST_NEIGHBOURS: Final = 4096
"""The largest k that sqlite-vec takes."""

_LARGEST: Final = 2**63 - 1

_MAPPED_BESIDES: Final = 2**28
"""How much of the file may be mapped into memory besides the vectors, in bytes, while these are read."""


def newest_seq(connection: apsw.Connection) -> int:
    """See `FeedsChanges.version`."""
    return last_seq(connection)


def bound_embedder(connection: apsw.Connection) -> EmbedderIdentity | None:
    """See `KeepsVectors.embedder`."""
    found = select(connection, "SELECT value FROM meta WHERE key = 'embedder'")
    return EmbedderIdentity(**json.loads(found[0][0])) if found else None


def entries(connection: apsw.Connection, place: Place, keyword: str | None) -> list[LogEntry]:
    """See `KeepsHistory.entries`."""
    here = "FROM tracks t CROSS JOIN assertions a ON a.track = t.id"
    where = "WHERE t.place = ?" if keyword is None else "WHERE t.place = ? AND t.keyword = ?"
    wanted = (place_digest(place),) if keyword is None else (place_digest(place), keyword)
    said = select(connection, f"SELECT {ASSERTION_COLUMNS} {here} {where}", wanted)
    changed = select(
        connection,
        f"SELECT a.id, s.* {here} CROSS JOIN state_changes s ON s.assertion = a.seq {where}",
        wanted,
    )
    log = _in_order([*map(read_assertion, said), *map(read_state, changed)])
    check_place(connection, place_digest(place), keyword, said, changed)
    return log


def changes(connection: apsw.Connection, tenant: str | None, since: int) -> list[LogEntry]:
    """See `FeedsChanges.changes`."""
    wanted = (tenant or "", min(since, _LARGEST))
    said = select(
        connection,
        f"SELECT {ASSERTION_COLUMNS} FROM assertions a WHERE a.tenant = ? AND a.seq > ? ORDER BY a.seq",
        wanted,
    )
    changed = select(
        connection,
        "SELECT a.id, s.* FROM state_changes s"
        " CROSS JOIN assertions a ON a.seq = s.assertion WHERE s.tenant = ? AND s.seq > ?",
        wanted,
    )
    erased = select(connection, "SELECT assertion_id, seq FROM tombstones WHERE tenant = ? AND seq > ?", wanted)
    log = _in_order(
        [
            *map(read_assertion, said),
            *map(read_state, changed),
            *(Tombstone(assertion_id=id, seq=seq) for id, seq in erased),
        ]
    )
    if since <= 0:
        check_tenant(connection, tenant or "", said, changed, erased)
    return log


def _in_order(log: list[LogEntry]) -> list[LogEntry]:
    return sorted(log, key=lambda entry: entry.seq)


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
    """Read the chunks that sqlite-vec keeps its rows in, one blob each, without a copy on the way."""
    import numpy as np

    chunks = select(connection, "SELECT chunk_id, size, validity, rowids FROM vectors_chunks ORDER BY chunk_id")
    held = [
        np.frombuffer(rowids, np.int64)[np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[:size] > 0]
        for _, size, valid, rowids in chunks
    ]
    matrix = np.empty((sum(map(len, held)), dimension), dtype=np.float32)
    start = 0
    ((mapped,),) = select(connection, "PRAGMA mmap_size")
    connection.execute(f"PRAGMA mmap_size={2 * matrix.nbytes + _MAPPED_BESIDES}")
    try:
        for (chunk, size, valid, _), seqs in zip(chunks, held, strict=True):
            ((blob,),) = select(connection, "SELECT vectors FROM vectors_vector_chunks00 WHERE rowid = ?", (chunk,))
            rows = np.frombuffer(blob, np.float32).reshape(size, dimension)
            there = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[:size] > 0
            matrix[start : start + len(seqs)] = rows[: len(seqs)] if there[: len(seqs)].all() else rows[there]
            start += len(seqs)
    finally:
        connection.execute(f"PRAGMA mmap_size={mapped}")
    seqs = np.concatenate([np.empty(0, np.int64), *held])
    if (np.diff(seqs) < 0).any():
        order = np.argsort(seqs)
        seqs, matrix = seqs[order], matrix[order]
    return seqs.tolist(), matrix


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
    lowest, highest = select(connection, "SELECT min(tenant), max(tenant) FROM assertions")[0]
    if (tenant or "") == lowest == highest:
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


def matching(connection: apsw.Connection, text: str, limit: int, tenant: str | None) -> list[int]:
    """See `SqliteVecMemoryProvider.matching`."""
    # Quoted, a word is never FTS5 syntax, whatever it holds.
    words = text.encode(errors="replace").decode().replace("\0", " ").split()
    if not words:
        return []
    query = " ".join('"' + word.replace('"', '""') + '"' for word in words)
    found = connection.execute(
        "SELECT a.seq FROM texts CROSS JOIN assertions a ON a.seq = texts.rowid"
        " WHERE texts MATCH ? AND a.tenant = ? ORDER BY texts.rowid DESC LIMIT ?",
        (query, tenant or "", max(0, limit)),
    )
    return [seq for (seq,) in found]
