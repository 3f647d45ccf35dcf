"""Erasure of rows, and then of every copy of their bytes.

Rows with words (assertions, heads, changes of state, vectors) are only ever appended, and overwritten with zeros of the
same length, so that SQLite has no reason to move them and the table holds their bytes once; indexes hold none. So an
erasure

1. overwrites the rows and leaves a note, in one transaction;
2. moves the WAL, which keeps its contents until it is truncated, into the file, and deletes the note.

Where rows were moved before, by a migration or by new outlines of old assertions, SQLite may have left copies. Then the
whole file is rewritten (VACUUM, into the WAL) between these steps. A process that is killed in between leaves the note,
and the next erasure or closing of the store continues from it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import apsw

from factmem.providers.rows import SEQ_MASK, row_sum, unpack_id, unpack_record_id
from factmem.records import Tombstone
from factmem_sqlite_vec.accesses import drop_accesses
from factmem_sqlite_vec.faults import is_failed_flush
from factmem_sqlite_vec.rows import OF_RECORD, STATE_COLUMNS, Row, key_of_id, record_key, select, state_changes
from factmem_sqlite_vec.sequences import base_of
from factmem_sqlite_vec.tracks import settle_tracks, sums_of_track
from factmem_sqlite_vec.writing import Batch

__all__ = ["delete_assertions", "scrub", "scrub_is_due", "take_tombstone"]

_TRIES: Final = 6
"""An erasure takes two attempts; more are for concurrent erasures."""

_IN_THE_WAY: Final = (apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.IOError)


def _zeros(*columns: str) -> str:
    """Return the assignments that overwrite columns of text with zeros of the same length."""
    return ", ".join(f"{name} = CAST(zeroblob(length(CAST({name} AS BLOB))) AS TEXT)" for name in columns)


_OVERWRITE: Final = (
    "UPDATE assertions SET seq = NULL, id = zeroblob(length(CAST(id AS BLOB))), record_id = NULL, track = NULL,"
    " slot = zeroblob(length(slot)), said_at = 0, fingerprint = zeroblob(length(fingerprint)), recorded_at = 0,"
    f" checksum = 0, joined = 0, head = NULL, vector = NULL, outline = zeroblob(length(outline)), {_zeros('doc')}"
    " WHERE seq = ?"
)
_OVERWRITE_CHANGES: Final = (
    f"UPDATE state_changes SET seq = NULL, assertion = NULL, {_zeros('tenant', 'state', 'recorded_at')},"
    f" {_zeros('reason', 'actor')} WHERE assertion = ?"
)

_DROP_OVERWRITTEN: Final = """
BEGIN IMMEDIATE;
DELETE FROM assertions WHERE seq IS NULL;
DELETE FROM state_changes WHERE seq IS NULL;
DELETE FROM heads WHERE track IS NULL;
COMMIT;
"""


def delete_assertions(
    connection: apsw.Connection,
    batch: Batch,
    record_ids: Collection[str],
    assertion_ids: Collection[str],
    tenant: str | None,
) -> int:
    """Delete assertions and everything that belongs to them, leaving tombstones; return their number.

    Args:
        connection: Connection of the batch.
        batch: Transaction under way.
        record_ids: Records to delete entirely.
        assertion_ids: Assertions to delete one by one.
        tenant: The tenant.
    """
    base = base_of(connection, tenant)
    named = {row for id in set(record_ids) for row in _of_record(connection, id, base)}
    named |= {row for id in set(assertion_ids) for row in _by_id(connection, id, base)}
    gone, last = sorted(named), 0
    for row in gone:
        _delete(connection, batch, row, tenant or "")
        last = batch.seqs.next_key(tenant or "")
        _insert_tombstone(connection, batch, last, row[1], tenant or "")
    _drop_rest(connection, gone, tenant, last)
    return len(gone)


def take_tombstone(connection: apsw.Connection, batch: Batch, tombstone: Tombstone, tenant: str | None) -> None:
    """Store the tombstone of another store's log, and delete the assertion that it names, if it is here."""
    gone = _by_id(connection, tombstone.assertion_id, base_of(connection, tenant))
    for row in gone:
        _delete(connection, batch, row, tenant or "")
    key = batch.seqs.advance_to(tenant or "", tombstone.seq)
    _insert_tombstone(connection, batch, key, tombstone.assertion_id, tenant or "")
    _drop_rest(connection, gone, tenant, key)


