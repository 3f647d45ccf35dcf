"""The log in a PostgreSQL database: reading, writing and erasing, each operation as one transaction.

A write takes one round trip to read all that its requests depend on, and one to write and commit. It locks the counters
of its tenants, in order, before it reads. So what it reads stays true until it ends.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

import attrs

from factmem.abc.capabilities import Access, EmbedderIdentity, EraseReceipt, LogPart, Receipt
from factmem.abc.clock import Clock
from factmem.abc.outlines import Outline, Outlined
from factmem.codec import MAX_SEQ
from factmem.errors import CapabilityError, CorruptStoreError, NewerVersionError, ProviderError
from factmem.facts import FactType, microseconds, moment_at
from factmem.progress import Progress
from factmem.providers import TrackIndex
from factmem.providers.sql_rows import (
    NewRow,
    PreparedRow,
    binds_anew,
    checksum,
    damaged_vectors,
    in_order,
    new_ids,
    outline_body,
    own_record_id,
    pack_id,
    part_of,
    place_digest,
    prepared_part,
    read_assertion,
    read_embedder,
    read_outlines,
    row_sum,
    seq_of,
    stored_vector,
    unpack_id,
    written_embedder,
)
from factmem.providers.threaded import ReadyRequests, Request, checked_tenants, foreign_rows
from factmem.providers.write_plans import Planned, Planner, SteadyClock, check_part
from factmem.records import Assertion, AssertionState, LogEntry, Place, Recorded, StateChange, Tombstone
from factmem.store_findings import Finding, finding_of, no_store, pending_erasure, remakeable_vectors, tenant_words
from factmem.vectors import unit_vector
from factmem_postgres.schema import MIGRATIONS, TABLES
from factmem_postgres.server import Ending, Row, Server, Session, Step, of_all, of_tenant

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

P = ParamSpec("P")
T = TypeVar("T")

_ASSERTION_COLUMNS: Final = "a.seq, a.id, a.record_id, a.recorded_at, a.checksum, a.doc, a.said_at, h.doc"
"""Columns that `_read_recorded` takes, of ``a`` and `_WITH_HEAD`."""

_WITH_HEAD: Final = "LEFT JOIN {schema}.heads h ON h.tenant = a.tenant AND h.id = a.head"

_STATE_COLUMNS: Final = "a.id, s.seq, s.assertion, s.state, s.recorded_at, s.reason, s.actor, s.checksum"
"""Columns that `_read_state` takes, of ``s`` and its assertion ``a``."""

_OF_RECORD: Final = "(a.record_id = w.record OR (a.seq = w.seq AND a.id = w.own AND a.record_id IS NULL))"
"""Condition on the assertions of a record; see `_record_key`."""

_OWN_RECORD: Final = (
    "'\\x00'::bytea || substring(int8send(a.seq) FROM 3)"
    " || decode(translate(encode(a.id, 'hex'), '0123456789abcdef', 'fedcba9876543210'), 'hex')"
)
"""Packed id of the record that an assertion ``a`` begins, as `factmem.providers.sql_rows.own_record_id` derives it."""

_BY_ID: Final = (
    "(SELECT * FROM {schema}.assertions WHERE tenant = %s AND seq = w.seq AND id = w.own"
    " UNION ALL SELECT * FROM {schema}.assertions WHERE tenant = %s AND id = w.id AND octet_length(id) <> 10)"
)
"""Assertion of an id, from `_assertion_key`; an id of another store does not name its number, and is looked up."""

_OWN_BYTES: Final = 10
"""Length of the stored form of an id of ours, which every other form avoids."""

_HEXADECIMAL: Final = b"\x00"
_TEXT: Final = b"\x01"
_PADDED_TEXT: Final = b"\x02"


def _bytes_of(text: str | None) -> bytes:
    """Return a name as it is stored; the empty one stands for None."""
    return (text or "").encode(errors="surrogatepass")


def _text_of(stored: bytes | None) -> str | None:
    return None if stored is None else stored.decode()


def _packed(id: str) -> bytes:
    """Return the stored form of an id of any store."""
    short = pack_id(id)
    if isinstance(short, bytes):
        return _HEXADECIMAL + short
    text = _bytes_of(short)
    return _PADDED_TEXT + text + b"\0" if len(text) == _OWN_BYTES - 1 else _TEXT + text


def _unpacked(stored: bytes) -> str:
    """Return an id from the result of `_packed`."""
    match stored[:1]:
        case b"\x00":
            return stored[1:].hex()
        case b"\x02":
            return stored[1:-1].decode(errors="surrogatepass")
        case _:
            return stored[1:].decode(errors="surrogatepass")


def _packed_assertion(id: str, seq: int) -> bytes:
    """Return the stored form of an assertion's id: one that begins with its number is stored without that."""
    own = pack_id(id, seq)
    return own if isinstance(own, bytes) else _packed(id)


def assertion_id(stored: bytes, seq: int) -> str:
    """Return an assertion's id from the result of `_packed_assertion`."""
    return unpack_id(stored, seq) if len(stored) == _OWN_BYTES else _unpacked(stored)


def _packed_record(record_id: str, id: str, seq: int) -> bytes | None:
    """Return the stored form of the id of an assertion's record; None for the record that one of ours begins.

    Args:
        record_id: Id of the record.
        id: Id of the assertion.
        seq: Number of the assertion.
    """
    if len(_packed_assertion(id, seq)) == _OWN_BYTES and record_id == own_record_id(id):
        return None
    return _packed(record_id)


def record_of(stored: bytes | None, id: str) -> str:
    """Return the id of the record of an assertion from the result of `_packed_record`.

    Args:
        stored: Stored form.
        id: Id of the assertion.
    """
    return own_record_id(id) if stored is None else _unpacked(stored)


def _assertion_key(id: str) -> tuple[int, bytes, bytes]:
    """Return the arguments ``seq``, ``own`` and ``id`` of `_BY_ID`."""
    seq = seq_of(id)
    return seq, _packed_assertion(id, seq), _packed(id)


