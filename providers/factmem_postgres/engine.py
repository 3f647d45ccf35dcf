"""Blocking half of the provider: every operation as one transaction of the database."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from factmem.abc.capabilities import Access, EmbedderIdentity, EraseReceipt, LogPart
from factmem.abc.clock import Clock
from factmem.abc.outlines import Outline, Outlined
from factmem.codec import MAX_SEQ
from factmem.errors import CapabilityError, CorruptStoreError, NewerVersionError
from factmem.findings import Finding, FindingKind, finding_of
from factmem.findings import named as named_tenant
from factmem.providers import TrackIndex
from factmem.providers.foreign_rows import checked_tenants, foreign_rows
from factmem.providers.planning import SteadyClock, check_part
from factmem.providers.rows import (
    NewRow,
    PreparedRow,
    binds_anew,
    damaged_vectors,
    in_order,
    microseconds,
    moment_at,
    outline_body,
    part_of,
    place_digest,
    prepared_part,
    read_embedder,
    read_outlines,
    written_embedder,
)
from factmem.providers.threaded import AppendEach, Request, commit_prepared
from factmem.records import LogEntry, Place, Recorded, StateChange, Tombstone
from factmem.vectors import unit_vector
from factmem_postgres.rows import (
    ASSERTION_COLUMNS,
    OF_RECORD,
    STATE_COLUMNS,
    WITH_HEAD,
    assertion_id,
    bytes_of,
    read_recorded,
    read_state,
    read_tombstone,
    record_key,
    record_of,
)
from factmem_postgres.schema import MIGRATIONS
from factmem_postgres.server import Ending, Row, Server, Session, Step, of_all, of_tenant
from factmem_postgres.writing import (
    META,
    NEW_COUNTER,
    Batch,
    Eraser,
    Meta,
    OutlineRow,
    Part,
    delete_rows,
    locked_counter,
    named,
    outlines_steps,
    vectors_step,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PostgresEngine"]

P = ParamSpec("P")
T = TypeVar("T")

_COUNTER: Final = "SELECT seq, sum FROM {schema}.counters WHERE tenant = %s"
_EMBEDDER: Final = "SELECT value FROM {schema}.meta WHERE key = 'embedder'"
_OUTLINES: Final = "SELECT value::bigint FROM {schema}.meta WHERE key = 'outlines'"
_BINDING: Final = "(SELECT value::bigint FROM {schema}.meta WHERE key = 'binding')"

_OF_PLACE: Final = (
    "FROM {schema}.tracks t JOIN {schema}.assertions a ON a.tenant = t.tenant AND a.track = t.id {more}"
    " WHERE t.tenant = %s AND t.place = %s AND (%s::bytea IS NULL OR t.keyword = %s)"
)
_SAID_AT_PLACE: Final = f"SELECT {ASSERTION_COLUMNS} {_OF_PLACE.replace('{more}', WITH_HEAD)}"
_CHANGED_AT_PLACE: Final = f"SELECT {STATE_COLUMNS} " + _OF_PLACE.replace(
    "{more}", "JOIN {schema}.state_changes s ON s.tenant = a.tenant AND s.assertion = a.seq"
)

_SAID: Final = (
    f"SELECT {ASSERTION_COLUMNS} FROM {{schema}}.assertions a {WITH_HEAD} WHERE a.tenant = %s AND a.seq > %s"
    " ORDER BY a.seq"
)
_NUMBERED: Final = (
    f"SELECT {ASSERTION_COLUMNS} FROM {{schema}}.assertions a {WITH_HEAD}"
    " WHERE a.tenant = %s AND a.seq = ANY (%b::bigint[])"
)
_CHANGED: Final = (
    f"SELECT {STATE_COLUMNS} FROM {{schema}}.state_changes s"
    " LEFT JOIN {schema}.assertions a ON a.tenant = s.tenant AND a.seq = s.assertion WHERE s.tenant = %s AND s.seq > %s"
)
_ERASED: Final = (
    "SELECT d.seq, d.assertion_id, d.checksum FROM {schema}.tombstones d WHERE d.tenant = %s AND d.seq > %s"
)

# The number up to which to read, to get at most so many assertions.
_UNTIL: Final = (
    "coalesce((SELECT seq FROM {schema}.assertions WHERE tenant = %s AND seq > %s ORDER BY seq LIMIT 1 OFFSET %s), %s)"
)
_OUTLINED: Final = (
    "SELECT a.seq, o.shared, o.body FROM {schema}.assertions a"
    " LEFT JOIN {schema}.outlines o ON o.tenant = a.tenant AND o.seq = a.seq AND o.version = %s"
    " WHERE a.tenant = %s AND a.seq > %s ORDER BY a.seq LIMIT %s"
)
_SHARED: Final = (
    "SELECT s.digest, s.body FROM {schema}.shared_outlines s WHERE s.tenant = %s AND s.digest IN"
    " (SELECT o.shared FROM {schema}.outlines o WHERE o.tenant = %s AND o.seq > %s AND o.version = %s"
    f" AND o.seq <= {_UNTIL})"
)
# An outline repeats the checksum of its assertion, which then need not be read.
_SUMS: Final = (
    "SELECT coalesce((SELECT sum(checksum) FROM {schema}.outlines WHERE tenant = %s AND version = %s), 0)"
    " + coalesce((SELECT sum(a.checksum) FROM {schema}.assertions a WHERE a.tenant = %s AND NOT EXISTS"
    " (SELECT FROM {schema}.outlines o WHERE o.tenant = a.tenant AND o.seq = a.seq AND o.version = %s)), 0)"
    " + coalesce((SELECT sum(checksum) FROM {schema}.state_changes WHERE tenant = %s), 0)"
    " + coalesce((SELECT sum(checksum) FROM {schema}.tombstones WHERE tenant = %s), 0)"
)
_LEFT: Final = (
    "SELECT o.seq FROM {schema}.outlines o WHERE o.tenant = %s AND o.seq = ANY (%b::bigint[]) AND NOT EXISTS"
    " (SELECT FROM {schema}.assertions a WHERE a.tenant = o.tenant AND a.seq = o.seq)"
)

_VECTORS: Final = (
    "SELECT v.seq, v.embedding, v.checksum FROM {schema}.vectors v"
    f" WHERE v.tenant = %s AND v.seq > %s AND v.binding = {_BINDING} ORDER BY v.seq"
)
_ACCESSES: Final = (
    "SELECT record_id, count, last FROM {schema}.accesses WHERE tenant = %s AND record_id = ANY (%b::bytea[])"
)


_TENANTS: Final = "SELECT tenant FROM {schema}.counters ORDER BY tenant"
_STRAY: Final = (
    "SELECT count(*) FROM {schema}.vectors v WHERE v.tenant = %s AND NOT EXISTS"
    " (SELECT FROM {schema}.assertions a WHERE a.tenant = v.tenant AND a.seq = v.seq)"
)


_COPYABLE: Final = "SELECT tenant FROM {schema}.counters WHERE seq > 0 OR copying ORDER BY tenant"
_COPIED: Final = "SELECT seq FROM {schema}.counters WHERE tenant = %s AND copying"
_MARK: Final = "UPDATE {schema}.counters SET copying = %s WHERE tenant = %s"
_HAS_ARRIVED: Final = "SELECT 1 FROM {schema}.counters WHERE tenant = %s AND seq >= %s"


_SET: Final = "INSERT INTO {schema}.meta VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_FOR_OUTLINES: Final = (
    "SELECT seq, id, record_id, recorded_at, checksum FROM {schema}.assertions"
    " WHERE tenant = %s AND seq = ANY (%b::bigint[])"
)
_COUNT_ACCESSES: Final = (
    "INSERT INTO {schema}.accesses(tenant, record_id, count, last) SELECT %s, w.name, w.count, w.last"
    " FROM unnest(%b::bytea[], %b::bytea[], %b::bigint[], %b::bytea[], %b::bigint[], %b::bigint[])"
    " AS w(name, record, seq, own, count, last)"
    f" WHERE EXISTS (SELECT FROM {{schema}}.assertions a WHERE a.tenant = %s AND {OF_RECORD})"
    " ON CONFLICT (tenant, record_id) DO UPDATE SET count = accesses.count + excluded.count,"
    " last = greatest(accesses.last, excluded.last)"
)


def _guarded(method: Callable[Concatenate[PostgresEngine, P], T]) -> Callable[Concatenate[PostgresEngine, P], T]:
    """Convert the errors of rows that factmem never wrote."""

    @functools.wraps(method)
    def guarded(self: PostgresEngine, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with foreign_rows(self._server.name):
            return method(self, *args, **kwargs)

    return guarded


class PostgresEngine:
    """Reads and writes a database; see `factmem.providers.threaded.DatabaseEngine`.

    Args:
        server: The database.
        clock: Returns the time of recording.
    """

    def __init__(self, server: Server, clock: Clock) -> None:
        self._server = server
        self._clock = SteadyClock(clock)
        self._bound: EmbedderIdentity | None = None
        self._outlines: int | None = None

    @_guarded
    def commit(self, requests: Sequence[Request]) -> None:
        """Write requests in one transaction, each whole or not at all."""

        def write(rows: Sequence[Sequence[PreparedRow]], append_each: AppendEach) -> None:
            def append(session: Session) -> Ending[None]:
                batch = Batch(session, rows, self._clock, bound=self._bound, outlines=self._outlines)
                append_each(batch.append)
                return batch.ending()

            self._server.write(append)

        commit_prepared(requests, write)

    def version(self, tenant: str | None) -> int:
        """Return the newest sequence number of a tenant."""
        (counter,) = self._server.read(tenant, (_COUNTER, [bytes_of(tenant)])) or [[]]
        return _newest(counter)

    @_guarded
    def entries(self, place: Place, keyword: str | None) -> Sequence[LogEntry]:
        """Return the log of a place, of one concept or of all."""
        tenant = place.scope.tenant
        named = None if keyword is None else bytes_of(keyword)
        wanted = [bytes_of(tenant), place_digest(place), named, named]
        found = self._server.read(tenant, (_SAID_AT_PLACE, wanted), (_CHANGED_AT_PLACE, wanted))
        return _log(bytes_of(tenant), *found) if found else []

    @_guarded
    def embedder(self) -> EmbedderIdentity | None:
        """Return the embedder that the store is bound to."""
        found = self._server.read(None, (_EMBEDDER, ()))
        return read_embedder(found[0][0][0]) if found and found[0] else None

    def use_embedder(self, identity: EmbedderIdentity, *, replace: bool) -> None:
        """Bind the store to an embedder; write only if the binding changes."""
        if identity.dimension < 1:
            raise CapabilityError(f"a vector has 1 dimension at least, not {identity.dimension}: use another embedder")
        if binds_anew(self.embedder(), identity, replace=replace):
            self._server.write(lambda session: _bind(session, identity, replace=replace), exclusive=True)
        self._bound = identity

    @_guarded
    def put_vectors(self, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """Store vectors of a tenant's assertions."""
        units = {seq: unit_vector(vector) for seq, vector in vectors.items()}

        def put(session: Session) -> Ending[None]:
            meta, *_ = session.ask((META, ()), *locked_counter(tenant))
            settings = Meta.of(meta)
            stored = {seq: settings.storable(vector, self._bound) for seq, vector in units.items()}
            return Ending(None, [vectors_step(tenant, settings.binding, stored)] if stored else [])

        self._server.write(put)

    @_guarded
    def vectors(self, tenant: str | None, since: int) -> tuple[Sequence[int], NDArray[np.float32]]:
        """Return the vectors of a tenant."""
        import numpy as np

        found = self._server.read(tenant, (_EMBEDDER, ()), (_VECTORS, [bytes_of(tenant), _bounded(since)]))
        identity = read_embedder(found[0][0][0]) if found and found[0] else None
        if not found or identity is None:
            return [], np.empty((0, 0), dtype=np.float32)
        width = 4 * identity.dimension
        if any(len(row) != width or zlib.crc32(row, seq & 0xFFFFFFFF) != expected for seq, row, expected in found[1]):
            raise damaged_vectors(self._server.name)
        rows = bytearray().join(row for _, row, _ in found[1])
        return [seq for seq, _, _ in found[1]], np.frombuffer(rows, np.float32).reshape(-1, identity.dimension)

    @_guarded
    def add_accesses(self, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        """Add to the counts of records."""
        rows = [
            (bytes_of(id), *record_key(id), access.count, microseconds(access.last))
            for id, access in accesses.items()
            if access.last is not None
        ]
        name = bytes_of(tenant)

        def count(session: Session) -> Ending[None]:
            session.ask(*locked_counter(tenant))
            return Ending(None, [(_COUNT_ACCESSES, [name, *map(list, zip(*rows, strict=True)), name])])

        if rows:
            self._server.write(count)

    @_guarded
    def accesses(self, tenant: str | None, record_ids: Collection[str]) -> Mapping[str, Access]:
        """Return the counts of records."""
        ids = {bytes_of(id): id for id in record_ids}
        found = self._server.read(tenant, (_ACCESSES, [bytes_of(tenant), list(ids)])) or [[]]
        return {ids[id]: Access(count=count, last=moment_at(last)) for id, count, last in found[0]}

    @_guarded
    def erase(self, record_ids: Collection[str], assertion_ids: Collection[str], tenant: str | None) -> EraseReceipt:
        """Erase assertions, then every copy of their bytes that can be reached."""
        return Eraser(self._server).erase(record_ids, assertion_ids, tenant)

    @_guarded
    def tenants(self) -> Sequence[str | None]:
        """Return the tenants with a log, or with a copy that has begun."""
        found = self._server.read(None, of_all(), (_COPYABLE, ()))
        return [name.decode() or None for (name,) in found[1]] if found else []

    @_guarded
    def log_part(self, tenant: str | None, since: int, limit: int | None, *, vectors: bool) -> LogPart:
        """Return a part of the log of a tenant."""
        import numpy as np

        name, since = bytes_of(tenant), _bounded(since)
        wanted = [name, since, None if limit is None else limit + 1]
        steps: list[Step] = [
            (_COUNTER, [name]),
            (f"{_SAID} LIMIT %s", wanted),
            (f"{_CHANGED} ORDER BY s.seq LIMIT %s", wanted),
            (f"{_ERASED} ORDER BY d.seq LIMIT %s", wanted),
        ]
        if since == 0:
            steps.append((_SUMS, [name, -1, name, -1, name, name]))
        if vectors:
            steps.append((f"{_VECTORS} LIMIT %s", wanted))
        counter, said, changed, erased, *rest = self._server.read(tenant, *steps) or [[]] * 4
        if since == 0 and rest:
            _check_sum(rest[0][0][0], counter)
        rows = rest[-1] if vectors and rest else []
        found = {seq: np.frombuffer(row, np.float32) for seq, row, _ in rows}
        log = _log(name, said, changed, erased)
        return part_of(log, found, since=since, limit=limit, newest=_newest(counter))

    def mark_copies(self, tenants: Sequence[str | None], *, unfinished: bool) -> None:
        """Mark tenants as unfinished or finished copies."""
        steps: list[Step] = []
        for tenant in sorted(tenants, key=bytes_of):
            name = bytes_of(tenant)
            steps += [of_tenant(tenant), *([(NEW_COUNTER, [name])] if unfinished else []), (_MARK, [unfinished, name])]
        self._server.write(lambda _: Ending(None, steps))

    @_guarded
    def copied(self, tenant: str | None) -> int | None:
        """Return the number up to which an unfinished copy is complete."""
        found = self._server.read(tenant, (_COPIED, [bytes_of(tenant)]))
        return int(found[0][0][0]) if found and found[0] else None

    @_guarded
    def put_log_part(self, tenant: str | None, part: LogPart) -> None:
        """Append a part to an unfinished copy."""
        rows = prepared_part(part)
        self._server.write(lambda session: _taken(session, tenant, part, rows, self._clock, self._bound))

    def format_versions(self) -> tuple[int, int]:
        """Return the version of the tables, and the newest one."""
        return self._server.format_version(), len(MIGRATIONS)

    def upgrade(self, progress: Callable[[int, int], None], *, create: bool) -> None:
        """Bring the tables to the newest format, in one transaction."""
        progress(0, 1)
        self._server.upgrade(create=create)
        progress(1, 1)

    @_guarded
    def check(self, progress: Callable[[int, int], None]) -> Sequence[Finding]:
        """Check the rows of every tenant."""
        try:
            found = self._server.read(None, of_all(), (_TENANTS, ()))
        except NewerVersionError as error:
            return [finding_of(error, self._server.name)]
        if found is None:
            advice = "check the address and its schema: a store is made by the first write"
            return [Finding(kind=FindingKind.MISSING, part=self._server.name, problem="no store", advice=advice)]
        tenants = [name.decode() or None for (name,) in found[1]]
        findings = list(checked_tenants(self, tenants, progress))
        for tenant in tenants:
            findings += self._left_over(tenant)
        return findings

    def _left_over(self, tenant: str | None) -> Iterator[Finding]:
        """Yield the vectors of a tenant that belong to nothing, and its pending erasures."""
        part = named_tenant(tenant)
        stray = self._server.read(tenant, (_STRAY, [bytes_of(tenant)])) or [[(0,)]]
        if count := stray[0][0][0]:
            problem = f"{count} vector(s) belong to no assertion"
            yield Finding(kind=FindingKind.REMAKEABLE, part=part, problem=problem, advice="run `factmem reembed`")
        if count := Eraser(self._server).pending(tenant):
            yield Finding(
                kind=FindingKind.PENDING_ERASURE,
                part=part,
                problem=f"bytes of {count} erasure(s) may be left in pages and in the write-ahead log; backups, "
                "archived logs and replicas are out of reach",
                advice="run `factmem erase` once the log has turned; for a large store, VACUUM FULL its tables before",
            )

    def close(self) -> None:
        """Close every connection."""
        self._server.close()

    def use_outlines(self, version: int) -> None:
        """Set the version of the outlines in use."""
        self._outlines = version
        stored = self._outlines_version()
        if stored is not None and stored != version:
            # Those of the other version are written over one by one, as readers make new ones.
            self._server.write(lambda _: Ending(None, [(_SET, ["outlines", str(version)])]))

    def _outlines_version(self) -> int | None:
        found = self._server.read(None, (_OUTLINES, ()))
        return int(found[0][0][0]) if found and found[0] else None

    @_guarded
    def put_outlines(self, tenant: str | None, outlines: Mapping[int, Outline]) -> None:
        """Store outlines of a tenant's assertions."""

        def put(session: Session) -> Ending[None]:
            wanted = (_FOR_OUTLINES, [bytes_of(tenant), list(outlines)])
            meta, *_, rows = session.ask((META, ()), *locked_counter(tenant), wanted)
            version = Meta.of(meta).outlines
            version = self._outlines if version is None else version
            kept: list[OutlineRow] = []
            for seq, packed_id, record_id, at, check in rows:
                id, outline = assertion_id(packed_id, seq), outlines[seq]
                if outline.version == version:
                    body = outline_body(seq, id, record_of(record_id, id), moment_at(at), outline)
                    kept.append((seq, check, outline, body))
            return Ending(None, outlines_steps(tenant, kept) if kept else [])

        if outlines:
            self._server.write(put)

    @_guarded
    def outlined(self, tenant: str | None, since: int, limit: int) -> Outlined:
        """Return a tenant's log after a sequence number, with outlines in place of assertions."""
        name, since, limit = bytes_of(tenant), _bounded(since), min(limit, MAX_SEQ)
        wanted = -1 if self._outlines is None else self._outlines
        until = [name, since, limit - 1, MAX_SEQ]
        steps: list[Step] = [
            (_COUNTER, [name]),
            (_OUTLINED, [wanted, name, since, limit]),
            (_SHARED, [name, name, since, wanted, *until]),
            (f"{_CHANGED} AND s.seq <= {_UNTIL}", [name, since, *until]),
            (f"{_ERASED} AND d.seq <= {_UNTIL}", [name, since, *until]),
        ]
        if since == 0:
            steps.append((_SUMS, [name, wanted, name, wanted, name, name]))
        counter, rows, parts, changed, erased, *sums = self._server.read(tenant, *steps) or [[]] * 5
        if sums:
            _check_sum(sums[0][0][0], counter)
        there = [row for row in rows if row[2] is not None]
        shared: dict[bytes, bytes] = dict(parts)
        return read_outlines(
            [seq for seq, _, _ in there],
            [shared[digest] for _, digest, _ in there],
            [body for _, _, body in there],
            missing=[seq for seq, _, body in rows if body is None],
            rest=_log(name, [], changed, erased),
            until=rows[-1][0] if len(rows) == limit else _newest(counter),
        )

    @_guarded
    def recorded(self, tenant: str | None, seqs: Sequence[int]) -> tuple[Sequence[Recorded | None], int]:
        """Return assertions of a tenant by sequence number, and its newest one."""
        name, wanted = bytes_of(tenant), [seq for seq in set(seqs) if 0 < seq <= MAX_SEQ]
        rows, counter = self._server.read(tenant, (_NUMBERED, [name, wanted]), (_COUNTER, [name])) or [[], []]
        found = {item.seq: item for item in map(read_recorded, rows)}
        if missing := [seq for seq in wanted if seq not in found]:
            left = self._server.read(tenant, (_LEFT, [name, missing])) or [[]]
            if left[0]:
                raise CorruptStoreError(
                    f"the assertion number {left[0][0][0]} is lost: restore the store from a backup"
                )
        return [found.get(seq) for seq in seqs], _newest(counter)


def _taken(
    session: Session,
    tenant: str | None,
    part: LogPart,
    rows: Sequence[NewRow],
    clock: SteadyClock,
    bound: EmbedderIdentity | None,
) -> Ending[None]:
    """Append a part of another store's log to an unfinished copy.

    Args:
        session: Transaction.
        tenant: The tenant.
        part: The part.
        rows: Its assertions, prepared.
        clock: Clock of the store, which follows the times that arrive.
        bound: Embedder in use in this process, if any.
    """
    name = bytes_of(tenant)
    graves = [entry for entry in part.entries if isinstance(entry, Tombstone)]
    wanted = named(name, (), [grave.assertion_id for grave in graves])
    stored, *_, counter, gone = session.ask((META, ()), *locked_counter(tenant), wanted)
    check_part(part, tenant, counter[0][0] if counter and counter[0][3] else None)
    meta = Meta.of(stored)
    said = {entry.id for entry in part.entries if isinstance(entry, Recorded)}
    changed = [entry.assertion_id for entry in part.entries if isinstance(entry, StateChange)]
    target, index = Part(tenant, list(rows), [id for id in changed if id not in said]), TrackIndex()
    deleted = 0
    if gone:
        deleted, settling = delete_rows(session, name, gone)
        session.ask(*settling)
    target.take_in(iter(session.ask(*target.questions())), index, clock)
    target.take_from_sum(deleted)
    new = iter(rows)
    for entry in part.entries:
        if isinstance(entry, Tombstone):
            continue
        joined = index.take(entry, tenant)
        clock.reached(entry.recorded_at)
        if isinstance(entry, StateChange):
            target.change(entry, joined=joined)
            continue
        row = next(new)
        vector = None if row.vector is None else meta.storable(row.vector, bound)
        target.append(row, entry, vector, joined=joined, outlines=None)
    target.seq = part.until
    buried = [target.bury(graves)] if graves else []
    newest = microseconds(clock.newest or moment_at(0))
    proof = [*locked_counter(tenant), (_HAS_ARRIVED, [name, part.until])]
    return Ending(None, [*buried, *target.steps(index, meta, newest)], proof)


def _bounded(since: int) -> int:
    return min(max(since, 0), MAX_SEQ)


def _log(tenant: bytes, said: Sequence[Row], changed: Sequence[Row], erased: Sequence[Row] = ()) -> list[LogEntry]:
    return in_order(
        map(read_recorded, said),
        (read_state(tenant, row) for row in changed),
        (read_tombstone(tenant, row) for row in erased),
    )


def _newest(counter: Sequence[Row]) -> int:
    return int(counter[0][0]) if counter else 0


def _check_sum(total: Any, counter: Sequence[Row]) -> None:
    """Check that the rows of a tenant are complete.

    Raises:
        CorruptStoreError: A row was lost or changed.
    """
    if int(total) != (counter[0][1] if counter else 0):
        raise CorruptStoreError("rows of the store were lost or changed: restore it from a backup")


def _bind(session: Session, identity: EmbedderIdentity, *, replace: bool) -> Ending[None]:
    """Bind the store to an embedder. The vectors of earlier bindings stay until they are written over."""
    meta = Meta.of(session.ask((META, ()))[0])
    if not binds_anew(meta.embedder, identity, replace=replace):
        return Ending(None)
    return Ending(None, [(_SET, ["embedder", written_embedder(identity)]), (_SET, ["binding", str(meta.binding + 1)])])
