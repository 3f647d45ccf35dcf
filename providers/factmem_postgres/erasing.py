"""Erasure of rows, and then of every copy of their bytes that the server lets us reach.

Deleting rows does not remove their bytes: they stay in their pages, and the write-ahead log (WAL) repeats them. So an
erasure

1. deletes the rows and leaves a note, in one transaction;
2. rewrites the tables (``VACUUM FULL``), if they are small enough to be locked for that long, and notes the end of the
   WAL; a larger store waits for its administrator to do so;
3. is finished when the WAL has turned: the server has written over every one of its files that existed then.

Each later erasure of the tenant continues from the note. Backups, archived WAL and replicas are out of reach. So are
the nodes of a cluster (Citus), except for the first step: its administrator deletes the note after the others.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Final

from factmem.abc import EraseReceipt
from factmem.errors import ProviderError
from factmem.facts import FactType
from factmem.records import Tombstone
from factmem_postgres.rows import (
    BY_ID,
    OF_RECORD,
    assertion_id,
    assertion_key,
    bytes_of,
    packed,
    record_key,
    record_of,
    tombstone_sum,
)
from factmem_postgres.schema import TABLES
from factmem_postgres.server import Ending, Row, Server, Session, Step, of_tenant
from factmem_postgres.writing import BURY, COUNT, IS_BURIED, locked_counter

__all__ = ["Eraser", "delete_rows", "named"]

_MOST_BYTES: Final = 64 << 20
"""Largest size of the tables that an erasure rewrites by itself; nobody can use them meanwhile."""

_TRIES: Final = 5
_PAUSE: Final = 0.05
"""Attempts to rewrite the tables while others use them, and the pause between two, in seconds."""

_WITH_WORDS: Final = tuple(table for table in TABLES if table not in ("counters", "tombstones", "erasures"))
_REWRITE: Final = f"VACUUM (FULL, SKIP_LOCKED) {', '.join(f'{{schema}}.{table}' for table in _WITH_WORDS)}"
_FILES: Final = (
    "ARRAY[" + ", ".join(f"pg_relation_filenode('{{schema}}.{table}')::bigint" for table in _WITH_WORDS) + "]"
)
_SIZE: Final = " + ".join(f"pg_total_relation_size('{{schema}}.{table}')" for table in _WITH_WORDS)

_NAMED: Final = (
    "SELECT a.seq, a.id, a.record_id, a.track FROM unnest(%b::bytea[]) AS w(record)"
    " JOIN {schema}.assertions a ON a.tenant = %s AND a.record_id = w.record"
    " UNION SELECT a.seq, a.id, a.record_id, a.track FROM unnest(%b::bigint[], %b::bytea[]) AS w(seq, own)"
    " JOIN {schema}.assertions a ON a.tenant = %s AND a.seq = w.seq AND a.id = w.own AND a.record_id IS NULL"
    " UNION SELECT a.seq, a.id, a.record_id, a.track"
    " FROM unnest(%b::bigint[], %b::bytea[], %b::bytea[]) AS w(seq, own, id)"
    f" CROSS JOIN LATERAL {BY_ID} a ORDER BY seq"
)
_DELETE_ASSERTIONS: Final = (
    "DELETE FROM {schema}.assertions WHERE tenant = %s AND seq = ANY (%b::bigint[]) RETURNING checksum"
)
_DELETE_STATES: Final = (
    "DELETE FROM {schema}.state_changes WHERE tenant = %s AND assertion = ANY (%b::bigint[]) RETURNING checksum"
)
_DELETE_VECTORS: Final = "DELETE FROM {schema}.vectors WHERE tenant = %s AND seq = ANY (%b::bigint[])"
_DELETE_OUTLINES: Final = "DELETE FROM {schema}.outlines WHERE tenant = %s AND seq = ANY (%b::bigint[])"
_DELETE_SHARED: Final = (
    "DELETE FROM {schema}.shared_outlines s WHERE s.tenant = %s AND NOT EXISTS"
    " (SELECT FROM {schema}.outlines o WHERE o.tenant = s.tenant AND o.shared = s.digest)"
)
_DELETE_HEADS: Final = (
    "DELETE FROM {schema}.heads h WHERE h.tenant = %s AND h.track = ANY (%b::bigint[]) AND NOT EXISTS"
    " (SELECT FROM {schema}.assertions a WHERE a.tenant = h.tenant AND a.track = h.track AND a.head = h.id)"
)
_DELETE_ACCESSES: Final = (
    "DELETE FROM {schema}.accesses x USING unnest(%b::bytea[], %b::bytea[], %b::bigint[], %b::bytea[])"
    " AS w(name, record, seq, own) WHERE x.tenant = %s AND x.record_id = w.name AND NOT EXISTS"
    f" (SELECT FROM {{schema}}.assertions a WHERE a.tenant = x.tenant AND {OF_RECORD})"
)
_TYPES_LEFT: Final = (
    "SELECT a.track, h.doc::json ->> 'fact_type', (h.doc::json -> 'shape')::text, min(a.joined)"
    " FROM {schema}.assertions a JOIN {schema}.heads h ON h.tenant = a.tenant AND h.id = a.head"
    " WHERE a.tenant = %s AND a.track = ANY (%b::bigint[]) AND a.joined IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 4"
)
_DELETE_TRACKS: Final = (
    "DELETE FROM {schema}.tracks t WHERE t.tenant = %s AND t.id = ANY (%b::bigint[]) AND NOT EXISTS"
    " (SELECT FROM {schema}.assertions a WHERE a.tenant = t.tenant AND a.track = t.id)"
)
_RETYPE: Final = (
    "UPDATE {schema}.tracks t SET fact_type = w.fact_type, shapes = w.shapes"
    " FROM unnest(%b::bigint[], %b::text[], %b::text[]) AS w(id, fact_type, shapes)"
    " WHERE t.tenant = %s AND t.id = w.id"
)
_NOTE: Final = (
    "INSERT INTO {schema}.erasures(tenant, seq, by_transaction, files)"
    f" VALUES (%s, %s, pg_current_xact_id(), {_FILES})"
)
_NOTES: Final = "SELECT seq, rewritten IS NOT NULL, until IS NOT NULL FROM {schema}.erasures WHERE tenant = %s"
# A transaction that is older than the deletion still sees the rows: a rewritten table keeps them for it.
_REWRITABLE: Final = (
    f"SELECT {_SIZE} <= %s AND NOT EXISTS (SELECT FROM pg_stat_activity p, {{schema}}.erasures e"
    " WHERE e.tenant = %s AND e.rewritten IS NULL AND p.datname = current_database() AND p.pid <> pg_backend_pid()"
    " AND greatest(age(p.backend_xmin), age(p.backend_xid)) >= age(e.by_transaction::xid))"
)
_REWRITTEN: Final = (
    "UPDATE {schema}.erasures e SET rewritten = pg_current_wal_insert_lsn() WHERE e.tenant = %s"
    " AND e.rewritten IS NULL AND e.seq = ANY (%b::bigint[]) AND NOT EXISTS"
    f" (SELECT FROM unnest(e.files, {_FILES}) AS f(was, now) WHERE f.was = f.now)"
)
_MAY_LIST: Final = "SELECT has_function_privilege('pg_ls_waldir()', 'EXECUTE')"
_BYTES_OF_FILE: Final = "pg_size_bytes(current_setting('wal_segment_size'))"
# Once every file of the WAL is newer than the rewriting, those that are there are written over, up to the last one.
_LISTED: Final = (
    "WITH files AS (SELECT ('x' || substr(name, 9, 8))::bit(32)::bigint * (4294967296 / {size})"
    " + ('x' || substr(name, 17))::bit(32)::bigint AS number"
    " FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$')"
    " UPDATE {schema}.erasures SET until = '0/0'::pg_lsn + (SELECT (max(number) + 1) * {size} FROM files)"
    " WHERE tenant = %s AND rewritten IS NOT NULL AND until IS NULL"
    " AND '0/0'::pg_lsn + (SELECT min(number) * {size} FROM files) > rewritten"
).replace("{size}", _BYTES_OF_FILE)
# A server keeps no more than that of its own accord.
_ESTIMATED: Final = (
    "UPDATE {schema}.erasures SET until = rewritten + 2 * pg_size_bytes(current_setting('max_wal_size'))"
    " WHERE tenant = %s AND rewritten IS NOT NULL AND until IS NULL"
)
_IS_CLUSTER: Final = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
_FINISHED: Final = "DELETE FROM {schema}.erasures WHERE tenant = %s AND until <= pg_current_wal_flush_lsn()"


class Eraser:
    """Erases assertions of a tenant.

    Args:
        server: The database.
    """

    def __init__(self, server: Server) -> None:
        self._server = server

    def erase(self, record_ids: Collection[str], assertion_ids: Collection[str], tenant: str | None) -> EraseReceipt:
        """Erase assertions, and go on with earlier erasures; see `Erases.erase`."""
        erased = 0
        if record_ids or assertion_ids:
            erased = self._server.write(lambda session: _delete(session, record_ids, assertion_ids, tenant))
        return EraseReceipt(erased=erased, pending=not self._finish(tenant))

    def pending(self, tenant: str | None) -> int:
        """Return the number of a tenant's erasures whose bytes may be left somewhere."""
        return len(self._notes(tenant))

    def _notes(self, tenant: str | None) -> list[Row]:
        found = self._server.read(tenant, (_NOTES, [bytes_of(tenant)]))
        return found[0] if found else []

    def _finish(self, tenant: str | None) -> bool:
        notes = self._notes(tenant)
        if not notes:
            return True
        if (self._server.read(None, (_IS_CLUSTER, ())) or [[(False,)]])[0][0][0]:
            return False
        if waiting := [seq for seq, rewritten, _ in notes if not rewritten]:
            self._rewrite(tenant, waiting)
        name = bytes_of(tenant)

        def go_on(session: Session) -> Ending[None]:
            ((may_list,),) = session.ask(of_tenant(tenant), (_MAY_LIST, ()))[1]
            return Ending(None, [(_LISTED if may_list else _ESTIMATED, [name]), (_FINISHED, [name])])

        self._server.write(go_on)
        return not self._notes(tenant)

    def _rewrite(self, tenant: str | None, waiting: Sequence[int]) -> None:
        """Rewrite the tables, unless they are large or in use; without the right to, nothing happens."""
        name = bytes_of(tenant)
        for left in reversed(range(_TRIES)):
            found = self._server.read(tenant, (_REWRITABLE, [_MOST_BYTES, name]))
            if found and found[0][0][0]:
                try:
                    self._server.maintain(_REWRITE)
                except ProviderError:
                    return  # no room for a copy: the next erasure goes on
                self._server.write(lambda _: Ending(None, [of_tenant(tenant), (_REWRITTEN, [name, list(waiting)])]))
                if not any(seq in waiting and not rewritten for seq, rewritten, _ in self._notes(tenant)):
                    return
            if left:
                time.sleep(_PAUSE)


