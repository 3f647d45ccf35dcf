"""Erasing: the rows, and then every copy of their bytes.

What is deleted is not gone by that. `secure_delete` zeroes it, but not the copies that SQLite leaves behind when
it moves rows from one page to another; FTS5 keeps the beginnings of words as the separators of its pages, even
with its own ``secure-delete``; and the WAL keeps what it held until somebody truncates it. So an erasure

1. deletes the rows, makes the full-text index anew from what is left and leaves a note, in one transaction;
2. writes the whole file anew (VACUUM, into the WAL) and changes the note;
3. moves the WAL into the file, cuts it to nothing and drops the note.

Whoever is killed in between leaves the note, and whoever erases or closes the store next goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import apsw

from factmem_sqlite_vec.accesses import drop_accesses
from factmem_sqlite_vec.faults import is_failed_flush
from factmem_sqlite_vec.outlining import delete_outlines
from factmem_sqlite_vec.rows import Row, select, seq_of
from factmem_sqlite_vec.sums import row_sum
from factmem_sqlite_vec.tracks import settle_tracks, sums_of_track
from factmem_sqlite_vec.writing import Batch

__all__ = ["delete_assertions", "scrub", "scrub_is_due"]

_TRIES: Final = 6
"""An erasure takes two; more are for those who erase at the same time."""

_IN_THE_WAY: Final = (apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.IOError)


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
    gone, number = sorted(named), 0
    for seq, id, track in gone:
        _take_from_sums(connection, batch, seq, sums_of_track(connection, track))
        connection.execute("DELETE FROM state_changes WHERE assertion = ?", (seq,))
        if batch.embedder is not None:
            batch.drop_vector(seq, tenant or "")
        connection.execute("DELETE FROM assertions WHERE seq = ?", (seq,))
        number = batch.next_seq()
        batch.sums.add(row_sum(id, number), tenant or "")
        connection.execute("INSERT INTO tombstones VALUES (?, ?, ?)", (number, id, tenant or ""))
    delete_outlines(connection, [seq for seq, _, _ in gone], tenant)
    drop_accesses(connection)
    if gone:
        settle_tracks(connection, {track for _, _, track in gone})
        connection.execute("INSERT INTO texts(texts) VALUES ('rebuild')")
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('scrub', ?)", (number,))
    return len(gone)


def _take_from_sums(connection: apsw.Connection, batch: Batch, seq: int, track: tuple[bytes, str]) -> None:
    rows = select(connection, "SELECT checksum, tenant FROM assertions WHERE seq = ?", (seq,))
    changed = select(connection, "SELECT * FROM state_changes WHERE assertion = ?", (seq,))
    for check, tenant in [*rows, *((row_sum(*row), row[2]) for row in changed)]:
        batch.sums.add(-check, tenant, track)


def _of_record(connection: apsw.Connection, record_id: str, tenant: str | None) -> list[Row]:
    # The plus keeps SQLite from looking through everything of the tenant instead.
    return select(
        connection,
        "SELECT seq, id, track FROM assertions WHERE record_id = ? AND +tenant = ?",
        (record_id, tenant or ""),
    )


def _by_id(connection: apsw.Connection, id: str, tenant: str | None) -> list[Row]:
    return select(
        connection,
        "SELECT seq, id, track FROM assertions WHERE seq = ? AND id = ? AND tenant = ?",
        (seq_of(id), id, tenant or ""),
    )


def scrub_is_due(connection: apsw.Connection) -> bool:
    """Whether bytes of erased assertions may still be in the files."""
    return _due(connection) is not None


def scrub(connection: apsw.Connection) -> bool:
    """Do what is left to do after erasures; return whether nothing stood in the way.

    A transaction of another process that began before this keeps the WAL as it is, and with it the bytes; so
    does a disk that is full. Nothing is lost by that, and the next call goes on.
    """
    try:
        for _ in range(_TRIES):
            due = _due(connection)
            if due is None:
                return True
            if due > 0:
                connection.execute("VACUUM")
                # Whoever has erased something meanwhile has left a note of their own, which must stand.
                connection.execute("UPDATE meta SET value = ? WHERE key = 'scrub' AND value = ?", (-due, due))
            else:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                connection.execute("DELETE FROM meta WHERE key = 'scrub' AND value = ?", (due,))
    except _IN_THE_WAY as error:
        if is_failed_flush(error):
            raise
        return False
    return not scrub_is_due(connection)


def _due(connection: apsw.Connection) -> int | None:
    """Return the note: the number of an erasure after which the file was not written anew, or minus that if it was."""
    found = select(connection, "SELECT value FROM meta WHERE key = 'scrub'")
    return int(found[0][0]) if found else None
