"""Blocking half of the provider: every operation as one transaction of the store."""

from __future__ import annotations

import datetime as dt
import functools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

import apsw
import attrs

from factmem.abc.capabilities import Access, EmbedderIdentity, EraseReceipt, LogPart
from factmem.abc.clock import Clock
from factmem.abc.outlines import Outline, Outlined
from factmem.errors import CapabilityError, CorruptStoreError, NewerVersionError
from factmem.findings import Finding, FindingKind, finding_of
from factmem.private_files import is_exposed
from factmem.providers.foreign_rows import checked_tenants
from factmem.providers.planning import SteadyClock
from factmem.providers.rows import (
    SEQ_MASK,
    binds_anew,
    damaged_vectors,
    in_order,
    microseconds,
    moment_at,
    outline_body,
    part_of,
    place_digest,
    prepared_part,
    read_assertion,
    read_embedder,
    read_outlines,
    unpack_id,
    unpack_moment,
    unpack_record_id,
    written_embedder,
)
from factmem.providers.threaded import AppendEach, Request, commit_prepared
from factmem.records import LogEntry, Place, Recorded, Tombstone
from factmem.vectors import unit_vector
from factmem_sqlite_vec.schema import FORMAT, found_version
from factmem_sqlite_vec.store import Store
from factmem_sqlite_vec.tables import (
    ACCESSES_THERE,
    ASSERTION_COLUMNS,
    LAST_SEQS,
    MOVED,
    OF_RECORD,
    OF_SLOTS,
    OF_VECTORS,
    STATE_COLUMNS,
    VECTORS,
    Row,
    base_of,
    check_place,
    check_tenant,
    copied,
    format_version,
    keyed,
    newest_seq,
    of_tenant,
    outlines_version,
    read_slots,
    read_state,
    record_key,
    select,
    slots_of,
    state_changes,
    sum_of_vectors,
    sum_of_vectors_kept,
    tenants_with_sums,
    use_outlines,
)
from factmem_sqlite_vec.writing import Batch, Known, head_of, scrub, scrub_is_due, write_batch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SqliteEngine"]

P = ParamSpec("P")
T = TypeVar("T")

_LARGEST: Final = 2**63 - 1
_MOST_DIMENSIONS: Final = 8192
_MOST_PROBLEMS: Final = 10

_ACCESSES: Final = """
CREATE TABLE IF NOT EXISTS accesses(
  record_id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  count INTEGER NOT NULL,
  last INTEGER NOT NULL
) STRICT, WITHOUT ROWID
"""
"""Table of access counts, created by the first count."""

_REFERENCES: Final = (
    (
        "change(s) of state name assertions that are not there",
        "SELECT count(*) FROM state_changes WHERE assertion NOT IN (SELECT seq FROM assertions WHERE seq IS NOT NULL)",
    ),
    (
        "assertion(s) name a track that is not there",
        "SELECT count(*) FROM assertions WHERE track NOT IN (SELECT id FROM tracks)",
    ),
    (
        "assertion(s) name a head that is not there",
        "SELECT count(*) FROM assertions WHERE head NOT IN (SELECT id FROM heads)",
    ),
)

_RESTORE: Final = "restore it from a backup, or export what can still be read"