def named(name: bytes, record_ids: Collection[str], assertion_ids: Collection[str]) -> Step:
    """Return the step that looks for assertions of a tenant: number, id, record and track of each, in order."""
    records = [record_key(id) for id in record_ids]
    singly = [assertion_key(id) for id in assertion_ids]
    return _NAMED, [
        [record for record, _, _ in records],
        name,
        [seq for _, seq, _ in records],
        [own for _, _, own in records],
        name,
        [seq for seq, _, _ in singly],
        [own for _, own, _ in singly],
        [id for _, _, id in singly],
        name,
        name,
    ]


def _delete(
    session: Session, record_ids: Collection[str], assertion_ids: Collection[str], tenant: str | None
) -> Ending[int]:
    name = bytes_of(tenant)
    *_, counter, gone = session.ask(*locked_counter(tenant), named(name, record_ids, assertion_ids))
    if not gone or not counter:
        return Ending(0)
    ((seq, total, recorded_at, _),) = counter
    taken, settling = delete_rows(session, name, gone)
    graves = [
        Tombstone(assertion_id=assertion_id(row[1], row[0]), seq=at) for at, row in enumerate(gone, start=seq + 1)
    ]
    sums = [tombstone_sum(name, grave) for grave in graves]
    last = graves[-1].seq
    steps: list[Step] = [
        *settling,
        (BURY, [name, [grave.seq for grave in graves], sums, [packed(grave.assertion_id) for grave in graves]]),
        (_NOTE, [name, last]),
        (COUNT, [last, total - taken + sum(sums), recorded_at, name]),
    ]
    return Ending(len(gone), steps, [*locked_counter(tenant), (IS_BURIED, [name, graves[0].seq, sums[0]])])


