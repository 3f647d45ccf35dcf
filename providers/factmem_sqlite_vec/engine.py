"""The log in one SQLite file: reading, writing and erasing, each operation as one transaction.

Tracks hold no words: places, keywords and owners are `keyed`. The words are in the heads, which assertions share.

Rows with words (assertions, heads, changes of state, vectors) are only ever appended, and overwritten with zeros of the
same length, so that SQLite has no reason to move them and the table holds their bytes once; indexes hold none. So an
erasure

1. overwrites the rows and leaves a note, in one transaction;
2. moves the WAL, which keeps its contents until it is truncated, into the file, and deletes the note.

Where rows were moved before, by a migration or by new outlines of old assertions, SQLite may have left copies. Then the
whole file is rewritten (VACUUM, into the WAL) between these steps. A process that is killed in between leaves the note,
and the next erasure or closing of the store continues from it.
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import json
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar, assert_never

import apsw
import attrs

from factmem.abc.capabilities import Access, EmbedderIdentity, EraseReceipt, LogPart, Receipt
from factmem.abc.clock import Clock
from factmem.abc.outlines import Outline, Outlined
from factmem.errors import CapabilityError, CorruptStoreError, NewerVersionError
from factmem.facts import FactType, microseconds, moment_at
from factmem.private_files import is_exposed
from factmem.progress import Progress
from factmem.providers import TrackIndex
from factmem.providers.sql_rows import (
    SEQ_BITS,
    SEQ_MASK,
    NewRow,
    PreparedRow,
    binds_anew,
    check_vectors,
    checksum,
    damaged_vectors,
    in_order,
    new_ids,
    outline_body,
    own_record_id,
    pack_id,
    pack_record_id,
    part_of,
    place_digest,
    prepared_part,
    read_assertion,
    read_embedder,
    read_outlines,
    row_sum,
    seq_of,
    unpack_id,
    unpack_moment,
    unpack_record_id,
    written_embedder,
)
from factmem.providers.threaded import ReadyRequests, Request, checked_tenants
from factmem.providers.write_plans import Planned, Planner, SteadyClock, check_part, misfit
from factmem.records import Assertion, AssertionState, LogEntry, Place, Recorded, StateChange, Tombstone
from factmem.shapes import Shape
from factmem.store_findings import Finding, FindingKind, exposed, finding_of, no_store, pending_erasure
from factmem.vectors import unit_vector
from factmem_sqlite_vec.schema import (
    FORMAT,
    LAST_SEQS,
    OF_VECTORS,
    SLOTS,
    VECTORS,
    Row,
    format_version,
    found_version,
    keyed,
    newest_seq,
    select,
    sum_of_vectors,
    transaction,
)
from factmem_sqlite_vec.sqlite_errors import is_failed_flush
from factmem_sqlite_vec.store import Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

P = ParamSpec("P")
T = TypeVar("T")

_ASSERTION_COLUMNS: Final = (
    f"a.seq & {SEQ_MASK}, a.id, a.record_id, a.recorded_at, a.checksum, a.doc, a.said_at,"
    " (SELECT doc FROM heads WHERE id = a.head)"
)
"""Columns that `read_assertion` takes, of a table called ``a``."""

_STATE_COLUMNS: Final = "s.seq, s.assertion, s.tenant, s.state, s.recorded_at, s.reason, s.actor"
"""Columns of a change of state, of a table called ``s``."""

_OF_RECORD: Final = "(record_id = ? OR (seq = ? AND id = ? AND record_id IS NULL))"
"""Condition on the assertions of a record; see `_record_key`."""


def _key_of_id(connection: apsw.Connection, base: int, id: str) -> int | None:
    """Return the key of a tenant's assertion by its id, or None.

    Args:
        connection: Connection in a transaction.
        base: Key of the tenant's first row; see `_base_of`.
        id: Id; one that another store gave does not name its row, and is looked up.
    """
    seq = seq_of(id)
    own = "SELECT seq FROM assertions WHERE seq = ? AND id = ?"
    found = select(connection, own, (base + seq, pack_id(id, seq)))
    if not found:
        foreign = "SELECT seq FROM assertions WHERE id = ? AND typeof(id) = 'text' AND seq > ? AND seq <= ?"
        found = select(connection, foreign, (id, base, base + SEQ_MASK))
    return int(found[0][0]) if found else None


def _record_key(record_id: str, base: int) -> tuple[bytes | str, int, bytes | str]:
    """Return the arguments of `_OF_RECORD`.

    Args:
        record_id: Id of the record.
        base: Key of the tenant's first row; see `_base_of`.
    """
    seq = seq_of(record_id)
    try:
        return pack_id(record_id), base + seq, pack_id(own_record_id(record_id), seq)
    except ValueError:
        return record_id, 0, record_id


def _state_changes(connection: apsw.Connection, sql: str, arguments: Sequence[Any] = ()) -> list[Row]:
    """Return the changes of state of a query for an id and `_STATE_COLUMNS`, as `_read_state` takes them."""
    rows = select(connection, sql, arguments)
    return [(id, key & SEQ_MASK, assertion & SEQ_MASK, *rest) for id, key, assertion, *rest in rows]


def _read_state(row: Row) -> StateChange:
    """Read a change of state from `_state_changes`.

    Raises:
        CorruptStoreError: The row was changed.
    """
    assertion_id, seq, assertion, _, state, recorded_at, reason, actor = row
    try:
        return StateChange(
            assertion_id=unpack_id(assertion_id, assertion),
            state=AssertionState(state),
            seq=seq,
            recorded_at=dt.datetime.fromisoformat(recorded_at),
            reason=reason,
            actor=actor,
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptStoreError(f"the state change number {seq} is damaged: restore the store") from error


def _slots_of(connection: apsw.Connection, part: tuple[int, int]) -> NDArray[np.int64]:
    """Return the keys and the slots of the vectors in a part of a tenant's log, in two rows; see `_of_tenant`."""
    import numpy as np

    rows = connection.execute(
        "SELECT seq, vector FROM assertions WHERE seq > ? AND seq <= ? AND vector IS NOT NULL ORDER BY seq", part
    )
    numbers = np.fromiter((number for row in rows for number in row), np.int64)
    return np.ascontiguousarray(numbers.reshape(-1, 2).T)


