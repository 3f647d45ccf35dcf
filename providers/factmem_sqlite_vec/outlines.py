"""Outlines: a table of their own, created on first use, from which recall builds its index in one pass."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import apsw

from factmem.abc import Outline, Outlined
from factmem.errors import CorruptStoreError
from factmem.providers.outline_bodies import OutlineRow, read_outlines
from factmem.providers.rows import SEQ_MASK, read_assertion, unpack_id, unpack_moment, unpack_record_id
from factmem.records import Recorded, StateChange, Tombstone
from factmem_sqlite_vec.reading import tombstones
from factmem_sqlite_vec.rows import Row, assertion_columns, read_state, select, state_changes
from factmem_sqlite_vec.sequences import base_of, newest_seq, of_tenant
from factmem_sqlite_vec.sums import check_tenant

__all__ = [
    "delete_outlines",
    "insert_outlines",
    "outlined",
    "outlines_version",
    "put_outlines",
    "recorded",
    "use_outlines",
]

_LARGEST: Final = 2**63 - 1

_TABLES: Final = """
DROP TABLE IF EXISTS outlines;
DROP TABLE IF EXISTS shared_outlines;
CREATE TABLE shared_outlines(
  id INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,
  body BLOB NOT NULL
) STRICT;
CREATE TABLE outlines(
  tenant TEXT NOT NULL,
  seq INTEGER NOT NULL,
  shared INTEGER NOT NULL,
  body BLOB NOT NULL,
  checksum INTEGER NOT NULL,
  PRIMARY KEY (tenant, seq)
) STRICT, WITHOUT ROWID;
"""

_PART: Final = "tenant = ? AND seq > ? AND seq <= ? ORDER BY seq"
"""Condition on outlines: those of a tenant after a sequence number, up to another one."""

_NUMBERED: Final = "json_each(?) j CROSS JOIN assertions a ON a.rowid = j.value"
"""Assertions of some keys; see `_numbered`."""

_IN_LOG: Final = "tenant = ? AND rowid > ? AND rowid <= ? ORDER BY rowid"
"""Condition on rows of a tenant's log; see `factmem_sqlite_vec.sequences.of_tenant`."""


def outlines_version(connection: apsw.Connection) -> int | None:
    """Return the version of the outlines in the store, or None if it holds none."""
    found = select(connection, "SELECT value FROM meta WHERE key = 'outlines'")
    return int(found[0][0]) if found else None


def use_outlines(connection: apsw.Connection, version: int) -> None:
    """Create the tables for outlines of a version, unless they exist; in a transaction."""
    if outlines_version(connection) != version:
        connection.execute(_TABLES)
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('outlines', ?)", (version,))


def _numbered(connection: apsw.Connection, tenant: str | None, seqs: Iterable[int]) -> tuple[str, str]:
    """Return the keys of a tenant's sequence numbers as JSON, and the tenant."""
    base = base_of(connection, tenant)
    return json.dumps([base + seq for seq in seqs]), tenant or ""


def insert_outlines(connection: apsw.Connection, kept: Sequence[OutlineRow]) -> None:
    """Store outlines; in a transaction."""
    shared = {part: _stored_part(connection, part) for part in {item.outline.shared for item in kept}}
    connection.executemany(
        "INSERT OR REPLACE INTO outlines VALUES (?, ?, ?, ?, ?)",
        [(item.tenant, item.seq, shared[item.outline.shared], item.body(), item.checksum) for item in kept],
    )


def _stored_part(connection: apsw.Connection, shared: bytes) -> int:
    """Return the row of a shared part, stored if it is new."""
    digest = hashlib.blake2b(shared, digest_size=16).digest()
    found = select(connection, "SELECT id FROM shared_outlines WHERE digest = ?", (digest,))
    if found:
        return int(found[0][0])
    connection.execute("INSERT INTO shared_outlines(digest, body) VALUES (?, ?)", (digest, shared))
    return connection.last_insert_rowid()


def put_outlines(connection: apsw.Connection, tenant: str | None, outlines: Mapping[int, Outline]) -> None:
    """Store outlines of existing assertions of a tenant; in a transaction."""
    version = outlines_version(connection)
    wanted = [seq for seq, outline in outlines.items() if outline.version == version]
    rows = select(
        connection,
        f"SELECT a.rowid & {SEQ_MASK}, a.id, a.record_id, a.recorded_at, a.checksum"
        f" FROM {_NUMBERED} WHERE a.tenant = ?",
        _numbered(connection, tenant, wanted),
    )
    insert_outlines(
        connection,
        [
            OutlineRow(
                seq=seq,
                id=unpack_id(id, seq),
                record_id=unpack_record_id(record_id, unpack_id(id, seq)),
                recorded_at=dt.datetime.fromisoformat(unpack_moment(at)),
                checksum=checksum,
                tenant=tenant or "",
                outline=outlines[seq],
            )
            for seq, id, record_id, at, checksum in rows
        ],
    )


def delete_outlines(connection: apsw.Connection, seqs: Iterable[int], tenant: str | None) -> None:
    """Delete the outlines of assertions; in a transaction."""
    if outlines_version(connection) is not None:
        wanted = [(tenant or "", seq) for seq in seqs]
        connection.executemany("DELETE FROM outlines WHERE tenant = ? AND seq = ?", wanted)
        if wanted:
            connection.execute("DELETE FROM shared_outlines WHERE id NOT IN (SELECT shared FROM outlines)")