def _record_key(record_id: str) -> tuple[bytes, int, bytes]:
    """Return the arguments ``record``, ``seq`` and ``own`` of `_OF_RECORD`."""
    seq = seq_of(record_id)
    try:
        own = _packed_assertion(own_record_id(record_id), seq)
    except ValueError:
        own = b""
    return _packed(record_id), seq, own


def _read_recorded(row: tuple[Any, ...]) -> Recorded:
    """Read the columns `_ASSERTION_COLUMNS`.

    Raises:
        NewerVersionError: A newer factmem wrote it.
        CorruptStoreError: The row was changed.
    """
    seq, packed_id, packed_record_id, *rest = row
    id = assertion_id(packed_id, seq)
    return read_assertion((seq, id, record_of(packed_record_id, id), *rest))


def _state_sum(tenant: bytes, change: StateChange, assertion: int) -> int:
    columns = (change.seq, assertion, change.state.value, change.recorded_at.isoformat(), change.reason, change.actor)
    return row_sum(tenant, *columns)


def _read_state(tenant: bytes, row: tuple[Any, ...]) -> StateChange:
    """Read the columns `_STATE_COLUMNS`.

    Raises:
        CorruptStoreError: The row was changed.
    """
    id, seq, assertion, state, recorded_at, reason, actor, expected = row
    try:
        change = StateChange(
            assertion_id=assertion_id(id, assertion),
            state=AssertionState(state),
            seq=seq,
            recorded_at=moment_at(recorded_at),
            reason=_text_of(reason),
            actor=_text_of(actor),
        )
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise _damaged("state change", seq) from None
    if _state_sum(tenant, change, assertion) != expected:
        raise _damaged("state change", seq)
    return change


def _tombstone_sum(tenant: bytes, tombstone: Tombstone) -> int:
    return row_sum(tenant, tombstone.seq, tombstone.assertion_id)


def _read_tombstone(tenant: bytes, row: tuple[Any, ...]) -> Tombstone:
    """Read the number, packed id and checksum of a tombstone.

    Raises:
        CorruptStoreError: The row was changed.
    """
    seq, id, expected = row
    tombstone = Tombstone(assertion_id=_unpacked(id), seq=seq)
    if _tombstone_sum(tenant, tombstone) != expected:
        raise _damaged("tombstone", seq)
    return tombstone


def _damaged(what: str, seq: int) -> CorruptStoreError:
    return CorruptStoreError(f"the {what} number {seq} is damaged: restore the store from a backup")


_Prepared: TypeAlias = Sequence[PreparedRow]
_OutlineRow: TypeAlias = tuple[int, int, Outline, bytes]
"""The number and the checksum of an assertion, its outline, and what is stored of that; see `outline_body`."""

_META: Final = "SELECT key, value FROM {schema}.meta"
_NEW_COUNTER: Final = (
    "INSERT INTO {schema}.counters(tenant, seq, sum, recorded_at) VALUES (%s, 0, 0, 0) ON CONFLICT (tenant) DO NOTHING"
)
_COUNTER: Final = "SELECT seq, sum, recorded_at, copying FROM {schema}.counters WHERE tenant = %s FOR UPDATE"
_COUNT: Final = "UPDATE {schema}.counters SET seq = %s, sum = %s, recorded_at = %s WHERE tenant = %s"

_TRACKS: Final = (
    "SELECT w.n, t.id, t.fact_type, t.shapes"
    " FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[]) WITH ORDINALITY AS w(place, keyword, owner, n)"
    " JOIN {schema}.tracks t ON t.tenant = %s AND t.place = w.place AND t.keyword = w.keyword AND t.owner = w.owner"
)
_HEADS: Final = "SELECT digest, id FROM {schema}.heads WHERE tenant = %s AND digest = ANY (%b::bytea[])"
_SAME: Final = (
    f"SELECT {_ASSERTION_COLUMNS} FROM unnest(%b::bigint[], %b::bytea[]) AS w(said_at, fingerprint)"
    " JOIN {schema}.assertions a"
    " ON a.tenant = %s AND a.said_at = w.said_at AND a.fingerprint = w.fingerprint"
    f" {_WITH_HEAD}"
)
# The last assertion of each slot, unless its record has moved to another value since.
_SLOTS: Final = (
    "SELECT w.n, a.seq, a.id, a.record_id"
    " FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[]) WITH ORDINALITY"
    " AS w(place, keyword, owner, slot, n)"
    " JOIN {schema}.tracks t ON t.tenant = %s AND t.place = w.place AND t.keyword = w.keyword AND t.owner = w.owner"
    " CROSS JOIN LATERAL (SELECT l.seq, l.id, l.record_id FROM {schema}.assertions l"
    " WHERE l.tenant = %s AND l.track = t.id AND substring(l.slot FOR 7) = substring(w.slot FOR 7) AND l.slot = w.slot"
    " ORDER BY l.seq DESC LIMIT 1) a"
    " WHERE NOT EXISTS (SELECT FROM {schema}.assertions b WHERE b.tenant = %s"
    f" AND b.record_id = coalesce(a.record_id, {_OWN_RECORD}) AND b.seq > a.seq)"
)
_FOLLOWED: Final = "SELECT seq FROM {schema}.assertions WHERE tenant = %s AND seq = ANY (%b::bigint[])"
_STATES: Final = (
    f"SELECT {_ASSERTION_COLUMNS}, a.joined, t.id, t.fact_type, t.shapes,"
    " (SELECT s.state FROM {schema}.state_changes s"
    " WHERE s.tenant = a.tenant AND s.assertion = a.seq ORDER BY s.seq DESC LIMIT 1)"
    f" FROM unnest(%b::bigint[], %b::bytea[], %b::bytea[]) AS w(seq, own, id) CROSS JOIN LATERAL {_BY_ID} a"
    f" JOIN {{schema}}.tracks t ON t.tenant = a.tenant AND t.id = a.track {_WITH_HEAD}"
)

