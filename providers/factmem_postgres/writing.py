"""Write transactions: one round trip to read all that some requests depend on, and one to write and commit.

A transaction locks the counters of its tenants, in order, before it reads. So what it reads stays true until it ends.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

import attrs

from factmem.abc import Append, EmbedderIdentity, Receipt, StateRequest
from factmem.facts import FactType
from factmem.providers import SteadyClock, TrackIndex
from factmem.providers.bindings import read_embedder, storable_vector
from factmem.providers.outline_bodies import OutlineRow
from factmem.providers.rows import (
    NewRow,
    checksum,
    microseconds,
    moment_at,
    new_id,
    own_record_id,
)
from factmem.records import Assertion, AssertionState, Recorded, StateChange, Tombstone
from factmem_postgres.rows import (
    ASSERTION_COLUMNS,
    BY_ID,
    OWN_RECORD,
    WITH_HEAD,
    assertion_id,
    assertion_key,
    bytes_of,
    packed,
    packed_assertion,
    packed_record,
    read_recorded,
    record_of,
    state_sum,
    tombstone_sum,
)
from factmem_postgres.server import Ending, Row, Session, Step, of_tenant

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "BURY",
    "COUNT",
    "COUNTER",
    "IS_BURIED",
    "META",
    "NEW_COUNTER",
    "Batch",
    "Meta",
    "Part",
    "Prepared",
    "locked_counter",
    "outlines_steps",
    "vectors_step",
]

Prepared: TypeAlias = Sequence[NewRow | StateRequest]

META: Final = "SELECT key, value FROM {schema}.meta"
NEW_COUNTER: Final = (
    "INSERT INTO {schema}.counters(tenant, seq, sum, recorded_at) VALUES (%s, 0, 0, 0) ON CONFLICT (tenant) DO NOTHING"
)
COUNTER: Final = "SELECT seq, sum, recorded_at, copying FROM {schema}.counters WHERE tenant = %s FOR UPDATE"
COUNT: Final = "UPDATE {schema}.counters SET seq = %s, sum = %s, recorded_at = %s WHERE tenant = %s"

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
BURY: Final = (
    "INSERT INTO {schema}.tombstones(tenant, seq, checksum, assertion_id)"
    " SELECT %s, * FROM unnest(%b::bigint[], %b::bigint[], %b::bytea[])"
)
IS_BURIED: Final = "SELECT 1 FROM {schema}.tombstones WHERE tenant = %s AND seq = %s AND checksum = %s"
_IS_SAID: Final = "SELECT 1 FROM {schema}.assertions WHERE tenant = %s AND seq = %s AND id = %s"
_IS_CHANGED: Final = "SELECT 1 FROM {schema}.state_changes WHERE tenant = %s AND seq = %s AND checksum = %s"


def locked_counter(tenant: str | None) -> list[Step]:
    """Return the steps that lock a tenant's counter; their last rows are its number, sum and newest time."""
    return [of_tenant(tenant), (COUNTER, [bytes_of(tenant)])]


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
        """Return the stored form of a vector; see `factmem.providers.bindings.storable_vector`."""
        return storable_vector(vector, self.embedder, bound)


def vectors_step(tenant: str | None, binding: int, vectors: Mapping[int, bytes]) -> Step:
    """Return the step that stores vectors of a tenant's assertions; numbers without an assertion are ignored."""
    sums = [zlib.crc32(vector, seq & 0xFFFFFFFF) for seq, vector in vectors.items()]
    return _NEW_VECTORS, [binding, list(vectors), sums, list(vectors.values()), bytes_of(tenant)]


def outlines_steps(tenant: str | None, kept: Sequence[OutlineRow]) -> list[Step]:
    """Return the steps that store outlines."""
    shared = {item.outline.shared: _digest(item.outline.shared) for item in kept}
    columns = [
        (item.seq, item.outline.version, item.checksum, shared[item.outline.shared], item.body()) for item in kept
    ]
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


