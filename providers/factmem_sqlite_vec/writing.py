"""Write transactions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import apsw
import attrs

from factmem.abc import EmbedderIdentity, Receipt, StateRequest
from factmem.errors import EmbedderMismatchError, InvalidVectorError
from factmem.providers import SteadyClock, check_expected, erased_meanwhile, unknown_assertion
from factmem.providers.outline_bodies import OutlineRow
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
from factmem.vectors import unit_vector
from factmem_sqlite_vec.outlines import insert_outlines, use_outlines
from factmem_sqlite_vec.reading import read_embedder
from factmem_sqlite_vec.rows import (
    ASSERTION_COLUMNS,
    OF_RECORD,
    key_of_id,
    read_state,
    record_key,
    select,
    state_changes,
)
from factmem_sqlite_vec.sequences import NewSeqs
from factmem_sqlite_vec.sums import NewSums
from factmem_sqlite_vec.tracks import Track, admit, head_of, new_track, sums_of_track, track_numbered, track_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Batch", "mismatch", "write_batch"]

_NEWEST: Final = " UNION ALL ".join(
    f"SELECT * FROM (SELECT recorded_at FROM {table} WHERE rowid > ?1 AND rowid <= ?2 ORDER BY rowid DESC LIMIT 1)"
    for table in ("assertions", "state_changes")
)
"""Times of the newest assertion and of the newest change of state, between two keys."""

_META: Final = "SELECT key, value FROM meta WHERE key IN ('embedder', 'outlines')"


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
        connection: Connection with an open transaction.
        clock: Returns the time of recording.
        bound: Embedder in use in this process, if any.
        outlines: Version of the outlines in use in this process, if any; a store without outlines gets them.

    Attributes:
        embedder: Embedder that the store is bound to.
        seqs: Sequence numbers that the transaction assigns.
        sums: Sums that the transaction changes.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        clock: SteadyClock,
        bound: EmbedderIdentity | None,
        *,
        outlines: int | None = None,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._bound = bound
        meta: dict[str, Any] = dict(select(connection, _META))
        self.seqs: NewSeqs = NewSeqs(connection)
        self.sums: NewSums = NewSums()
        self.embedder: EmbedderIdentity | None = read_embedder(meta.get("embedder"))
        self._is_rebound = bound not in (None, self.embedder)
        self._vectors: dict[int, tuple[str, bytes]] = {}
        self._outlined = meta.get("outlines")
        if outlines is not None and self._outlined is None:
            use_outlines(connection, outlines)
            self._outlined = outlines
        self._outlines: list[OutlineRow] = []
        self._tracks: dict[tuple[bytes, str, str], Track] = {}
        self._heads: dict[tuple[int, str], int] = {}
        self._timed: set[str | None] = set()

    def append(self, rows: Sequence[NewRow | StateRequest]) -> list[Receipt]:
        """Write one request, all or nothing.

        Raises:
            FactMemError: See `KeepsHistory.append`; the batch continues without it.
        """
        before = (self.seqs.marks(), len(self._vectors), len(self.sums), len(self._outlines))
        try:
            if len(rows) == 1:
                # It is checked before its first write, so there is nothing to roll back.
                return self._append(rows)
            with _savepoint(self._connection):
                return self._append(rows)
        except BaseException:
            self.seqs.reset(before[0])
            for key in list(self._vectors)[before[1] :]:
                del self._vectors[key]
            self.sums.forget(before[2])
            del self._outlines[before[3] :]
            self.forget_tracks()
            raise

    def take_assertion(self, row: NewRow, recorded: Recorded) -> None:
        """Write an assertion as another store recorded it.

        Raises:
            ConceptConflictError: Its type is not that of its track.
        """
        said, tenant = row.assertion, row.assertion.place.scope.tenant or ""
        self._clock.reached(recorded.recorded_at)
        key = self.seqs.advance_to(tenant, recorded.seq)
        track = self._track(row) or self._keep_track(row, new_track(self._connection, row))
        counts = said.counts(said.state)
        if counts:
            track = self._keep_track(row, admit(self._connection, track, said))
        self._write(row, track, recorded, key, joined=counts)
        if row.vector is not None:
            self._vectors[key] = (tenant, self.checked_vector(row.vector))

    def take_state(self, change: StateChange, tenant: str | None) -> None:
        """Write a change of state as another store recorded it.

        Raises:
            RecordNotFoundError: It names no assertion of the tenant.
            ConceptConflictError: It would accept what cannot join its track.
        """
        name = tenant or ""
        self._clock.reached(change.recorded_at)
        at = key_of_id(self._connection, self.seqs.base_of(name), name, change.assertion_id)
        if at is None:
            raise unknown_assertion()
        key, moment = self.seqs.advance_to(name, change.seq), change.recorded_at.isoformat()
        self._write_state(self._changed(at), key, (name, change.state.value, moment, change.reason, change.actor))

    def forget_tracks(self) -> None:
        """Read tracks and heads again, after rows were deleted."""
        self._tracks.clear()
        self._heads.clear()

    def finish(self) -> None:
        """Write the collected rows, and the last sequence numbers."""
        self._store_vectors(self._vectors)
        self.sums.write(self._connection)
        if self._outlines:
            insert_outlines(self._connection, self._outlines)
        self.seqs.write()

    def replace_vectors(self, tenant: str, vectors: Mapping[int, bytes]) -> None:
        """Replace vectors of a tenant, by sequence number; numbers without an assertion are ignored."""
        base = self.seqs.base_of(tenant)
        known: dict[int, tuple[str, bytes]] = {}
        for seq, vector in vectors.items():
            key = base + (seq & SEQ_MASK)
            if select(self._connection, "SELECT 1 FROM assertions WHERE rowid = ? AND tenant = ?", (key, tenant)):
                self.drop_vector(key, tenant)
                known[key] = (tenant, vector)
        self._store_vectors(known)

    def drop_vector(self, key: int, tenant: str) -> None:
        """Delete the vector of an assertion, if it has one."""
        for (vector,) in select(self._connection, "SELECT embedding FROM vectors WHERE rowid = ?", (key,)):
            self.sums.take_vector(key & SEQ_MASK, vector, tenant)
            self._connection.execute("DELETE FROM vectors WHERE rowid = ?", (key,))

    def _store_vectors(self, vectors: Mapping[int, tuple[str, bytes]]) -> None:
        rows = sorted(vectors.items())
        for key, (tenant, vector) in rows:
            self.sums.add_vector(key & SEQ_MASK, vector, tenant)
        self._connection.executemany(
            "INSERT INTO vectors(rowid, embedding) VALUES (?, ?)", [(key, vector) for key, (_, vector) in rows]
        )

    def checked_vector(self, vector: NDArray[np.float32]) -> bytes:
        """Return a vector of length 1 in its stored form.

        Raises:
            InvalidVectorError: It is of another dimension than the store's.
            EmbedderMismatchError: The store was bound to another embedder meanwhile.
        """
        if self.embedder is None:
            raise InvalidVectorError("the store has no embedder yet: call use_embedder before you pass vectors")
        if self._is_rebound:
            raise mismatch(self.embedder, self._bound)
        if len(vector) != self.embedder.dimension:
            unit_vector(vector, dimension=self.embedder.dimension)
        return vector.tobytes()

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
        if tenant in self._timed:
            return
        self._timed.add(tenant)
        base = self.seqs.base_of(tenant)
        for (moment,) in select(self._connection, _NEWEST, (base, base + SEQ_MASK)):
            self._clock.reached(dt.datetime.fromisoformat(unpack_moment(moment)))

    def _append_assertion(self, row: NewRow) -> Receipt:
        vector = None if row.vector is None else self.checked_vector(row.vector)
        track = self._track(row)
        if track is not None and (known := self._known(track, row)) is not None:
            return Receipt(recorded=known, new=False)
        if (said := self._clock.dated(row.assertion)) is not row.assertion:
            row = row.said_otherwise(said)
            if track is not None and (known := self._known(track, row)) is not None:
                return Receipt(recorded=known, new=False)
        if row.follows is not None:
            self._check_followed(row)
        if track is None:
            track = self._keep_track(row, new_track(self._connection, row))
        counts = said.counts(said.state)
        if counts and (admitted := admit(self._connection, track, said)) is not track:
            track = self._keep_track(row, admitted)
        recorded = self._insert(row, track, joined=counts)
        if vector is not None:
            tenant = said.place.scope.tenant or ""
            self._vectors[self.seqs.base_of(tenant) + recorded.seq] = (tenant, vector)
        return Receipt(recorded=recorded, new=True)

    def _track(self, row: NewRow) -> Track | None:
        found = self._tracks.get(_track_key(row))
        if found is None:
            found = track_of(self._connection, row)
            if found is not None:
                self._keep_track(row, found)
        return found

    def _keep_track(self, row: NewRow, track: Track) -> Track:
        self._tracks[_track_key(row)] = track
        return track

    def _head(self, track: Track, head: str) -> int:
        key = (track.id, head)
        if key not in self._heads:
            self._heads[key] = head_of(self._connection, track, head)
        return self._heads[key]

    def _check_followed(self, row: NewRow) -> None:
        key = self.seqs.base_of(row.assertion.place.scope.tenant) + ((row.follows or 0) & SEQ_MASK)
        if not select(self._connection, "SELECT 1 FROM assertions WHERE rowid = ?", (key,)):
            raise erased_meanwhile()

    def _known(self, track: Track, row: NewRow) -> Recorded | None:
        found = select(
            self._connection,
            f"SELECT {ASSERTION_COLUMNS} FROM assertions a WHERE a.track = ? AND a.said_at = ? AND a.fingerprint = ?",
            (track.id, row.said_at, row.fingerprint),
        )
        return read_assertion(found[0]) if found else None

    def _record_id(self, track: Track, slot: bytes) -> str | None:
        """Return the record that holds a slot: its last one, unless that has moved to another value since."""
        # Queried first because SQLite takes long to find nothing in descending order.
        if not select(
            self._connection, "SELECT 1 FROM assertions WHERE track = ? AND slot = ? LIMIT 1", (track.id, slot)
        ):
            return None
        ((key, id, packed),) = select(
            self._connection,
            "SELECT rowid, id, record_id FROM assertions WHERE track = ? AND slot = ? ORDER BY rowid DESC LIMIT 1",
            (track.id, slot),
        )
        record_id = unpack_record_id(packed, unpack_id(id, key & SEQ_MASK))
        last = select(
            self._connection,
            f"SELECT track, slot FROM assertions WHERE {OF_RECORD} ORDER BY rowid DESC LIMIT 1",
            record_key(record_id, key & ~SEQ_MASK),
        )
        return record_id if last == [(track.id, slot)] else None

    def _insert(self, row: NewRow, track: Track, *, joined: bool) -> Recorded:
        key = self.seqs.next_key(row.assertion.place.scope.tenant or "")
        seq = key & SEQ_MASK
        id = new_id(seq)
        record_id = row.assertion.revises or self._record_id(track, row.slot) or own_record_id(id)
        recorded = Recorded(assertion=row.assertion, id=id, record_id=record_id, seq=seq, recorded_at=self._clock())
        self._write(row, track, recorded, key, joined=joined)
        return recorded

    def _write(self, row: NewRow, track: Track, recorded: Recorded, key: int, *, joined: bool) -> None:
        tenant, now = row.assertion.place.scope.tenant or "", recorded.recorded_at
        seq, id, record_id = recorded.seq, recorded.id, recorded.record_id
        check = checksum(seq, id, record_id, now.isoformat(), row.partial_checksum)
        self.sums.add(check, tenant, (row.place, row.assertion.keyword))
        self._connection.execute(
            "INSERT INTO assertions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                key,
                pack_id(id, seq),
                pack_record_id(record_id, id),
                track.id,
                tenant,
                row.slot,
                row.said_at,
                row.fingerprint,
                microseconds(now),
                check,
                key if joined else None,
                self._head(track, row.head),
                row.doc,
            ),
        )
        if row.outline is not None and row.outline.version == self._outlined:
            kept = OutlineRow(
                seq=seq,
                id=id,
                record_id=record_id,
                recorded_at=now,
                checksum=check,
                tenant=tenant,
                outline=row.outline,
            )
            self._outlines.append(kept)

    def _append_state(self, request: StateRequest) -> None:
        tenant = request.tenant or ""
        at = key_of_id(self._connection, self.seqs.base_of(tenant), tenant, request.assertion_id)
        if at is None:
            raise unknown_assertion()
        changed = self._changed(at)
        check_expected(request, self._state(at, changed.recorded))
        moment = self._clock().isoformat()
        key = self.seqs.next_key(tenant)
        self._write_state(changed, key, (tenant, request.state.value, moment, request.reason, request.actor))

    def _changed(self, key: int) -> _Changed:
        query = f"SELECT a.track, a.joined, {ASSERTION_COLUMNS} FROM assertions a WHERE a.rowid = ?"
        ((track, joined, *columns),) = select(self._connection, query, (key,))
        return _Changed(key, track, joined is not None, read_assertion(tuple(columns)))

    def _write_state(self, changed: _Changed, key: int, change: tuple[str, str, str, str | None, str | None]) -> None:
        tenant, state, *_ = change
        said = changed.recorded.assertion
        if not changed.joined and said.counts(AssertionState(state)):
            admit(self._connection, track_numbered(self._connection, changed.track), said)
            self._tracks.clear()
            self._connection.execute("UPDATE assertions SET joined = ? WHERE rowid = ?", (key, changed.key))
        self._connection.execute("INSERT INTO state_changes VALUES (?, ?, ?, ?, ?, ?, ?)", (key, changed.key, *change))
        check = row_sum(key & SEQ_MASK, changed.recorded.seq, *change)
        self.sums.add(check, tenant, sums_of_track(self._connection, changed.track))

    def _state(self, key: int, recorded: Recorded) -> AssertionState:
        changed = state_changes(
            self._connection,
            "SELECT '', * FROM state_changes WHERE assertion = ? ORDER BY rowid DESC LIMIT 1",
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
) -> None:
    """Call ``work`` in one transaction that is durable when this returns; see `Batch` for the arguments.

    Raises:
        apsw.Error: nothing was written.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        batch = Batch(connection, clock, bound, outlines=outlines)
        work(batch)
        batch.finish()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def mismatch(stored: EmbedderIdentity, wanted: EmbedderIdentity | None) -> EmbedderMismatchError:
    """Return the error of a store whose vectors come from another embedder."""
    return EmbedderMismatchError(
        f"this store's vectors come from {stored}, not from {wanted}: "
        "open it with that embedder, or embed it again with Memory.reembed() or `factmem reembed`"
    )
