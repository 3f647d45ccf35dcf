"""Write transactions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import apsw

from factmem.abc import EmbedderIdentity, Receipt, StateRequest
from factmem.errors import EmbedderMismatchError, InvalidVectorError
from factmem.providers import SteadyClock, check_expected, erased_meanwhile, unknown_assertion
from factmem.records import AssertionState, Recorded
from factmem.vectors import unit_vector
from factmem_sqlite_vec.outlines import Kept, insert_outlines, use_outlines
from factmem_sqlite_vec.reading import read_embedder
from factmem_sqlite_vec.rows import (
    ASSERTION_COLUMNS,
    OF_RECORD,
    NewRow,
    checksum,
    microseconds,
    new_id,
    own_record_id,
    pack_id,
    pack_record_id,
    read_assertion,
    read_state,
    record_key,
    select,
    seq_of,
    unpack_id,
    unpack_moment,
    unpack_record_id,
)
from factmem_sqlite_vec.sums import NewSums, agreed_seq, row_sum
from factmem_sqlite_vec.tracks import Track, admit, head_of, new_track, sums_of_track, track_numbered, track_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Batch", "mismatch", "write_batch"]

_META: Final = "SELECT key, value FROM meta WHERE key IN ('seq', 'seq again', 'embedder', 'outlines')"


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


class Batch:
    """One write transaction under way: assigns sequence numbers, and collects writes for its end.

    Args:
        connection: Connection with an open transaction.
        clock: Returns the time of recording.
        bound: Embedder in use in this process, if any.
        outlines: Version of the outlines in use in this process, if any; a store without outlines gets them.

    Attributes:
        embedder: Embedder that the store is bound to.
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
        self._seq = self._first = agreed_seq([meta[key] for key in ("seq", "seq again") if key in meta])
        self.sums: NewSums = NewSums()
        self.embedder: EmbedderIdentity | None = read_embedder(meta.get("embedder"))
        self._vectors: dict[int, tuple[str, bytes]] = {}
        self._outlined = meta.get("outlines")
        if outlines is not None and self._outlined is None:
            use_outlines(connection, outlines)
            self._outlined = outlines
        self._outlines: list[Kept] = []
        self._tracks: dict[tuple[bytes, str, str], Track] = {}
        self._heads: dict[tuple[int, str], int] = {}

    def next_seq(self) -> int:
        """Return the next number of the store's sequence."""
        self._seq += 1
        return self._seq

    def append(self, rows: Sequence[NewRow | StateRequest]) -> list[Receipt]:
        """Write one request, all or nothing.

        Raises:
            FactMemError: See `KeepsHistory.append`; the batch continues without it.
        """
        before = (self._seq, len(self._vectors), len(self.sums), len(self._outlines))
        try:
            if len(rows) == 1:
                # It is checked before its first write, so there is nothing to roll back.
                return self._append(rows)
            with _savepoint(self._connection):
                return self._append(rows)
        except BaseException:
            self._seq = before[0]
            for number in list(self._vectors)[before[1] :]:
                del self._vectors[number]
            self.sums.forget(before[2])
            del self._outlines[before[3] :]
            self._tracks.clear()
            self._heads.clear()
            raise

    def finish(self) -> None:
        """Write the collected rows, and the last sequence number."""
        self._store_vectors(self._vectors)
        self.sums.write(self._connection)
        if self._outlines:
            insert_outlines(self._connection, self._outlines)
        if self._seq != self._first:
            self._connection.execute("UPDATE meta SET value = ? WHERE key IN ('seq', 'seq again')", (self._seq,))

    def replace_vectors(self, vectors: Mapping[int, bytes]) -> None:
        """Replace vectors; numbers without an assertion are ignored."""
        known: dict[int, tuple[str, bytes]] = {}
        for seq, vector in vectors.items():
            for (tenant,) in select(self._connection, "SELECT tenant FROM assertions WHERE seq = ?", (seq,)):
                self.drop_vector(seq, tenant)
                known[seq] = (tenant, vector)
        self._store_vectors(known)

    def drop_vector(self, seq: int, tenant: str) -> None:
        """Delete the vector of an assertion, if it has one."""
        for (vector,) in select(self._connection, "SELECT embedding FROM vectors WHERE rowid = ?", (seq,)):
            self.sums.take_vector(seq, vector, tenant)
            self._connection.execute("DELETE FROM vectors WHERE rowid = ?", (seq,))

    def _store_vectors(self, vectors: Mapping[int, tuple[str, bytes]]) -> None:
        rows = sorted(vectors.items())
        for seq, (tenant, vector) in rows:
            self.sums.add_vector(seq, vector, tenant)
        self._connection.executemany(
            "INSERT INTO vectors(rowid, embedding) VALUES (?, ?)", [(seq, vector) for seq, (_, vector) in rows]
        )

    def checked_vector(self, vector: NDArray[np.float32]) -> bytes:
        """Return a vector of length 1 in its stored form.

        Raises:
            InvalidVectorError: It is of another dimension than the store's.
            EmbedderMismatchError: The store was bound to another embedder meanwhile.
        """
        if self.embedder is None:
            raise InvalidVectorError("the store has no embedder yet: call use_embedder before handing in vectors")
        if self._bound not in (None, self.embedder):
            raise mismatch(self.embedder, self._bound)
        if len(vector) != self.embedder.dimension:
            unit_vector(vector, dimension=self.embedder.dimension)
        return vector.tobytes()

    def _append(self, rows: Sequence[NewRow | StateRequest]) -> list[Receipt]:
        receipts = []
        if self._seq == self._first:
            self._catch_up_clock()
        for row in rows:
            if isinstance(row, NewRow):
                receipts.append(self._append_assertion(row))
            else:
                self._append_state(row)
        return receipts

    def _catch_up_clock(self) -> None:
        """Bring the clock to the newest time in the store, which other processes may have written."""
        for table in ("assertions", "state_changes"):
            for (moment,) in select(self._connection, f"SELECT recorded_at FROM {table} ORDER BY seq DESC LIMIT 1"):
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
            self._check_followed(row.follows)
        if track is None:
            track = self._keep_track(row, new_track(self._connection, row))
        counts = said.counts(said.state)
        if counts:
            track = self._keep_track(row, admit(self._connection, track, said))
        recorded = self._insert(row, track, joined=counts)
        if vector is not None:
            self._vectors[recorded.seq] = (said.place.scope.tenant or "", vector)
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

    def _check_followed(self, seq: int) -> None:
        if not select(self._connection, "SELECT 1 FROM assertions WHERE seq = ?", (seq,)):
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
        ((seq, id, packed),) = select(
            self._connection,
            "SELECT seq, id, record_id FROM assertions WHERE track = ? AND slot = ? ORDER BY seq DESC LIMIT 1",
            (track.id, slot),
        )
        record_id = unpack_record_id(packed, unpack_id(id, seq))
        last = select(
            self._connection,
            f"SELECT track, slot FROM assertions WHERE {OF_RECORD} ORDER BY seq DESC LIMIT 1",
            record_key(record_id),
        )
        return record_id if last == [(track.id, slot)] else None

    def _insert(self, row: NewRow, track: Track, *, joined: bool) -> Recorded:
        seq, now = self.next_seq(), self._clock()
        id, packed_id = new_id(seq)
        earlier = row.assertion.revises or self._record_id(track, row.slot)
        record_id = earlier or own_record_id(id)
        recorded_at = now.isoformat()
        check = checksum(seq, id, record_id, recorded_at, row.partial_checksum)
        tenant = row.assertion.place.scope.tenant or ""
        self.sums.add(check, tenant, (row.place, row.assertion.keyword))
        self._connection.execute(
            "INSERT INTO assertions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                seq,
                packed_id,
                pack_record_id(earlier, id) if earlier else None,
                track.id,
                tenant,
                row.slot,
                row.said_at,
                row.fingerprint,
                microseconds(now),
                check,
                seq if joined else None,
                self._head(track, row.head),
                row.doc,
            ),
        )
        if row.outline is not None and row.outline.version == self._outlined:
            kept = Kept(
                seq=seq,
                id=id,
                record_id=record_id,
                recorded_at=now,
                checksum=check,
                tenant=tenant,
                outline=row.outline,
            )
            self._outlines.append(kept)
        return Recorded(assertion=row.assertion, id=id, record_id=record_id, seq=seq, recorded_at=now)

    def _append_state(self, request: StateRequest) -> None:
        wanted = seq_of(request.assertion_id)
        found = select(
            self._connection,
            f"SELECT a.tenant, a.track, a.joined, {ASSERTION_COLUMNS} FROM assertions a WHERE a.seq = ? AND a.id = ?",
            (wanted, pack_id(request.assertion_id, wanted)),
        )
        if not found:
            raise unknown_assertion()
        tenant, track, joined, *columns = found[0]
        recorded = read_assertion(tuple(columns))
        check_expected(request, self._state(recorded))
        seq = self.next_seq()
        if joined is None and recorded.assertion.counts(request.state):
            admit(self._connection, track_numbered(self._connection, track), recorded.assertion)
            self._tracks.clear()
            self._connection.execute("UPDATE assertions SET joined = ? WHERE seq = ?", (seq, recorded.seq))
        now = self._clock().isoformat()
        row = (seq, recorded.seq, tenant, request.state.value, now, request.reason, request.actor)
        self._connection.execute("INSERT INTO state_changes VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        self.sums.add(row_sum(*row), tenant, sums_of_track(self._connection, track))

    def _state(self, recorded: Recorded) -> AssertionState:
        changed = select(
            self._connection,
            "SELECT '', * FROM state_changes WHERE assertion = ? ORDER BY seq DESC LIMIT 1",
            (recorded.seq,),
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
