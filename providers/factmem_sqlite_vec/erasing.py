"""Erasing: the rows, and then every copy of their bytes."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from factmem_sqlite_vec.rows import Row, select, seq_of
from factmem_sqlite_vec.tracks import settle_tracks
from factmem_sqlite_vec.writing import Batch

__all__ = ["delete_assertions", "scrub", "scrub_is_due"]


def delete_assertions(
    connection: apsw.Connection,
    batch: Batch,
    record_ids: Sequence[str],
    assertion_ids: Sequence[str],
    tenant: str | None,
) -> int:
    """Delete assertions and all that hangs on them, leaving tombstones; return how many.

    Args:
        connection: the one of the batch.
        batch: the transaction under way.
        record_ids: records to delete whole.
        assertion_ids: assertions to delete one by one.
        tenant: whose.
    """
    named = {row for id in set(record_ids) for row in _of_record(connection, id, tenant)}
    named |= {row for id in set(assertion_ids) for row in _by_id(connection, id, tenant)}
    gone = sorted(named)
    for seq, id, _, text in gone:
        connection.execute("INSERT INTO texts(texts, rowid, text) VALUES ('delete', ?, ?)", (seq, text))
        connection.execute("DELETE FROM state_changes WHERE assertion = ?", (seq,))
        if batch.embedder is not None:
            connection.execute("DELETE FROM vectors WHERE rowid = ?", (seq,))
        connection.execute("DELETE FROM assertions WHERE seq = ?", (seq,))
        connection.execute("INSERT INTO tombstones VALUES (?, ?, ?)", (batch.next_seq(), id, tenant or ""))
    settle_tracks(connection, {track for _, _, track, _ in gone})
    if gone:
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('scrub', 1)")
    return len(gone)


def _of_record(connection: apsw.Connection, record_id: str, tenant: str | None) -> list[Row]:
    return select(
        connection,
        "SELECT seq, id, track, text FROM assertions WHERE record_id = ? AND tenant = ?",
        (record_id, tenant or ""),
    )


def _by_id(connection: apsw.Connection, id: str, tenant: str | None) -> list[Row]:
    return select(
        connection,
        "SELECT seq, id, track, text FROM assertions WHERE seq = ? AND id = ? AND tenant = ?",
        (seq_of(id), id, tenant or ""),
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
