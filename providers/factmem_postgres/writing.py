"""Write transactions: one round trip to read all that some requests depend on, and one to write and commit.

A transaction locks the counters of its tenants, in order, before it reads. So what it reads stays true until it ends.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from factmem.abc.capabilities import EmbedderIdentity, EraseReceipt, Receipt
from factmem.abc.outlines import Outline
from factmem.errors import ProviderError
from factmem.facts import FactType
from factmem.providers import TrackIndex
from factmem.providers.planning import Planned, Planner, SteadyClock
from factmem.providers.rows import (
    NewRow,
    PreparedRow,
    checksum,
    microseconds,
    moment_at,
    new_ids,
    outline_body,
    read_embedder,
    stored_vector,
)
from factmem.records import Assertion, AssertionState, Recorded, StateChange, Tombstone
from factmem_postgres.rows import (
    ASSERTION_COLUMNS,
    BY_ID,
    OF_RECORD,
    OWN_RECORD,
    WITH_HEAD,
    assertion_id,
    assertion_key,
    bytes_of,
    packed,
    packed_assertion,
    packed_record,
    read_recorded,
    record_key,
    record_of,
    state_sum,
    tombstone_sum,
)
from factmem_postgres.schema import TABLES
from factmem_postgres.server import Ending, Row, Server, Session, Step, of_tenant

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "META",
    "NEW_COUNTER",
    "Batch",
    "Eraser",
    "Meta",
    "OutlineRow",
    "Part",
    "Prepared",
    "delete_rows",
    "locked_counter",
    "named",
    "outlines_steps",
    "vectors_step",
]

Prepared: TypeAlias = Sequence[PreparedRow]
OutlineRow: TypeAlias = tuple[int, int, Outline, bytes]
"""The number and the checksum of an assertion, its outline, and what is stored of that; see `outline_body`."""

META: Final = "SELECT key, value FROM {schema}.meta"
NEW_COUNTER: Final = (
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
    f"SELECT {ASSERTION_COLUMNS} FROM unnest(%b::bigint[], %b::bytea[]) AS w(said_at, fingerprint)"
    " JOIN {schema}.assertions a"
    " ON a.tenant = %s AND a.said_at = w.said_at AND a.fingerprint = w.fingerprint"
    f" {WITH_HEAD}"
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
    f" AND b.record_id = coalesce(a.record_id, {OWN_RECORD}) AND b.seq > a.seq)"
)
_FOLLOWED: Final = "SELECT seq FROM {schema}.assertions WHERE tenant = %s AND seq = ANY (%b::bigint[])"
_STATES: Final = (
    f"SELECT {ASSERTION_COLUMNS}, a.joined, t.id, t.fact_type, t.shapes,"
    " (SELECT s.state FROM {schema}.state_changes s"
    " WHERE s.tenant = a.tenant AND s.assertion = a.seq ORDER BY s.seq DESC LIMIT 1)"
    f" FROM unnest(%b::bigint[], %b::bytea[], %b::bytea[]) AS w(seq, own, id) CROSS JOIN LATERAL {BY_ID} a"
    f" JOIN {{schema}}.tracks t ON t.tenant = a.tenant AND t.id = a.track {WITH_HEAD}"
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


def locked_counter(tenant: str | None) -> list[Step]:
    """Return the steps that lock a tenant's counter; their last rows are its number, sum and newest time."""
    return [of_tenant(tenant), (_COUNTER, [bytes_of(tenant)])]


@attrs.frozen
class Meta:
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
    def of(cls, rows: Iterable[Row]) -> Meta:
        """Read the rows of `META`."""
        found: dict[str, str] = dict(rows)
        outlines = found.get("outlines")
        return cls(
            embedder=read_embedder(found.get("embedder")),
            binding=int(found.get("binding", 0)),
            outlines=None if outlines is None else int(outlines),
        )

    def storable(self, vector: NDArray[np.float32], bound: EmbedderIdentity | None) -> bytes:
        """Return the stored form of a vector; see `factmem.providers.rows.stored_vector`."""
        return stored_vector(vector, self.embedder, bound)


