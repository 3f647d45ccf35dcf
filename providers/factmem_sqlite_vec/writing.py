"""Write transactions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import apsw
import attrs

from factmem.abc import EmbedderIdentity, Receipt, StateRequest
from factmem.providers import SteadyClock, check_expected, erased_meanwhile, unknown_assertion
from factmem.providers.bindings import read_embedder, storable_vector
from factmem.providers.outline_bodies import outline_body
from factmem.providers.rows import (
    SEQ_MASK,
    NewRow,
    checksum,
    microseconds,
    new_id,
    own_record_id,
    pack_id,
    pack_record_id,
    read_assertion,
    row_sum,
    unpack_id,
    unpack_moment,
    unpack_record_id,
)
from factmem.records import AssertionState, Recorded, StateChange
from factmem_sqlite_vec.chunks import overwrite, read_slot, write_slots
from factmem_sqlite_vec.outlines import MOVED, use_outlines
from factmem_sqlite_vec.rows import (
    ASSERTION_COLUMNS,
    OF_RECORD,
    STATE_COLUMNS,
    key_of_id,
    keyed,
    read_state,
    record_key,
    select,
    state_changes,
)
from factmem_sqlite_vec.sequences import LastSeq, NewSeqs
from factmem_sqlite_vec.sums import NewSums, slots_in_use
from factmem_sqlite_vec.tracks import Track, admit, head_of, new_track, sums_of_track, track_numbered, track_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Batch", "Known", "write_batch"]

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


@attrs.define(eq=False)
class Known:
    """Knowledge that a connection that writes has of its store, for as long as no other one writes.

    Attributes:
        connection: The connection.
        version: See `apsw.Connection.data_version`.
        key: Key of the `keyed` digests.
        embedder: Embedder that the store is bound to.
        outlines: Version of its outlines.
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
    seqs: dict[str, LastSeq] = attrs.field(factory=dict)
    slots: int = -1
    timed: set[str | None] = attrs.field(factory=set)
    tracks: dict[tuple[bytes, str, str], Track] = attrs.field(factory=dict)
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


