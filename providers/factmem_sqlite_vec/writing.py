"""Write transactions and erasure.

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
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, assert_never

import apsw
import attrs

from factmem.abc.capabilities import EmbedderIdentity, LogPart, Receipt
from factmem.facts import FactType
from factmem.providers import TrackIndex
from factmem.providers.planning import Planned, Planner, SteadyClock, check_part, misfit
from factmem.providers.rows import (
    SEQ_BITS,
    SEQ_MASK,
    NewRow,
    PreparedRow,
    checksum,
    microseconds,
    new_ids,
    outline_body,
    pack_id,
    pack_record_id,
    read_assertion,
    read_embedder,
    row_sum,
    stored_vector,
    unpack_id,
    unpack_moment,
    unpack_record_id,
)
from factmem.records import Assertion, Recorded, StateChange, Tombstone
from factmem.values import Shape
from factmem_sqlite_vec.faults import is_failed_flush
from factmem_sqlite_vec.tables import (
    ACCESSES_THERE,
    ASSERTION_COLUMNS,
    MOVED,
    NO_BASE,
    OF_RECORD,
    STATE_COLUMNS,
    NewSums,
    Row,
    base_of,
    copied,
    key_of_id,
    keyed,
    newest_seq,
    overwrite,
    read_slot,
    read_state,
    record_key,
    select,
    slots_in_use,
    state_changes,
    use_outlines,
    write_slots,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Batch", "Known", "head_of", "scrub", "scrub_is_due", "write_batch"]

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
class Known:
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
    def read(cls, connection: apsw.Connection) -> Known:
        """Read what is needed for every write; in a transaction."""
        meta: dict[str, Any] = dict(
            select(connection, "SELECT key, value FROM meta WHERE key IN ('key', 'embedder', 'outlines')")
        )
        return cls(connection, 0, meta["key"], read_embedder(meta.get("embedder")), meta.get("outlines"))

    def holds(self, connection: apsw.Connection) -> bool:
        """Return whether this is still so; in a transaction."""
        return self.connection is connection and self.version == connection.data_version()

    def committed(self) -> Known | None:
        """Return what is known after a commit; None if it is too much to keep."""
        if len(self.seqs) + len(self.tracks) + len(self.heads) > _MOST_KNOWN:
            return None
        self.version = self.connection.data_version()
        return self


class Batch:
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
        self, known: Known, clock: SteadyClock, bound: EmbedderIdentity | None, *, outlines: int | None = None
    ) -> None:
        self._known = known
        self.connection: apsw.Connection = known.connection
        self._clock = clock
        self._bound = bound
        self.sums: NewSums = NewSums()
        self.embedder: EmbedderIdentity | None = known.embedder
        self._index = TrackIndex()
        self._plan = Planner(clock, lambda _: self._index, self._last_of, new_ids)
        self._rows: list[Row] = []
        self._vectors: list[bytes] = []
        self._digests: dict[tuple[bytes, bytes], tuple[bytes, bytes]] = {}
        self._changing: dict[str, tuple[int, int, Assertion]] = {}
        if outlines is not None and known.outlines is None:
            use_outlines(known.connection, outlines)
            known.outlines = outlines

    def append(self, rows: Sequence[PreparedRow]) -> list[Receipt]:
        """Write one request, all or nothing.

        Raises:
            FactMemError: See `KeepsLog.append`; the batch continues without it.
        """
        vectors = {
            id(row): self.storable(row.vector) for row in rows if isinstance(row, NewRow) and row.vector is not None
        }
        self._look_up(rows)
        receipts, planned = self._plan.plan(rows)
        for each in planned:
            match each:
                case Planned(item=NewRow() as row, entry=Recorded() as recorded):
                    self._write(row, recorded, vectors.get(id(row)), joined=each.joined)
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
        check_part(part, tenant, copied(self.connection, tenant))
        self._entered(tenant)
        new = iter(rows)
        try:
            for entry in part.entries:
                self._plan.last[tenant] = entry.seq
                match entry:
                    case Recorded():
                        self._take_assertion(next(new), entry)
                    case StateChange():
                        self._clock.reached(entry.recorded_at)
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

    def _take_assertion(self, row: NewRow, recorded: Recorded) -> None:
        self._clock.reached(recorded.recorded_at)
        self._flush()
        self._find([row])
        joined = self._index.take(recorded, row.tenant)
        self._write(row, recorded, None if row.vector is None else self.storable(row.vector), joined=joined)

    def enter(self, tenant: str | None) -> None:
        """Store a tenant that is new."""
        self._entered(tenant)

    def storable(self, vector: NDArray[np.float32]) -> bytes:
        """Return the stored form of a vector; see `factmem.providers.rows.stored_vector`."""
        return stored_vector(vector, self.embedder, self._bound)

    def finish(self) -> None:
        """Write the collected rows, and the last sequence numbers."""
        self._flush()
        if self._vectors:
            write_slots(self.connection, self._known.slots, self._vectors)
            self.sums.take_slots(len(self._vectors))
            self._known.slots += len(self._vectors)
        for tenant, seq in self._plan.last.items():
            if seq != (before := self._last_of(tenant)):
                self.sums.advance(tenant or "", seq - before)
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
            base = base_of(self.connection, tenant)
            if base == NO_BASE:
                return base
            self._known.bases[name] = base
        return self._known.bases[name]

    def _entered(self, tenant: str | None) -> int:
        """Return the base of a tenant, which is stored if it is new; the one without a name has number 0."""
        base = self._base_of(tenant)
        if base == NO_BASE:
            number = "(SELECT coalesce(max(number), 0) + 1 FROM tenants)" if tenant else "0"
            self.connection.execute(f"INSERT INTO tenants(number, name) VALUES ({number}, ?)", (tenant or "",))
            base = self._known.bases[tenant or ""] = self.connection.last_insert_rowid() << SEQ_BITS
        return base

    def _look_up(self, rows: Sequence[PreparedRow]) -> None:
        """Find what the store holds of all that a request depends on, before its first row is planned."""
        self._digests.clear()
        for row in rows:
            self._catch_up_clock(row.tenant)
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
            self._clock.reached(dt.datetime.fromisoformat(unpack_moment(moment)))

    def _find(self, rows: Sequence[NewRow]) -> None:
        """Look for equal assertions, and for the records that hold the same slots."""
        wanted: list[tuple[NewRow, _Track]] = []
        keys: list[Row] = []
        for row in rows:
            track = self._track(row)
            if track is not None:
                self._note_type(row.assertion, track)
                slot, fingerprint = self._hashed(row)
                wanted.append((row, track))
                keys.append((track.id, row.said_at, fingerprint, slot))
        if not keys:
            return
        found = self.connection.executemany(_FIND, keys).fetchall()
        for (row, track), (same, is_taken) in zip(wanted, found, strict=True):
            if same is not None:
                query = f"SELECT {ASSERTION_COLUMNS} FROM assertions a WHERE row = ?"
                (columns,) = select(self.connection, query, (same,))
                self._index.found_same(read_assertion(columns))
            elif is_taken and (record_id := self._record_id(track, self._hashed(row)[0])) is not None:
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
            f"SELECT track, slot FROM assertions WHERE {OF_RECORD} AND seq > ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
            (*record_key(record_id, base), base, base + SEQ_MASK),
        )
        return record_id if last == [(track.id, slot)] else None

    def _look_up_followed(self, tenant: str | None, seq: int) -> None:
        self._flush()
        key = self._base_of(tenant) + (seq & SEQ_MASK)
        if select(self.connection, "SELECT 1 FROM assertions WHERE seq = ?", (key,)):
            self._index.found_seq(tenant, seq)

    def _look_up_state(self, id: str, tenant: str | None) -> None:
        self._flush()
        key = key_of_id(self.connection, self._base_of(tenant), id)
        if key is None:
            return
        query = f"SELECT a.track, a.joined, {ASSERTION_COLUMNS} FROM assertions a WHERE a.seq = ?"
        ((number, joined, *columns),) = select(self.connection, query, (key,))
        recorded = read_assertion(columns)
        changed = state_changes(
            self.connection,
            f"SELECT '', {STATE_COLUMNS} FROM state_changes s WHERE s.assertion = ? ORDER BY s.row DESC LIMIT 1",
            (key,),
        )
        state = read_state(changed[0]).state if changed else recorded.assertion.state
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

    def _write(self, row: NewRow, recorded: Recorded, vector: bytes | None, *, joined: bool) -> None:
        said, seq = recorded.assertion, recorded.seq
        if said is not row.assertion:
            row = row.said_otherwise(said)
        name, tenant = _track_name(row), row.tenant
        track = self._known.tracks.get(name) or self._track(row)
        if track is None:
            keys = [keyed(self._known.key, part) for part in name]
            self.connection.execute("INSERT INTO tracks(place, keyword, owner, shapes) VALUES (?, ?, ?, '[]')", keys)
            track = _Track(self.connection.last_insert_rowid(), (keys[0], keys[1]), None, ())
        if joined and said.shape not in track.shapes:
            track = self._widened(track, said)
        self._known.tracks[name] = track
        slot, fingerprint = self._hashed(row)
        id, record_id, now = recorded.id, recorded.record_id, recorded.recorded_at
        check = checksum(seq, id, record_id, now.isoformat(), row.partial_checksum)
        self.sums.add(check, tenant or "", track.sums)
        outline = row.outline if row.outline is not None and row.outline.version == self._known.outlines else None
        self._rows.append(
            (
                self._entered(tenant) + seq,
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
                None if vector is None else self._slot(seq, tenant or "", vector),
                None if outline is None else outline_body(seq, id, record_id, now, outline),
                row.doc,
            ),
        )

    def _head(self, track: _Track, doc: str, shared: bytes | None) -> int:
        key = (track.id, doc, shared)
        if key not in self._known.heads:
            self._known.heads[key] = head_of(self.connection, track.id, doc, shared)
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
            (self._entered(tenant) + change.seq, key, *written),
        )
        self.sums.add(row_sum(change.seq, key & SEQ_MASK, *written), tenant or "", track.sums)

    def replace_vectors(self, tenant: str | None, vectors: Mapping[int, bytes]) -> None:
        """Replace vectors of a tenant, by sequence number; numbers without an assertion are ignored."""
        base, name = self._base_of(tenant), tenant or ""
        for seq, vector in vectors.items():
            key = base + (seq & SEQ_MASK)
            for (slot,) in select(self.connection, "SELECT vector FROM assertions WHERE seq = ?", (key,)):
                if slot is not None:
                    self._replace(slot, key, name, vector)
                    continue
                place = self._slot(key & SEQ_MASK, name, vector)
                self.connection.execute("UPDATE assertions SET vector = ? WHERE seq = ?", (place, key))
                self.connection.execute(MOVED)

    def _replace(self, slot: int, key: int, tenant: str, vector: bytes | None) -> None:
        """Overwrite a vector with another one, or with zeros."""
        size = 4 * (0 if self.embedder is None else self.embedder.dimension)
        self.sums.add_vector(key & SEQ_MASK, read_slot(self.connection, slot, size), tenant, -1)
        overwrite(self.connection, slot, vector or bytes(size), size)
        if vector is not None:
            self.sums.add_vector(key & SEQ_MASK, vector, tenant)

    def _slot(self, seq: int, tenant: str, vector: bytes) -> int:
        """Return the slot of a new vector, which is written at the end."""
        if self._known.slots < 0:
            self._known.slots = slots_in_use(self.connection)
        self.sums.add_vector(seq, vector, tenant)
        self._vectors.append(vector)
        return self._known.slots + len(self._vectors) - 1

    def erase(self, record_ids: Collection[str], assertion_ids: Collection[str], tenant: str | None) -> int:
        """Erase assertions and everything that belongs to them, leaving tombstones; return their number."""
        base = self._base_of(tenant)
        part = base, base + SEQ_MASK
        of_record = f"{OF_RECORD} AND seq > ? AND seq <= ?"
        named = {row for id in set(record_ids) for row in self._named(of_record, (*record_key(id, base), *part))}
        named |= {row for id in set(assertion_ids) for row in self._by_id(id, base)}
        gone = sorted(named)
        self._erase(gone, {id: self._plan.next_number(tenant) for _, id, _, _ in gone}, tenant)
        return len(gone)

    def _by_id(self, id: str, base: int) -> list[Row]:
        return self._named("seq = ?", (key_of_id(self.connection, base, id),))

    def _named(self, where: str, arguments: Row) -> list[Row]:
        """Return key, id, record id and track of some assertions."""
        self._flush()
        rows = select(self.connection, f"SELECT seq, id, record_id, track FROM assertions WHERE {where}", arguments)
        ids = [unpack_id(row[1], row[0] & SEQ_MASK) for row in rows]
        return [(row[0], id, unpack_record_id(row[2], id), row[3]) for row, id in zip(rows, ids, strict=True)]

    def _erase(self, gone: Sequence[Row], graves: Mapping[str, int], tenant: str | None) -> None:
        """Erase assertions, and write tombstones: the numbers of these by the ids of those."""
        name = tenant or ""
        for key, _, _, number in gone:
            self._overwrite(key, self._track_numbered(number).sums, name)
        for id, seq in graves.items():
            self.sums.add(row_sum(id, seq), name)
            self.connection.execute("INSERT INTO tombstones VALUES (?, ?, ?)", (self._entered(tenant) + seq, id, name))
        self._index = TrackIndex()
        self._known.tracks.clear()
        self._known.heads.clear()
        if gone:
            self._drop_accesses({row[2] for row in gone}, tenant)
            _settle_tracks(self.connection, {row[3] for row in gone})
            moved = select(self.connection, "SELECT 1 FROM meta WHERE key = 'moved' OR (key = 'scrub' AND value > 0)")
            last = self._entered(tenant) + max(graves.values())
            self.connection.execute("INSERT OR REPLACE INTO meta VALUES ('scrub', ?)", (last if moved else -last,))

    def _overwrite(self, key: int, sums: tuple[bytes, bytes], tenant: str) -> None:
        ((check, slot),) = select(self.connection, "SELECT checksum, vector FROM assertions WHERE seq = ?", (key,))
        query = f"SELECT '', {STATE_COLUMNS} FROM state_changes s WHERE s.assertion = ?"
        changed = state_changes(self.connection, query, (key,))
        for each in (check, *(row_sum(*change[1:]) for change in changed)):
            self.sums.add(-each, tenant, sums)
        if slot is not None:
            self._replace(slot, key, tenant, None)
        self.connection.execute(_OVERWRITE_CHANGES, (key,))
        self.connection.execute(_OVERWRITE, (key,))

    def _drop_accesses(self, record_ids: Iterable[str], tenant: str | None) -> None:
        """Delete the counts of records without any assertion."""
        if select(self.connection, ACCESSES_THERE):
            base = self._base_of(tenant)
            self.connection.executemany(
                f"DELETE FROM accesses WHERE record_id = ? AND NOT EXISTS (SELECT 1 FROM assertions WHERE {OF_RECORD})",
                [(id, *record_key(id, base)) for id in record_ids],
            )


def write_batch(
    connection: apsw.Connection,
    clock: SteadyClock,
    bound: EmbedderIdentity | None,
    work: Callable[[Batch], Any],
    *,
    outlines: int | None = None,
    known: Known | None = None,
) -> Known | None:
    """Call ``work`` in one transaction that is durable when this returns; see `Batch` for the arguments.

    Returns:
        What is known of the store now, if ``work`` did nothing but append.

    Raises:
        apsw.Error: nothing was written.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        if known is None or not known.holds(connection):
            known = Known.read(connection)
        batch = Batch(known, clock, bound, outlines=outlines)
        work(batch)
        batch.finish()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return known.committed()


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