def _reads(
    query: Callable[Concatenate[SqliteEngine, apsw.Connection, P], T],
) -> Callable[Concatenate[SqliteEngine, P], T]:
    """Give a query a connection in one state of the store."""

    @functools.wraps(query)
    def read(self: SqliteEngine, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.store.read(lambda connection: query(self, connection, *args, **kwargs))

    return read


def _writes(work: Callable[Concatenate[SqliteEngine, Batch, P], None]) -> Callable[Concatenate[SqliteEngine, P], None]:
    """Give a function a write transaction of its own."""

    @functools.wraps(work)
    def write(self: SqliteEngine, /, *args: P.args, **kwargs: P.kwargs) -> None:
        self.store.write(lambda connection: self._batch(connection, lambda batch: work(self, batch, *args, **kwargs)))

    return write


class SqliteEngine:
    """Reads and writes a store; see `factmem.providers.DatabaseEngine` and `ScansVectors`.

    Args:
        store: Open file.
        clock: Returns the time of recording.

    Attributes:
        store: Open file.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store: Store = store
        self._clock = SteadyClock(clock)
        self._bound: EmbedderIdentity | None = None
        self._outlines: int | None = None
        self._known: Known | None = None

    def _batch(
        self, connection: apsw.Connection, work: Callable[[Batch], Any], known: Known | None = None
    ) -> Known | None:
        self._known = None
        return write_batch(connection, self._clock, self._bound, work, outlines=self._outlines, known=known)

    def commit(self, requests: Sequence[Request]) -> None:
        """Write requests in one transaction, each whole or not at all."""

        def write(connection: apsw.Connection, append_each: AppendEach) -> None:
            self._known = self._batch(connection, lambda batch: append_each(batch.append), self._known)

        commit_prepared(requests, lambda _, each: self.store.write(partial(write, append_each=each)))

    @_reads
    def entries(self, connection: apsw.Connection, place: Place, keyword: str | None) -> Sequence[LogEntry]:
        """Return the log of a place, of one concept or of all."""
        ((key,),) = select(connection, "SELECT value FROM meta WHERE key = 'key'")
        wanted = [keyed(key, place_digest(place)), *([] if keyword is None else [keyed(key, keyword)])]
        here = "FROM tracks t CROSS JOIN assertions a ON a.track = t.id"
        where = "WHERE t.place = ?" if keyword is None else "WHERE t.place = ? AND t.keyword = ?"
        said = select(connection, f"SELECT {ASSERTION_COLUMNS} {here} {where}", wanted)
        changed = state_changes(
            connection,
            f"SELECT a.id, {STATE_COLUMNS} {here} CROSS JOIN state_changes s ON s.assertion = a.seq {where}",
            wanted,
        )
        log = _log(said, changed)
        check_place(connection, *wanted, said=said, changed=changed)
        return log

    @_reads
    def version(self, connection: apsw.Connection, tenant: str | None) -> int:
        """Return the newest sequence number of a tenant."""
        return newest_seq(connection, tenant)

    @_reads
    def embedder(self, connection: apsw.Connection) -> EmbedderIdentity | None:
        """Return the embedder that the store is bound to."""
        return _bound_embedder(connection)

    def use_embedder(self, identity: EmbedderIdentity, *, replace: bool) -> None:
        """Bind the store to an embedder; write only if the binding changes."""
        if not 1 <= identity.dimension <= _MOST_DIMENSIONS:
            raise CapabilityError(
                f"sqlite-vec keeps vectors of 1 to {_MOST_DIMENSIONS} dimensions, not of {identity.dimension}: "
                "use an embedder with fewer"
            )
        if binds_anew(self.embedder(), identity, replace=replace):
            self._bind(identity, replace=replace)
        self._bound = identity

    @_writes
    def _bind(self, batch: Batch, identity: EmbedderIdentity, *, replace: bool) -> None:
        if binds_anew(batch.embedder, identity, replace=replace):
            connection = batch.connection
            connection.execute(f"DROP TABLE vectors; {VECTORS}; UPDATE assertions SET vector = NULL; {MOVED}")
            connection.execute("DELETE FROM sums WHERE place IN (?, ?)", (OF_VECTORS, OF_SLOTS))
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('embedder', ?)", (written_embedder(identity),))

    @_writes
    def put_vectors(self, batch: Batch, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """Store vectors of a tenant's assertions."""
        batch.replace_vectors(tenant, {seq: batch.storable(unit_vector(vector)) for seq, vector in vectors.items()})

    def vectors(self, tenant: str | None, since: int) -> tuple[Sequence[int], NDArray[np.float32]]:
        """Return the vectors of a tenant.

        Raises:
            CorruptStoreError: A vector was changed. The facts are not affected.
        """
        seqs, rows, whole = self.store.read(partial(_vectors, tenant=tenant, since=since))
        # Raised outside of the store's own checks, which would refuse further writes: vectors can be recomputed.
        if not whole:
            raise damaged_vectors(self.store.name)
        return seqs, rows

    @_writes
    def add_accesses(self, batch: Batch, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        """Add to the counts of records."""
        batch.connection.execute(_ACCESSES)
        base = base_of(batch.connection, tenant)
        batch.connection.executemany(
            f"INSERT INTO accesses SELECT ?, ?, ?, ? FROM assertions WHERE {OF_RECORD} AND seq > ? AND seq <= ? LIMIT 1"
            " ON CONFLICT(record_id) DO UPDATE SET count = count + excluded.count, last = max(last, excluded.last)",
            [
                (
                    *(id, tenant or "", access.count, microseconds(access.last)),
                    *record_key(id, base),
                    *(base, base + SEQ_MASK),
                )
                for id, access in accesses.items()
                if access.last is not None
            ],
        )

    @_reads
    def accesses(
        self, connection: apsw.Connection, tenant: str | None, record_ids: Collection[str]
    ) -> Mapping[str, Access]:
        """Return the counts of records."""
        if not select(connection, ACCESSES_THERE):
            return {}
        rows = select(
            connection,
            "SELECT a.record_id, a.count, a.last FROM json_each(?) j CROSS JOIN accesses a"
            " ON a.record_id = j.value AND a.tenant = ?",
            (json.dumps(list(record_ids)), tenant or ""),
        )
        return {id: Access(count=count, last=moment_at(last)) for id, count, last in rows}

    def erase(self, record_ids: Collection[str], assertion_ids: Collection[str], tenant: str | None) -> EraseReceipt:
        """Erase assertions, then every copy of their bytes."""
        erased: list[int] = []

        def delete(batch: Batch) -> None:
            erased[:] = [batch.erase(record_ids, assertion_ids, tenant)]

        def erase(connection: apsw.Connection) -> EraseReceipt:
            try:
                self._batch(connection, delete)
            except apsw.FullError:
                # Once its pages are in the file, the log is written over from its beginning, and need not grow.
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
                self._batch(connection, delete)
            pending = scrub_is_due(connection) and not scrub(connection)
            return EraseReceipt(erased=erased[0], pending=pending)

        return self.store.write(erase)

    @_reads
    def tenants(self, connection: apsw.Connection) -> Sequence[str | None]:
        """Return the tenants with a log, or with a copy that has begun."""
        wanted = (
            "SELECT name FROM tenants WHERE copying OR EXISTS (SELECT 1 FROM sums WHERE place = ? AND keyword = name)"
            " ORDER BY name"
        )
        return [name or None for (name,) in select(connection, wanted, LAST_SEQS[:1])]

    @_reads
    def log_part(
        self, connection: apsw.Connection, tenant: str | None, since: int, limit: int | None, *, vectors: bool
    ) -> LogPart:
        """Return a part of the log of a tenant."""
        return _part(connection, tenant, since, limit, vectors=vectors)

    @_writes
    def mark_copies(self, batch: Batch, tenants: Sequence[str | None], *, unfinished: bool) -> None:
        """Mark tenants as unfinished or finished copies."""
        for tenant in tenants if unfinished else ():
            batch.enter(tenant)
        names = [(unfinished, tenant or "") for tenant in tenants]
        batch.connection.executemany("UPDATE tenants SET copying = ? WHERE name = ?", names)

    def copied(self, tenant: str | None) -> int | None:
        """Return the number up to which an unfinished copy is complete."""
        return self.store.read(partial(copied, tenant=tenant)) if self.store.is_there() else None

    def put_log_part(self, tenant: str | None, part: LogPart) -> None:
        """Append a part to an unfinished copy."""
        rows = prepared_part(part)
        self.store.write(lambda connection: self._batch(connection, lambda batch: batch.take(part, rows, tenant)))

    def format_versions(self) -> tuple[int, int]:
        """Return the version of the file's format, and the newest one."""
        found = self.store.read(format_version, as_it_is=True) if self.store.is_there() else 0
        return found, FORMAT

    def upgrade(self, progress: Callable[[int, int], None], *, create: bool) -> None:
        """Bring the file to the newest format, and compact it."""
        if create or self.store.is_there():
            progress(0, 2)
            self.store.write(lambda connection: None)  # opening it for writing does it
            progress(1, 2)
            self.store.write(scrub)
        progress(2, 2)

    def check(self, progress: Callable[[int, int], None]) -> Sequence[Finding]:
        """Check the database and the modes of its files."""
        name = self.store.name
        found: list[Finding] = []
        try:
            if not self.store.is_there():
                advice = "check the path: a store is made by the first write"
                return [Finding(kind=FindingKind.MISSING, part=name, problem="no store", advice=advice)]
            found += self.store.read(lambda connection: list(_of_file(connection, name)), as_it_is=True)
            found += self.store.read(lambda connection: list(_astray(connection, name)))
            found += checked_tenants(self, self.store.read(_all_tenants), progress)
        except (CorruptStoreError, NewerVersionError) as error:
            found.append(finding_of(error, name))
        return [*found, *map(_exposed, filter(is_exposed, self.store.files()))]

    def close(self) -> None:
        """Finish pending erasures, unless another process is in the way, and close the file."""
        self.store.close(_tidy)

    def use_outlines(self, version: int) -> None:
        """Set the version of the outlines in use."""
        self._outlines = version
        if self.store.read_only or not self.store.is_there():
            return  # the first write creates them
        if self.store.read(outlines_version) != version:
            self._use_outlines(version)

    @_writes
    def _use_outlines(self, batch: Batch, version: int) -> None:
        use_outlines(batch.connection, version)

    def put_outlines(self, tenant: str | None, outlines: Mapping[int, Outline]) -> None:
        """Store outlines; do nothing if the store is read-only."""
        if not self.store.read_only:
            self._put_outlines(tenant, outlines)

    @_writes
    def _put_outlines(self, batch: Batch, tenant: str | None, outlines: Mapping[int, Outline]) -> None:
        connection = batch.connection
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

    @_reads
    def outlined(self, connection: apsw.Connection, tenant: str | None, since: int, limit: int) -> Outlined:
        """Return a tenant's log after a sequence number, with outlines in place of assertions."""
        since, version = min(since, _LARGEST), self._outlines
        if since <= 0:
            _check_complete(connection, tenant)
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
        ahead = 0
        if since <= 0 and usable:
            behind = of_tenant(connection, tenant, until)
            ((ahead,),) = select(connection, "SELECT count(*) FROM assertions WHERE seq > ? AND seq <= ?", behind)
        return read_outlines(
            seqs,
            [parts[number] for number in numbers],
            bodies,
            missing=missing,
            rest=_log([], _changed(connection, part), _erased(connection, part)),
            until=until,
            ahead=ahead,
        )

    @_reads
    def recorded(
        self, connection: apsw.Connection, tenant: str | None, seqs: Sequence[int]
    ) -> tuple[Sequence[Recorded | None], int]:
        """Return assertions of a tenant by sequence number, and its newest one."""
        base = base_of(connection, tenant)
        rows = connection.executemany(  # for ten rows, twice as fast as a join with their keys
            f"SELECT {ASSERTION_COLUMNS} FROM assertions a WHERE a.seq = ?", [(base + seq,) for seq in seqs]
        ).fetchall()
        found = {item.seq: item for item in map(read_assertion, rows)}
        return [found.get(seq) for seq in seqs], newest_seq(connection, tenant)

    @_reads
    def vector_numbers(self, connection: apsw.Connection, tenant: str | None, since: int) -> NDArray[np.int64]:
        """See `ScansVectors.vector_numbers`."""
        import numpy as np

        if _bound_embedder(connection) is None:
            return np.empty(0, np.int64)
        keys: NDArray[np.int64] = slots_of(connection, of_tenant(connection, tenant, since))[0]
        return keys & SEQ_MASK

    @_reads
    def products(
        self, connection: apsw.Connection, tenant: str | None, vector: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """See `ScansVectors.products`."""
        import numpy as np

        keys, slots = slots_of(connection, of_tenant(connection, tenant))
        dots = np.zeros(len(keys), np.float32)
        for places, rows in read_slots(connection, slots, len(vector)):
            dots[places] = rows @ vector
        return keys & SEQ_MASK, dots

    @_reads
    def vectors_of(
        self, connection: apsw.Connection, tenant: str | None, seqs: NDArray[np.int64], dimension: int
    ) -> NDArray[np.float32]:
        """See `ScansVectors.vectors_of`."""
        import numpy as np

        rows = select(
            connection,
            "SELECT coalesce(a.vector, -1) FROM json_each(?) j LEFT JOIN assertions a ON a.seq = j.value"
            " ORDER BY j.key",
            (json.dumps((seqs + base_of(connection, tenant)).tolist()),),
        )
        return _gathered(connection, np.array([slot for (slot,) in rows], np.int64), dimension)


def _bound_embedder(connection: apsw.Connection) -> EmbedderIdentity | None:
    found = select(connection, "SELECT value FROM meta WHERE key = 'embedder'")
    return read_embedder(found[0][0]) if found else None


def _part(connection: apsw.Connection, tenant: str | None, since: int, limit: int | None, *, vectors: bool) -> LogPart:
    """See `factmem.providers.threaded.Engine.log_part`."""
    if since <= 0:
        _check_complete(connection, tenant)
    entries = _log(*_rows(connection, of_tenant(connection, tenant, since), -1 if limit is None else limit + 1))
    part = part_of(entries, {}, since=since, limit=limit, newest=newest_seq(connection, tenant))
    identity = _bound_embedder(connection) if vectors else None
    if identity is None:
        return part
    found: dict[int, NDArray[np.float32]] = {}
    keys, slots = slots_of(connection, of_tenant(connection, tenant, since, part.until))
    seqs = (keys & SEQ_MASK).tolist()
    for places, rows in read_slots(connection, slots, identity.dimension):
        found.update({seqs[place]: row for place, row in zip(places.tolist(), rows, strict=True)})
    return attrs.evolve(part, vectors=found)


def _rows(
    connection: apsw.Connection, part: tuple[int, int], limit: int = -1
) -> tuple[list[Row], list[Row], list[Row]]:
    """Return the assertions, changes of state and tombstones in a part of a log, at most some of each."""
    said = select(
        connection,
        f"SELECT {ASSERTION_COLUMNS} FROM assertions a WHERE a.seq > ? AND a.seq <= ? ORDER BY a.seq LIMIT ?",
        (*part, limit),
    )
    return said, _changed(connection, part, limit), _erased(connection, part, limit)


def _changed(connection: apsw.Connection, part: tuple[int, int], limit: int = -1) -> list[Row]:
    return state_changes(
        connection,
        f"SELECT a.id, {STATE_COLUMNS} FROM state_changes s CROSS JOIN assertions a ON a.seq = s.assertion"
        " WHERE s.seq > ? AND s.seq <= ? ORDER BY s.seq LIMIT ?",
        (*part, limit),
    )


def _erased(connection: apsw.Connection, part: tuple[int, int], limit: int = -1) -> list[Row]:
    """Return the ids and sequence numbers of tombstones in a part of a tenant's log; see `of_tenant`."""
    where = "seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
    rows = select(connection, f"SELECT assertion_id, seq FROM tombstones WHERE {where}", (*part, limit))
    return [(id, key & SEQ_MASK) for id, key in rows]


def _log(said: Sequence[Row], changed: Sequence[Row], erased: Sequence[Row] = ()) -> list[LogEntry]:
    return in_order(
        map(read_assertion, said),
        map(read_state, changed),
        (Tombstone(assertion_id=id, seq=seq) for id, seq in erased),
    )


def _check_complete(connection: apsw.Connection, tenant: str | None) -> None:
    """Raise if rows of a tenant were lost; those that are there are checked when they are read."""
    log = of_tenant(connection, tenant)
    total = "SELECT coalesce(sum(checksum), 0) FROM assertions WHERE seq > ? AND seq <= ?"
    ((of_assertions,),) = select(connection, total, log)
    query = f"SELECT '', {STATE_COLUMNS} FROM state_changes s WHERE seq > ? AND seq <= ?"
    changed = state_changes(connection, query, log)
    check_tenant(connection, tenant or "", [(0, 0, 0, 0, of_assertions)], changed, _erased(connection, log))


def _vectors(
    connection: apsw.Connection, tenant: str | None, since: int
) -> tuple[Sequence[int], NDArray[np.float32], bool]:
    """Return sequence numbers and vectors of a tenant's assertions after a sequence number, and whether they are whole.

    Vectors are whole if they were not changed; this is known if all are read of a store that keeps their sum.
    """
    import numpy as np

    kept = sum_of_vectors_kept(connection, tenant or "") if since <= 0 else None
    identity = _bound_embedder(connection)
    if identity is None:
        return [], np.empty((0, 0), dtype=np.float32), not kept
    keys, slots = slots_of(connection, of_tenant(connection, tenant, since))
    seqs = (keys & SEQ_MASK).tolist()
    matrix = _gathered(connection, slots, identity.dimension)
    return seqs, matrix, kept in (None, sum_of_vectors(seqs, matrix))


def _gathered(connection: apsw.Connection, slots: NDArray[np.int64], dimension: int) -> NDArray[np.float32]:
    """Return vectors by their slots, one a row; zeros where there is none."""
    import numpy as np

    matrix = np.zeros((len(slots), dimension), np.float32)  # numpy asks for huge pages, which are scanned faster
    for places, rows in read_slots(connection, slots, dimension):
        matrix[places] = rows
    return matrix


def _astray(connection: apsw.Connection, name: str) -> Iterator[Finding]:
    """Yield what names rows that are not there, in a database of the present format."""
    for stray, query in _REFERENCES:
        ((count,),) = select(connection, query)
        if count:
            yield Finding(kind=FindingKind.DANGLING, part=name, problem=f"{count} {stray}", advice=_RESTORE)


def _all_tenants(connection: apsw.Connection) -> list[str | None]:
    """Return the tenants that anything is kept of."""
    names = {name for (name,) in select(connection, "SELECT name FROM tenants")} | tenants_with_sums(connection)
    return [name or None for name in sorted(names)]


def _of_file(connection: apsw.Connection, name: str) -> Iterator[Finding]:
    """Yield the findings in a database as it is, whatever its format."""
    problems = [text for (text,) in select(connection, f"PRAGMA integrity_check({_MOST_PROBLEMS})")]
    if problems != ["ok"]:
        problem = f"SQLite finds {len(problems)} or more fault(s) in its pages and indexes"
        yield Finding(kind=FindingKind.DAMAGED, part=name, problem=problem, advice=_RESTORE)
    version = found_version(connection, name)
    if version < FORMAT:
        yield Finding(
            kind=FindingKind.OLDER,
            part=name,
            problem=f"it is of format {version}, and {FORMAT} is the present one",
            advice="nothing: the next write brings it up to date, or `factmem upgrade` does it now",
        )
    if scrub_is_due(connection):
        yield Finding(
            kind=FindingKind.PENDING_ERASURE,
            part=name,
            problem="bytes of erased facts, or of an older format, may be left in the file",
            advice="run `factmem erase`",
        )


def _exposed(path: Path) -> Finding:
    return Finding(
        kind=FindingKind.EXPOSED,
        part=path.name,
        problem="others than its owner may use it",
        advice=f"run  chmod go= {path}",
    )


def _tidy(connection: apsw.Connection) -> None:
    """Finish an erasure or a migration, without waiting for other processes."""
    if scrub_is_due(connection):
        connection.set_busy_timeout(0)
        scrub(connection)