def vectors_step(tenant: str | None, binding: int, vectors: Mapping[int, bytes]) -> Step:
    """Return the step that stores vectors of a tenant's assertions; numbers without an assertion are ignored."""
    sums = [zlib.crc32(vector, seq & 0xFFFFFFFF) for seq, vector in vectors.items()]
    return _NEW_VECTORS, [binding, list(vectors), sums, list(vectors.values()), bytes_of(tenant)]


def outlines_steps(tenant: str | None, kept: Sequence[OutlineRow]) -> list[Step]:
    """Return the steps that store outlines."""
    shared = {outline.shared: _digest(outline.shared) for _, _, outline, _ in kept}
    columns = [(seq, outline.version, check, shared[outline.shared], body) for seq, check, outline, body in kept]
    name = bytes_of(tenant)
    return [
        (_NEW_SHARED, [name, list(shared.values()), list(shared)]),
        (_NEW_OUTLINES, [name, *_columns(columns)]),
    ]


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
class Part:
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
    _outlines: list[OutlineRow] = attrs.field(factory=list)
    _proof: Step | None = None

    @property
    def name(self) -> bytes:
        """Tenant, as it is stored."""
        return bytes_of(self.tenant)

    def questions(self) -> list[Step]:
        """Return the steps that lock the counter, and read what the rows and requests depend on."""
        steps: list[Step] = [of_tenant(self.tenant), (NEW_COUNTER, [self.name]), (_COUNTER, [self.name])]
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
            wanted = _columns([assertion_key(id) for id in self.changing])
            steps.append((_STATES, [*wanted, self.name, self.name]))
        return steps

    def same(self, rows: Sequence[NewRow]) -> Step:
        """Return the step that looks for the same assertions."""
        return _SAME, [[row.said_at for row in rows], [row.fingerprint for row in rows], self.name]

    def take_in(self, answers: Iterator[list[Row]], index: TrackIndex, clock: SteadyClock) -> None:
        """Take in the answers to `questions`."""
        for _ in range(2):
            next(answers)
        ((self.seq, self._sum, recorded_at, _),) = next(answers)
        self._before = self.seq
        clock.reached(moment_at(recorded_at))
        if self.rows:
            for number, id, fact_type, shapes in next(answers):
                self._found_track(self.rows[number - 1].assertion, id, fact_type, shapes, index)
            self._heads.update(next(answers))
            for row in next(answers):
                index.found_same(read_recorded(row))
            for number, seq, id, record_id in next(answers):
                index.found_record(self.rows[number - 1].assertion, record_of(record_id, assertion_id(id, seq)))
            for (seq,) in next(answers):
                index.found_seq(self.tenant, seq)
        if self.changing:
            for *columns, joined, id, fact_type, shapes, state in next(answers):
                recorded = read_recorded(tuple(columns))
                said = recorded.assertion
                self._numbers[recorded.id] = recorded.seq
                index.found_state(recorded, AssertionState(state or said.state), joined=joined is not None)
                self._found_track(said, id, fact_type, shapes, index)

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
        id = packed_assertion(recorded.id, seq)
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
                packed_record(recorded.record_id, recorded.id, seq),
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
        check = state_sum(self.name, change, assertion)
        why = [None if text is None else bytes_of(text) for text in (change.reason, change.actor)]
        self._changed.append((change.seq, assertion, microseconds(change.recorded_at), check, change.state.value, *why))
        self._sum += check
        self._proof = self._proof or (_IS_CHANGED, [self.name, change.seq, check])
        if joined:
            self._joined.append((assertion, change.seq))

    def bury(self, tombstones: Sequence[Tombstone]) -> Step:
        """Return the step that writes tombstones."""
        sums = [tombstone_sum(self.name, tombstone) for tombstone in tombstones]
        self._sum += sum(sums)
        if tombstones:
            self._proof = self._proof or (_IS_BURIED, [self.name, tombstones[0].seq, sums[0]])
        ids = [packed(tombstone.assertion_id) for tombstone in tombstones]
        return _BURY, [self.name, [tombstone.seq for tombstone in tombstones], sums, ids]

    def take_from_sum(self, deleted: int) -> None:
        """Subtract the checksums of deleted rows."""
        self._sum -= deleted

    def steps(self, index: TrackIndex, meta: Meta, newest: int) -> list[Step]:
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
            steps += outlines_steps(self.tenant, self._outlines)
        if self._vectors:
            steps.append(vectors_step(self.tenant, meta.binding, self._vectors))
        steps.append((_COUNT, [self.seq, self._sum, newest, self.name]))
        return steps

    def proof(self) -> list[Step]:
        """Return the steps that find out whether it was written; none if nothing was to be."""
        return [] if self._proof is None else [*locked_counter(self.tenant), self._proof]

    def _new_tracks(self, index: TrackIndex) -> list[Row]:
        new = [(track, found) for track, found in self._tracks.items() if found.key is not None]
        return [(*(found.key or ()), found.id, *_type_of(index, track)) for track, found in new]

    def _changed_tracks(self, index: TrackIndex) -> list[Row]:
        old = [(_type_of(index, track), found) for track, found in self._tracks.items() if found.stored is not None]
        return [(found.id, *now) for now, found in old if now != found.stored]