def delete_rows(session: Session, name: bytes, gone: Sequence[Row]) -> tuple[int, list[Step]]:
    """Delete assertions with all that belongs to them.

    Args:
        session: Transaction.
        name: Tenant, as it is stored.
        gone: Rows of `named`.

    Returns:
        The sum of the checksums of the deleted rows, and the steps that drop empty tracks and erased types.
    """
    seqs, tracks = [row[0] for row in gone], sorted({row[3] for row in gone})
    records = {record_of(record_id, assertion_id(id, seq)) for seq, id, record_id, _ in gone}
    keys = [list(column) for column in zip(*((bytes_of(id), *record_key(id)) for id in records), strict=True)]
    said, changed, *_, types = session.ask(
        (_DELETE_ASSERTIONS, [name, seqs]),
        (_DELETE_STATES, [name, seqs]),
        (_DELETE_VECTORS, [name, seqs]),
        (_DELETE_OUTLINES, [name, seqs]),
        (_DELETE_SHARED, [name]),
        (_DELETE_HEADS, [name, tracks]),
        (_DELETE_ACCESSES, [*keys, name]),
        (_TYPES_LEFT, [name, tracks]),
    )
    settling: list[Step] = [(_DELETE_TRACKS, [name, tracks]), (_RETYPE, [tracks, *_retyped(tracks, types), name])]
    return sum(check for (check,) in (*said, *changed)), settling


def _retyped(tracks: Sequence[int], types: Sequence[Row]) -> tuple[list[str | None], list[str]]:
    """Return the types of tracks, and their shapes as JSON, from what is left in them."""
    found: dict[int, list[str]] = {track: [] for track in tracks}
    kinds: dict[int, str | None] = dict.fromkeys(tracks)
    for track, fact_type, shape, _ in types:
        kinds[track] = kinds[track] or FactType(fact_type).value
        found[track].append(shape)
    return [kinds[track] for track in tracks], [f"[{', '.join(shapes)}]" for shapes in found.values()]