def recorded(connection: apsw.Connection, tenant: str | None, seqs: Sequence[int]) -> tuple[list[Recorded | None], int]:
    """Return assertions of a tenant by sequence number, None for each that does not exist, and its newest number."""
    base, columns = base_of(connection, tenant), assertion_columns(connection)
    rows = connection.executemany(  # for ten rows, twice as fast as a join with their keys
        f"SELECT {columns} FROM assertions a WHERE a.rowid = ? AND a.tenant = ?",
        [(base + seq, tenant or "") for seq in seqs],
    ).fetchall()
    found = {item.seq: item for item in map(read_assertion, rows)}
    if len(found) < len(set(seqs)) and outlines_version(connection) is not None:
        _check_gone(connection, tenant, [seq for seq in seqs if seq not in found])
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
        _check_all(connection, tenant or "")
    # Each number is of one entry, so that the part holds no more assertions than numbers.
    until = min(newest_seq(connection, tenant), since + min(limit, _LARGEST - since))
    part = (tenant or "", since, until)
    usable = version is not None and outlines_version(connection) == version
    seqs: list[int] = []
    numbers: list[int] = []
    bodies: list[bytes] = []
    if usable:
        rows = connection.execute(f"SELECT seq, shared, body FROM outlines WHERE {_PART}", part)
        for seq, number, body in rows:  # row by row: thousands of tuples at once trigger full garbage collections
            seqs.append(seq)
            numbers.append(number)
            bodies.append(body)
    return read_outlines(
        seqs,
        _parts(connection, numbers),
        bodies,
        missing=_missing(connection, part, seqs),
        rest=sorted([*_changes(connection, part), *_erased(connection, part)], key=lambda entry: entry.seq),
        until=until,
    )


def _parts(connection: apsw.Connection, numbers: Sequence[int]) -> list[bytes]:
    """Return the shared parts by their rows."""
    rows = (
        select(
            connection,
            "SELECT s.id, s.body FROM json_each(?) j CROSS JOIN shared_outlines s ON s.id = j.value",
            (json.dumps(list(set(numbers))),),
        )
        if numbers
        else []
    )
    parts: dict[int, bytes] = dict(rows)
    return [parts[number] for number in numbers]


def _check_gone(connection: apsw.Connection, tenant: str | None, seqs: Sequence[int]) -> None:
    """Raise if there are outlines without an assertion: the two are deleted together."""
    left = select(
        connection,
        "SELECT o.seq FROM json_each(?) j CROSS JOIN outlines o ON o.tenant = ? AND o.seq = j.value",
        (json.dumps(list(seqs)), tenant or ""),
    )
    if left:
        raise CorruptStoreError(f"the assertion number {left[0][0]} is lost: restore the store from a backup")


def _check_all(connection: apsw.Connection, tenant: str) -> None:
    """Check that the rows of a tenant are complete; see `factmem_sqlite_vec.sums`."""
    part = (tenant, 0, _LARGEST)
    log = of_tenant(connection, tenant)
    changed = state_changes(connection, f"SELECT '', s.* FROM state_changes s WHERE {_IN_LOG}", log)
    erased = tombstones(connection, log)
    of_outlines, there = 0, 0
    if outlines_version(connection) is not None:
        total = f"SELECT coalesce(sum(checksum), 0), count(*) FROM outlines WHERE {_PART}"
        ((of_outlines, there),) = select(connection, total, part)
    of_missing = 0
    if there != _assertions(connection, part):
        rows = select(connection, f"SELECT seq FROM outlines WHERE {_PART}", part) if there else []
        missing = _missing(connection, part, [seq for (seq,) in rows])
        ((of_missing,),) = select(
            connection,
            f"SELECT coalesce(sum(a.checksum), 0) FROM {_NUMBERED} WHERE a.tenant = ?",
            _numbered(connection, tenant, missing),
        )
    said = [(0, 0, 0, 0, int(of_outlines) + int(of_missing))]
    check_tenant(connection, tenant, said, changed, erased)


def _missing(connection: apsw.Connection, part: Row, there: Sequence[int]) -> list[int]:
    if _assertions(connection, part) == len(there):
        return []
    known = set(there)
    rows = select(
        connection, f"SELECT rowid & {SEQ_MASK} FROM assertions WHERE {_IN_LOG}", of_tenant(connection, *part)
    )
    return [seq for (seq,) in rows if seq not in known]


def _assertions(connection: apsw.Connection, part: Row) -> int:
    ((count,),) = select(connection, f"SELECT count(*) FROM assertions WHERE {_IN_LOG}", of_tenant(connection, *part))
    return int(count)


def _changes(connection: apsw.Connection, part: Row) -> list[StateChange]:
    rows = state_changes(
        connection,
        "SELECT a.id, s.* FROM state_changes s CROSS JOIN assertions a ON a.rowid = s.assertion"
        " WHERE s.tenant = ? AND s.rowid > ? AND s.rowid <= ?",
        of_tenant(connection, *part),
    )
    return list(map(read_state, rows))


def _erased(connection: apsw.Connection, part: Row) -> list[Tombstone]:
    return [Tombstone(assertion_id=id, seq=seq) for id, seq in tombstones(connection, of_tenant(connection, *part))]
