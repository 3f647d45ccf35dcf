"""Erasing: the rows, and then every copy of their bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import apsw

from factmem_sqlite_vec.rows import Row, select
from factmem_sqlite_vec.writing import Batch

__all__ = ["delete_records", "scrub", "scrub_is_due"]


def delete_records(connection: apsw.Connection, batch: Batch, record_ids: Sequence[str], tenant: str | None) -> int:
    """Delete the assertions of records and all that hangs on them, leaving tombstones; return how many."""
    gone = sorted(row for id in dict.fromkeys(record_ids) for row in _assertions(connection, id, tenant))
    for seq, id, _, text in gone:
        connection.execute("INSERT INTO texts(texts, rowid, text) VALUES ('delete', ?, ?)", (seq, text))
        connection.execute("DELETE FROM state_changes WHERE assertion = ?", (seq,))
        if batch.embedder is not None:
            connection.execute("DELETE FROM vectors WHERE rowid = ?", (seq,))
        connection.execute("DELETE FROM assertions WHERE seq = ?", (seq,))
        connection.execute("INSERT INTO tombstones VALUES (?, ?, ?)", (batch.next_seq(), id, tenant or ""))
    _settle_tracks(connection, {track for _, _, track, _ in gone})
    if gone:
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('scrub', 1)")
    return len(gone)


def _assertions(connection: apsw.Connection, record_id: str, tenant: str | None) -> list[Row]:
    return select(
        connection,
        "SELECT seq, id, track, text FROM assertions WHERE record_id = ? AND tenant = ?",
        (record_id, tenant or ""),
    )


def _settle_tracks(connection: apsw.Connection, tracks: Iterable[int]) -> None:
    """Drop tracks that hold nothing any more, and let the others forget the types that are gone."""
    for track in tracks:
        left = select(
            connection,
            "SELECT doc ->> '$.assertion.fact_type', doc -> '$.assertion.shape' FROM assertions"
            " WHERE track = ? ORDER BY seq",
            (track,),
        )
        if not left:
            connection.execute("DELETE FROM tracks WHERE id = ?", (track,))
            continue
        shapes = [json.loads(shape) for shape in dict.fromkeys(shape for _, shape in left)]
        connection.execute(
            "UPDATE tracks SET fact_type = ?, shapes = ? WHERE id = ?",
            (left[0][0], json.dumps(shapes, ensure_ascii=False), track),
        )


def scrub_is_due(connection: apsw.Connection) -> bool:
    """Whether bytes of erased assertions may still be in the files."""
    return bool(select(connection, "SELECT 1 FROM meta WHERE key = 'scrub'"))


def scrub(connection: apsw.Connection) -> bool:
    """Write the file anew and empty the WAL; return whether nothing stood in the way.

    `secure_delete` zeroes what is deleted, but not the copies that SQLite leaves behind when it moves
    rows from one page to another; only VACUUM is sure to be rid of those.
    """
    try:
        connection.execute("VACUUM")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.execute("DELETE FROM meta WHERE key = 'scrub'")
    except (apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.IOError):
        return False
    return True
