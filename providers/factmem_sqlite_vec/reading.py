"""Queries of the log, each of one state of the store."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from factmem.abc import EmbedderIdentity
from factmem.providers.bindings import read_embedder
from factmem.providers.rows import SEQ_MASK, place_digest, read_assertion
from factmem.records import LogEntry, Place, StateChange, Tombstone
from factmem_sqlite_vec.rows import ASSERTION_COLUMNS, STATE_COLUMNS, Row, keyed, read_state, select, state_changes
from factmem_sqlite_vec.sequences import of_tenant
from factmem_sqlite_vec.sums import check_place, check_tenant

__all__ = [
    "bound_embedder",
    "changes",
    "changes_of_state",
    "entries",
    "first_changes",
    "key_of_store",
    "tombstones",
]


def bound_embedder(connection: apsw.Connection) -> EmbedderIdentity | None:
    """Return the embedder that the store is bound to."""
    found = select(connection, "SELECT value FROM meta WHERE key = 'embedder'")
    return read_embedder(found[0][0]) if found else None


def key_of_store(connection: apsw.Connection) -> bytes:
    """Return the key of the store's `keyed` digests."""
    ((key,),) = select(connection, "SELECT value FROM meta WHERE key = 'key'")
    return bytes(key)


def entries(connection: apsw.Connection, place: Place, keyword: str | None) -> list[LogEntry]:
    """Return the log of a place, of one concept or of all."""
    key = key_of_store(connection)
    here = "FROM tracks t CROSS JOIN assertions a ON a.track = t.id"
    where = "WHERE t.place = ?" if keyword is None else "WHERE t.place = ? AND t.keyword = ?"
    at, concept = keyed(key, place_digest(place)), None if keyword is None else keyed(key, keyword)
    wanted = (at,) if concept is None else (at, concept)
    said = select(connection, f"SELECT {ASSERTION_COLUMNS} {here} {where}", wanted)
    changed = state_changes(
        connection,
        f"SELECT a.id, {STATE_COLUMNS} {here} CROSS JOIN state_changes s ON s.assertion = a.seq {where}",
        wanted,
    )
    log = _in_order([*map(read_assertion, said), *map(read_state, changed)])
    check_place(connection, at, concept, said, changed)
    return log


def changes(connection: apsw.Connection, tenant: str | None, since: int) -> list[LogEntry]:
    """Return the log of a tenant after a sequence number."""
    rows = _rows(connection, of_tenant(connection, tenant, since))
    log = _read(*rows)
    if since <= 0:
        check_tenant(connection, tenant or "", *rows)
    return log


def first_changes(connection: apsw.Connection, tenant: str | None, since: int, limit: int) -> list[LogEntry]:
    """Return at most some entries of the log of a tenant after a sequence number."""
    return _read(*_rows(connection, of_tenant(connection, tenant, since), limit))[:limit]


def _rows(
    connection: apsw.Connection, part: tuple[int, int], limit: int = -1
) -> tuple[list[Row], list[Row], list[Row]]:
    """Return the assertions, changes of state and tombstones in a part of a log, at most some of each."""
    said = select(
        connection,
        f"SELECT {ASSERTION_COLUMNS} FROM assertions a WHERE a.seq > ? AND a.seq <= ? ORDER BY a.seq LIMIT ?",
        (*part, limit),
    )
    return said, _changed(connection, part, limit), tombstones(connection, part, limit)


def _changed(connection: apsw.Connection, part: tuple[int, int], limit: int) -> list[Row]:
    return state_changes(
        connection,
        f"SELECT a.id, {STATE_COLUMNS} FROM state_changes s CROSS JOIN assertions a ON a.seq = s.assertion"
        " WHERE s.seq > ? AND s.seq <= ? ORDER BY s.seq LIMIT ?",
        (*part, limit),
    )


def changes_of_state(connection: apsw.Connection, part: tuple[int, int]) -> list[StateChange]:
    """Return the changes of state in a part of a tenant's log; see `of_tenant`."""
    return list(map(read_state, _changed(connection, part, -1)))


def _read(said: Sequence[Row], changed: Sequence[Row], erased: Sequence[Row]) -> list[LogEntry]:
    return _in_order(
        [
            *map(read_assertion, said),
            *map(read_state, changed),
            *(Tombstone(assertion_id=id, seq=seq) for id, seq in erased),
        ]
    )


def tombstones(connection: apsw.Connection, part: tuple[int, int], limit: int = -1) -> list[Row]:
    """Return the ids and sequence numbers of tombstones in a part of a tenant's log; see `of_tenant`."""
    where = "seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
    rows = select(connection, f"SELECT assertion_id, seq FROM tombstones WHERE {where}", (*part, limit))
    return [(id, key & SEQ_MASK) for id, key in rows]


def _in_order(log: list[LogEntry]) -> list[LogEntry]:
    return sorted(log, key=lambda entry: entry.seq)