_NEW_TRACKS: Final = (
    "INSERT INTO {schema}.tracks(tenant, place, keyword, owner, id, fact_type, shapes)"
    " SELECT %s, * FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[], %b::bigint[], %b::text[], %b::text[])"
)
_CHANGED_TRACKS: Final = (
    "UPDATE {schema}.tracks t SET fact_type = w.fact_type, shapes = w.shapes"
    " FROM unnest(%b::bigint[], %b::text[], %b::text[]) AS w(id, fact_type, shapes)"
    " WHERE t.tenant = %s AND t.id = w.id"
)
_NEW_HEADS: Final = (
    "INSERT INTO {schema}.heads(tenant, id, track, digest, doc)"
    " SELECT %s, * FROM unnest(%b::bigint[], %b::bigint[], %b::bytea[], %b::text[])"
)
_NEW_ASSERTIONS: Final = (
    "INSERT INTO {schema}.assertions(tenant, seq, track, head, said_at, recorded_at, checksum, joined, id, record_id,"
    " slot, fingerprint, doc)"
    " SELECT %s, * FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[],"
    " %b::bigint[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %b::text[])"
)
_NEW_STATES: Final = (
    "INSERT INTO {schema}.state_changes(tenant, seq, assertion, recorded_at, checksum, state, reason, actor)"
    " SELECT %s, * FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::text[], %b::bytea[],"
    " %b::bytea[])"
)
_JOINED: Final = (
    "UPDATE {schema}.assertions a SET joined = w.joined FROM unnest(%b::bigint[], %b::bigint[]) AS w(seq, joined)"
    " WHERE a.tenant = %s AND a.seq = w.seq"
)
_NEW_SHARED: Final = (
    "INSERT INTO {schema}.shared_outlines(tenant, digest, body) SELECT %s, * FROM unnest(%b::bytea[], %b::bytea[])"
    " ON CONFLICT (tenant, digest) DO NOTHING"
)
_NEW_OUTLINES: Final = (
    "INSERT INTO {schema}.outlines(tenant, seq, version, checksum, shared, body)"
    " SELECT %s, * FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bytea[], %b::bytea[])"
    " ON CONFLICT (tenant, seq) DO UPDATE SET version = excluded.version, checksum = excluded.checksum,"
    " shared = excluded.shared, body = excluded.body"
)
_NEW_VECTORS: Final = (
    "INSERT INTO {schema}.vectors(tenant, seq, binding, checksum, embedding)"
    " SELECT a.tenant, a.seq, %s, w.checksum, w.embedding"
    " FROM unnest(%b::bigint[], %b::bigint[], %b::bytea[]) AS w(seq, checksum, embedding)"
    " JOIN {schema}.assertions a ON a.tenant = %s AND a.seq = w.seq"
    " ON CONFLICT (tenant, seq) DO UPDATE SET binding = excluded.binding, checksum = excluded.checksum,"
    " embedding = excluded.embedding"
)
_FIRST_OUTLINES: Final = "INSERT INTO {schema}.meta VALUES ('outlines', %s) ON CONFLICT (key) DO NOTHING"
_BURY: Final = (
    "INSERT INTO {schema}.tombstones(tenant, seq, checksum, assertion_id)"
    " SELECT %s, * FROM unnest(%b::bigint[], %b::bigint[], %b::bytea[])"
)
_IS_BURIED: Final = "SELECT 1 FROM {schema}.tombstones WHERE tenant = %s AND seq = %s AND checksum = %s"
_IS_SAID: Final = "SELECT 1 FROM {schema}.assertions WHERE tenant = %s AND seq = %s AND id = %s"
_IS_CHANGED: Final = "SELECT 1 FROM {schema}.state_changes WHERE tenant = %s AND seq = %s AND checksum = %s"


def _locked_counter(tenant: str | None) -> list[Step]:
    """Return the steps that lock a tenant's counter; their last rows are its number, sum and newest time."""
    return [of_tenant(tenant), (_COUNTER, [_bytes_of(tenant)])]


@attrs.frozen
class _Meta:
    """The settings of a store.

    Attributes:
        embedder: Embedder that the store is bound to.
        binding: Number of that binding; vectors of earlier ones do not count.
        outlines: Version of the outlines.
    """

    embedder: EmbedderIdentity | None
    binding: int
    outlines: int | None

    @classmethod
    def of(cls, rows: Iterable[Row]) -> _Meta:
        """Read the rows of `_META`."""
        found: dict[str, str] = dict(rows)
        outlines = found.get("outlines")
        return cls(
            embedder=read_embedder(found.get("embedder")),
            binding=int(found.get("binding", 0)),
            outlines=None if outlines is None else int(outlines),
        )

    def storable(self, vector: NDArray[np.float32], bound: EmbedderIdentity | None) -> bytes:
        """Return the stored form of a vector; see `factmem.providers.sql_rows.stored_vector`."""
        return stored_vector(vector, self.embedder, bound)


def _vectors_step(tenant: str | None, binding: int, vectors: Mapping[int, bytes]) -> Step:
    """Return the step that stores vectors of a tenant's assertions; numbers without an assertion are ignored."""
    sums = [zlib.crc32(vector, seq & 0xFFFFFFFF) for seq, vector in vectors.items()]
    return _NEW_VECTORS, [binding, list(vectors), sums, list(vectors.values()), _bytes_of(tenant)]


def _outlines_steps(tenant: str | None, kept: Sequence[_OutlineRow]) -> list[Step]:
    """Return the steps that store outlines."""
    shared = {outline.shared: _digest(outline.shared) for _, _, outline, _ in kept}
    columns = [(seq, outline.version, check, shared[outline.shared], body) for seq, check, outline, body in kept]
    name = _bytes_of(tenant)
    return [(_NEW_SHARED, [name, list(shared.values()), list(shared)]), (_NEW_OUTLINES, [name, *_columns(columns)])]


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


@attrs.define(eq=False)
class _Track:
    """A track of a tenant.

    Attributes:
        id: Number of its row.
        stored: Its type as the row has it; None for a new track.
        key: Digest of the place, keyword and owner; needed of a new track alone.
    """

    id: int
    stored: tuple[str | None, str] | None = None
    key: tuple[bytes, bytes, bytes] | None = None