def _ids(seq: int) -> tuple[str, str]:
    id = new_id(seq)
    return id, own_record_id(id)


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
        steps: list[Step] = [of_tenant(self.tenant), (NEW_COUNTER, [self.name]), (COUNTER, [self.name])]
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

    def append(self, row: NewRow, recorded: Recorded, *, joined: bool, outlines: int | None) -> None:
        """Write an assertion."""
        seq, at = recorded.seq, recorded.recorded_at
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
            self._outlines.append(
                OutlineRow(
                    seq=seq,
                    id=recorded.id,
                    record_id=recorded.record_id,
                    recorded_at=at,
                    checksum=check,
                    tenant=self.tenant or "",
                    outline=row.outline,
                )
            )

    def keep_vector(self, seq: int, vector: bytes) -> None:
        """Write the vector of a new assertion."""
        self._vectors[seq] = vector

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
            self._proof = self._proof or (IS_BURIED, [self.name, tombstones[0].seq, sums[0]])
        ids = [packed(tombstone.assertion_id) for tombstone in tombstones]
        return BURY, [self.name, [tombstone.seq for tombstone in tombstones], sums, ids]

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
        steps.append((COUNT, [self.seq, self._sum, newest, self.name]))
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
        self._redated = self._dated(session)

    def _dated(self, session: Session) -> dict[int, NewRow]:
        """Return the rows whose time a clock gave that has stepped back since, with the time of the store."""
        redated: dict[int, NewRow] = {}
        for part in self._parts.values():
            for row in part.rows:
                said = self._clock.dated(row.assertion)
                if said is not row.assertion:
                    redated[id(row)] = row.said_otherwise(said)
            if here := [redated[id(row)] for row in part.rows if id(row) in redated]:
                for found in session.ask(of_tenant(part.tenant), part.same(here))[1]:
                    self._index.found_same(read_recorded(found))
        return redated

    def append(self, rows: Prepared) -> list[Receipt]:
        """Write one request, all or nothing.

        Raises:
            FactMemError: See `KeepsHistory.append`; the batch goes on without it.
        """
        if len(rows) > 1:
            trial = self._index.trial()
            for row in rows:
                self._try(row, trial)
        receipts = []
        for row in rows:
            match row:
                case NewRow():
                    receipts.append(self._append(row))
                case StateRequest():
                    self._change(row)
                case _:
                    assert_never(row)
        return receipts

    def ending(self) -> Ending[None]:
        """Return the end of the transaction."""
        newest = microseconds(self._clock.newest or moment_at(0))
        steps = [step for part in self._parts.values() for step in part.steps(self._index, self._meta, newest)]
        if steps and self._new_version is not None:
            steps.append((_FIRST_OUTLINES, [str(self._new_version)]))
        proof = next((proof for part in self._parts.values() if (proof := part.proof())), [])
        return Ending(None, steps, proof)

    def _try(self, row: NewRow | StateRequest, trial: TrackIndex) -> None:
        match row:
            case NewRow():
                self._vector(row)
                if self._known(row, trial) is None:
                    self._check_followed(row, trial)
                    trial.record(self._said(row).assertion, 0, self._clock)
            case StateRequest():
                trial.check(row)
                trial.change(row, 0, self._clock)
            case _:
                assert_never(row)

    def _append(self, row: NewRow) -> Receipt:
        vector = self._vector(row)
        if (known := self._known(row, self._index)) is not None:
            return Receipt(recorded=known, new=False)
        self._check_followed(row, self._index)
        part, said = self._parts[row.assertion.place.scope.tenant], self._said(row)
        part.seq += 1
        recorded = self._index.record(said.assertion, part.seq, self._clock, _ids)
        part.append(said, recorded, joined=self._index.has_joined(recorded.id), outlines=self._version)
        if vector is not None:
            part.keep_vector(recorded.seq, vector)
        return Receipt(recorded=recorded, new=True)

    def _change(self, request: StateRequest) -> None:
        self._index.check(request)
        part, before = self._parts[request.tenant], self._index.has_joined(request.assertion_id)
        part.seq += 1
        change = self._index.change(request, part.seq, self._clock)
        part.change(change, joined=self._index.has_joined(request.assertion_id) and not before)

    def _said(self, row: NewRow) -> NewRow:
        return self._redated.get(id(row), row)

    def _known(self, row: NewRow, index: TrackIndex) -> Recorded | None:
        return index.known(row.assertion) or index.known(self._said(row).assertion)

    def _vector(self, row: NewRow) -> bytes | None:
        return None if row.vector is None else self._meta.storable(row.vector, self._bound)

    @staticmethod
    def _check_followed(row: NewRow, index: TrackIndex) -> None:
        index.check_followed(Append(assertion=row.assertion, follows=row.follows))


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