def head_of(connection: apsw.Connection, track: int, doc: str | None, shared: bytes | None) -> int:
    """Return the row of a head of a track, stored if it is new.

    Args:
        connection: Connection in a transaction.
        track: Row of the track.
        doc: See `factmem.providers.rows.NewRow.head`; None if the documents are whole.
        shared: Shared part of the outlines, if there is one.
    """
    wanted = "SELECT id FROM heads WHERE track = ? AND doc IS ? AND shared IS ?"
    found = select(connection, wanted, (track, doc, shared))
    if found:
        return int(found[0][0])
    connection.execute("INSERT INTO heads(track, doc, shared) VALUES (?, ?, ?)", (track, doc, shared))
    return connection.last_insert_rowid()


def _settle_tracks(connection: apsw.Connection, tracks: Iterable[int]) -> None:
    """Overwrite unused heads, drop empty tracks, and remove erased types from the others."""
    for track in tracks:
        connection.execute(
            "UPDATE heads SET track = NULL, doc = CAST(zeroblob(length(CAST(doc AS BLOB))) AS TEXT),"
            " shared = zeroblob(length(shared))"
            " WHERE track = ? AND NOT EXISTS (SELECT 1 FROM assertions WHERE head = heads.id)",
            (track,),
        )
        if not select(connection, "SELECT 1 FROM heads WHERE track = ? LIMIT 1", (track,)):
            connection.execute("DELETE FROM tracks WHERE id = ?", (track,))
            continue
        left = select(
            connection,
            "SELECT doc ->> '$.fact_type', doc -> '$.shape' FROM heads WHERE track = ?1 AND doc IS NOT NULL"
            " AND EXISTS (SELECT 1 FROM assertions WHERE head = heads.id AND joined)"
            " UNION SELECT a.doc ->> '$.assertion.fact_type', a.doc -> '$.assertion.shape'"
            " FROM heads h CROSS JOIN assertions a ON a.head = h.id AND a.joined WHERE h.track = ?1 AND h.doc IS NULL",
            (track,),
        )
        shapes = [json.loads(shape) for shape in dict.fromkeys(shape for _, shape in left)]
        connection.execute(
            "UPDATE tracks SET fact_type = ?, shapes = ? WHERE id = ?",
            (left[0][0] if left else None, _written_shapes(shapes), track),
        )


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


def scrub_is_due(connection: apsw.Connection) -> bool:
    """Return whether bytes of erased assertions may still be in the files."""
    return _due(connection) is not None


def scrub(connection: apsw.Connection) -> bool:
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
    return not scrub_is_due(connection)


def _due(connection: apsw.Connection) -> int | None:
    """Return the note: the number of an erasure, or minus that if the file need not be rewritten (any more)."""
    found = select(connection, "SELECT value FROM meta WHERE key = 'scrub'")
    return int(found[0][0]) if found else None