@attrs.define(eq=False)
class _Part:
    """The reads and writes of a transaction in one tenant.

    Attributes:
        tenant: The tenant.
        rows: Assertions to append.
        changing: Ids of assertions whose state changes.
        seq: Last sequence number.
    """

    tenant: str | None
    rows: list[NewRow] = attrs.field(factory=list)
    changing: list[str] = attrs.field(factory=list)
    seq: int = 0
    _sum: int = 0
    _before: int = 0
    _numbers: dict[str, int] = attrs.field(factory=dict)
    _tracks: dict[tuple[object, ...], _Track] = attrs.field(factory=dict)
    _heads: dict[bytes, int] = attrs.field(factory=dict)
    _new_heads: list[Row] = attrs.field(factory=list)
    _said: list[Row] = attrs.field(factory=list)
    _changed: list[Row] = attrs.field(factory=list)
    _joined: list[Row] = attrs.field(factory=list)
    _vectors: dict[int, bytes] = attrs.field(factory=dict)
    _outlines: list[_OutlineRow] = attrs.field(factory=list)
    _proof: Step | None = None

    @property
    def name(self) -> bytes:
        """Tenant, as it is stored."""
        return _bytes_of(self.tenant)

    def questions(self) -> list[Step]:
        """Return the steps that lock the counter, and read what the rows and requests depend on."""
        steps: list[Step] = [of_tenant(self.tenant), (_NEW_COUNTER, [self.name]), (_COUNTER, [self.name])]
        if self.rows:
            keys = _columns([_track_key(row) for row in self.rows])
            steps += [
                (_TRACKS, [*keys, self.name]),
                (_HEADS, [self.name, [_head_digest(row) for row in self.rows]]),
                self.same(self.rows),
                (_SLOTS, [*keys, [row.slot for row in self.rows], self.name, self.name, self.name]),
                (_FOLLOWED, [self.name, [row.follows for row in self.rows if row.follows is not None]]),
            ]
        if self.changing:
            wanted = _columns([_assertion_key(id) for id in self.changing])
            steps.append((_STATES, [*wanted, self.name, self.name]))
        return steps

    def same(self, rows: Sequence[NewRow]) -> Step:
        """Return the step that looks for the same assertions."""
        return _SAME, [[row.said_at for row in rows], [row.fingerprint for row in rows], self.name]

    def take_in(self, answers: Iterator[list[Row]], index: TrackIndex, clock: SteadyClock) -> None:
        """Take in the answers to `questions`."""
        for _ in range(2):
            next(answers)
        clock.reached(moment_at(self.continue_from(next(answers))), self.tenant)
        if self.rows:
            for number, id, fact_type, shapes in next(answers):
                self._found_track(self.rows[number - 1].assertion, id, fact_type, shapes, index)
            self._heads.update(next(answers))
            for row in next(answers):
                index.found_same(_read_recorded(row))
            for number, seq, id, record_id in next(answers):
                index.found_record(self.rows[number - 1].assertion, record_of(record_id, assertion_id(id, seq)))
            for (seq,) in next(answers):
                index.found_seq(self.tenant, seq)
        if self.changing:
            for *columns, joined, id, fact_type, shapes, state in next(answers):
                recorded = _read_recorded(tuple(columns))
                said = recorded.assertion
                self._numbers[recorded.id] = recorded.seq
                index.found_state(recorded, AssertionState(state or said.state), joined=joined is not None)
                self._found_track(said, id, fact_type, shapes, index)

    def continue_from(self, counter: Sequence[Row]) -> int:
        """Continue from the tenant's counter, and return its newest time, in microseconds since 1970."""
        ((self.seq, self._sum, recorded_at, _),) = counter
        self._before = self.seq
        return int(recorded_at)

    def _found_track(self, said: Assertion, id: int, fact_type: str | None, shapes: str, index: TrackIndex) -> None:
        self._tracks[said.track] = _Track(id, (fact_type, shapes))
        if fact_type is not None:
            index.found_type(said.track, FactType(fact_type), json.loads(shapes))

    def append(
        self, row: NewRow, recorded: Recorded, vector: bytes | None, *, joined: bool, outlines: int | None
    ) -> None:
        """Write an assertion, with its vector."""
        if recorded.assertion is not row.assertion:
            row = row.said_otherwise(recorded.assertion)
        seq, at = recorded.seq, recorded.recorded_at
        if vector is not None:
            self._vectors[seq] = vector
        check = checksum(seq, recorded.id, recorded.record_id, at.isoformat(), row.partial_checksum)
        track = self._tracks.setdefault(row.assertion.track, _Track(seq, key=_track_key(row)))
        digest = _head_digest(row)
        head = self._heads.setdefault(digest, seq)
        if head == seq:
            self._new_heads.append((seq, track.id, digest, row.head))
        id = _packed_assertion(recorded.id, seq)
        self._numbers[recorded.id] = seq
        self._said.append(
            (
                seq,
                track.id,
                head,
                row.said_at,
                microseconds(at),
                check,
                seq if joined else None,
                id,
                _packed_record(recorded.record_id, recorded.id, seq),
                row.slot,
                row.fingerprint,
                row.doc,
            )
        )
        self._sum += check
        self._proof = self._proof or (_IS_SAID, [self.name, seq, id])
        if row.outline is not None and row.outline.version == outlines:
            body = outline_body(seq, recorded.id, recorded.record_id, at, row.outline)
            self._outlines.append((seq, check, row.outline, body))

    def change(self, change: StateChange, *, joined: bool) -> None:
        """Write a change of state.

        Args:
            change: The change.
            joined: Whether it makes its assertion count for the first time.
        """
        assertion = self._numbers[change.assertion_id]
        check = _state_sum(self.name, change, assertion)
        why = [None if text is None else _bytes_of(text) for text in (change.reason, change.actor)]
        self._changed.append((change.seq, assertion, microseconds(change.recorded_at), check, change.state.value, *why))
        self._sum += check
        self._proof = self._proof or (_IS_CHANGED, [self.name, change.seq, check])
        if joined:
            self._joined.append((assertion, change.seq))

    def bury(self, tombstones: Sequence[Tombstone]) -> Step:
        """Return the step that writes tombstones."""
        sums = [_tombstone_sum(self.name, tombstone) for tombstone in tombstones]
        self._sum += sum(sums)
        if tombstones:
            self._proof = self._proof or (_IS_BURIED, [self.name, tombstones[0].seq, sums[0]])
        ids = [_packed(tombstone.assertion_id) for tombstone in tombstones]
        return _BURY, [self.name, [tombstone.seq for tombstone in tombstones], sums, ids]

    def take_from_sum(self, deleted: int) -> None:
        """Subtract the checksums of deleted rows."""
        self._sum -= deleted

    def steps(self, index: TrackIndex, binding: int, newest: int) -> list[Step]:
        """Return the steps that write all of it; none if there is nothing to write."""
        if self.seq == self._before:
            return []
        written = [
            (_NEW_TRACKS, self._new_tracks(index), True),
            (_CHANGED_TRACKS, self._changed_tracks(index), False),
            (_NEW_HEADS, self._new_heads, True),
            (_NEW_ASSERTIONS, self._said, True),
            (_NEW_STATES, self._changed, True),
            (_JOINED, self._joined, False),
        ]
        steps: list[Step] = [of_tenant(self.tenant)]
        for sql, rows, named_first in written:
            if rows:
                columns: list[Any] = _columns(rows)
                steps.append((sql, [self.name, *columns] if named_first else [*columns, self.name]))
        if self._outlines:
            steps += _outlines_steps(self.tenant, self._outlines)
        if self._vectors:
            steps.append(_vectors_step(self.tenant, binding, self._vectors))
        steps.append((_COUNT, [self.seq, self._sum, newest, self.name]))
        return steps

    def proof(self) -> list[Step]:
        """Return the steps that find out whether it was written; none if nothing was to be."""
        return [] if self._proof is None else [*_locked_counter(self.tenant), self._proof]

    def _new_tracks(self, index: TrackIndex) -> list[Row]:
        new = [(track, found) for track, found in self._tracks.items() if found.key is not None]
        return [(*(found.key or ()), found.id, *_type_of(index, track)) for track, found in new]

    def _changed_tracks(self, index: TrackIndex) -> list[Row]:
        old = [(_type_of(index, track), found) for track, found in self._tracks.items() if found.stored is not None]
        return [(found.id, *now) for now, found in old if now != found.stored]