def _read_slots(
    connection: apsw.Connection, slots: NDArray[np.int64], dimension: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield vectors by their slots: places among these, and their vectors, one a row; nothing for lost ones."""
    import numpy as np

    order = np.argsort(slots, kind="stable")
    chunks = slots[order] // SLOTS
    starts = np.flatnonzero(np.diff(chunks, prepend=-2))
    parts = np.split(order, starts[1:])
    rows = connection.executemany(
        "SELECT (SELECT embeddings FROM vectors WHERE chunk = ?)", [(int(chunk),) for chunk in chunks[starts]]
    )
    for places, (found,) in zip(parts, rows, strict=False):
        if found is not None and len(found) == SLOTS * dimension * 4:
            yield places, np.frombuffer(found, np.float32).reshape(SLOTS, dimension)[slots[places] % SLOTS]


def _read_slot(connection: apsw.Connection, slot: int, size: int) -> bytes:
    """Return the bytes of one vector."""
    chunk, place = divmod(slot, SLOTS)
    found = select(connection, "SELECT embeddings FROM vectors WHERE chunk = ?", (chunk,))
    return bytes(found[0][0][place * size : (place + 1) * size]) if found else b""


def _overwrite(connection: apsw.Connection, slot: int, vectors: bytes, size: int) -> None:
    """Write one or more vectors of a row in place."""
    chunk, place = divmod(slot, SLOTS)
    with connection.blob_open("main", "vectors", "embeddings", chunk, True) as blob:
        blob.seek(place * size)
        blob.write(vectors)


def _write_slots(connection: apsw.Connection, slot: int, vectors: Sequence[bytes]) -> None:
    """Write vectors of one length to the slots after the last one in use.

    Args:
        connection: Connection in a transaction.
        slot: The first of the slots.
        vectors: The vectors.
    """
    done = 0
    while done < len(vectors):
        some = vectors[done : done + SLOTS - (slot + done) % SLOTS]
        if (slot + done) % SLOTS:
            _overwrite(connection, slot + done, b"".join(some), len(some[0]))
        else:
            row = b"".join(some) + bytes((SLOTS - len(some)) * len(some[0]))
            connection.execute("INSERT INTO vectors VALUES (?, ?)", ((slot + done) // SLOTS, row))
        done += len(some)


_OF_TENANTS: Final = b""
"""Placeholder of the place in the sums of tenants; no place has an empty digest."""

_OF_SLOTS: Final = b"slots"
"""Placeholder of the place of the number of slots; see `_slots_in_use`."""

_MOST_AT_ONCE: Final = 64


class _NewSums:
    """Changes of sums in one transaction."""

    def __init__(self) -> None:
        self._totals: Counter[tuple[bytes, bytes | str]] = Counter()

    def add(self, checksum: int, tenant: str, track: tuple[bytes, bytes] | None = None) -> None:
        """Add or subtract a row.

        Args:
            checksum: Checksum of the row, negative for a deleted row.
            tenant: Tenant of the row.
            track: `keyed` digests of its place and its keyword, if it is read with a place.
        """
        self._totals[_OF_TENANTS, tenant] += checksum
        if track is not None:
            self._totals[track] += checksum

    def add_vector(self, seq: int, vector: bytes, tenant: str, sign: int = 1) -> None:
        """Add a vector of an assertion, or subtract a deleted one; see `sum_of_vectors`."""
        self._totals[OF_VECTORS, tenant] += sign * zlib.crc32(vector, seq)

    def count(self, places: Iterable[bytes], keyword: str, by: int) -> None:
        """Raise numbers that are kept in the place of sums."""
        for place in places:
            self._totals[place, keyword] += by

    def write(self, connection: apsw.Connection) -> None:
        """Write the changes. A sum of 0 is deleted, and the keyword with it."""
        rows = [(*key, total) for key, total in self._totals.items() if total]
        for start in range(0, len(rows), _MOST_AT_ONCE):
            some = rows[start : start + _MOST_AT_ONCE]
            connection.execute(
                f"INSERT INTO sums VALUES {', '.join(['(?, ?, ?)'] * len(some))}"
                " ON CONFLICT DO UPDATE SET sum = sum + excluded.sum",
                tuple(itertools.chain.from_iterable(some)),
            )
        if gone := [row[:2] for row in rows if row[2] < 0]:
            connection.executemany("DELETE FROM sums WHERE place = ? AND keyword = ? AND sum = 0", gone)


def _sum_of(changed: Iterable[Row]) -> int:
    """Return the sum of the checksums of changes of state, from `_state_changes`."""
    return sum(row_sum(*row[1:]) for row in changed)


def _check(connection: apsw.Connection, place: bytes, keyword: bytes | str | None, found: int) -> None:
    """Check that the rows that were read of a place or a tenant are complete and unchanged.

    Args:
        connection: Connection in a transaction.
        place: `keyed` digest of the place, or `_OF_TENANTS`.
        keyword: That of the keyword of the concept that was read, None for all, or the name of the tenant.
        found: Sum of the checksums of the rows.

    Raises:
        CorruptStoreError: A row was lost or changed.
    """
    if _kept(connection, place, keyword) != found:
        raise CorruptStoreError("rows of the store were lost or changed: restore it from a backup")


def _kept(connection: apsw.Connection, place: bytes, keyword: bytes | str | None) -> int:
    """Return a sum that the store keeps, or those of all keywords of a place together."""
    where, wanted = ("", (place,)) if keyword is None else (" AND keyword = ?", (place, keyword))
    ((kept,),) = select(connection, f"SELECT coalesce(sum(sum), 0) FROM sums WHERE place = ?{where}", wanted)
    return int(kept)


_NO_BASE: Final = (1 << 63) - 1 - SEQ_MASK
"""Base of a tenant without rows: no key lies in its range."""


def _base_of(connection: apsw.Connection, tenant: str | None) -> int:
    """Return the base of a tenant: of one that has no rows, a base that no row has."""
    found = select(connection, "SELECT number FROM tenants WHERE name = ?", (tenant or "",))
    return int(found[0][0]) << SEQ_BITS if found else _NO_BASE


def _of_tenant(
    connection: apsw.Connection, tenant: str | None, since: int = 0, until: int = SEQ_MASK
) -> tuple[int, int]:
    """Return the arguments of ``seq > ? AND seq <= ?``: rows of a tenant after a number, up to another one."""
    base = _base_of(connection, tenant)
    return base + min(max(since, 0), SEQ_MASK), base + min(until, SEQ_MASK)


def _copied(connection: apsw.Connection, tenant: str | None) -> int | None:
    """Return the number up to which an unfinished copy is complete."""
    if not select(connection, "SELECT 1 FROM tenants WHERE name = ? AND copying", (tenant or "",)):
        return None
    return newest_seq(connection, tenant)


_ACCESSES_THERE: Final = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'accesses'"

_MOVED: Final = "INSERT OR REPLACE INTO meta VALUES ('moved', randomblob(8))"
"""Note that rows grew or shrank, so that SQLite may have left copies of them; see `_scrub`."""


def _outlines_version(connection: apsw.Connection) -> int | None:
    """Return the version of the outlines in the store, or None if it holds none."""
    found = select(connection, "SELECT value FROM meta WHERE key = 'outlines'")
    return int(found[0][0]) if found else None


def _use_outlines(connection: apsw.Connection, version: int) -> None:
    """Drop the outlines of other versions; in a transaction."""
    stored = _outlines_version(connection)
    if stored != version:
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('outlines', ?)", (version,))
    if stored not in (None, version):
        connection.execute(f"UPDATE assertions SET outline = NULL; UPDATE heads SET shared = NULL; {_MOVED}")


_NEWEST: Final = " UNION ALL ".join(
    f"SELECT * FROM (SELECT recorded_at FROM {table} WHERE seq > ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1)"
    for table in ("assertions", "state_changes")
)
"""Times of the newest assertion and of the newest change of state, between two keys."""

_FIND: Final = (
    "SELECT (SELECT row FROM assertions WHERE track = ?1 AND said_at = ?2 AND fingerprint = ?3),"
    " EXISTS (SELECT 1 FROM assertions WHERE track = ?1 AND slot = ?4)"
)
"""Row of an equal assertion, and whether any has the same slot."""

_INSERT: Final = f"INSERT INTO assertions VALUES (NULL, {', '.join('?' * 14)})"

_MOST_KNOWN: Final = 4096


@attrs.frozen
class _Track:
    """The type that the assertions of one keyword, owner and place share.

    Attributes:
        id: Row of the track.
        sums: Key of its sums: the `keyed` digests of its place and its keyword.
        fact_type: None before an assertion counts in it.
        shapes: Shapes of all assertions that have counted.
    """

    id: int
    sums: tuple[bytes, bytes]
    fact_type: FactType | None
    shapes: tuple[Shape, ...]


@attrs.define(eq=False)
class _Known:
    """Knowledge that a connection that writes has of its store, for as long as no other one writes.

    Attributes:
        connection: The connection.
        version: See `apsw.Connection.data_version`.
        key: Key of the `keyed` digests.
        embedder: Embedder that the store is bound to.
        outlines: Version of its outlines.
        bases: Bases of tenants that are in the store.
        seqs: Last numbers of tenants.
        slots: Number of slots of vectors in use; -1 for not known.
        timed: Tenants whose newest time the clock has reached.
        tracks: Tracks by place, keyword and owner.
        heads: Rows of heads by track, document and shared outline.
    """

    connection: apsw.Connection
    version: int
    key: bytes
    embedder: EmbedderIdentity | None
    outlines: int | None
    bases: dict[str, int] = attrs.field(factory=dict)
    seqs: dict[str | None, int] = attrs.field(factory=dict)
    slots: int = -1
    timed: set[str | None] = attrs.field(factory=set)
    tracks: dict[tuple[bytes, str, str], _Track] = attrs.field(factory=dict)
    heads: dict[tuple[int, str, bytes | None], int] = attrs.field(factory=dict)

    @classmethod
    def read(cls, connection: apsw.Connection) -> _Known:
        """Read what is needed for every write; in a transaction."""
        meta: dict[str, Any] = dict(
            select(connection, "SELECT key, value FROM meta WHERE key IN ('key', 'embedder', 'outlines')")
        )
        return cls(connection, 0, meta["key"], read_embedder(meta.get("embedder")), meta.get("outlines"))

    def holds(self, connection: apsw.Connection) -> bool:
        """Return whether this is still so; in a transaction."""
        return self.connection is connection and self.version == connection.data_version()

    def committed(self) -> _Known | None:
        """Return what is known after a commit; None if it is too much to keep."""
        if len(self.seqs) + len(self.tracks) + len(self.heads) > _MOST_KNOWN:
            return None
        self.version = self.connection.data_version()
        return self


class _Doomed(NamedTuple):
    """An assertion that is to be erased."""

    key: int
    id: str
    record_id: str
    track: int


class _Batch:
    """One write transaction under way: plans each request, and collects its writes for the end.

    Args:
        known: What is known of the store.
        clock: Returns the time of recording.
        bound: Embedder in use in this process, if any.
        outlines: Version of the outlines in use in this process, if any; a store without outlines gets them.

    Attributes:
        connection: Connection of the transaction.
        embedder: Embedder that the store is bound to.
        sums: Sums that the transaction changes.
    """

    def __init__(
        self, known: _Known, clock: SteadyClock, bound: EmbedderIdentity | None, *, outlines: int | None = None
    ) -> None:
        self._known = known
        self.connection: apsw.Connection = known.connection
        self._clock = clock
        self.sums: _NewSums = _NewSums()
        self.embedder: EmbedderIdentity | None = known.embedder
        self._bound = bound
        self._index = TrackIndex()
        self._plan = Planner(clock, lambda _: self._index, self._last_of, new_ids)
        self._rows: list[Row] = []
        self._vectors: list[bytes] = []
        self._digests: dict[tuple[bytes, bytes], tuple[bytes, bytes]] = {}
        self._changing: dict[str, tuple[int, int, Assertion]] = {}
        if outlines is not None and known.outlines is None:
            _use_outlines(known.connection, outlines)
            known.outlines = outlines

    def append(self, rows: Sequence[PreparedRow]) -> list[Receipt]:
        """Write one request, all or nothing.

        Raises:
            FactMemError: See `KeepsLog.append`; the batch continues without it.
        """
        check_vectors([row.vector for row in rows if isinstance(row, NewRow)], self.embedder, self._bound)
        self._look_up(rows)
        receipts, planned = self._plan.plan(rows)
        for each in planned:
            match each:
                case Planned(item=NewRow() as row, entry=Recorded() as recorded):
                    self._write(row, recorded, joined=each.joined)
                case Planned(entry=StateChange() as change):
                    self._write_state(change, each.item.tenant, joined=each.joined)
        return receipts

    def take(self, part: LogPart, rows: Sequence[NewRow], tenant: str | None) -> None:
        """Append a part of another store's log to an unfinished copy.

        Args:
            part: The part.
            rows: Its assertions, prepared.
            tenant: The tenant.

        Raises:
            FactMemError: See `KeepsLog.put_log_part`.
        """
        check_part(part, tenant, _copied(self.connection, tenant))
        check_vectors([row.vector for row in rows], self.embedder, self._bound)
        self.enter(tenant)
        new = iter(rows)
        try:
            for entry in part.entries:
                self._plan.last[tenant] = entry.seq
                match entry:
                    case Recorded():
                        row = next(new)
                        self._clock.reached(entry.recorded_at, tenant)
                        self._flush()
                        self._find([row])
                        self._write(row, entry, joined=self._index.take(entry, tenant))
                    case StateChange():
                        self._clock.reached(entry.recorded_at, tenant)
                        self._look_up_state(entry.assertion_id, tenant)
                        self._write_state(entry, tenant, joined=self._index.take(entry, tenant))
                    case Tombstone():
                        gone = self._by_id(entry.assertion_id, self._base_of(tenant))
                        self._erase(gone, {entry.assertion_id: entry.seq}, tenant)
                    case _:
                        assert_never(entry)
            self._flush()
        except apsw.ConstraintError:
            raise misfit() from None
        self._plan.last[tenant] = part.until

    def finish(self) -> None:
        """Write the collected rows, and the last sequence numbers."""
        self._flush()
        if self._vectors:
            _write_slots(self.connection, self._known.slots, self._vectors)
            self.sums.count([_OF_SLOTS], "", len(self._vectors))
            self._known.slots += len(self._vectors)
        for tenant, seq in self._plan.last.items():
            if seq != (before := self._last_of(tenant)):
                self.sums.count(LAST_SEQS, tenant or "", seq - before)
                self._known.seqs[tenant] = seq
        self.sums.write(self.connection)

    def _flush(self) -> None:
        """Write the collected assertions."""
        if self._rows:
            self.connection.executemany(_INSERT, self._rows)
            self._rows.clear()

    def _last_of(self, tenant: str | None) -> int:
        if tenant not in self._known.seqs:
            self._known.seqs[tenant] = newest_seq(self.connection, tenant)
        return self._known.seqs[tenant]

    def _base_of(self, tenant: str | None) -> int:
        """Return the base of a tenant: of one that has no rows yet, a base that no row has."""
        name = tenant or ""
        if name not in self._known.bases:
            base = _base_of(self.connection, tenant)
            if base == _NO_BASE:
                return base
            self._known.bases[name] = base
        return self._known.bases[name]

    def enter(self, tenant: str | None) -> int:
        """Return the base of a tenant, which is stored if it is new; the one without a name has number 0."""
        base = self._base_of(tenant)
        if base == _NO_BASE:
            number = "(SELECT coalesce(max(number), 0) + 1 FROM tenants)" if tenant else "0"
            self.connection.execute(f"INSERT INTO tenants(number, name) VALUES ({number}, ?)", (tenant or "",))
            base = self._known.bases[tenant or ""] = self.connection.last_insert_rowid() << SEQ_BITS
        return base

    def _look_up(self, rows: Sequence[PreparedRow]) -> None:
        """Find what the store holds of all that a request depends on, before its first row is planned."""
        self._digests.clear()
        for tenant in {row.tenant for row in rows}:
            self._catch_up_clock(tenant)
        if len(rows) > 1:
            self._flush()
        wanted: list[NewRow] = []
        for row in rows:
            if isinstance(row, NewRow):
                wanted.append(row)
                if (said := self._clock.dated(row.assertion)) is not row.assertion:
                    wanted.append(row.said_otherwise(said))
                if row.follows is not None:
                    self._look_up_followed(row.tenant, row.follows)
            else:
                self._look_up_state(row.assertion_id, row.tenant)
        self._find(wanted)

    def _catch_up_clock(self, tenant: str | None) -> None:
        """Bring the clock to the newest time of a tenant, which other processes may have written."""
        if tenant in self._known.timed:
            return
        self._known.timed.add(tenant)
        base = self._base_of(tenant)
        for (moment,) in select(self.connection, _NEWEST, (base, base + SEQ_MASK)):
            self._clock.reached(dt.datetime.fromisoformat(unpack_moment(moment)), tenant)

    def _find(self, rows: Sequence[NewRow]) -> None:
        """Look for equal assertions, and for the records that hold the same slots."""
        tracks = map(self._track, rows)
        wanted = [(row, track) for row, track in zip(rows, tracks, strict=True) if track is not None]
        for row, track in {track.id: (row, track) for row, track in wanted}.values():
            self._note_type(row.assertion, track)
        keys: list[Row] = []
        for row, track in wanted:
            slot, fingerprint = self._hashed(row)
            keys.append((track.id, row.said_at, fingerprint, slot))
        if not keys:
            return
        found = self.connection.executemany(_FIND, keys).fetchall()
        for (row, track), (same, is_taken) in zip(wanted, found, strict=True):
            if same is not None:
                query = f"SELECT {_ASSERTION_COLUMNS} FROM assertions a WHERE row = ?"
                (columns,) = select(self.connection, query, (same,))
                self._index.found_same(read_assertion(columns))
            wanted_record = is_taken and (same is None or self._clock.leaves_open(row.assertion))
            if wanted_record and (record_id := self._record_id(track, self._hashed(row)[0])) is not None:
                self._index.found_record(row.assertion, record_id)

    def _note_type(self, said: Assertion, track: _Track) -> None:
        if track.fact_type is not None and self._index.type_of(said.track) is None:
            self._index.found_type(said.track, track.fact_type, track.shapes)

    def _record_id(self, track: _Track, slot: bytes) -> str | None:
        """Return the record that holds a slot: its last one, unless that has moved to another slot since."""
        self._flush()
        ((key, id, packed),) = select(
            self.connection,
            "SELECT seq, id, record_id FROM assertions WHERE track = ? AND slot = ? ORDER BY row DESC LIMIT 1",
            (track.id, slot),
        )
        record_id = unpack_record_id(packed, unpack_id(id, key & SEQ_MASK))
        base = key & ~SEQ_MASK
        last = select(
            self.connection,
            f"SELECT track, slot FROM assertions WHERE {_OF_RECORD} AND seq > ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
            (*_record_key(record_id, base), base, base + SEQ_MASK),
        )
        return record_id if last == [(track.id, slot)] else None

    def _look_up_followed(self, tenant: str | None, seq: int) -> None:
        self._flush()
        key = self._base_of(tenant) + (seq & SEQ_MASK)
        if select(self.connection, "SELECT 1 FROM assertions WHERE seq = ?", (key,)):
            self._index.found_seq(tenant, seq)

    def _look_up_state(self, id: str, tenant: str | None) -> None:
        self._flush()
        key = _key_of_id(self.connection, self._base_of(tenant), id)
        if key is None:
            return
        query = f"SELECT a.track, a.joined, {_ASSERTION_COLUMNS} FROM assertions a WHERE a.seq = ?"
        ((number, joined, *columns),) = select(self.connection, query, (key,))
        recorded = read_assertion(columns)
        changed = _state_changes(
            self.connection,
            f"SELECT '', {_STATE_COLUMNS} FROM state_changes s WHERE s.assertion = ? ORDER BY s.row DESC LIMIT 1",
            (key,),
        )
        state = _read_state(changed[0]).state if changed else recorded.assertion.state
        self._index.found_state(recorded, state, joined=bool(joined))
        self._note_type(recorded.assertion, self._track_numbered(number))
        self._changing[id] = key, number, recorded.assertion

    def _hashed(self, row: NewRow) -> tuple[bytes, bytes]:
        """Return the `keyed` digests of the slot and the fingerprint of an assertion."""
        name = row.slot, row.fingerprint
        found = self._digests.get(name)
        if found is None:
            found = self._digests[name] = keyed(self._known.key, row.slot), keyed(self._known.key, row.fingerprint)
        return found

    def _track(self, row: NewRow) -> _Track | None:
        """Return the track that an assertion belongs to, if there is one."""
        name = _track_name(row)
        found = self._known.tracks.get(name)
        if found is None:
            where = "place = ? AND keyword = ? AND owner = ?"
            rows = select(self.connection, f"{_TRACK} WHERE {where}", [keyed(self._known.key, part) for part in name])
            if rows:
                found = self._known.tracks[name] = _read_track(rows[0])
        return found

    def _track_numbered(self, id: int) -> _Track:
        return _read_track(select(self.connection, f"{_TRACK} WHERE id = ?", (id,))[0])

    def _widened(self, track: _Track, said: Assertion) -> _Track:
        """Return a track with the type of an assertion that counts in it, stored if that is new."""
        if said.shape in track.shapes:
            return track
        wider = attrs.evolve(track, fact_type=said.fact_type, shapes=(*track.shapes, said.shape))
        self.connection.execute(
            "UPDATE tracks SET fact_type = ?, shapes = ? WHERE id = ?",
            (said.fact_type.value, _written_shapes(wider.shapes), track.id),
        )
        return wider

    def _write(self, row: NewRow, recorded: Recorded, *, joined: bool) -> None:
        said, seq = recorded.assertion, recorded.seq
        if said != row.assertion:
            row = row.said_otherwise(said)
        name, tenant = _track_name(row), row.tenant
        track = self._track(row)
        if track is None:
            keys = [keyed(self._known.key, part) for part in name]
            self.connection.execute("INSERT INTO tracks(place, keyword, owner, shapes) VALUES (?, ?, ?, '[]')", keys)
            track = _Track(self.connection.last_insert_rowid(), (keys[0], keys[1]), None, ())
        self._known.tracks[name] = track = self._widened(track, said) if joined else track
        slot, fingerprint = self._hashed(row)
        id, record_id, now = recorded.id, recorded.record_id, recorded.recorded_at
        check = checksum(seq, id, record_id, now.isoformat(), row.partial_checksum)
        self.sums.add(check, tenant or "", track.sums)
        outline = row.outline if row.outline is not None and row.outline.version == self._known.outlines else None
        self._rows.append(
            (
                self.enter(tenant) + seq,
                pack_id(id, seq),
                pack_record_id(record_id, id),
                track.id,
                slot,
                row.said_at,
                fingerprint,
                microseconds(now),
                check,
                joined,
                self._head(track, row.head, None if outline is None else outline.shared),
                None if row.vector is None else self._slot(seq, tenant or "", row.vector.tobytes()),
                None if outline is None else outline_body(seq, id, record_id, now, outline),
                row.doc,
            )
        )

    def _head(self, track: _Track, doc: str, shared: bytes | None) -> int:
        key = (track.id, doc, shared)
        if key not in self._known.heads:
            self._known.heads[key] = _head_of(self.connection, track.id, doc, shared)
        return self._known.heads[key]

    def _write_state(self, change: StateChange, tenant: str | None, *, joined: bool) -> None:
        key, number, said = self._changing[change.assertion_id]
        track = self._track_numbered(number)
        if joined:
            self._widened(track, said)
            self._known.tracks.clear()
            self.connection.execute("UPDATE assertions SET joined = 1 WHERE seq = ?", (key,))
        at = change.recorded_at.isoformat()
        written = (tenant or "", change.state.value, at, change.reason, change.actor)
        self.connection.execute(
            "INSERT INTO state_changes VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)",
            (self.enter(tenant) + change.seq, key, *written),
        )
        self.sums.add(row_sum(change.seq, key & SEQ_MASK, *written), tenant or "", track.sums)

    def replace_vectors(self, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """Replace vectors of a tenant, by sequence number; numbers without an assertion are ignored."""
        check_vectors(vectors.values(), self.embedder, self._bound)
        base, name = self._base_of(tenant), tenant or ""
        for seq, row in vectors.items():
            key, vector = base + (seq & SEQ_MASK), row.tobytes()
            for (slot,) in select(self.connection, "SELECT vector FROM assertions WHERE seq = ?", (key,)):
                if slot is not None:
                    self._replace(slot, key, name, vector)
                    continue
                place = self._slot(key & SEQ_MASK, name, vector)
                self.connection.execute("UPDATE assertions SET vector = ? WHERE seq = ?", (place, key))
                self.connection.execute(_MOVED)

    def _replace(self, slot: int, key: int, tenant: str, vector: bytes | None) -> None:
        """Overwrite a vector with another one, or with zeros."""
        size = 4 * (0 if self.embedder is None else self.embedder.dimension)
        self.sums.add_vector(key & SEQ_MASK, _read_slot(self.connection, slot, size), tenant, -1)
        _overwrite(self.connection, slot, vector or bytes(size), size)
        if vector is not None:
            self.sums.add_vector(key & SEQ_MASK, vector, tenant)

    def _slot(self, seq: int, tenant: str, vector: bytes) -> int:
        """Return the slot of a new vector, which is written at the end."""
        if self._known.slots < 0:
            self._known.slots = _kept(self.connection, _OF_SLOTS, "")
        self.sums.add_vector(seq, vector, tenant)
        self._vectors.append(vector)
        return self._known.slots + len(self._vectors) - 1

    def erase(self, record_ids: Collection[str], assertion_ids: Collection[str], tenant: str | None) -> int:
        """Erase assertions and everything that belongs to them, leaving tombstones; return their number."""
        base = self._base_of(tenant)
        part = base, base + SEQ_MASK
        of_record = f"{_OF_RECORD} AND seq > ? AND seq <= ?"
        named = {row for id in set(record_ids) for row in self._named(of_record, (*_record_key(id, base), *part))}
        named |= {row for id in set(assertion_ids) for row in self._by_id(id, base)}
        gone = sorted(named)
        self._erase(gone, {row.id: self._plan.next_number(tenant) for row in gone}, tenant)
        return len(gone)

    def _by_id(self, id: str, base: int) -> list[_Doomed]:
        return self._named("seq = ?", (_key_of_id(self.connection, base, id),))

    def _named(self, where: str, arguments: Row) -> list[_Doomed]:
        self._flush()
        query = f"SELECT seq, id, record_id, track FROM assertions WHERE {where}"
        doomed = []
        for key, packed, record_id, track in select(self.connection, query, arguments):
            id = unpack_id(packed, key & SEQ_MASK)
            doomed.append(_Doomed(key, id, unpack_record_id(record_id, id), track))
        return doomed

    def _erase(self, gone: Sequence[_Doomed], graves: Mapping[str, int], tenant: str | None) -> None:
        """Erase assertions, and write tombstones: the numbers of these by the ids of those."""
        name = tenant or ""
        for row in gone:
            self._overwrite(row.key, self._track_numbered(row.track).sums, name)
        for id, seq in graves.items():
            self.sums.add(row_sum(id, seq), name)
            self.connection.execute("INSERT INTO tombstones VALUES (?, ?, ?)", (self.enter(tenant) + seq, id, name))
        self._index = TrackIndex()
        self._known.tracks.clear()
        self._known.heads.clear()
        if gone:
            self._drop_accesses({row.record_id for row in gone}, tenant)
            for statement in (_DROP_HEADS, _DROP_TRACK, _RETYPE):
                self.connection.executemany(statement, {(row.track,) for row in gone})
            moved = select(self.connection, "SELECT 1 FROM meta WHERE key = 'moved' OR (key = 'scrub' AND value > 0)")
            last = self.enter(tenant) + max(graves.values())
            self.connection.execute("INSERT OR REPLACE INTO meta VALUES ('scrub', ?)", (last if moved else -last,))

    def _overwrite(self, key: int, sums: tuple[bytes, bytes], tenant: str) -> None:
        ((check, slot),) = select(self.connection, "SELECT checksum, vector FROM assertions WHERE seq = ?", (key,))
        query = f"SELECT '', {_STATE_COLUMNS} FROM state_changes s WHERE s.assertion = ?"
        changed = _state_changes(self.connection, query, (key,))
        self.sums.add(-check - _sum_of(changed), tenant, sums)
        if slot is not None:
            self._replace(slot, key, tenant, None)
        self.connection.execute(_OVERWRITE_CHANGES, (key,))
        self.connection.execute(_OVERWRITE, (key,))

    def _drop_accesses(self, record_ids: Iterable[str], tenant: str | None) -> None:
        """Delete the counts of records without any assertion."""
        if select(self.connection, _ACCESSES_THERE):
            base = self._base_of(tenant)
            self.connection.executemany(
                "DELETE FROM accesses WHERE record_id = ?"
                f" AND NOT EXISTS (SELECT 1 FROM assertions WHERE {_OF_RECORD})",
                [(id, *_record_key(id, base)) for id in record_ids],
            )


_TRACK: Final = "SELECT id, place, keyword, fact_type, shapes FROM tracks"


def _track_name(row: NewRow) -> tuple[bytes, str, str]:
    return row.place, row.assertion.keyword, row.assertion.details.owner or ""


def _read_track(row: Row) -> _Track:
    id, place, keyword, fact_type, shapes = row
    return _Track(id, (place, keyword), None if fact_type is None else FactType(fact_type), _read_shapes(shapes))


@functools.lru_cache(maxsize=1024)
def _read_shapes(text: str) -> tuple[Shape, ...]:
    return tuple(json.loads(text))


def _written_shapes(shapes: Iterable[Shape]) -> str:
    return json.dumps(list(shapes), ensure_ascii=False)


def _head_of(connection: apsw.Connection, track: int, doc: str | None, shared: bytes | None) -> int:
    """Return the row of a head of a track, stored if it is new.

    Args:
        connection: Connection in a transaction.
        track: Row of the track.
        doc: See `factmem.providers.sql_rows.NewRow.head`; None if the documents are whole.
        shared: Shared part of the outlines, if there is one.
    """
    wanted = "SELECT id FROM heads WHERE track = ? AND doc IS ? AND shared IS ?"
    found = select(connection, wanted, (track, doc, shared))
    if found:
        return int(found[0][0])
    connection.execute("INSERT INTO heads(track, doc, shared) VALUES (?, ?, ?)", (track, doc, shared))
    return connection.last_insert_rowid()


_DROP_HEADS: Final = (
    "UPDATE heads SET track = NULL, doc = CAST(zeroblob(length(CAST(doc AS BLOB))) AS TEXT),"
    " shared = zeroblob(length(shared))"
    " WHERE track = ?1 AND NOT EXISTS (SELECT 1 FROM assertions WHERE head = heads.id)"
)
_DROP_TRACK: Final = "DELETE FROM tracks WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM heads WHERE track = ?1)"
_RETYPE: Final = (
    "UPDATE tracks SET (fact_type, shapes) = (SELECT min(fact_type), json_group_array(json(shape)) FROM"
    " (SELECT doc ->> '$.fact_type' AS fact_type, doc -> '$.shape' AS shape FROM heads"
    " WHERE track = ?1 AND doc IS NOT NULL AND EXISTS (SELECT 1 FROM assertions WHERE head = heads.id AND joined)"
    " UNION SELECT a.doc ->> '$.assertion.fact_type', a.doc -> '$.assertion.shape'"
    " FROM heads h CROSS JOIN assertions a ON a.head = h.id AND a.joined WHERE h.track = ?1 AND h.doc IS NULL))"
    " WHERE id = ?1"
)
"""Type of a track, from what is left in it."""


_TRIES: Final = 6
"""An erasure takes two attempts; more are for concurrent erasures."""

_IN_THE_WAY: Final = (apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.IOError)


def _zeros(*columns: str) -> str:
    """Return the assignments that overwrite columns of text with zeros of the same length."""
    return ", ".join(f"{name} = CAST(zeroblob(length(CAST({name} AS BLOB))) AS TEXT)" for name in columns)


_OVERWRITE: Final = (
    "UPDATE assertions SET seq = NULL, id = zeroblob(length(CAST(id AS BLOB))), record_id = NULL, track = NULL,"
    " slot = zeroblob(length(slot)), said_at = 0, fingerprint = zeroblob(length(fingerprint)), recorded_at = 0,"
    f" checksum = 0, joined = 0, head = NULL, vector = NULL, outline = zeroblob(length(outline)), {_zeros('doc')}"
    " WHERE seq = ?"
)
_OVERWRITE_CHANGES: Final = (
    f"UPDATE state_changes SET seq = NULL, assertion = NULL, {_zeros('tenant', 'state', 'recorded_at')},"
    f" {_zeros('reason', 'actor')} WHERE assertion = ?"
)

_DROP_OVERWRITTEN: Final = """
BEGIN IMMEDIATE;
DELETE FROM assertions WHERE seq IS NULL;
DELETE FROM state_changes WHERE seq IS NULL;
DELETE FROM heads WHERE track IS NULL;
COMMIT;
"""


def _scrub_is_due(connection: apsw.Connection) -> bool:
    """Return whether bytes of erased assertions may still be in the files."""
    return _due(connection) is not None


def _scrub(connection: apsw.Connection) -> bool:
    """Finish erasures and migrations; return whether they are finished.

    An older transaction of another process keeps the WAL, and with it the bytes; so does a full disk. Nothing is lost
    then, and the next call continues.
    """
    try:
        for _ in range(_TRIES):
            due = _due(connection)
            if due is None:
                return True
            if due > 0:
                moved = select(connection, "SELECT value FROM meta WHERE key = 'moved'")
                connection.execute(_DROP_OVERWRITTEN)
                connection.execute("VACUUM")
                # A concurrent erasure leaves a note of its own, which must stay.
                connection.execute("UPDATE meta SET value = ? WHERE key = 'scrub' AND value = ?", (-due, due))
                connection.executemany("DELETE FROM meta WHERE key = 'moved' AND value = ?", moved)
            else:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                connection.execute("DELETE FROM meta WHERE key = 'scrub' AND value = ?", (due,))
    except _IN_THE_WAY as error:
        if is_failed_flush(error):
            raise
        return False
    return not _scrub_is_due(connection)


def _due(connection: apsw.Connection) -> int | None:
    """Return the note: the number of an erasure, or minus that if the file need not be rewritten (any more)."""
    found = select(connection, "SELECT value FROM meta WHERE key = 'scrub'")
    return int(found[0][0]) if found else None


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


def _writes(work: Callable[Concatenate[SqliteEngine, _Batch, P], None]) -> Callable[Concatenate[SqliteEngine, P], None]:
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
        self._known: _Known | None = None

    def _batch(
        self, connection: apsw.Connection, work: Callable[[_Batch], Any], known: _Known | None = None
    ) -> _Known | None:
        """Call ``work`` in one transaction that is durable when this returns.

        Args:
            connection: Connection that writes.
            work: Called with the transaction.
            known: What was known of the store after an earlier transaction, if anything.

        Returns:
            What is known of the store now, if ``work`` did nothing but append.

        Raises:
            apsw.Error: Nothing was written.
        """
        self._known = None
        with transaction(connection):
            if known is None or not known.holds(connection):
                known = _Known.read(connection)
            batch = _Batch(known, self._clock, self._bound, outlines=self._outlines)
            work(batch)
            batch.finish()
        return known.committed()

    def commit(self, requests: Sequence[Request]) -> None:
        """Write requests in one transaction, each whole or not at all."""
        ready = ReadyRequests(requests)

        def write(connection: apsw.Connection) -> None:
            self._known = self._batch(connection, lambda batch: ready.append_by(batch.append), self._known)

        if ready.rows:
            self.store.write(write)
        ready.settle()

    @_reads
    def entries(self, connection: apsw.Connection, place: Place, keyword: str | None) -> Sequence[LogEntry]:
        """Return the log of a place, of one concept or of all."""
        ((key,),) = select(connection, "SELECT value FROM meta WHERE key = 'key'")
        wanted = [keyed(key, place_digest(place)), *([] if keyword is None else [keyed(key, keyword)])]
        here = "FROM tracks t CROSS JOIN assertions a ON a.track = t.id"
        where = "WHERE t.place = ?" if keyword is None else "WHERE t.place = ? AND t.keyword = ?"
        said = select(connection, f"SELECT {_ASSERTION_COLUMNS} {here} {where}", wanted)
        changed = _state_changes(
            connection,
            f"SELECT a.id, {_STATE_COLUMNS} {here} CROSS JOIN state_changes s ON s.assertion = a.seq {where}",
            wanted,
        )
        log = _log(said, changed)
        _check(
            connection,
            wanted[0],
            None if keyword is None else wanted[1],
            sum(row[4] for row in said) + _sum_of(changed),
        )
        return log

    def version(self, tenant: str | None) -> int:
        """Return the newest sequence number of a tenant."""
        return self.store.remembered(tenant or "", partial(newest_seq, tenant=tenant))

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
    def _bind(self, batch: _Batch, identity: EmbedderIdentity, *, replace: bool) -> None:
        if binds_anew(batch.embedder, identity, replace=replace):
            connection = batch.connection
            connection.execute(f"DROP TABLE vectors; {VECTORS}; UPDATE assertions SET vector = NULL; {_MOVED}")
            connection.execute("DELETE FROM sums WHERE place IN (?, ?)", (OF_VECTORS, _OF_SLOTS))
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('embedder', ?)", (written_embedder(identity),))

    @_writes
    def put_vectors(self, batch: _Batch, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """Store vectors of a tenant's assertions."""
        batch.replace_vectors(tenant, {seq: unit_vector(vector) for seq, vector in vectors.items()})

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
    def add_accesses(self, batch: _Batch, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        """Add to the counts of records."""
        batch.connection.execute(_ACCESSES)
        base = _base_of(batch.connection, tenant)
        batch.connection.executemany(
            f"INSERT INTO accesses SELECT ?, ?, ?, ? FROM assertions WHERE {_OF_RECORD} AND seq > ? AND seq <= ?"
            " LIMIT 1"
            " ON CONFLICT(record_id) DO UPDATE SET count = count + excluded.count, last = max(last, excluded.last)",
            [
                (
                    *(id, tenant or "", access.count, microseconds(access.last)),
                    *_record_key(id, base),
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
        if not select(connection, _ACCESSES_THERE):
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

        def delete(batch: _Batch) -> None:
            erased[:] = [batch.erase(record_ids, assertion_ids, tenant)]

        def erase(connection: apsw.Connection) -> EraseReceipt:
            try:
                self._batch(connection, delete)
            except apsw.FullError:
                # Once its pages are in the file, the log is written over from its beginning, and need not grow.
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
                self._batch(connection, delete)
            pending = _scrub_is_due(connection) and not _scrub(connection)
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
        if since <= 0:
            _check_complete(connection, tenant)
        log, most = _of_tenant(connection, tenant, since), -1 if limit is None else limit + 1
        said = select(
            connection,
            f"SELECT {_ASSERTION_COLUMNS} FROM assertions a WHERE a.seq > ? AND a.seq <= ? ORDER BY a.seq LIMIT ?",
            (*log, most),
        )
        entries = _log(said, _changed(connection, log, most), _erased(connection, log, most))
        part = part_of(entries, {}, since=since, limit=limit, newest=newest_seq(connection, tenant))
        identity = _bound_embedder(connection) if vectors else None
        if identity is None:
            return part
        found: dict[int, NDArray[np.float32]] = {}
        keys, slots = _slots_of(connection, _of_tenant(connection, tenant, since, part.until))
        seqs = (keys & SEQ_MASK).tolist()
        for places, rows in _read_slots(connection, slots, identity.dimension):
            found.update({seqs[place]: row for place, row in zip(places.tolist(), rows, strict=True)})
        return attrs.evolve(part, vectors=found)

    @_writes
    def mark_copies(self, batch: _Batch, tenants: Sequence[str | None], *, unfinished: bool) -> None:
        """Mark tenants as unfinished or finished copies."""
        for tenant in tenants if unfinished else ():
            batch.enter(tenant)
        names = [(unfinished, tenant or "") for tenant in tenants]
        batch.connection.executemany("UPDATE tenants SET copying = ? WHERE name = ?", names)

    def copied(self, tenant: str | None) -> int | None:
        """Return the number up to which an unfinished copy is complete."""
        return self.store.read(partial(_copied, tenant=tenant)) if self.store.is_there() else None

    def put_log_part(self, tenant: str | None, part: LogPart) -> None:
        """Append a part to an unfinished copy."""
        rows = prepared_part(part)
        self.store.write(lambda connection: self._batch(connection, lambda batch: batch.take(part, rows, tenant)))

    def format_versions(self) -> tuple[int, int]:
        """Return the version of the file's format, and the newest one."""
        found = self.store.read(format_version, as_it_is=True) if self.store.is_there() else 0
        return found, FORMAT

    def upgrade(self, progress: Progress, *, create: bool) -> None:
        """Bring the file to the newest format, and compact it."""
        if create or self.store.is_there():
            progress(0, 2)
            self.store.write(lambda connection: None)  # opening it for writing does it
            progress(1, 2)
            self.store.write(_scrub)
        progress(2, 2)

    def check(self, progress: Progress) -> Sequence[Finding]:
        """Check the database and the modes of its files."""
        name = self.store.name
        found: list[Finding] = []
        try:
            if not self.store.is_there():
                return [no_store(name)]
            found += self.store.read(lambda connection: list(_of_file(connection, name)), as_it_is=True)
            found += self.store.read(lambda connection: list(_astray(connection, name)))
            found += checked_tenants(self, self.store.read(_all_tenants), progress)
        except (CorruptStoreError, NewerVersionError) as error:
            found.append(finding_of(error, name))
        open_files = filter(is_exposed, self.store.files())
        return [*found, *(exposed(path.name, f"chmod go= {path}") for path in open_files)]

    def close(self) -> None:
        """Finish pending erasures, unless another process is in the way, and close the file."""
        self.store.close(_tidy)

    def use_outlines(self, version: int) -> None:
        """Set the version of the outlines in use."""
        self._outlines = version
        if self.store.read_only or not self.store.is_there():
            return  # the first write creates them
        if self.store.read(_outlines_version) != version:
            self._use_outlines(version)

    @_writes
    def _use_outlines(self, batch: _Batch, version: int) -> None:
        _use_outlines(batch.connection, version)

    def put_outlines(self, tenant: str | None, outlines: Mapping[int, Outline]) -> None:
        """Store outlines; do nothing if the store is read-only."""
        if not self.store.read_only:
            self._put_outlines(tenant, outlines)

    @_writes
    def _put_outlines(self, batch: _Batch, tenant: str | None, outlines: Mapping[int, Outline]) -> None:
        connection = batch.connection
        version, base = _outlines_version(connection), _base_of(connection, tenant)
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
            head = _head_of(connection, track, doc, outline.shared)
            connection.execute("UPDATE assertions SET head = ?, outline = ? WHERE seq = ?", (head, body, key))
        connection.execute(_MOVED)

    @_reads
    def outlined(self, connection: apsw.Connection, tenant: str | None, since: int, limit: int) -> Outlined:
        """Return a tenant's log after a sequence number, with outlines in place of assertions."""
        since, version = min(since, _LARGEST), self._outlines
        if since <= 0:
            _check_complete(connection, tenant)
        # Each number is of one entry, so that the part holds no more assertions than numbers.
        until = min(newest_seq(connection, tenant), since + min(limit, _LARGEST - since))
        part = _of_tenant(connection, tenant, since, until)
        usable = version is not None and _outlines_version(connection) == version
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
            behind = _of_tenant(connection, tenant, until)
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
        base = _base_of(connection, tenant)
        rows = connection.executemany(  # for ten rows, twice as fast as a join with their keys
            f"SELECT {_ASSERTION_COLUMNS} FROM assertions a WHERE a.seq = ?", [(base + seq,) for seq in seqs]
        ).fetchall()
        found = {item.seq: item for item in map(read_assertion, rows)}
        return [found.get(seq) for seq in seqs], newest_seq(connection, tenant)

    @_reads
    def vector_numbers(self, connection: apsw.Connection, tenant: str | None, since: int) -> NDArray[np.int64]:
        """See `ScansVectors.vector_numbers`."""
        import numpy as np

        if _bound_embedder(connection) is None:
            return np.empty(0, np.int64)
        keys: NDArray[np.int64] = _slots_of(connection, _of_tenant(connection, tenant, since))[0]
        return keys & SEQ_MASK

    @_reads
    def products(
        self, connection: apsw.Connection, tenant: str | None, vector: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """See `ScansVectors.products`."""
        import numpy as np

        keys, slots = _slots_of(connection, _of_tenant(connection, tenant))
        dots = np.zeros(len(keys), np.float32)
        for places, rows in _read_slots(connection, slots, len(vector)):
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
            (json.dumps((seqs + _base_of(connection, tenant)).tolist()),),
        )
        return _gathered(connection, np.array([slot for (slot,) in rows], np.int64), dimension)


def _bound_embedder(connection: apsw.Connection) -> EmbedderIdentity | None:
    found = select(connection, "SELECT value FROM meta WHERE key = 'embedder'")
    return read_embedder(found[0][0]) if found else None


def _changed(connection: apsw.Connection, part: tuple[int, int], limit: int = -1) -> list[Row]:
    return _state_changes(
        connection,
        f"SELECT a.id, {_STATE_COLUMNS} FROM state_changes s CROSS JOIN assertions a ON a.seq = s.assertion"
        " WHERE s.seq > ? AND s.seq <= ? ORDER BY s.seq LIMIT ?",
        (*part, limit),
    )


def _erased(connection: apsw.Connection, part: tuple[int, int], limit: int = -1) -> list[Row]:
    """Return the ids and sequence numbers of tombstones in a part of a tenant's log; see `_of_tenant`."""
    where = "seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
    rows = select(connection, f"SELECT assertion_id, seq FROM tombstones WHERE {where}", (*part, limit))
    return [(id, key & SEQ_MASK) for id, key in rows]


def _log(said: Sequence[Row], changed: Sequence[Row], erased: Sequence[Row] = ()) -> list[LogEntry]:
    return in_order(
        map(read_assertion, said),
        map(_read_state, changed),
        (Tombstone(assertion_id=id, seq=seq) for id, seq in erased),
    )


def _check_complete(connection: apsw.Connection, tenant: str | None) -> None:
    """Raise if rows of a tenant were lost; those that are there are checked when they are read."""
    log = _of_tenant(connection, tenant)
    total = "SELECT coalesce(sum(checksum), 0) FROM assertions WHERE seq > ? AND seq <= ?"
    ((found,),) = select(connection, total, log)
    query = f"SELECT '', {_STATE_COLUMNS} FROM state_changes s WHERE seq > ? AND seq <= ?"
    found += _sum_of(_state_changes(connection, query, log))
    _check(connection, _OF_TENANTS, tenant or "", found + sum(row_sum(*row) for row in _erased(connection, log)))


def _vectors(
    connection: apsw.Connection, tenant: str | None, since: int
) -> tuple[Sequence[int], NDArray[np.float32], bool]:
    """Return sequence numbers and vectors of a tenant's assertions after a sequence number, and whether they are whole.

    Vectors are whole if they were not changed; this is known if all are read of a store that keeps their sum.
    """
    import numpy as np

    kept = _kept(connection, OF_VECTORS, tenant or "") if since <= 0 else None
    identity = _bound_embedder(connection)
    if identity is None:
        return [], np.empty((0, 0), dtype=np.float32), not kept
    keys, slots = _slots_of(connection, _of_tenant(connection, tenant, since))
    seqs = (keys & SEQ_MASK).tolist()
    matrix = _gathered(connection, slots, identity.dimension)
    return seqs, matrix, kept in (None, sum_of_vectors(seqs, matrix))


def _gathered(connection: apsw.Connection, slots: NDArray[np.int64], dimension: int) -> NDArray[np.float32]:
    """Return vectors by their slots, one a row; zeros where there is none."""
    import numpy as np

    matrix = np.zeros((len(slots), dimension), np.float32)  # numpy asks for huge pages, which are scanned faster
    for places, rows in _read_slots(connection, slots, dimension):
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
    wanted = "SELECT name FROM tenants UNION SELECT keyword FROM sums WHERE place = ? ORDER BY 1"
    return [name or None for (name,) in select(connection, wanted, (_OF_TENANTS,))]


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
    if _scrub_is_due(connection):
        yield pending_erasure(name, "bytes of erased facts, or of an older format, may be left in the file")


def _tidy(connection: apsw.Connection) -> None:
    """Finish an erasure or a migration, without waiting for other processes."""
    if _scrub_is_due(connection):
        connection.set_busy_timeout(0)
        _scrub(connection)