def _delete(connection: apsw.Connection, batch: Batch, row: Row, tenant: str) -> None:
    key, _, _, track = row
    ((check,),) = select(connection, "SELECT checksum FROM assertions WHERE seq = ?", (key,))
    changed = state_changes(
        connection, f"SELECT '', {STATE_COLUMNS} FROM state_changes s WHERE s.assertion = ?", (key,)
    )
    sums = sums_of_track(connection, track)
    for each in (check, *(row_sum(*change[1:]) for change in changed)):
        batch.sums.add(-each, tenant, sums)
    batch.drop_vector(key, tenant)
    connection.execute(_OVERWRITE_CHANGES, (key,))
    connection.execute(_OVERWRITE, (key,))


def _insert_tombstone(connection: apsw.Connection, batch: Batch, key: int, id: str, tenant: str) -> None:
    batch.sums.add(row_sum(id, key & SEQ_MASK), tenant)
    connection.execute("INSERT INTO tombstones VALUES (?, ?, ?)", (key, id, tenant))


def _drop_rest(connection: apsw.Connection, gone: Sequence[Row], tenant: str | None, last: int) -> None:
    """Delete what deleted rows leave in other tables, and note that their bytes are to be removed."""
    drop_accesses(connection, tenant, {row[2] for row in gone})
    if gone:
        settle_tracks(connection, {row[3] for row in gone})
        rewrites = select(connection, "SELECT 1 FROM meta WHERE key = 'moved' OR (key = 'scrub' AND value > 0)")
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('scrub', ?)", (last if rewrites else -last,))


def _of_record(connection: apsw.Connection, record_id: str, base: int) -> list[Row]:
    where = f"{OF_RECORD} AND seq > ? AND seq <= ?"
    return _named(connection, where, (*record_key(record_id, base), base, base + SEQ_MASK))


def _by_id(connection: apsw.Connection, id: str, base: int) -> list[Row]:
    return _named(connection, "seq = ?", (key_of_id(connection, base, id),))


def _named(connection: apsw.Connection, where: str, arguments: Row) -> list[Row]:
    """Return key, id, record id and track of some assertions."""
    rows = select(connection, f"SELECT seq, id, record_id, track FROM assertions WHERE {where}", arguments)
    ids = [unpack_id(row[1], row[0] & SEQ_MASK) for row in rows]
    return [(row[0], id, unpack_record_id(row[2], id), row[3]) for row, id in zip(rows, ids, strict=True)]


def scrub_is_due(connection: apsw.Connection) -> bool:
    """Return whether bytes of erased assertions may still be in the files."""
    return _due(connection) is not None


def scrub(connection: apsw.Connection) -> bool:
    """Finish erasures and migrations; return whether they are finished.

    An older transaction of another process keeps the WAL, and with it the bytes; so does a full disk. Nothing is lost
    then, and the next call continues.
    """
    try:
        for _ in range(_TRIES):
            due = _due(connection)
            if due is None:
                return True
            if due > 0:
                moved = select(connection, "SELECT value FROM meta WHERE key = 'moved'")
                connection.execute(_DROP_OVERWRITTEN)
                connection.execute("VACUUM")
                # A concurrent erasure leaves a note of its own, which must stay.
                connection.execute("UPDATE meta SET value = ? WHERE key = 'scrub' AND value = ?", (-due, due))
                connection.executemany("DELETE FROM meta WHERE key = 'moved' AND value = ?", moved)
            else:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                connection.execute("DELETE FROM meta WHERE key = 'scrub' AND value = ?", (due,))
    except _IN_THE_WAY as error:
        if is_failed_flush(error):
            raise
        return False
    return not scrub_is_due(connection)


def _due(connection: apsw.Connection) -> int | None:
    """Return the note: the number of an erasure, or minus that if the file need not be rewritten (any more)."""
    found = select(connection, "SELECT value FROM meta WHERE key = 'scrub'")
    return int(found[0][0]) if found else None
