"""Copies of logs: parts of a tenant's log, and parts of another store's log as it recorded them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, assert_never

import apsw

from factmem.abc import Append, LogPart
from factmem.errors import ConceptConflictError, RecordNotFoundError
from factmem.providers import check_part, misfit
from factmem.providers.rows import SEQ_MASK, NewRow, prepared
from factmem.records import Recorded, StateChange, Tombstone
from factmem_sqlite_vec.erasing import take_tombstone
from factmem_sqlite_vec.reading import bound_embedder, first_changes, tombstones
from factmem_sqlite_vec.rows import format_version, select, state_changes
from factmem_sqlite_vec.sequences import newest_seq, of_tenant
from factmem_sqlite_vec.sums import check_tenant
from factmem_sqlite_vec.writing import Batch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "begin_copy",
    "copied",
    "end_copy",
    "log_part",
    "prepared_part",
    "put_log_part",
    "tenants",
    "unfinished",
]

_TENANTS_SINCE: Final = 6
_COPIES_SINCE: Final = 7

_IN_ROWS: Final = "SELECT tenant FROM assertions UNION SELECT tenant FROM tombstones ORDER BY 1"
_IN_LOG: Final = "tenant = ? AND rowid > ? AND rowid <= ?"


def tenants(connection: apsw.Connection) -> list[str | None]:
    """Return the tenants with a log, or with a copy that has begun."""
    version = format_version(connection)
    wanted = "SELECT name FROM tenants WHERE seq > 0 OR copying ORDER BY name"
    if version < _COPIES_SINCE:
        wanted = wanted.replace(" OR copying", "") if version >= _TENANTS_SINCE else _IN_ROWS
    return [name or None for (name,) in select(connection, wanted)]


def unfinished(connection: apsw.Connection) -> list[str | None]:
    """Return the tenants that are unfinished copies."""
    if format_version(connection) < _COPIES_SINCE:
        return []
    return [name or None for (name,) in select(connection, "SELECT name FROM tenants WHERE copying ORDER BY name")]


def copied(connection: apsw.Connection, tenant: str | None) -> int | None:
    """Return the number up to which an unfinished copy is complete."""
    if format_version(connection) < _COPIES_SINCE:
        return None
    if not select(connection, "SELECT 1 FROM tenants WHERE name = ? AND copying", (tenant or "",)):
        return None
    return newest_seq(connection, tenant)


def begin_copy(connection: apsw.Connection, batch: Batch, names: Sequence[str | None]) -> None:
    """Mark tenants as unfinished copies; in a transaction."""
    for name in names:
        batch.seqs.entered(name or "")
    connection.executemany("UPDATE tenants SET copying = 1 WHERE name = ?", [(name or "",) for name in names])


def end_copy(connection: apsw.Connection, names: Sequence[str | None]) -> None:
    """Mark copies as finished; in a transaction."""
    connection.executemany("UPDATE tenants SET copying = 0 WHERE name = ?", [(name or "",) for name in names])


def log_part(connection: apsw.Connection, tenant: str | None, since: int, limit: int) -> LogPart:
    """Return a part of the log of a tenant, with the vectors of its assertions."""
    if since <= 0:
        _check_complete(connection, tenant)
    entries = first_changes(connection, tenant, since, limit + 1)
    more = len(entries) > limit
    until = entries[limit - 1].seq if more else max(since, newest_seq(connection, tenant))
    vectors = _vectors(connection, tenant, since, until)
    return LogPart(since=since, until=until, entries=entries[:limit], vectors=vectors)


def _vectors(connection: apsw.Connection, tenant: str | None, since: int, until: int) -> dict[int, NDArray[np.float32]]:
    import numpy as np

    if bound_embedder(connection) is None:
        return {}
    rows = connection.execute(
        "SELECT a.rowid, v.embedding FROM assertions a CROSS JOIN vectors v ON v.rowid = a.rowid"
        " WHERE a.tenant = ? AND a.rowid > ? AND a.rowid <= ?",
        of_tenant(connection, tenant, since, until),
    )
    return {key & SEQ_MASK: np.frombuffer(embedding, np.float32) for key, embedding in rows}


def _check_complete(connection: apsw.Connection, tenant: str | None) -> None:
    """Raise if rows of a tenant were lost; those that are there are checked when they are read."""
    log = of_tenant(connection, tenant)
    ((of_assertions,),) = select(connection, f"SELECT coalesce(sum(checksum), 0) FROM assertions WHERE {_IN_LOG}", log)
    changed = state_changes(connection, f"SELECT '', s.* FROM state_changes s WHERE {_IN_LOG}", log)
    said = [(0, 0, 0, 0, of_assertions)]
    check_tenant(connection, tenant or "", said, changed, tombstones(connection, log))


def prepared_part(part: LogPart) -> list[NewRow]:
    """Prepare the assertions of a part for writing, before any transaction is open.

    Raises:
        InvalidVectorError: A vector is NaN, infinite or zero.
        InvalidDataError: A text holds a lone surrogate.
    """
    said = [entry for entry in part.entries if isinstance(entry, Recorded)]
    rows = prepared([Append(assertion=entry.assertion, vector=part.vectors.get(entry.seq)) for entry in said])
    return [row for row in rows if isinstance(row, NewRow)]


def put_log_part(
    connection: apsw.Connection, batch: Batch, tenant: str | None, part: LogPart, rows: Sequence[NewRow]
) -> None:
    """Append a part to an unfinished copy; in a transaction.

    Args:
        connection: Connection of the batch.
        batch: Transaction under way.
        tenant: The tenant.
        part: The part.
        rows: Its `prepared_part`.

    Raises:
        FactMemError: See `CopiesLogs.put_log_part`.
    """
    check_part(part, tenant, copied(connection, tenant))
    new = iter(rows)
    try:
        for entry in part.entries:
            match entry:
                case Recorded():
                    batch.take_assertion(next(new), entry)
                case StateChange():
                    batch.take_state(entry, tenant)
                case Tombstone():
                    take_tombstone(connection, batch, entry, tenant)
                    batch.forget_tracks()
                case _:
                    assert_never(entry)
    except (ConceptConflictError, RecordNotFoundError, apsw.ConstraintError):
        raise misfit() from None
    batch.seqs.advance_to(tenant or "", part.until)
