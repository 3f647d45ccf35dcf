"""Access counts: a table of its own, created by the first count."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import apsw

from factmem.abc import Access
from factmem.providers.rows import SEQ_MASK, microseconds, moment_at
from factmem_sqlite_vec.rows import OF_RECORD, record_key, select
from factmem_sqlite_vec.sequences import base_of

__all__ = ["accesses", "add_accesses", "drop_accesses"]

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS accesses(
  record_id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  count INTEGER NOT NULL,
  last INTEGER NOT NULL
) STRICT, WITHOUT ROWID
"""


def add_accesses(connection: apsw.Connection, tenant: str | None, counted: Mapping[str, Access]) -> None:
    """Add counts of records; in a transaction."""
    connection.execute(_TABLE)
    base = base_of(connection, tenant)
    connection.executemany(
        f"INSERT INTO accesses SELECT ?, ?, ?, ? FROM assertions WHERE {OF_RECORD} AND seq > ? AND seq <= ? LIMIT 1"
        " ON CONFLICT(record_id) DO UPDATE SET count = count + excluded.count, last = max(last, excluded.last)",
        [
            (
                *(id, tenant or "", access.count, microseconds(access.last)),
                *record_key(id, base),
                *(base, base + SEQ_MASK),
            )
            for id, access in counted.items()
            if access.last is not None
        ],
    )


def accesses(connection: apsw.Connection, tenant: str | None, record_ids: Collection[str]) -> dict[str, Access]:
    """Return the counts of some records of a tenant."""
    if not _is_there(connection):
        return {}
    rows = select(
        connection,
        "SELECT a.record_id, a.count, a.last FROM json_each(?) j CROSS JOIN accesses a"
        " ON a.record_id = j.value AND a.tenant = ?",
        (json.dumps(list(record_ids)), tenant or ""),
    )
    return {id: Access(count=count, last=moment_at(last)) for id, count, last in rows}


def drop_accesses(connection: apsw.Connection, tenant: str | None, record_ids: Iterable[str]) -> None:
    """Delete the counts of a tenant's records without any assertion; in a transaction."""
    if _is_there(connection):
        base = base_of(connection, tenant)
        connection.executemany(
            f"DELETE FROM accesses WHERE record_id = ? AND NOT EXISTS (SELECT 1 FROM assertions WHERE {OF_RECORD})",
            [(id, *record_key(id, base)) for id in record_ids],
        )


def _is_there(connection: apsw.Connection) -> bool:
    return bool(select(connection, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'accesses'"))