@contextmanager
def _savepoint(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("SAVEPOINT request")
    try:
        yield
    except BaseException:
        # A full disk makes SQLite roll back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK TO request; RELEASE request")
        raise
    connection.execute("RELEASE request")


@attrs.frozen
class _Changed:
    """An assertion whose state changes.

    Attributes:
        key: Key of its row.
        track: Row of its track.
        joined: Whether it has ever counted.
        recorded: The assertion.
    """

    key: int
    track: int
    joined: bool
    recorded: Recorded


class Batch:
    """One write transaction under way: assigns sequence numbers, and collects writes for its end.

    Args:
        known: What is known of the store.
        clock: Returns the time of recording.
        bound: Embedder in use in this process, if any.
        outlines: Version of the outlines in use in this process, if any; a store without outlines gets them.

    Attributes:
        embedder: Embedder that the store is bound to.
        seqs: Sequence numbers that the transaction assigns.
        sums: Sums that the transaction changes.
    """

    def __init__(
        self, known: Known, clock: SteadyClock, bound: EmbedderIdentity | None, *, outlines: int | None = None
    ) -> None:
        self._known = known
        self._connection = known.connection
        self._clock = clock
        self._bound = bound
        self.seqs: NewSeqs = NewSeqs(known.connection, known.seqs)
        self.sums: NewSums = NewSums()
        self.embedder: EmbedderIdentity | None = known.embedder
        self._vectors: list[bytes] = []
        if outlines is not None and known.outlines is None:
            use_outlines(known.connection, outlines)
            known.outlines = outlines
        self._rows: list[tuple[Any, ...]] = []
        self._new: dict[tuple[int, int, bytes], Recorded] = {}
        self._slots: set[tuple[int, bytes]] = set()
        self._looked_up: dict[tuple[int, int, bytes], tuple[int | None, int]] = {}

    def append(self, rows: Sequence[NewRow | StateRequest]) -> list[Receipt]:
        """Write one request, all or nothing.

        Raises:
            FactMemError: See `KeepsHistory.append`; the batch continues without it.
        """
        before = (self.seqs.marks(), len(self._vectors), len(self.sums))
        try:
            if len(rows) == 1:
                # It is checked before its first write, so there is nothing to roll back.
                return self._append(rows)
            self._flush()
            with _savepoint(self._connection):
                self._look_up(rows)
                receipts = self._append(rows)
                self._flush()
                return receipts
        except BaseException:
            self.seqs.reset(before[0])
            del self._vectors[before[1] :]
            self.sums.forget(before[2])
            if len(rows) > 1:
                self._take_back()
            self.forget_tracks()
            raise

    def _flush(self) -> None:
        """Write the collected assertions."""
        if self._rows:
            self._connection.executemany(_INSERT, self._rows)
            self._rows.clear()

    def _take_back(self) -> None:
        self._rows.clear()
        self._new.clear()
        self._slots.clear()

    def _look_up(self, rows: Sequence[NewRow | StateRequest]) -> None:
        """Find what the store holds of the assertions of a request, all at once, before the first is written."""
        self._take_back()
        wanted = {}
        for row in rows:
            if isinstance(row, NewRow) and (track := self._track(row)) is not None:
                slot, fingerprint = self._hashed(row)
                wanted[track.id, row.said_at, fingerprint] = slot
        found = self._connection.executemany(_FIND, [(*key, slot) for key, slot in wanted.items()]) if wanted else ()
        self._looked_up = dict(zip(wanted, found, strict=True))

    def take_assertion(self, row: NewRow, recorded: Recorded) -> None:
        """Write an assertion as another store recorded it.

        Raises:
            ConceptConflictError: Its type is not that of its track.
        """
        said, tenant = row.assertion, row.assertion.place.scope.tenant or ""
        self._clock.reached(recorded.recorded_at)
        key = self.seqs.advance_to(tenant, recorded.seq)
        track = self._track(row) or self._keep_track(row, new_track(self._connection, self._known.key, row))
        counts = said.counts(said.state)
        if counts:
            track = self._keep_track(row, admit(self._connection, track, said))
        vector = None if row.vector is None else self.storable(row.vector)
        self._write(row, track, recorded, key, self._hashed(row), vector, joined=counts)
        self._flush()

    def take_state(self, change: StateChange, tenant: str | None) -> None:
        """Write a change of state as another store recorded it.

        Raises:
            RecordNotFoundError: It names no assertion of the tenant.
            ConceptConflictError: It would accept what cannot join its track.
        """
        name = tenant or ""
        self._clock.reached(change.recorded_at)
        at = key_of_id(self._connection, self.seqs.base_of(name), change.assertion_id)
        if at is None:
            raise unknown_assertion()
        key, moment = self.seqs.advance_to(name, change.seq), change.recorded_at.isoformat()
        self._write_state(self._changed(at), key, (name, change.state.value, moment, change.reason, change.actor))

    def storable(self, vector: NDArray[np.float32]) -> bytes:
        """Return the stored form of a vector; see `factmem.providers.bindings.storable_vector`."""
        return storable_vector(vector, self.embedder, self._bound)

    def forget_tracks(self) -> None:
        """Read tracks and heads again, after rows were deleted."""
        self._known.tracks.clear()
        self._known.heads.clear()

    def finish(self) -> None:
        """Write the collected rows, and the last sequence numbers."""
        self._flush()
        if self._vectors:
            write_slots(self._connection, self._known.slots, self._vectors)
            self.sums.take_slots(len(self._vectors))
            self._known.slots += len(self._vectors)
        self.seqs.write(self.sums)
        self.sums.write(self._connection)

    def replace_vectors(self, tenant: str, vectors: Mapping[int, bytes]) -> None:
        """Replace vectors of a tenant, by sequence number; numbers without an assertion are ignored."""
        base = self.seqs.base_of(tenant)
        for seq, vector in vectors.items():
            key = base + (seq & SEQ_MASK)
            for (slot,) in select(self._connection, "SELECT vector FROM assertions WHERE seq = ?", (key,)):
                if slot is not None:
                    self._replace(slot, key, tenant, vector)
                    continue
                self._connection.execute(
                    "UPDATE assertions SET vector = ? WHERE seq = ?", (self._slot(key, tenant, vector), key)
                )
                self._connection.execute(MOVED)

    def drop_vector(self, key: int, tenant: str) -> None:
        """Overwrite the vector of an assertion, if it has one."""
        for (slot,) in select(self._connection, "SELECT vector FROM assertions WHERE seq = ?", (key,)):
            if slot is not None:
                self._replace(slot, key, tenant, None)

    def _replace(self, slot: int, key: int, tenant: str, vector: bytes | None) -> None:
        size = 4 * (0 if self.embedder is None else self.embedder.dimension)
        self.sums.take_vector(key & SEQ_MASK, read_slot(self._connection, slot, size), tenant)
        overwrite(self._connection, slot, vector or bytes(size), size)
        if vector is not None:
            self.sums.add_vector(key & SEQ_MASK, vector, tenant)

    def _slot(self, key: int, tenant: str, vector: bytes) -> int:
        """Return the slot of a new vector, which is written at the end."""
        if self._known.slots < 0:
            self._known.slots = slots_in_use(self._connection)
        self.sums.add_vector(key & SEQ_MASK, vector, tenant)
        self._vectors.append(vector)
        return self._known.slots + len(self._vectors) - 1

    def _append(self, rows: Sequence[NewRow | StateRequest]) -> list[Receipt]:
        receipts = []
        for row in rows:
            self._catch_up_clock(row.assertion.place.scope.tenant if isinstance(row, NewRow) else row.tenant)
            if isinstance(row, NewRow):
                receipts.append(self._append_assertion(row))
            else:
                self._append_state(row)
        return receipts

    def _catch_up_clock(self, tenant: str | None) -> None:
        """Bring the clock to the newest time of a tenant, which other processes may have written."""
        if tenant in self._known.timed:
            return
        self._known.timed.add(tenant)
        base = self.seqs.base_of(tenant)
        for (moment,) in select(self._connection, _NEWEST, (base, base + SEQ_MASK)):
            self._clock.reached(dt.datetime.fromisoformat(unpack_moment(moment)))

    def _append_assertion(self, row: NewRow) -> Receipt:
        vector = None if row.vector is None else self.storable(row.vector)
        track, hashed = self._track(row), self._hashed(row)
        same, is_taken = self._find(track, row, hashed)
        if same is None and (said := self._clock.dated(row.assertion)) is not row.assertion:
            row = row.said_otherwise(said)
            hashed = self._hashed(row)
            same, is_taken = self._find(track, row, hashed)
        if same is not None:
            return Receipt(recorded=same, new=False)
        if row.follows is not None:
            self._check_followed(row)
        if track is None:
            track = self._keep_track(row, new_track(self._connection, self._known.key, row))
        said = row.assertion
        counts = said.counts(said.state)
        if counts and (admitted := admit(self._connection, track, said)) is not track:
            track = self._keep_track(row, admitted)
        record_id = said.revises or (self._record_id(track, hashed[0]) if is_taken else None)
        tenant = said.place.scope.tenant or ""
        key = self.seqs.next_key(tenant)
        seq = key & SEQ_MASK
        id = new_id(seq)
        recorded = Recorded(
            assertion=said, id=id, record_id=record_id or own_record_id(id), seq=seq, recorded_at=self._clock()
        )
        self._write(row, track, recorded, key, hashed, vector, joined=counts)
        return Receipt(recorded=recorded, new=True)

    def _hashed(self, row: NewRow) -> tuple[bytes, bytes]:
        """Return the `keyed` digests of the slot and the fingerprint of an assertion."""
        return keyed(self._known.key, row.slot), keyed(self._known.key, row.fingerprint)

    def _track(self, row: NewRow) -> Track | None:
        found = self._known.tracks.get(_track_key(row))
        if found is None:
            found = track_of(self._connection, self._known.key, row)
            if found is not None:
                self._keep_track(row, found)
        return found

    def _keep_track(self, row: NewRow, track: Track) -> Track:
        self._known.tracks[_track_key(row)] = track
        return track

    def _head(self, track: Track, doc: str, shared: bytes | None) -> int:
        key = (track.id, doc, shared)
        if key not in self._known.heads:
            self._known.heads[key] = head_of(self._connection, track.id, doc, shared)
        return self._known.heads[key]

    def _check_followed(self, row: NewRow) -> None:
        self._flush()
        key = self.seqs.base_of(row.assertion.place.scope.tenant) + ((row.follows or 0) & SEQ_MASK)
        if not select(self._connection, "SELECT 1 FROM assertions WHERE seq = ?", (key,)):
            raise erased_meanwhile()

    def _find(self, track: Track | None, row: NewRow, hashed: tuple[bytes, bytes]) -> tuple[Recorded | None, bool]:
        """Return the equal assertion of a track, if there is one, and whether any has the same slot."""
        if track is None:
            return None, False
        slot, fingerprint = hashed
        key = (track.id, row.said_at, fingerprint)
        if (new := self._new.get(key)) is not None:
            return new, True
        known = self._looked_up.get(key)
        same, is_taken = known or select(self._connection, _FIND, (*key, slot))[0]
        if same is None:
            return None, bool(is_taken) or (track.id, slot) in self._slots
        (columns,) = select(self._connection, f"SELECT {ASSERTION_COLUMNS} FROM assertions a WHERE row = ?", (same,))
        return read_assertion(columns), True

    def _record_id(self, track: Track, slot: bytes) -> str | None:
        """Return the record that holds a slot: its last one, unless that has moved to another slot since."""
        self._flush()
        ((key, id, packed),) = select(
            self._connection,
            "SELECT seq, id, record_id FROM assertions WHERE track = ? AND slot = ? ORDER BY row DESC LIMIT 1",
            (track.id, slot),
        )
        record_id = unpack_record_id(packed, unpack_id(id, key & SEQ_MASK))
        base = key & ~SEQ_MASK
        last = select(
            self._connection,
            f"SELECT track, slot FROM assertions WHERE {OF_RECORD} AND seq > ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
            (*record_key(record_id, base), base, base + SEQ_MASK),
        )
        return record_id if last == [(track.id, slot)] else None

    def _write(
        self,
        row: NewRow,
        track: Track,
        recorded: Recorded,
        key: int,
        hashed: tuple[bytes, bytes],
        vector: bytes | None,
        *,
        joined: bool,
    ) -> None:
        tenant = row.assertion.place.scope.tenant or ""
        now, slot, fingerprint = recorded.recorded_at, *hashed
        seq, id, record_id = recorded.seq, recorded.id, recorded.record_id
        check = checksum(seq, id, record_id, now.isoformat(), row.partial_checksum)
        self.sums.add(check, tenant, track.sums)
        outline = row.outline if row.outline is not None and row.outline.version == self._known.outlines else None
        self._rows.append(
            (
                key,
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
                None if vector is None else self._slot(key, tenant, vector),
                None if outline is None else outline_body(seq, id, record_id, now, outline),
                row.doc,
            ),
        )
        self._new[track.id, row.said_at, fingerprint] = recorded
        self._slots.add((track.id, slot))

    def _append_state(self, request: StateRequest) -> None:
        self._flush()
        tenant = request.tenant or ""
        at = key_of_id(self._connection, self.seqs.base_of(tenant), request.assertion_id)
        if at is None:
            raise unknown_assertion()
        changed = self._changed(at)
        check_expected(request, self._state(at, changed.recorded))
        moment = self._clock().isoformat()
        key = self.seqs.next_key(tenant)
        self._write_state(changed, key, (tenant, request.state.value, moment, request.reason, request.actor))

    def _changed(self, key: int) -> _Changed:
        query = f"SELECT a.track, a.joined, {ASSERTION_COLUMNS} FROM assertions a WHERE a.seq = ?"
        ((track, joined, *columns),) = select(self._connection, query, (key,))
        return _Changed(key, track, bool(joined), read_assertion(tuple(columns)))

    def _write_state(self, changed: _Changed, key: int, change: tuple[str, str, str, str | None, str | None]) -> None:
        tenant, state, *_ = change
        said = changed.recorded.assertion
        if not changed.joined and said.counts(AssertionState(state)):
            admit(self._connection, track_numbered(self._connection, changed.track), said)
            self._known.tracks.clear()
            self._connection.execute("UPDATE assertions SET joined = 1 WHERE seq = ?", (changed.key,))
        self._connection.execute(
            "INSERT INTO state_changes VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", (key, changed.key, *change)
        )
        check = row_sum(key & SEQ_MASK, changed.recorded.seq, *change)
        self.sums.add(check, tenant, sums_of_track(self._connection, changed.track))

    def _state(self, key: int, recorded: Recorded) -> AssertionState:
        changed = state_changes(
            self._connection,
            f"SELECT '', {STATE_COLUMNS} FROM state_changes s WHERE s.assertion = ? ORDER BY s.row DESC LIMIT 1",
            (key,),
        )
        return read_state(changed[0]).state if changed else recorded.assertion.state


def _track_key(row: NewRow) -> tuple[bytes, str, str]:
    return row.place, row.assertion.keyword, row.assertion.details.owner or ""


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