def _track_key(row: NewRow) -> tuple[bytes, bytes, bytes]:
    return row.place, _bytes_of(row.assertion.keyword), _bytes_of(row.assertion.details.owner)


def _head_digest(row: NewRow) -> bytes:
    return _digest(*_track_key(row), row.head.encode())


def _type_of(index: TrackIndex, track: tuple[object, ...]) -> tuple[str | None, str]:
    found = index.type_of(track)
    if found is None:
        return None, "[]"
    fact_type, shapes = found
    return fact_type.value, json.dumps(list(shapes), ensure_ascii=False)


class _Batch:
    """Some requests in one transaction: each is written whole, or refused.

    Args:
        session: The transaction.
        requests: Statements of the requests.
        clock: Gives the time of recording.
        bound: Embedder in use in this process, if any.
        outlines: Version of the outlines in use in this process, if any; a store without outlines gets them.
    """

    def __init__(
        self,
        session: Session,
        requests: Iterable[_Prepared],
        clock: SteadyClock,
        *,
        bound: EmbedderIdentity | None,
        outlines: int | None,
    ) -> None:
        self._clock = clock
        self._bound = bound
        self._index = TrackIndex()
        self._parts = _parts(requests)
        answers = iter(session.ask((_META, ()), *(step for part in self._parts.values() for step in part.questions())))
        self._meta = _Meta.of(next(answers))
        for part in self._parts.values():
            part.take_in(answers, self._index, clock)
        self._new_version = outlines if self._meta.outlines is None else None
        self._version = outlines if self._meta.outlines is None else self._meta.outlines
        self._find_redated(session)
        self._plan = Planner(clock, lambda _: self._index, lambda tenant: self._parts[tenant].seq, new_ids)

    def _find_redated(self, session: Session) -> None:
        """Look also for the rows whose time a clock gave that has stepped back since, with the time of the store."""
        for part in self._parts.values():
            dated = [(row, self._clock.dated(row.assertion)) for row in part.rows]
            if here := [row.said_otherwise(said) for row, said in dated if said is not row.assertion]:
                for found in session.ask(of_tenant(part.tenant), part.same(here))[1]:
                    self._index.found_same(_read_recorded(found))

    def append(self, rows: _Prepared) -> list[Receipt]:
        """Write one request, all or nothing.

        Raises:
            FactMemError: See `KeepsLog.append`; the batch goes on without it.
        """
        vectors = {
            id(row): self._meta.storable(row.vector, self._bound)
            for row in rows
            if isinstance(row, NewRow) and row.vector is not None
        }
        receipts, planned = self._plan.plan(rows)
        for each in planned:
            part = self._parts[each.item.tenant]
            match each:
                case Planned(item=NewRow() as row, entry=Recorded() as recorded):
                    vector = vectors.get(id(row))
                    part.append(row, recorded, vector, joined=each.joined, outlines=self._version)
                case Planned(entry=StateChange() as change):
                    part.change(change, joined=each.joined)
        return receipts

    def ending(self) -> Ending[None]:
        """Return the end of the transaction."""
        for tenant, seq in self._plan.last.items():
            self._parts[tenant].seq = seq
        steps = [
            step
            for tenant, part in self._parts.items()
            for step in part.steps(self._index, self._meta.binding, _newest_time(self._clock, tenant))
        ]
        if steps and self._new_version is not None:
            steps.append((_FIRST_OUTLINES, [str(self._new_version)]))
        proof = next((proof for part in self._parts.values() if (proof := part.proof())), [])
        return Ending(None, steps, proof)