def _track_key(row: NewRow) -> tuple[bytes, bytes, bytes]:
    return row.place, bytes_of(row.assertion.keyword), bytes_of(row.assertion.details.owner)


def _head_digest(row: NewRow) -> bytes:
    return _digest(*_track_key(row), row.head.encode())


def _type_of(index: TrackIndex, track: tuple[object, ...]) -> tuple[str | None, str]:
    found = index.type_of(track)
    if found is None:
        return None, "[]"
    fact_type, shapes = found
    return fact_type.value, json.dumps(list(shapes), ensure_ascii=False)


class Batch:
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
        requests: Iterable[Prepared],
        clock: SteadyClock,
        *,
        bound: EmbedderIdentity | None,
        outlines: int | None,
    ) -> None:
        self._clock = clock
        self._bound = bound
        self._index = TrackIndex()
        self._parts = _parts(requests)
        answers = iter(session.ask((META, ()), *(step for part in self._parts.values() for step in part.questions())))
        self._meta = Meta.of(next(answers))
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
                    self._index.found_same(read_recorded(found))

    def append(self, rows: Prepared) -> list[Receipt]:
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
        newest = microseconds(self._clock.newest or moment_at(0))
        for tenant, seq in self._plan.last.items():
            self._parts[tenant].seq = seq
        steps = [step for part in self._parts.values() for step in part.steps(self._index, self._meta, newest)]
        if steps and self._new_version is not None:
            steps.append((_FIRST_OUTLINES, [str(self._new_version)]))
        proof = next((proof for part in self._parts.values() if (proof := part.proof())), [])
        return Ending(None, steps, proof)


def _parts(requests: Iterable[Prepared]) -> dict[str | None, Part]:
    """Return the statements by tenant, in the order in which every transaction locks them."""
    parts: dict[str | None, Part] = {}
    for row in (row for rows in requests for row in rows):
        tenant = row.assertion.place.scope.tenant if isinstance(row, NewRow) else row.tenant
        part = parts.setdefault(tenant, Part(tenant))
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
        """Erase assertions, and go on with earlier erasures; see `KeepsLog.erase`."""
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
        (_BURY, [name, [grave.seq for grave in graves], sums, [packed(grave.assertion_id) for grave in graves]]),
        (_NOTE, [name, last]),
        (_COUNT, [last, total - taken + sum(sums), recorded_at, name]),
    ]
    return Ending(len(gone), steps, [*locked_counter(tenant), (_IS_BURIED, [name, graves[0].seq, sums[0]])])


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
    settling: list[Step] = [
        (_DELETE_TRACKS, [name, tracks]),
        (_CHANGED_TRACKS, [tracks, *_retyped(tracks, types), name]),
    ]
    return sum(check for (check,) in (*said, *changed)), settling


def _retyped(tracks: Sequence[int], types: Sequence[Row]) -> tuple[list[str | None], list[str]]:
    """Return the types of tracks, and their shapes as JSON, from what is left in them."""
    found: dict[int, list[str]] = {track: [] for track in tracks}
    kinds: dict[int, str | None] = dict.fromkeys(tracks)
    for track, fact_type, shape, _ in types:
        kinds[track] = kinds[track] or FactType(fact_type).value
        found[track].append(shape)
    return [kinds[track] for track in tracks], [f"[{', '.join(shapes)}]" for shapes in found.values()]
