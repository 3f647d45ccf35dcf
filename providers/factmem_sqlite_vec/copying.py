"""Copies of logs: parts of a tenant's log, and parts of another store's log as it recorded them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

import apsw

from factmem.abc import Append, LogPart
from factmem.errors import ConceptConflictError, RecordNotFoundError
from factmem.providers import check_part, misfit
from factmem.providers.rows import SEQ_MASK, NewRow, prepared
from factmem.records import Recorded, StateChange, Tombstone
from factmem_sqlite_vec.chunks import read_slots, slots_of
from factmem_sqlite_vec.erasing import take_tombstone
from factmem_sqlite_vec.outlines import check_complete
from factmem_sqlite_vec.reading import bound_embedder, first_changes
from factmem_sqlite_vec.rows import select
from factmem_sqlite_vec.sequences import newest_seq, of_tenant
from factmem_sqlite_vec.sums import LAST_SEQS
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


def tenants(connection: apsw.Connection) -> list[str | None]:
    """Return the tenants with a log, or with a copy that has begun."""
    wanted = (
        "SELECT name FROM tenants WHERE copying OR EXISTS (SELECT 1 FROM sums WHERE place = ? AND keyword = name)"
        " ORDER BY name"
    )
    return [name or None for (name,) in select(connection, wanted, LAST_SEQS[:1])]


def unfinished(connection: apsw.Connection) -> list[str | None]:
    """Return the tenants that are unfinished copies."""
    return [name or None for (name,) in select(connection, "SELECT name FROM tenants WHERE copying ORDER BY name")]


def copied(connection: apsw.Connection, tenant: str | None) -> int | None:
    """Return the number up to which an unfinished copy is complete."""
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
        check_complete(connection, tenant)
    entries = first_changes(connection, tenant, since, limit + 1)
    more = len(entries) > limit
    until = entries[limit - 1].seq if more else max(since, newest_seq(connection, tenant))
    vectors = _vectors(connection, tenant, since, until)
    return LogPart(since=since, until=until, entries=entries[:limit], vectors=vectors)


def _vectors(connection: apsw.Connection, tenant: str | None, since: int, until: int) -> dict[int, NDArray[np.float32]]:
    identity = bound_embedder(connection)
    if identity is None:
        return {}
    keys, slots = slots_of(connection, of_tenant(connection, tenant, since, until))
    seqs = (keys & SEQ_MASK).tolist()
    return {
        seqs[place]: row
        for places, rows in read_slots(connection, slots, identity.dimension)
        for place, row in zip(places.tolist(), rows, strict=True)
    }


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
