"""Blocking half of the provider: every operation as one transaction of the database."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, assert_never

from factmem.abc import Access, Clock, EmbedderIdentity, EraseReceipt, LogPart, Outline, Outlined
from factmem.codec import MAX_SEQ
from factmem.errors import CapabilityError, CorruptStoreError, FactMemError, NewerVersionError
from factmem.findings import Finding, FindingKind, finding_of, findings_in, unfinished_copy
from factmem.providers import Request, SteadyClock, TrackIndex, check_part
from factmem.providers.rows import (
    NewRow,
    OutlineRow,
    binds_anew,
    damaged_vectors,
    microseconds,
    moment_at,
    place_digest,
    prepared_part,
    read_embedder,
    read_outlines,
    written_embedder,
)
from factmem.providers.threaded import prepared_requests
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
from factmem_postgres.server import Ending, Row, Server, Session, Step, foreign_rows, of_all, of_tenant
from factmem_postgres.writing import (
    META,
    NEW_COUNTER,
    Batch,
    Eraser,
    Meta,
    Part,
    Prepared,
    delete_rows,
    locked_counter,
    named,
    outlines_steps,
    vectors_step,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "PostgresEngine",
    "Reader",
    "check_store",
]

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


class Reader:
    """Reads a store, each method in one round trip.

    Args:
        server: The database.
    """

    def __init__(self, server: Server) -> None:
        self._server = server

    def version(self, tenant: str | None) -> int:
        """Return the newest sequence number of a tenant."""
        (counter,) = self._server.read(tenant, (_COUNTER, [bytes_of(tenant)])) or [[]]
        return _newest(counter)

    def entries(self, place: Place, keyword: str | None) -> list[LogEntry]:
        """Return the log of a place, of one concept or of all."""
        tenant = place.scope.tenant
        named = None if keyword is None else bytes_of(keyword)
        wanted = [bytes_of(tenant), place_digest(place), named, named]
        found = self._server.read(tenant, (_SAID_AT_PLACE, wanted), (_CHANGED_AT_PLACE, wanted))
        return _log(bytes_of(tenant), *found) if found else []

    def changes(self, tenant: str | None, since: int) -> list[LogEntry]:
        """Return the log of a tenant after a sequence number.

        Raises:
            CorruptStoreError: Rows are damaged, or missing from a whole log.
        """
        name, since = bytes_of(tenant), _bounded(since)
        steps = [(sql, [name, since]) for sql in (_SAID, _CHANGED, _ERASED)]
        found = self._server.read(tenant, (_COUNTER, [name]), *steps)
        if not found:
            return []
        counter, said, changed, erased = found
        if since == 0:
            total = sum(row[4] for row in said) + sum(row[7] for row in changed) + sum(row[2] for row in erased)
            _check_sum(total, counter)
        return _log(name, said, changed, erased)

    def outlined(self, tenant: str | None, since: int, limit: int, version: int | None) -> Outlined:
        """Return a tenant's log after a sequence number, with outlines in place of assertions.

        Args:
            tenant: The tenant.
            since: The sequence number to start after.
            limit: Maximum number of assertions.
            version: The version of outlines in use.

        Raises:
            CorruptStoreError: Rows are damaged, or missing from the beginning of a log.
        """
        name, since, limit = bytes_of(tenant), _bounded(since), min(limit, MAX_SEQ)
        wanted = -1 if version is None else version
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

    def log_part(self, tenant: str | None, since: int, limit: int) -> LogPart:
        """Return a part of the log of a tenant, with the vectors of its assertions; see `CopiesLogs.log_part`."""
        import numpy as np

        name, since = bytes_of(tenant), _bounded(since)
        wanted = [name, since, limit + 1]
        steps: list[Step] = [
            (_COUNTER, [name]),
            (f"{_SAID} LIMIT %s", wanted),
            (f"{_CHANGED} ORDER BY s.seq LIMIT %s", wanted),
            (f"{_ERASED} ORDER BY d.seq LIMIT %s", wanted),
            (f"{_VECTORS} LIMIT %s", wanted),
        ]
        if since == 0:
            steps.append((_SUMS, [name, -1, name, -1, name, name]))
        counter, said, changed, erased, rows, *sums = self._server.read(tenant, *steps) or [[]] * 5
        if sums:
            _check_sum(sums[0][0][0], counter)
        log = _log(name, said, changed, erased)
        until = log[limit - 1].seq if len(log) > limit else max(since, _newest(counter))
        entries = log[:limit]
        here = {entry.seq for entry in entries if isinstance(entry, Recorded)}
        vectors = {seq: np.frombuffer(row, np.float32) for seq, row, _ in rows if seq in here}
        return LogPart(since=since, until=until, entries=entries, vectors=vectors)

    def recorded(self, tenant: str | None, seqs: Sequence[int]) -> tuple[list[Recorded | None], int]:
        """Return assertions of a tenant by sequence number, None for each that does not exist, and its newest number.

        Raises:
            CorruptStoreError: An assertion is damaged, or lost while its outline is there.
        """
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

    def embedder(self) -> EmbedderIdentity | None:
        """Return the embedder that the store is bound to."""
        found = self._server.read(None, (_EMBEDDER, ()))
        return read_embedder(found[0][0][0]) if found and found[0] else None

    def outlines_version(self) -> int | None:
        """Return the version of the outlines in the store, or None if it holds none."""
        found = self._server.read(None, (_OUTLINES, ()))
        return int(found[0][0][0]) if found and found[0] else None

    def vectors(self, tenant: str | None, since: int) -> tuple[list[int], NDArray[np.float32]]:
        """Return the sequence numbers and vectors of a tenant's assertions after a sequence number.

        Raises:
            CorruptStoreError: A vector was changed. The facts are not affected.
        """
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

    def accesses(self, tenant: str | None, record_ids: Collection[str]) -> dict[str, Access]:
        """Return the counts of some records of a tenant."""
        ids = {bytes_of(id): id for id in record_ids}
        found = self._server.read(tenant, (_ACCESSES, [bytes_of(tenant), list(ids)])) or [[]]
        return {ids[id]: Access(count=count, last=moment_at(last)) for id, count, last in found[0]}


def _bounded(since: int) -> int:
    return min(max(since, 0), MAX_SEQ)


def _log(tenant: bytes, said: Sequence[Row], changed: Sequence[Row], erased: Sequence[Row] = ()) -> list[LogEntry]:
    log: list[LogEntry] = [
        *map(read_recorded, said),
        *(read_state(tenant, row) for row in changed),
        *(read_tombstone(tenant, row) for row in erased),
    ]
    return sorted(log, key=lambda entry: entry.seq)


def _newest(counter: Sequence[Row]) -> int:
    return int(counter[0][0]) if counter else 0


def _check_sum(total: Any, counter: Sequence[Row]) -> None:
    """Check that the rows of a tenant are complete.

    Raises:
        CorruptStoreError: A row was lost or changed.
    """
    if int(total) != (counter[0][1] if counter else 0):
        raise CorruptStoreError("rows of the store were lost or changed: restore it from a backup")


_TENANTS: Final = "SELECT tenant, copying FROM {schema}.counters ORDER BY tenant"
_STRAY: Final = (
    "SELECT count(*) FROM {schema}.vectors v WHERE v.tenant = %s AND NOT EXISTS"
    " (SELECT FROM {schema}.assertions a WHERE a.tenant = v.tenant AND a.seq = v.seq)"
)
_REEMBED: Final = "run `factmem reembed`"


def check_store(server: Server, progress: Callable[[int, int], None]) -> list[Finding]:
    """Return the findings in a store.

    Args:
        server: The database.
        progress: Called with the number of tenants checked and the total.
    """
    try:
        found = server.read(None, of_all(), (_TENANTS, ()))
    except NewerVersionError as error:
        return [finding_of(error, server.name)]
    if found is None:
        advice = "check the address and its schema: a store is made by the first write"
        return [Finding(kind=FindingKind.MISSING, part=server.name, problem="no store", advice=advice)]
    tenants = [name.decode() or None for name, _ in found[1]]
    findings = [unfinished_copy(name.decode() or None) for name, copying in found[1] if copying]
    for done, tenant in enumerate(tenants, start=1):
        findings += _of_tenant(server, tenant)
        progress(done, len(tenants))
    return findings


def _of_tenant(server: Server, tenant: str | None) -> Iterator[Finding]:
    reader, part = Reader(server), "the default tenant" if tenant is None else f"tenant {tenant}"
    try:
        yield from findings_in(reader.changes(tenant, 0), tenant)
    except CorruptStoreError as error:
        yield finding_of(error, part)
    problem = None
    try:
        reader.vectors(tenant, 0)
    except CorruptStoreError:
        problem = "the vectors were changed"
    stray = server.read(tenant, (_STRAY, [bytes_of(tenant)])) or [[(0,)]]
    if stray[0][0][0]:
        problem = f"{stray[0][0][0]} vector(s) belong to no assertion"
    if problem is not None:
        yield Finding(kind=FindingKind.REMAKEABLE, part=part, problem=problem, advice=_REEMBED)
    if count := Eraser(server).pending(tenant):
        yield Finding(
            kind=FindingKind.PENDING_ERASURE,
            part=part,
            problem=f"bytes of {count} erasure(s) may be left in pages and in the write-ahead log; backups, archived "
            "logs and replicas are out of reach",
            advice="run `factmem erase` once the log has turned; for a large store, VACUUM FULL its tables before",
        )


_COPYABLE: Final = "SELECT tenant FROM {schema}.counters WHERE seq > 0 OR copying ORDER BY tenant"
_COPIED: Final = "SELECT seq FROM {schema}.counters WHERE tenant = %s AND copying"
_MARK: Final = "UPDATE {schema}.counters SET copying = %s WHERE tenant = %s"
_HAS_ARRIVED: Final = "SELECT 1 FROM {schema}.counters WHERE tenant = %s AND seq >= %s"


class _Copier:
    """Returns and takes parts of logs; see `CopiesLogs`.

    Args:
        server: The database.
        clock: Clock of the store, which follows the times that arrive.
    """

    def __init__(self, server: Server, clock: SteadyClock) -> None:
        self._server = server
        self._clock = clock

    def tenants(self) -> list[str | None]:
        """Return the tenants with a log, or with a copy that has begun."""
        found = self._server.read(None, of_all(), (_COPYABLE, ()))
        return [name.decode() or None for (name,) in found[1]] if found else []

    def copied(self, tenant: str | None) -> int | None:
        """Return the number up to which an unfinished copy is complete."""
        found = self._server.read(tenant, (_COPIED, [bytes_of(tenant)]))
        return int(found[0][0][0]) if found and found[0] else None

    def mark(self, tenants: Sequence[str | None], *, copying: bool) -> None:
        """Mark tenants as unfinished copies, or as finished ones."""
        steps: list[Step] = []
        for tenant in sorted(tenants, key=bytes_of):
            name = bytes_of(tenant)
            steps += [of_tenant(tenant), *([(NEW_COUNTER, [name])] if copying else []), (_MARK, [copying, name])]
        self._server.write(lambda _: Ending(None, steps))

    def put(self, tenant: str | None, part: LogPart, bound: EmbedderIdentity | None) -> None:
        """Append a part to an unfinished copy; see `CopiesLogs.put_log_part`.

        Args:
            tenant: The tenant.
            part: The part.
            bound: Embedder in use in this process, if any.
        """
        new = prepared_part(part)
        self._server.write(lambda session: _Taking(session, tenant, part, self._clock).ending(new, bound))


class _Taking:
    """A part on its way into an unfinished copy.

    Args:
        session: Transaction.
        tenant: The tenant.
        part: The part.
        clock: Clock of the store.
    """

    def __init__(self, session: Session, tenant: str | None, part: LogPart, clock: SteadyClock) -> None:
        self._session = session
        self._name = bytes_of(tenant)
        self._tenant = tenant
        self._part = part
        self._clock = clock
        self._graves = [entry for entry in part.entries if isinstance(entry, Tombstone)]

    def ending(self, rows: Sequence[NewRow], bound: EmbedderIdentity | None) -> Ending[None]:
        """Return the end of the transaction.

        Args:
            rows: Assertions of the part, prepared.
            bound: Embedder in use in this process, if any.
        """
        meta, deleted = self._begin()
        target, index = self._target(rows)
        target.take_from_sum(deleted)
        self._take(iter(rows), target, index, lambda vector: meta.storable(vector, bound))
        target.seq = self._part.until
        buried = [target.bury(self._graves)] if self._graves else []
        newest = microseconds(self._clock.newest or moment_at(0))
        proof = [*locked_counter(self._tenant), (_HAS_ARRIVED, [self._name, self._part.until])]
        return Ending(None, [*buried, *target.steps(index, meta, newest)], proof)

    def _begin(self) -> tuple[Meta, int]:
        """Check that the part continues the copy, and delete what its tombstones name; return the sum of that."""
        ids = [grave.assertion_id for grave in self._graves]
        meta, *_, counter, gone = self._session.ask(
            (META, ()), *locked_counter(self._tenant), named(self._name, (), ids)
        )
        check_part(self._part, self._tenant, counter[0][0] if counter and counter[0][3] else None)
        deleted = 0
        if gone:
            deleted, settling = delete_rows(self._session, self._name, gone)
            self._session.ask(*settling)
        return Meta.of(meta), deleted

    def _target(self, rows: Sequence[NewRow]) -> tuple[Part, TrackIndex]:
        new = {entry.id for entry in self._part.entries if isinstance(entry, Recorded)}
        changed = [entry.assertion_id for entry in self._part.entries if isinstance(entry, StateChange)]
        target, index = Part(self._tenant, list(rows), [id for id in changed if id not in new]), TrackIndex()
        target.take_in(iter(self._session.ask(*target.questions())), index, self._clock)
        return target, index

    def _take(self, rows: Iterator[NewRow], target: Part, index: TrackIndex, stored: Callable[[Any], bytes]) -> None:
        for entry in self._part.entries:
            match entry:
                case Recorded():
                    row, joined = next(rows), index.take(entry, self._tenant)
                    self._clock.reached(entry.recorded_at)
                    vector = None if row.vector is None else stored(row.vector)
                    target.append(row, entry, vector, joined=joined, outlines=None)
                case StateChange():
                    joined = index.take(entry, self._tenant)
                    self._clock.reached(entry.recorded_at)
                    target.change(entry, joined=joined)
                case Tombstone():
                    pass
                case _:
                    assert_never(entry)


T = TypeVar("T")

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


class PostgresEngine:
    """Reads and writes a database; see `factmem.providers.Engine` and `KeepsOutlines`.

    Args:
        server: The database.
        clock: Returns the time of recording.
    """

    def __init__(self, server: Server, clock: Clock) -> None:
        self._server = server
        self._clock = SteadyClock(clock)
        self._reader = Reader(server)
        self._eraser = Eraser(server)
        self._copier = _Copier(server, self._clock)
        self._bound: EmbedderIdentity | None = None
        self._outlines: int | None = None

    def commit(self, requests: Sequence[Request]) -> None:
        """Write requests in one transaction, each whole or not at all."""
        ready = prepared_requests(requests)

        def append_each(session: Session) -> Ending[None]:
            batch = self._batch(session, [rows for _, rows in ready])
            for request, rows in ready:
                request.error = None
                try:
                    request.receipts = batch.append(rows)
                except FactMemError as error:
                    request.error = error
            return batch.ending()

        if ready:
            self._write(append_each)
        for request, _ in ready:
            request.settle()

    def entries(self, place: Place, keyword: str | None) -> Sequence[LogEntry]:
        """Return the log of a place, of one concept or of all."""
        return self._read(lambda: self._reader.entries(place, keyword))

    def version(self, tenant: str | None) -> int:
        """Return the newest sequence number of a tenant."""
        return self._reader.version(tenant)

    def changes(self, tenant: str | None, since: int) -> Sequence[LogEntry]:
        """Return the log of a tenant after a sequence number."""
        return self._read(lambda: self._reader.changes(tenant, since))

    def embedder(self) -> EmbedderIdentity | None:
        """Return the embedder that the store is bound to."""
        return self._read(self._reader.embedder)

    def use_embedder(self, identity: EmbedderIdentity, *, replace: bool) -> None:
        """Bind the store to an embedder; write only if the binding changes."""
        if identity.dimension < 1:
            raise CapabilityError(f"a vector has 1 dimension at least, not {identity.dimension}: use another embedder")
        if binds_anew(self.embedder(), identity, replace=replace):
            self._server.write(lambda session: _bind(session, identity, replace=replace), exclusive=True)
        self._bound = identity

    def put_vectors(self, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """Store vectors of a tenant's assertions."""
        units = {seq: unit_vector(vector) for seq, vector in vectors.items()}

        def put(session: Session) -> Ending[None]:
            meta, *_ = session.ask((META, ()), *locked_counter(tenant))
            settings = Meta.of(meta)
            stored = {seq: settings.storable(vector, self._bound) for seq, vector in units.items()}
            return Ending(None, [vectors_step(tenant, settings.binding, stored)] if stored else [])

        self._write(put)

    def vectors(self, tenant: str | None, since: int) -> tuple[Sequence[int], NDArray[np.float32]]:
        """Return the vectors of a tenant."""
        return self._read(lambda: self._reader.vectors(tenant, since))

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
            self._write(count)

    def accesses(self, tenant: str | None, record_ids: Collection[str]) -> Mapping[str, Access]:
        """Return the counts of records."""
        return self._read(lambda: self._reader.accesses(tenant, record_ids))

    def erase(self, record_ids: Collection[str], assertion_ids: Collection[str], tenant: str | None) -> EraseReceipt:
        """Erase assertions, then every copy of their bytes that can be reached."""
        return self._read(lambda: self._eraser.erase(record_ids, assertion_ids, tenant))

    def tenants(self) -> Sequence[str | None]:
        """Return the tenants with a log, or with a copy that has begun."""
        return self._read(self._copier.tenants)

    def log_part(self, tenant: str | None, since: int, limit: int) -> LogPart:
        """Return a part of the log of a tenant."""
        return self._read(lambda: self._reader.log_part(tenant, since, limit))

    def begin_copy(self, tenants: Sequence[str | None]) -> None:
        """Mark tenants as unfinished copies."""
        self._copier.mark(tenants, copying=True)

    def copied(self, tenant: str | None) -> int | None:
        """Return the number up to which an unfinished copy is complete."""
        return self._read(lambda: self._copier.copied(tenant))

    def put_log_part(self, tenant: str | None, part: LogPart) -> None:
        """Append a part to an unfinished copy."""
        self._read(lambda: self._copier.put(tenant, part, self._bound))

    def end_copy(self, tenants: Sequence[str | None]) -> None:
        """Mark copies as finished."""
        self._copier.mark(tenants, copying=False)

    def format_versions(self) -> tuple[int, int]:
        """Return the version of the tables, and the newest one."""
        return self._server.format_version(), len(MIGRATIONS)

    def upgrade(self, progress: Callable[[int, int], None], *, create: bool) -> None:
        """Bring the tables to the newest format, in one transaction."""
        progress(0, 1)
        self._server.upgrade(create=create)
        progress(1, 1)

    def check(self, progress: Callable[[int, int], None]) -> Sequence[Finding]:
        """Check the rows of every tenant."""
        return self._read(lambda: check_store(self._server, progress))

    def close(self) -> None:
        """Close every connection."""
        self._server.close()

    def use_outlines(self, version: int) -> None:
        """Set the version of the outlines in use."""
        self._outlines = version
        stored = self._reader.outlines_version()
        if stored is not None and stored != version:
            # Those of the other version are written over one by one, as readers make new ones.
            self._server.write(lambda _: Ending(None, [(_SET, ["outlines", str(version)])]))

    def put_outlines(self, tenant: str | None, outlines: Mapping[int, Outline]) -> None:
        """Store outlines of a tenant's assertions."""

        def put(session: Session) -> Ending[None]:
            wanted = (_FOR_OUTLINES, [bytes_of(tenant), list(outlines)])
            meta, *_, rows = session.ask((META, ()), *locked_counter(tenant), wanted)
            version = Meta.of(meta).outlines
            kept = [
                OutlineRow(
                    seq=seq,
                    id=assertion_id(id, seq),
                    record_id=record_of(record_id, assertion_id(id, seq)),
                    recorded_at=moment_at(at),
                    checksum=checksum,
                    tenant=tenant or "",
                    outline=outlines[seq],
                )
                for seq, id, record_id, at, checksum in rows
                if outlines[seq].version == (self._outlines if version is None else version)
            ]
            return Ending(None, outlines_steps(tenant, kept) if kept else [])

        if outlines:
            self._write(put)

    def outlined(self, tenant: str | None, since: int, limit: int) -> Outlined:
        """Return a tenant's log after a sequence number, with outlines in place of assertions."""
        return self._read(lambda: self._reader.outlined(tenant, since, limit, self._outlines))

    def recorded(self, tenant: str | None, seqs: Sequence[int]) -> tuple[Sequence[Recorded | None], int]:
        """Return assertions of a tenant by sequence number, and its newest one."""
        return self._read(lambda: self._reader.recorded(tenant, seqs))

    def _batch(self, session: Session, requests: Sequence[Prepared]) -> Batch:
        return Batch(session, requests, self._clock, bound=self._bound, outlines=self._outlines)

    def _read(self, query: Callable[[], T]) -> T:
        with foreign_rows(self._server.name):
            return query()

    def _write(self, work: Callable[[Session], Ending[None]]) -> None:
        with foreign_rows(self._server.name):
            self._server.write(work)


def _bind(session: Session, identity: EmbedderIdentity, *, replace: bool) -> Ending[None]:
    """Bind the store to an embedder. The vectors of earlier bindings stay until they are written over."""
    meta = Meta.of(session.ask((META, ()))[0])
    if not binds_anew(meta.embedder, identity, replace=replace):
        return Ending(None)
    return Ending(None, [(_SET, ["embedder", written_embedder(identity)]), (_SET, ["binding", str(meta.binding + 1)])])
