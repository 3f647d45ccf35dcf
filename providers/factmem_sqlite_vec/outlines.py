"""Outlines: beside each assertion, and their shared parts in the heads, from which recall builds its index."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Final

import apsw

from factmem.abc import Outline, Outlined
from factmem.providers.outline_bodies import outline_body, read_outlines
from factmem.providers.rows import SEQ_MASK, read_assertion, unpack_id, unpack_moment, unpack_record_id
from factmem.records import LogEntry, Recorded, Tombstone
from factmem_sqlite_vec.reading import changes_of_state, tombstones
from factmem_sqlite_vec.rows import ASSERTION_COLUMNS, STATE_COLUMNS, select, state_changes
from factmem_sqlite_vec.sequences import base_of, newest_seq, of_tenant
from factmem_sqlite_vec.sums import check_tenant
from factmem_sqlite_vec.tracks import head_of

__all__ = ["MOVED", "check_complete", "outlined", "outlines_version", "put_outlines", "recorded", "use_outlines"]

_LARGEST: Final = 2**63 - 1

MOVED: Final = "INSERT OR REPLACE INTO meta VALUES ('moved', randomblob(8))"
"""Note that rows grew or shrank, so that SQLite may have left copies of them; see `factmem_sqlite_vec.erasing`."""


def outlines_version(connection: apsw.Connection) -> int | None:
    """Return the version of the outlines in the store, or None if it holds none."""
    found = select(connection, "SELECT value FROM meta WHERE key = 'outlines'")
    return int(found[0][0]) if found else None


def use_outlines(connection: apsw.Connection, version: int) -> None:
    """Drop the outlines of other versions; in a transaction."""
    stored = outlines_version(connection)
    if stored != version:
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('outlines', ?)", (version,))
    if stored not in (None, version):
        connection.execute(f"UPDATE assertions SET outline = NULL; UPDATE heads SET shared = NULL; {MOVED}")


def put_outlines(connection: apsw.Connection, tenant: str | None, outlines: Mapping[int, Outline]) -> None:
    """Store outlines of existing assertions of a tenant; in a transaction."""
    version, base = outlines_version(connection), base_of(connection, tenant)
    for seq, outline in outlines.items():
        key = base + (seq & SEQ_MASK)
        found = select(
            connection,
            "SELECT a.id, a.record_id, a.recorded_at, a.track, (SELECT doc FROM heads WHERE id = a.head)"
            " FROM assertions a WHERE a.seq = ?",
            (key,),
        )
        if not found or outline.version != version:
            continue
        packed_id, record_id, at, track, doc = found[0]
        id = unpack_id(packed_id, seq)
        recorded_at = dt.datetime.fromisoformat(unpack_moment(at))
        body = outline_body(seq, id, unpack_record_id(record_id, id), recorded_at, outline)
        head = head_of(connection, track, doc, outline.shared)
        connection.execute("UPDATE assertions SET head = ?, outline = ? WHERE seq = ?", (head, body, key))
    connection.execute(MOVED)


def recorded(connection: apsw.Connection, tenant: str | None, seqs: Sequence[int]) -> tuple[list[Recorded | None], int]:
    """Return assertions of a tenant by sequence number, None for each that does not exist, and its newest number."""
    base = base_of(connection, tenant)
    rows = connection.executemany(  # for ten rows, twice as fast as a join with their keys
        f"SELECT {ASSERTION_COLUMNS} FROM assertions a WHERE a.seq = ?", [(base + seq,) for seq in seqs]
    ).fetchall()
    found = {item.seq: item for item in map(read_assertion, rows)}
    return [found.get(seq) for seq in seqs], newest_seq(connection, tenant)


def outlined(connection: apsw.Connection, version: int | None, tenant: str | None, since: int, limit: int) -> Outlined:
    """Return a tenant's log after a sequence number, with outlines in place of assertions.

    Args:
        connection: Connection in a transaction.
        version: The version of outlines in use.
        tenant: The tenant.
        since: The sequence number to start after.
        limit: Maximum number of assertions.
    """
    since = min(since, _LARGEST)
    if since <= 0:
        check_complete(connection, tenant)
    # Each number is of one entry, so that the part holds no more assertions than numbers.
    until = min(newest_seq(connection, tenant), since + min(limit, _LARGEST - since))
    part = of_tenant(connection, tenant, since, until)
    usable = version is not None and outlines_version(connection) == version
    seqs: list[int] = []
    numbers: list[int] = []
    bodies: list[bytes] = []
    missing: list[int] = []
    rows = connection.execute(
        f"SELECT seq & {SEQ_MASK}, head, outline FROM assertions WHERE seq > ? AND seq <= ? ORDER BY seq", part
    )
    for seq, number, body in rows:  # row by row: thousands of tuples at once trigger full garbage collections
        if body is None or not usable:
            missing.append(seq)
        else:
            seqs.append(seq)
            numbers.append(number)
            bodies.append(body)
    parts: dict[int, bytes] = dict(
        connection.executemany("SELECT id, shared FROM heads WHERE id = ?", [(number,) for number in set(numbers)])
    )
    rest: list[LogEntry] = [
        *changes_of_state(connection, part),
        *(Tombstone(assertion_id=id, seq=seq) for id, seq in tombstones(connection, part)),
    ]
    return read_outlines(
        seqs,
        [parts[number] for number in numbers],
        bodies,
        missing=missing,
        rest=sorted(rest, key=lambda entry: entry.seq),
        until=until,
        ahead=_following(connection, tenant, until) if since <= 0 and usable else 0,
    )


def _following(connection: apsw.Connection, tenant: str | None, until: int) -> int:
    part = of_tenant(connection, tenant, until)
    ((count,),) = select(connection, "SELECT count(*) FROM assertions WHERE seq > ? AND seq <= ?", part)
    return int(count)


def check_complete(connection: apsw.Connection, tenant: str | None) -> None:
    """Raise if rows of a tenant were lost; those that are there are checked when they are read."""
    log = of_tenant(connection, tenant)
    total = "SELECT coalesce(sum(checksum), 0) FROM assertions WHERE seq > ? AND seq <= ?"
    ((of_assertions,),) = select(connection, total, log)
    changed = state_changes(
        connection, f"SELECT '', {STATE_COLUMNS} FROM state_changes s WHERE seq > ? AND seq <= ?", log
    )
    said = [(0, 0, 0, 0, of_assertions)]
    check_tenant(connection, tenant or "", said, changed, tombstones(connection, log))