def _parts(requests: Iterable[_Prepared]) -> dict[str | None, _Part]:
    """Return the statements by tenant, in the order in which every transaction locks them."""
    parts: dict[str | None, _Part] = {}
    for row in (row for rows in requests for row in rows):
        tenant = row.assertion.place.scope.tenant if isinstance(row, NewRow) else row.tenant
        part = parts.setdefault(tenant, _Part(tenant))
        if isinstance(row, NewRow):
            part.rows.append(row)
        else:
            part.changing.append(row.assertion_id)
    return dict(sorted(parts.items(), key=lambda item: item[1].name))


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
    f" CROSS JOIN LATERAL {_BY_ID} a ORDER BY seq"
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
    f" (SELECT FROM {{schema}}.assertions a WHERE a.tenant = x.tenant AND {_OF_RECORD})"
)
# The types of tracks, from what is left in them.
_RETYPED_TRACKS: Final = (
    "UPDATE {schema}.tracks t SET fact_type = l.fact_type, shapes = l.shapes FROM"
    " (SELECT k.id, min(f.fact_type) AS fact_type,"
    " '[' || coalesce(string_agg(f.shape, ', ' ORDER BY f.joined), '') || ']' AS shapes"
    " FROM unnest(%b::bigint[]) AS k(id) LEFT JOIN"
    " (SELECT a.track, h.doc::json ->> 'fact_type' AS fact_type, (h.doc::json -> 'shape')::text AS shape,"
    " min(a.joined) AS joined FROM {schema}.assertions a"
    " JOIN {schema}.heads h ON h.tenant = a.tenant AND h.id = a.head"
    " WHERE a.tenant = %s AND a.track = ANY (%b::bigint[]) AND a.joined IS NOT NULL GROUP BY 1, 2, 3) f"
    " ON f.track = k.id GROUP BY k.id) l WHERE t.tenant = %s AND t.id = l.id"
)
_DELETE_TRACKS: Final = (
    "DELETE FROM {schema}.tracks t WHERE t.tenant = %s AND t.id = ANY (%b::bigint[]) AND NOT EXISTS"
    " (SELECT FROM {schema}.assertions a WHERE a.tenant = t.tenant AND a.track = t.id)"
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


def _named(name: bytes, record_ids: Collection[str], assertion_ids: Collection[str]) -> Step:
    """Return the step that looks for assertions of a tenant: number, id, record and track of each, in order."""
    records = [_record_key(id) for id in record_ids]
    singly = [_assertion_key(id) for id in assertion_ids]
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


def _delete_rows(session: Session, name: bytes, gone: Sequence[Row]) -> int:
    """Delete assertions with all that belongs to them, and return the sum of the checksums of the deleted rows.

    Args:
        session: Transaction.
        name: Tenant, as it is stored.
        gone: Rows of `_named`.
    """
    seqs, tracks = [row[0] for row in gone], sorted({row[3] for row in gone})
    records = {record_of(record_id, assertion_id(id, seq)) for seq, id, record_id, _ in gone}
    said, changed, *_ = session.ask(
        (_DELETE_ASSERTIONS, [name, seqs]),
        (_DELETE_STATES, [name, seqs]),
        (_DELETE_VECTORS, [name, seqs]),
        (_DELETE_OUTLINES, [name, seqs]),
        (_DELETE_SHARED, [name]),
        (_DELETE_HEADS, [name, tracks]),
        (_DELETE_ACCESSES, [*_columns([(_bytes_of(id), *_record_key(id)) for id in records]), name]),
        (_DELETE_TRACKS, [name, tracks]),
        (_RETYPED_TRACKS, [tracks, name, tracks, name]),
    )
    return sum(check for (check,) in (*said, *changed))


_NEWEST: Final = "SELECT seq, sum FROM {schema}.counters WHERE tenant = %s"
_EMBEDDER: Final = "SELECT value FROM {schema}.meta WHERE key = 'embedder'"
_OUTLINES: Final = "SELECT value::bigint FROM {schema}.meta WHERE key = 'outlines'"
_BINDING: Final = "(SELECT value::bigint FROM {schema}.meta WHERE key = 'binding')"

_OF_PLACE: Final = (
    "FROM {schema}.tracks t JOIN {schema}.assertions a ON a.tenant = t.tenant AND a.track = t.id {more}"
    " WHERE t.tenant = %s AND t.place = %s AND (%s::bytea IS NULL OR t.keyword = %s)"
)
_SAID_AT_PLACE: Final = f"SELECT {_ASSERTION_COLUMNS} {_OF_PLACE.replace('{more}', _WITH_HEAD)}"
_CHANGED_AT_PLACE: Final = f"SELECT {_STATE_COLUMNS} " + _OF_PLACE.replace(
    "{more}", "JOIN {schema}.state_changes s ON s.tenant = a.tenant AND s.assertion = a.seq"
)

_SAID: Final = (
    f"SELECT {_ASSERTION_COLUMNS} FROM {{schema}}.assertions a {_WITH_HEAD} WHERE a.tenant = %s AND a.seq > %s"
    " ORDER BY a.seq"
)
_NUMBERED: Final = (
    f"SELECT {_ASSERTION_COLUMNS} FROM {{schema}}.assertions a {_WITH_HEAD}"
    " WHERE a.tenant = %s AND a.seq = ANY (%b::bigint[])"
)
_CHANGED: Final = (
    f"SELECT {_STATE_COLUMNS} FROM {{schema}}.state_changes s"
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
    f" WHERE EXISTS (SELECT FROM {{schema}}.assertions a WHERE a.tenant = %s AND {_OF_RECORD})"
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
        ready = ReadyRequests(requests)

        def append(session: Session) -> Ending[None]:
            batch = _Batch(session, ready.rows, self._clock, bound=self._bound, outlines=self._outlines)
            ready.append_by(batch.append)
            return batch.ending()

        if ready.rows:
            self._server.write(append)
        ready.settle()

    def version(self, tenant: str | None) -> int:
        """Return the newest sequence number of a tenant."""
        (counter,) = self._server.read(tenant, (_NEWEST, [_bytes_of(tenant)])) or [[]]
        return _newest(counter)

    @_guarded
    def entries(self, place: Place, keyword: str | None) -> Sequence[LogEntry]:
        """Return the log of a place, of one concept or of all."""
        tenant = place.scope.tenant
        asked = None if keyword is None else _bytes_of(keyword)
        wanted = [_bytes_of(tenant), place_digest(place), asked, asked]
        found = self._server.read(tenant, (_SAID_AT_PLACE, wanted), (_CHANGED_AT_PLACE, wanted))
        return _log(_bytes_of(tenant), *found) if found else []

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
            meta, *_ = session.ask((_META, ()), *_locked_counter(tenant))
            settings = _Meta.of(meta)
            stored = {seq: settings.storable(vector, self._bound) for seq, vector in units.items()}
            return Ending(None, [_vectors_step(tenant, settings.binding, stored)] if stored else [])

        self._server.write(put)

    @_guarded
    def vectors(self, tenant: str | None, since: int) -> tuple[Sequence[int], NDArray[np.float32]]:
        """Return the vectors of a tenant."""
        import numpy as np

        found = self._server.read(tenant, (_EMBEDDER, ()), (_VECTORS, [_bytes_of(tenant), _bounded(since)]))
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
            (_bytes_of(id), *_record_key(id), access.count, microseconds(access.last))
            for id, access in accesses.items()
            if access.last is not None
        ]
        name = _bytes_of(tenant)

        def count(session: Session) -> Ending[None]:
            session.ask(*_locked_counter(tenant))
            return Ending(None, [(_COUNT_ACCESSES, [name, *map(list, zip(*rows, strict=True)), name])])

        if rows:
            self._server.write(count)

    @_guarded
    def accesses(self, tenant: str | None, record_ids: Collection[str]) -> Mapping[str, Access]:
        """Return the counts of records."""
        ids = {_bytes_of(id): id for id in record_ids}
        found = self._server.read(tenant, (_ACCESSES, [_bytes_of(tenant), list(ids)])) or [[]]
        return {ids[id]: Access(count=count, last=moment_at(last)) for id, count, last in found[0]}

    @_guarded
    def erase(self, record_ids: Collection[str], assertion_ids: Collection[str], tenant: str | None) -> EraseReceipt:
        """Erase assertions, then every copy of their bytes that can be reached."""
        erased = 0
        if record_ids or assertion_ids:
            erased = self._server.write(lambda session: _delete(session, record_ids, assertion_ids, tenant))
        return EraseReceipt(erased=erased, pending=not self._finish(tenant))

    def _notes(self, tenant: str | None) -> list[Row]:
        found = self._server.read(tenant, (_NOTES, [_bytes_of(tenant)]))
        return found[0] if found else []

    def _finish(self, tenant: str | None) -> bool:
        notes = self._notes(tenant)
        if not notes:
            return True
        if (self._server.read(None, (_IS_CLUSTER, ())) or [[(False,)]])[0][0][0]:
            return False
        if waiting := [seq for seq, rewritten, _ in notes if not rewritten]:
            self._rewrite(tenant, waiting)
        name = _bytes_of(tenant)

        def go_on(session: Session) -> Ending[None]:
            ((may_list,),) = session.ask(of_tenant(tenant), (_MAY_LIST, ()))[1]
            return Ending(None, [(_LISTED if may_list else _ESTIMATED, [name]), (_FINISHED, [name])])

        self._server.write(go_on)
        return not self._notes(tenant)

    def _rewrite(self, tenant: str | None, waiting: Sequence[int]) -> None:
        """Rewrite the tables, unless they are large or in use; without the right to, nothing happens."""
        name = _bytes_of(tenant)
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

    @_guarded
    def tenants(self) -> Sequence[str | None]:
        """Return the tenants with a log, or with a copy that has begun."""
        found = self._server.read(None, of_all(), (_COPYABLE, ()))
        return [name.decode() or None for (name,) in found[1]] if found else []

    @_guarded
    def log_part(self, tenant: str | None, since: int, limit: int | None, *, vectors: bool) -> LogPart:
        """Return a part of the log of a tenant."""
        import numpy as np

        name, since = _bytes_of(tenant), _bounded(since)
        wanted = [name, since, None if limit is None else limit + 1]
        steps: list[Step] = [
            (_NEWEST, [name]),
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
        for tenant in sorted(tenants, key=_bytes_of):
            name = _bytes_of(tenant)
            steps += [of_tenant(tenant), *([(_NEW_COUNTER, [name])] if unfinished else []), (_MARK, [unfinished, name])]
        self._server.write(lambda _: Ending(None, steps))

    @_guarded
    def copied(self, tenant: str | None) -> int | None:
        """Return the number up to which an unfinished copy is complete."""
        found = self._server.read(tenant, (_COPIED, [_bytes_of(tenant)]))
        return int(found[0][0][0]) if found and found[0] else None

    @_guarded
    def put_log_part(self, tenant: str | None, part: LogPart) -> None:
        """Append a part to an unfinished copy."""
        rows = prepared_part(part)
        self._server.write(lambda session: _taken(session, tenant, part, rows, self._clock, self._bound))

    def format_versions(self) -> tuple[int, int]:
        """Return the version of the tables, and the newest one."""
        return self._server.format_version(), len(MIGRATIONS)

    def upgrade(self, progress: Progress, *, create: bool) -> None:
        """Bring the tables to the newest format, in one transaction."""
        progress(0, 1)
        self._server.upgrade(create=create)
        progress(1, 1)

    @_guarded
    def check(self, progress: Progress) -> Sequence[Finding]:
        """Check the rows of every tenant."""
        try:
            found = self._server.read(None, of_all(), (_TENANTS, ()))
        except NewerVersionError as error:
            return [finding_of(error, self._server.name)]
        if found is None:
            return [no_store(self._server.name, "check the address and its schema")]
        tenants = [name.decode() or None for (name,) in found[1]]
        findings = list(checked_tenants(self, tenants, progress))
        for tenant in tenants:
            findings += self._left_over(tenant)
        return findings

    def _left_over(self, tenant: str | None) -> Iterator[Finding]:
        """Yield the vectors of a tenant that belong to nothing, and its pending erasures."""
        part = tenant_words(tenant)
        stray = self._server.read(tenant, (_STRAY, [_bytes_of(tenant)])) or [[(0,)]]
        if count := stray[0][0][0]:
            yield remakeable_vectors(part, f"{count} vector(s) belong to no assertion")
        if count := len(self._notes(tenant)):
            yield pending_erasure(
                part,
                f"bytes of {count} erasure(s) may be left in pages and in the write-ahead log; backups, archived logs "
                "and replicas are out of reach",
                " once the log has turned; for a large store, VACUUM FULL its tables before",
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
            wanted = (_FOR_OUTLINES, [_bytes_of(tenant), list(outlines)])
            meta, *_, rows = session.ask((_META, ()), *_locked_counter(tenant), wanted)
            version = _Meta.of(meta).outlines
            version = self._outlines if version is None else version
            kept: list[_OutlineRow] = []
            for seq, packed_id, record_id, at, check in rows:
                id, outline = assertion_id(packed_id, seq), outlines[seq]
                if outline.version == version:
                    body = outline_body(seq, id, record_of(record_id, id), moment_at(at), outline)
                    kept.append((seq, check, outline, body))
            return Ending(None, _outlines_steps(tenant, kept) if kept else [])

        if outlines:
            self._server.write(put)

    @_guarded
    def outlined(self, tenant: str | None, since: int, limit: int) -> Outlined:
        """Return a tenant's log after a sequence number, with outlines in place of assertions."""
        name, since, limit = _bytes_of(tenant), _bounded(since), min(limit, MAX_SEQ)
        wanted = -1 if self._outlines is None else self._outlines
        until = [name, since, limit - 1, MAX_SEQ]
        steps: list[Step] = [
            (_NEWEST, [name]),
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
        name, wanted = _bytes_of(tenant), [seq for seq in set(seqs) if 0 < seq <= MAX_SEQ]
        rows, counter = self._server.read(tenant, (_NUMBERED, [name, wanted]), (_NEWEST, [name])) or [[], []]
        found = {item.seq: item for item in map(_read_recorded, rows)}
        if missing := [seq for seq in wanted if seq not in found]:
            left = self._server.read(tenant, (_LEFT, [name, missing])) or [[]]
            if left[0]:
                raise CorruptStoreError(
                    f"the assertion number {left[0][0][0]} is lost: restore the store from a backup"
                )
        return [found.get(seq) for seq in seqs], _newest(counter)


def _delete(
    session: Session, record_ids: Collection[str], assertion_ids: Collection[str], tenant: str | None
) -> Ending[int]:
    name, part = _bytes_of(tenant), _Part(tenant)
    *_, counter, gone = session.ask(*_locked_counter(tenant), _named(name, record_ids, assertion_ids))
    if not gone:
        return Ending(0)
    newest = part.continue_from(counter)
    part.take_from_sum(_delete_rows(session, name, gone))
    ids = [assertion_id(id, seq) for seq, id, *_ in gone]
    buried = part.bury([Tombstone(assertion_id=id, seq=seq) for seq, id in enumerate(ids, start=part.seq + 1)])
    part.seq += len(ids)
    return Ending(len(ids), [buried, (_NOTE, [name, part.seq]), *part.steps(TrackIndex(), 0, newest)], part.proof())


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
    name = _bytes_of(tenant)
    graves = [entry for entry in part.entries if isinstance(entry, Tombstone)]
    wanted = _named(name, (), [grave.assertion_id for grave in graves])
    stored, *_, counter, gone = session.ask((_META, ()), *_locked_counter(tenant), wanted)
    check_part(part, tenant, counter[0][0] if counter and counter[0][3] else None)
    meta = _Meta.of(stored)
    said = {entry.id for entry in part.entries if isinstance(entry, Recorded)}
    changed = [entry.assertion_id for entry in part.entries if isinstance(entry, StateChange)]
    target, index = _Part(tenant, list(rows), [id for id in changed if id not in said]), TrackIndex()
    deleted = _delete_rows(session, name, gone) if gone else 0
    target.take_in(iter(session.ask(*target.questions())), index, clock)
    target.take_from_sum(deleted)
    new = iter(rows)
    for entry in part.entries:
        if isinstance(entry, Tombstone):
            continue
        joined = index.take(entry, tenant)
        clock.reached(entry.recorded_at, tenant)
        if isinstance(entry, StateChange):
            target.change(entry, joined=joined)
            continue
        row = next(new)
        vector = None if row.vector is None else meta.storable(row.vector, bound)
        target.append(row, entry, vector, joined=joined, outlines=None)
    target.seq = part.until
    buried = [target.bury(graves)] if graves else []
    newest = _newest_time(clock, tenant)
    proof = [*_locked_counter(tenant), (_HAS_ARRIVED, [name, part.until])]
    return Ending(None, [*buried, *target.steps(index, meta.binding, newest)], proof)


def _bounded(since: int) -> int:
    return min(max(since, 0), MAX_SEQ)


def _log(tenant: bytes, said: Sequence[Row], changed: Sequence[Row], erased: Sequence[Row] = ()) -> list[LogEntry]:
    return in_order(
        map(_read_recorded, said),
        (_read_state(tenant, row) for row in changed),
        (_read_tombstone(tenant, row) for row in erased),
    )


def _newest_time(clock: SteadyClock, tenant: str | None) -> int:
    return microseconds(clock.newest(tenant) or moment_at(0))


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
    meta = _Meta.of(session.ask((_META, ()))[0])
    if not binds_anew(meta.embedder, identity, replace=replace):
        return Ending(None)
    return Ending(None, [(_SET, ["embedder", written_embedder(identity)]), (_SET, ["binding", str(meta.binding + 1)])])
