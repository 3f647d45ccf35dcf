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
from collections import defaultdict
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
    check_vectors,
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
    unpack_id,
    unpack_record_id,
    written_embedder,
)
from factmem.providers.threaded import ReadyRequests, Request, checked_tenants, foreign_rows
from factmem.providers.write_plans import Planned, Planner, SteadyClock, check_part
from factmem.records import Assertion, AssertionState, LogEntry, Place, Recorded, StateChange, Tombstone
from factmem.store_findings import Finding, finding_of, no_store, pending_erasure, remakeable_vectors, tenant_words
from factmem.vectors import unit_vector
from factmem_postgres.schema import MIGRATIONS, TABLES
from factmem_postgres.server import SEE_ALL, Ending, Row, Server, Session, Step, bytes_of, in_tenant

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

_OF_RECORD: Final = "(a.record_id = w.record OR (a.seq = w.first AND a.id = w.first_id AND a.record_id IS NULL))"
"""Condition on the assertions of a record; see `_record_columns`."""

_OWN_RECORD: Final = (
    "'\\x00'::bytea || substring(int8send(a.seq) FROM 3)"
    " || decode(translate(encode(a.id, 'hex'), '0123456789abcdef', 'fedcba9876543210'), 'hex')"
)
"""Packed id of the record that an assertion ``a`` begins, as `factmem.providers.sql_rows.own_record_id` derives it."""

_BY_ID: Final = (
    "(SELECT * FROM {schema}.assertions WHERE tenant = %(tenant)s AND seq = w.seq AND id = w.own"
    " UNION ALL SELECT * FROM {schema}.assertions WHERE tenant = %(tenant)s AND id = w.id AND octet_length(id) <> 10)"
)
"""Assertion of an id, from `_id_columns`; an id of another store does not name its number, and is looked up."""

_OWN_BYTES: Final = 10
"""Length of the stored form of an id of ours, which every other form avoids."""

_HEXADECIMAL: Final = b"\x00"
_TEXT: Final = b"\x01"
_PADDED_TEXT: Final = b"\x02"


def _text_of(stored: bytes | None) -> str | None:
    return None if stored is None else stored.decode()


def _packed(id: str) -> bytes:
    """Return the stored form of an id of any store."""
    short = pack_id(id)
    if isinstance(short, bytes):
        return _HEXADECIMAL + short
    text = bytes_of(short)
    return _PADDED_TEXT + text + b"\0" if len(text) == _OWN_BYTES - 1 else _TEXT + text


def _unpacked(stored: bytes) -> bytes | str:
    """Return the form of `factmem.providers.sql_rows.pack_id` from the result of `_packed` or `_packed_assertion`."""
    match stored[:1]:
        case _ if len(stored) == _OWN_BYTES:
            return stored
        case b"\x00":
            return stored[1:]
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
    return unpack_id(_unpacked(stored), seq)


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
    return unpack_record_id(None if stored is None else _unpacked(stored), id)


def _id_columns(ids: Iterable[str]) -> dict[str, list[Any]]:
    """Return the arguments for the columns that `_BY_ID` looks at."""
    return _columns(("seq", "own", "id"), [(seq := seq_of(id), _packed_assertion(id, seq), _packed(id)) for id in ids])


def _record_columns(ids: Iterable[str]) -> dict[str, list[Any]]:
    """Return the arguments for the columns that `_OF_RECORD` looks at."""
    return _columns(("record", "first", "first_id"), [_record_key(id) for id in ids])


def _record_key(record_id: str) -> tuple[bytes, int, bytes]:
    """Return the stored form of a record's id, and the number and id of the assertion that it would begin with."""
    seq = seq_of(record_id)
    try:
        own = _packed_assertion(own_record_id(record_id), seq)
    except ValueError:
        own = b""
    return _packed(record_id), seq, own


def _columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Return rows as arguments of a statement, one array a column."""
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _read_recorded(row: tuple[Any, ...]) -> Recorded:
    """Read the columns `_ASSERTION_COLUMNS`.

    Raises:
        NewerVersionError: A newer factmem wrote it.
        CorruptStoreError: The row was changed.
    """
    seq, id, record_id, *rest = row
    return read_assertion((seq, _unpacked(id), None if record_id is None else _unpacked(record_id), *rest))


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
    tombstone = Tombstone(assertion_id=unpack_id(_unpacked(id), 0), seq=seq)
    if _tombstone_sum(tenant, tombstone) != expected:
        raise _damaged("tombstone", seq)
    return tombstone


def _damaged(what: str, seq: int) -> CorruptStoreError:
    return CorruptStoreError(f"the {what} number {seq} is damaged: restore the store from a backup")


_Prepared: TypeAlias = Sequence[PreparedRow]
_Written: TypeAlias = tuple[str, tuple[str, ...]]
"""A statement that writes rows of a tenant, and their columns, each of which it takes as an array."""


def _names(columns: str) -> tuple[str, ...]:
    return tuple(column.split()[0] for column in columns.split(", "))


def _given(columns: str) -> str:
    """Return the table ``w`` of rows that are given as one array a column: names and types such as ``seq bigint``."""
    arrays = ", ".join(f"%({name})b::{type}[]" for name, type in map(str.split, columns.split(", ")))
    return f"unnest({arrays}) AS w({', '.join(_names(columns))})"


def _inserted(table: str, columns: str, on_conflict: str = "") -> _Written:
    """Return the statement that inserts rows of a tenant into a table; see `_given` for their other columns."""
    names = _names(columns)
    rows = f"SELECT %(tenant)s, w.* FROM {_given(columns)}"
    return f"INSERT INTO {{schema}}.{table}(tenant, {', '.join(names)}) {rows}{on_conflict}", names


def _updated(table: str, columns: str) -> _Written:
    """Return the statement that updates rows of a tenant in a table, found by the first column; see `_given`."""
    key, *names = _names(columns)
    changes = ", ".join(f"{name} = w.{name}" for name in names)
    found = f"t.tenant = %(tenant)s AND t.{key} = w.{key}"
    return f"UPDATE {{schema}}.{table} t SET {changes} FROM {_given(columns)} WHERE {found}", (key, *names)


_META: Final = "SELECT key, value FROM {schema}.meta"
_NEW_COUNTER: Final = (
    "INSERT INTO {schema}.counters(tenant, seq, sum, recorded_at) VALUES (%(tenant)s, 0, 0, 0)"
    " ON CONFLICT (tenant) DO NOTHING"
)
_COUNTER: Final = "SELECT seq, sum, recorded_at, copying FROM {schema}.counters WHERE tenant = %(tenant)s FOR UPDATE"
_COUNT: Final = (
    "UPDATE {schema}.counters SET seq = %(seq)s, sum = %(sum)s, recorded_at = %(newest)s WHERE tenant = %(tenant)s"
)

_WITH_TRACK: Final = (
    "unnest(%(place)b::bytea[], %(keyword)b::bytea[], %(owner)b::bytea[], %(slot)b::bytea[]) WITH ORDINALITY"
    " AS w(place, keyword, owner, slot, n) JOIN {schema}.tracks t"
    " ON t.tenant = %(tenant)s AND t.place = w.place AND t.keyword = w.keyword AND t.owner = w.owner"
)
_TRACKS: Final = f"SELECT w.n, t.id, t.fact_type, t.shapes FROM {_WITH_TRACK}"
_HEADS: Final = "SELECT digest, id FROM {schema}.heads WHERE tenant = %(tenant)s AND digest = ANY (%(digest)b::bytea[])"
_SAME: Final = (
    f"SELECT {_ASSERTION_COLUMNS} FROM {_given('said_at bigint, fingerprint bytea')} JOIN {{schema}}.assertions a"
    f" ON a.tenant = %(tenant)s AND a.said_at = w.said_at AND a.fingerprint = w.fingerprint {_WITH_HEAD}"
)
# The last assertion of each slot, unless its record has moved to another value since.
_SLOTS: Final = (
    f"SELECT w.n, a.seq, a.id, a.record_id FROM {_WITH_TRACK}"
    " CROSS JOIN LATERAL (SELECT l.seq, l.id, l.record_id FROM {schema}.assertions l WHERE l.tenant = %(tenant)s"
    " AND l.track = t.id AND substring(l.slot FOR 7) = substring(w.slot FOR 7) AND l.slot = w.slot"
    " ORDER BY l.seq DESC LIMIT 1) a"
    " WHERE NOT EXISTS (SELECT FROM {schema}.assertions b WHERE b.tenant = %(tenant)s"
    f" AND b.record_id = coalesce(a.record_id, {_OWN_RECORD}) AND b.seq > a.seq)"
)
_FOLLOWED: Final = "SELECT seq FROM {schema}.assertions WHERE tenant = %(tenant)s AND seq = ANY (%(follows)b::bigint[])"
_STATES: Final = (
    f"SELECT {_ASSERTION_COLUMNS}, a.joined, t.id, t.fact_type, t.shapes,"
    " (SELECT s.state FROM {schema}.state_changes s"
    " WHERE s.tenant = a.tenant AND s.assertion = a.seq ORDER BY s.seq DESC LIMIT 1)"
    f" FROM {_given('seq bigint, own bytea, id bytea')} CROSS JOIN LATERAL {_BY_ID} a"
    f" JOIN {{schema}}.tracks t ON t.tenant = a.tenant AND t.id = a.track {_WITH_HEAD}"
)

_NEW_TRACKS: Final = _inserted(
    "tracks", "place bytea, keyword bytea, owner bytea, id bigint, fact_type text, shapes text"
)
_CHANGED_TRACKS: Final = _updated("tracks", "id bigint, fact_type text, shapes text")
_NEW_HEADS: Final = _inserted("heads", "id bigint, track bigint, digest bytea, doc text")
_NEW_ASSERTIONS: Final = _inserted(
    "assertions",
    "seq bigint, track bigint, head bigint, said_at bigint, recorded_at bigint, checksum bigint, "
    "joined bigint, id bytea, record_id bytea, slot bytea, fingerprint bytea, doc text",
)
_NEW_STATES: Final = _inserted(
    "state_changes",
    "seq bigint, assertion bigint, recorded_at bigint, checksum bigint, state text, reason bytea, actor bytea",
)
_JOINED: Final = _updated("assertions", "seq bigint, joined bigint")
_NEW_SHARED: Final = _inserted(
    "shared_outlines",
    "digest bytea, body bytea",
    " ON CONFLICT (tenant, digest) DO NOTHING",
)
_NEW_OUTLINES: Final = _inserted(
    "outlines",
    "seq bigint, version bigint, checksum bigint, shared bytea, body bytea",
    " ON CONFLICT (tenant, seq) DO UPDATE SET version = excluded.version, checksum = excluded.checksum,"
    " shared = excluded.shared, body = excluded.body",
)
_NEW_VECTORS: Final[_Written] = (
    (
        "INSERT INTO {schema}.vectors(tenant, seq, binding, checksum, embedding)"
        " SELECT a.tenant, a.seq, w.binding, w.checksum, w.embedding"
        f" FROM {_given('seq bigint, binding bigint, checksum bigint, embedding bytea')}"
        " JOIN {schema}.assertions a ON a.tenant = %(tenant)s AND a.seq = w.seq"
        " ON CONFLICT (tenant, seq) DO UPDATE SET binding = excluded.binding, checksum = excluded.checksum,"
        " embedding = excluded.embedding"
    ),
    ("seq", "binding", "checksum", "embedding"),
)
_FIRST_OUTLINES: Final = "INSERT INTO {schema}.meta VALUES ('outlines', %(version)s) ON CONFLICT (key) DO NOTHING"
_GRAVES: Final = _inserted("tombstones", "seq bigint, checksum bigint, assertion_id bytea")
_WRITTEN_IN_ORDER: Final = (
    _NEW_TRACKS,
    _CHANGED_TRACKS,
    _NEW_HEADS,
    _NEW_ASSERTIONS,
    _NEW_STATES,
    _JOINED,
    _NEW_SHARED,
    _NEW_OUTLINES,
    _NEW_VECTORS,
    _GRAVES,
)
"""Kinds of rows in the order in which they are written: some change, or are made of, those before them."""
_IS_BURIED: Final = (
    "SELECT 1 FROM {schema}.tombstones WHERE tenant = %(tenant)s AND seq = %(seq)s AND checksum = %(checksum)s"
)
_IS_SAID: Final = "SELECT 1 FROM {schema}.assertions WHERE tenant = %(tenant)s AND seq = %(seq)s AND id = %(id)s"
_IS_CHANGED: Final = (
    "SELECT 1 FROM {schema}.state_changes WHERE tenant = %(tenant)s AND seq = %(seq)s AND checksum = %(checksum)s"
)


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
        appends: Assertions to append.
        changing: Ids of assertions whose state changes.
        seq: Last sequence number.
        sum: Sum of the checksums of all rows.
    """

    tenant: str | None
    appends: list[NewRow] = attrs.field(factory=list)
    changing: list[str] = attrs.field(factory=list)
    seq: int = 0
    sum: int = 0
    _before: int = 0
    _numbers: dict[str, int] = attrs.field(factory=dict)
    _tracks: dict[tuple[object, ...], _Track] = attrs.field(factory=dict)
    _heads: dict[bytes, int] = attrs.field(factory=dict)
    _rows: dict[_Written, list[Row]] = attrs.field(factory=lambda: defaultdict(list))
    _shared: dict[bytes, bytes] = attrs.field(factory=dict)
    _proof: tuple[str, dict[str, Any]] | None = None

    def questions(self) -> list[Step]:
        """Return the steps that lock the counter, and read what the rows and requests depend on."""
        statements, wanted = [_NEW_COUNTER, _COUNTER], dict[str, Any]()
        if self.appends:
            statements += [_TRACKS, _HEADS, _SAME, _SLOTS, _FOLLOWED]
            wanted |= _columns(("place", "keyword", "owner"), [_track_key(row) for row in self.appends])
            wanted["digest"] = [_head_digest(row) for row in self.appends]
            wanted["slot"] = [row.slot for row in self.appends]
            wanted["follows"] = [row.follows for row in self.appends if row.follows is not None]
            wanted |= _said_columns(self.appends)
        if self.changing:
            statements.append(_STATES)
            wanted |= _id_columns(self.changing)
        return in_tenant(self.tenant, *statements, **wanted)

    def take_in(self, answers: Iterator[list[Row]], index: TrackIndex, clock: SteadyClock) -> None:
        """Take in the answers to `questions`."""
        for _ in range(2):
            next(answers)
        clock.reached(moment_at(self.continue_from(next(answers))), self.tenant)
        if self.appends:
            for number, id, fact_type, shapes in next(answers):
                self._found_track(self.appends[number - 1].assertion, id, fact_type, shapes, index)
            self._heads.update(next(answers))
            for row in next(answers):
                index.found_same(_read_recorded(row))
            for number, seq, id, record_id in next(answers):
                index.found_record(self.appends[number - 1].assertion, record_of(record_id, assertion_id(id, seq)))
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
        ((self.seq, self.sum, recorded_at, _),) = counter
        self._before = self.seq
        return int(recorded_at)

    def _found_track(self, said: Assertion, id: int, fact_type: str | None, shapes: str, index: TrackIndex) -> None:
        self._tracks[said.track] = _Track(id, (fact_type, shapes))
        if fact_type is not None:
            index.found_type(said.track, FactType(fact_type), json.loads(shapes))

    def append(self, row: NewRow, recorded: Recorded, meta: _Meta, *, joined: bool) -> None:
        """Write an assertion, with its vector, and with its outline if it is of the store's version."""
        if recorded.assertion != row.assertion:
            row = row.said_otherwise(recorded.assertion)
        seq, at = recorded.seq, recorded.recorded_at
        check = checksum(seq, recorded.id, recorded.record_id, at.isoformat(), row.partial_checksum)
        track = self._tracks.setdefault(row.assertion.track, _Track(seq, key=_track_key(row)))
        digest = _head_digest(row)
        head = self._heads.setdefault(digest, seq)
        if head == seq:
            self._rows[_NEW_HEADS].append((seq, track.id, digest, row.head))
        id = _packed_assertion(recorded.id, seq)
        self._numbers[recorded.id] = seq
        self._rows[_NEW_ASSERTIONS].append(
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
        self.sum += check
        self._proof = self._proof or (_IS_SAID, {"seq": seq, "id": id})
        if row.vector is not None:
            self.embed(seq, row.vector, meta)
        if row.outline is not None and row.outline.version == meta.outlines:
            self.outline(row.outline, check, outline_body(seq, recorded.id, recorded.record_id, at, row.outline), seq)

    def embed(self, seq: int, vector: NDArray[np.float32], meta: _Meta) -> None:
        """Write the vector of an assertion; a number without an assertion is ignored."""
        row = vector.tobytes()
        self._rows[_NEW_VECTORS].append((seq, meta.binding, zlib.crc32(row, seq & 0xFFFFFFFF), row))

    def outline(self, outline: Outline, check: int, body: bytes, seq: int) -> None:
        """Write the outline of an assertion.

        Args:
            outline: Outline.
            check: Checksum of the assertion.
            body: Stored form of the outline; see `outline_body`.
            seq: Number of the assertion.
        """
        shared = self._shared.get(outline.shared)
        if shared is None:
            shared = self._shared[outline.shared] = _digest(outline.shared)
            self._rows[_NEW_SHARED].append((shared, outline.shared))
        self._rows[_NEW_OUTLINES].append((seq, outline.version, check, shared, body))

    def change(self, change: StateChange, *, joined: bool) -> None:
        """Write a change of state.

        Args:
            change: The change.
            joined: Whether it makes its assertion count for the first time.
        """
        assertion = self._numbers[change.assertion_id]
        check = _state_sum(bytes_of(self.tenant), change, assertion)
        why = [None if text is None else bytes_of(text) for text in (change.reason, change.actor)]
        row = (change.seq, assertion, microseconds(change.recorded_at), check, change.state.value, *why)
        self._rows[_NEW_STATES].append(row)
        self.sum += check
        self._proof = self._proof or (_IS_CHANGED, {"seq": change.seq, "checksum": check})
        if joined:
            self._rows[_JOINED].append((assertion, change.seq))

    def bury(self, tombstones: Sequence[Tombstone]) -> None:
        """Write tombstones."""
        for tombstone in tombstones:
            check = _tombstone_sum(bytes_of(self.tenant), tombstone)
            self._rows[_GRAVES].append((tombstone.seq, check, _packed(tombstone.assertion_id)))
            self.sum += check
            self._proof = self._proof or (_IS_BURIED, {"seq": tombstone.seq, "checksum": check})

    def steps(self, index: TrackIndex, newest: int) -> list[Step]:
        """Return the steps that write all of it; none if there is nothing to write."""
        if self.seq == self._before:
            return []
        self._rows[_NEW_TRACKS] = self._new_tracks(index)
        self._rows[_CHANGED_TRACKS] = self._changed_tracks(index)
        setting, count = in_tenant(self.tenant, _COUNT, seq=self.seq, sum=self.sum, newest=newest)
        return [setting, *self.row_steps(), count]

    def row_steps(self) -> list[Step]:
        """Return the steps that write the rows alone."""
        name = bytes_of(self.tenant)
        kinds = [kind for kind in _WRITTEN_IN_ORDER if self._rows[kind]]
        return [(kind[0], {"tenant": name, **_columns(kind[1], self._rows[kind])}) for kind in kinds]

    def proof(self) -> list[Step]:
        """Return the steps that find out whether it was written; none if nothing was to be."""
        if self._proof is None:
            return []
        statement, row = self._proof
        return in_tenant(self.tenant, _COUNTER, statement, **row)

    def _new_tracks(self, index: TrackIndex) -> list[Row]:
        new = [(track, found) for track, found in self._tracks.items() if found.key is not None]
        return [(*(found.key or ()), found.id, *_type_of(index, track)) for track, found in new]

    def _changed_tracks(self, index: TrackIndex) -> list[Row]:
        old = [(_type_of(index, track), found) for track, found in self._tracks.items() if found.stored is not None]
        return [(found.id, *now) for now, found in old if now != found.stored]


def _said_columns(rows: Sequence[NewRow]) -> dict[str, list[Any]]:
    """Return the arguments of `_SAME`."""
    return _columns(("said_at", "fingerprint"), [(row.said_at, row.fingerprint) for row in rows])


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
        answers = iter(session.ask((_META, {}), *(step for part in self._parts.values() for step in part.questions())))
        stored = _Meta.of(next(answers))
        self._new_version = outlines if stored.outlines is None else None
        self._meta = stored if stored.outlines is not None else attrs.evolve(stored, outlines=outlines)
        for part in self._parts.values():
            part.take_in(answers, self._index, clock)
        self._find_redated(session)
        self._plan = Planner(clock, lambda _: self._index, lambda tenant: self._parts[tenant].seq, new_ids)

    def _find_redated(self, session: Session) -> None:
        """Look also for the rows whose time a clock gave that has stepped back since, with the time of the store."""
        for part in self._parts.values():
            dated = [(row, self._clock.dated(row.assertion)) for row in part.appends]
            if here := [row.said_otherwise(said) for row, said in dated if said is not row.assertion]:
                for found in session.ask(*in_tenant(part.tenant, _SAME, **_said_columns(here)))[1]:
                    self._index.found_same(_read_recorded(found))

    def append(self, rows: _Prepared) -> list[Receipt]:
        """Write one request, all or nothing.

        Raises:
            FactMemError: See `KeepsLog.append`; the batch goes on without it.
        """
        vectors = [row.vector for row in rows if isinstance(row, NewRow)]
        check_vectors(vectors, self._meta.embedder, self._bound)
        receipts, planned = self._plan.plan(rows)
        for each in planned:
            part = self._parts[each.item.tenant]
            match each:
                case Planned(item=NewRow() as row, entry=Recorded() as recorded):
                    part.append(row, recorded, self._meta, joined=each.joined)
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
            for step in part.steps(self._index, _newest_time(self._clock, tenant))
        ]
        if steps and self._new_version is not None:
            steps.append((_FIRST_OUTLINES, {"version": str(self._new_version)}))
        proof = next((proof for part in self._parts.values() if (proof := part.proof())), [])
        return Ending(None, steps, proof)


def _parts(requests: Iterable[_Prepared]) -> dict[str | None, _Part]:
    """Return the statements by tenant, in the order in which every transaction locks them."""
    parts: dict[str | None, _Part] = {}
    for row in (row for rows in requests for row in rows):
        part = parts.setdefault(row.tenant, _Part(row.tenant))
        if isinstance(row, NewRow):
            part.appends.append(row)
        else:
            part.changing.append(row.assertion_id)
    return dict(sorted(parts.items(), key=lambda item: bytes_of(item[0])))


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
    f"SELECT a.seq, a.id, a.record_id, a.track FROM {_given('record bytea')}"
    " JOIN {schema}.assertions a ON a.tenant = %(tenant)s AND a.record_id = w.record"
    f" UNION SELECT a.seq, a.id, a.record_id, a.track FROM {_given('first bigint, first_id bytea')}"
    " JOIN {schema}.assertions a ON a.tenant = %(tenant)s AND a.seq = w.first AND a.id = w.first_id"
    " AND a.record_id IS NULL UNION SELECT a.seq, a.id, a.record_id, a.track"
    f" FROM {_given('seq bigint, own bytea, id bytea')} CROSS JOIN LATERAL {_BY_ID} a ORDER BY seq"
)
"""Assertions by ids, those of records and single ones: number, id, record and track of each, in order."""

_OF_GONE: Final = "= ANY (%(gone)b::bigint[])"
_DELETE_ASSERTIONS: Final = (
    f"DELETE FROM {{schema}}.assertions WHERE tenant = %(tenant)s AND seq {_OF_GONE} RETURNING checksum"
)
_DELETE_STATES: Final = (
    f"DELETE FROM {{schema}}.state_changes WHERE tenant = %(tenant)s AND assertion {_OF_GONE} RETURNING checksum"
)
_DELETE_VECTORS: Final = f"DELETE FROM {{schema}}.vectors WHERE tenant = %(tenant)s AND seq {_OF_GONE}"
_DELETE_OUTLINES: Final = f"DELETE FROM {{schema}}.outlines WHERE tenant = %(tenant)s AND seq {_OF_GONE}"
_DELETE_SHARED: Final = (
    "DELETE FROM {schema}.shared_outlines s WHERE s.tenant = %(tenant)s AND NOT EXISTS"
    " (SELECT FROM {schema}.outlines o WHERE o.tenant = s.tenant AND o.shared = s.digest)"
)
_DELETE_HEADS: Final = (
    "DELETE FROM {schema}.heads h WHERE h.tenant = %(tenant)s AND h.track = ANY (%(tracks)b::bigint[]) AND NOT EXISTS"
    " (SELECT FROM {schema}.assertions a WHERE a.tenant = h.tenant AND a.track = h.track AND a.head = h.id)"
)
_DELETE_ACCESSES: Final = (
    f"DELETE FROM {{schema}}.accesses x USING {_given('name bytea, record bytea, first bigint, first_id bytea')}"
    " WHERE x.tenant = %(tenant)s AND x.record_id = w.name AND NOT EXISTS"
    f" (SELECT FROM {{schema}}.assertions a WHERE a.tenant = x.tenant AND {_OF_RECORD})"
)
# The types of tracks, from what is left in them.
_RETYPED_TRACKS: Final = (
    "UPDATE {schema}.tracks t SET fact_type = l.fact_type, shapes = l.shapes FROM"
    " (SELECT k.id, min(f.fact_type) AS fact_type,"
    " '[' || coalesce(string_agg(f.shape, ', ' ORDER BY f.joined), '') || ']' AS shapes"
    " FROM unnest(%(tracks)b::bigint[]) AS k(id) LEFT JOIN"
    " (SELECT a.track, h.doc::json ->> 'fact_type' AS fact_type, (h.doc::json -> 'shape')::text AS shape,"
    " min(a.joined) AS joined FROM {schema}.assertions a"
    " JOIN {schema}.heads h ON h.tenant = a.tenant AND h.id = a.head"
    " WHERE a.tenant = %(tenant)s AND a.track = ANY (%(tracks)b::bigint[]) AND a.joined IS NOT NULL"
    " GROUP BY 1, 2, 3) f ON f.track = k.id GROUP BY k.id) l WHERE t.tenant = %(tenant)s AND t.id = l.id"
)
_DELETE_TRACKS: Final = (
    "DELETE FROM {schema}.tracks t WHERE t.tenant = %(tenant)s AND t.id = ANY (%(tracks)b::bigint[]) AND NOT EXISTS"
    " (SELECT FROM {schema}.assertions a WHERE a.tenant = t.tenant AND a.track = t.id)"
)
_NOTE: Final = (
    "INSERT INTO {schema}.erasures(tenant, seq, by_transaction, files)"
    f" VALUES (%(tenant)s, %(seq)s, pg_current_xact_id(), {_FILES})"
)
_NOTES: Final = "SELECT seq, rewritten IS NOT NULL, until IS NOT NULL FROM {schema}.erasures WHERE tenant = %(tenant)s"
# A transaction that is older than the deletion still sees the rows: a rewritten table keeps them for it.
_REWRITABLE: Final = (
    f"SELECT {_SIZE} <= %(most)s AND NOT EXISTS (SELECT FROM pg_stat_activity p, {{schema}}.erasures e"
    " WHERE e.tenant = %(tenant)s AND e.rewritten IS NULL"
    " AND p.datname = current_database() AND p.pid <> pg_backend_pid()"
    " AND greatest(age(p.backend_xmin), age(p.backend_xid)) >= age(e.by_transaction::xid))"
)
_REWRITTEN: Final = (
    "UPDATE {schema}.erasures e SET rewritten = pg_current_wal_insert_lsn() WHERE e.tenant = %(tenant)s"
    " AND e.rewritten IS NULL AND e.seq = ANY (%(waiting)b::bigint[]) AND NOT EXISTS"
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
    " WHERE tenant = %(tenant)s AND rewritten IS NOT NULL AND until IS NULL"
    " AND '0/0'::pg_lsn + (SELECT min(number) * {size} FROM files) > rewritten"
).replace("{size}", _BYTES_OF_FILE)
# A server keeps no more than that of its own accord.
_ESTIMATED: Final = (
    "UPDATE {schema}.erasures SET until = rewritten + 2 * pg_size_bytes(current_setting('max_wal_size'))"
    " WHERE tenant = %(tenant)s AND rewritten IS NOT NULL AND until IS NULL"
)
_IS_CLUSTER: Final = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
_FINISHED: Final = "DELETE FROM {schema}.erasures WHERE tenant = %(tenant)s AND until <= pg_current_wal_flush_lsn()"


def _delete_rows(session: Session, tenant: str | None, gone: Sequence[Row]) -> int:
    """Delete assertions with all that belongs to them, and return the sum of the checksums of the deleted rows.

    Args:
        session: Transaction.
        tenant: Tenant.
        gone: Rows of `_NAMED`.
    """
    records = {record_of(record_id, assertion_id(id, seq)) for seq, id, record_id, _ in gone}
    _, *steps = in_tenant(
        tenant,
        _DELETE_ASSERTIONS,
        _DELETE_STATES,
        _DELETE_VECTORS,
        _DELETE_OUTLINES,
        _DELETE_SHARED,
        _DELETE_HEADS,
        _DELETE_ACCESSES,
        _DELETE_TRACKS,
        _RETYPED_TRACKS,
        gone=[row[0] for row in gone],
        tracks=sorted({row[3] for row in gone}),
        name=[bytes_of(id) for id in records],
        **_record_columns(records),
    )
    said, changed, *_ = session.ask(*steps)
    return sum(check for (check,) in (*said, *changed))


_NEWEST: Final = "SELECT seq, sum FROM {schema}.counters WHERE tenant = %(tenant)s"
_EMBEDDER: Final = "SELECT value FROM {schema}.meta WHERE key = 'embedder'"
_OUTLINES: Final = "SELECT value::bigint FROM {schema}.meta WHERE key = 'outlines'"
_BINDING: Final = "(SELECT value::bigint FROM {schema}.meta WHERE key = 'binding')"

_OF_PLACE: Final = (
    "FROM {schema}.tracks t JOIN {schema}.assertions a ON a.tenant = t.tenant AND a.track = t.id {more}"
    " WHERE t.tenant = %(tenant)s AND t.place = %(place)s"
    " AND (%(keyword)s::bytea IS NULL OR t.keyword = %(keyword)s)"
)
_SAID_AT_PLACE: Final = f"SELECT {_ASSERTION_COLUMNS} {_OF_PLACE.replace('{more}', _WITH_HEAD)}"
_CHANGED_AT_PLACE: Final = f"SELECT {_STATE_COLUMNS} " + _OF_PLACE.replace(
    "{more}", "JOIN {schema}.state_changes s ON s.tenant = a.tenant AND s.assertion = a.seq"
)

_SAID: Final = f"SELECT {_ASSERTION_COLUMNS} FROM {{schema}}.assertions a {_WITH_HEAD} WHERE a.tenant = %(tenant)s"
_NUMBERED: Final = f"{_SAID} AND a.seq = ANY (%(seqs)b::bigint[])"
_CHANGED: Final = (
    f"SELECT {_STATE_COLUMNS} FROM {{schema}}.state_changes s"
    " LEFT JOIN {schema}.assertions a ON a.tenant = s.tenant AND a.seq = s.assertion"
    " WHERE s.tenant = %(tenant)s AND s.seq > %(since)s"
)
_ERASED: Final = (
    "SELECT d.seq, d.assertion_id, d.checksum FROM {schema}.tombstones d"
    " WHERE d.tenant = %(tenant)s AND d.seq > %(since)s"
)

# The number up to which to read, to get at most so many assertions.
_UNTIL: Final = (
    "coalesce((SELECT seq FROM {schema}.assertions WHERE tenant = %(tenant)s AND seq > %(since)s"
    " ORDER BY seq LIMIT 1 OFFSET %(others)s), %(most)s)"
)
_OUTLINED: Final = (
    "SELECT a.seq, o.shared, o.body FROM {schema}.assertions a"
    " LEFT JOIN {schema}.outlines o ON o.tenant = a.tenant AND o.seq = a.seq AND o.version = %(version)s"
    " WHERE a.tenant = %(tenant)s AND a.seq > %(since)s ORDER BY a.seq LIMIT %(limit)s"
)
_SHARED: Final = (
    "SELECT s.digest, s.body FROM {schema}.shared_outlines s WHERE s.tenant = %(tenant)s AND s.digest IN"
    " (SELECT o.shared FROM {schema}.outlines o WHERE o.tenant = %(tenant)s AND o.seq > %(since)s"
    f" AND o.version = %(version)s AND o.seq <= {_UNTIL})"
)
# An outline repeats the checksum of its assertion, which then need not be read.
_SUMS: Final = (
    "SELECT coalesce((SELECT sum(checksum) FROM {schema}.outlines"
    " WHERE tenant = %(tenant)s AND version = %(version)s), 0)"
    " + coalesce((SELECT sum(a.checksum) FROM {schema}.assertions a WHERE a.tenant = %(tenant)s AND NOT EXISTS"
    " (SELECT FROM {schema}.outlines o WHERE o.tenant = a.tenant AND o.seq = a.seq AND o.version = %(version)s)), 0)"
    " + coalesce((SELECT sum(checksum) FROM {schema}.state_changes WHERE tenant = %(tenant)s), 0)"
    " + coalesce((SELECT sum(checksum) FROM {schema}.tombstones WHERE tenant = %(tenant)s), 0)"
)
_LEFT: Final = (
    "SELECT o.seq FROM {schema}.outlines o WHERE o.tenant = %(tenant)s AND o.seq = ANY (%(seqs)b::bigint[])"
    " AND NOT EXISTS (SELECT FROM {schema}.assertions a WHERE a.tenant = o.tenant AND a.seq = o.seq)"
)

_VECTORS: Final = (
    "SELECT v.seq, v.embedding, v.checksum FROM {schema}.vectors v"
    f" WHERE v.tenant = %(tenant)s AND v.seq > %(since)s AND v.binding = {_BINDING} ORDER BY v.seq"
)
_ACCESSES: Final = (
    "SELECT record_id, count, last FROM {schema}.accesses"
    " WHERE tenant = %(tenant)s AND record_id = ANY (%(ids)b::bytea[])"
)

_TENANTS: Final = "SELECT tenant FROM {schema}.counters ORDER BY tenant"
_STRAY: Final = (
    "SELECT count(*) FROM {schema}.vectors v WHERE v.tenant = %(tenant)s AND NOT EXISTS"
    " (SELECT FROM {schema}.assertions a WHERE a.tenant = v.tenant AND a.seq = v.seq)"
)

_COPYABLE: Final = "SELECT tenant FROM {schema}.counters WHERE seq > 0 OR copying ORDER BY tenant"
_COPIED: Final = "SELECT seq FROM {schema}.counters WHERE tenant = %(tenant)s AND copying"
_MARK: Final = "UPDATE {schema}.counters SET copying = %(copying)s WHERE tenant = %(tenant)s"
_HAS_ARRIVED: Final = "SELECT 1 FROM {schema}.counters WHERE tenant = %(tenant)s AND seq >= %(seq)s"

_SET: Final = (
    "INSERT INTO {schema}.meta VALUES (%(key)s, %(value)s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
_FOR_OUTLINES: Final = (
    "SELECT seq, id, record_id, recorded_at, checksum FROM {schema}.assertions"
    " WHERE tenant = %(tenant)s AND seq = ANY (%(seqs)b::bigint[])"
)
_COUNT_ACCESSES: Final = (
    "INSERT INTO {schema}.accesses(tenant, record_id, count, last) SELECT %(tenant)s, w.name, w.count, w.last"
    f" FROM {_given('name bytea, record bytea, first bigint, first_id bytea, count bigint, last bigint')}"
    f" WHERE EXISTS (SELECT FROM {{schema}}.assertions a WHERE a.tenant = %(tenant)s AND {_OF_RECORD})"
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
        return _newest(self._server.read(tenant, _NEWEST)[0])

    @_guarded
    def entries(self, place: Place, keyword: str | None) -> Sequence[LogEntry]:
        """Return the log of a place, of one concept or of all."""
        tenant = place.scope.tenant
        wanted = {"place": place_digest(place), "keyword": None if keyword is None else bytes_of(keyword)}
        return _log(tenant, *self._server.read(tenant, _SAID_AT_PLACE, _CHANGED_AT_PLACE, **wanted))

    @_guarded
    def embedder(self) -> EmbedderIdentity | None:
        """Return the embedder that the store is bound to."""
        return read_embedder(_value(self._server.read(None, _EMBEDDER)[0]))

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
            meta, part = _Meta.of(session.ask((_META, {}), *in_tenant(tenant, _COUNTER))[0]), _Part(tenant)
            check_vectors(units.values(), meta.embedder, self._bound)
            for seq, vector in units.items():
                part.embed(seq, vector, meta)
            return Ending(None, part.row_steps())

        self._server.write(put)

    @_guarded
    def vectors(self, tenant: str | None, since: int) -> tuple[Sequence[int], NDArray[np.float32]]:
        """Return the vectors of a tenant."""
        import numpy as np

        bound, found = self._server.read(tenant, _EMBEDDER, _VECTORS, since=_bounded(since))
        identity = read_embedder(_value(bound))
        if identity is None:
            return [], np.empty((0, 0), dtype=np.float32)
        width = 4 * identity.dimension
        if any(len(row) != width or zlib.crc32(row, seq & 0xFFFFFFFF) != expected for seq, row, expected in found):
            raise damaged_vectors(self._server.name)
        rows = bytearray().join(row for _, row, _ in found)
        return [seq for seq, _, _ in found], np.frombuffer(rows, np.float32).reshape(-1, identity.dimension)

    @_guarded
    def add_accesses(self, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        """Add to the counts of records."""
        counted = {id: (access.count, access.last) for id, access in accesses.items() if access.last is not None}
        rows = [(bytes_of(id), count, microseconds(last)) for id, (count, last) in counted.items()]
        wanted = {**_columns(("name", "count", "last"), rows), **_record_columns(counted)}

        def count(session: Session) -> Ending[None]:
            setting, counter, counting = in_tenant(tenant, _COUNTER, _COUNT_ACCESSES, **wanted)
            session.ask(setting, counter)
            return Ending(None, [counting])

        if rows:
            self._server.write(count)

    @_guarded
    def accesses(self, tenant: str | None, record_ids: Collection[str]) -> Mapping[str, Access]:
        """Return the counts of records."""
        ids = {bytes_of(id): id for id in record_ids}
        (found,) = self._server.read(tenant, _ACCESSES, ids=list(ids))
        return {ids[id]: Access(count=count, last=moment_at(last)) for id, count, last in found}

    @_guarded
    def erase(self, record_ids: Collection[str], assertion_ids: Collection[str], tenant: str | None) -> EraseReceipt:
        """Erase assertions, then every copy of their bytes that can be reached."""
        erased = 0
        if record_ids or assertion_ids:
            erased = self._server.write(lambda session: _delete(session, record_ids, assertion_ids, tenant))
        return EraseReceipt(erased=erased, pending=not self._finish(tenant))

    def _notes(self, tenant: str | None) -> list[Row]:
        return self._server.read(tenant, _NOTES)[0]

    def _finish(self, tenant: str | None) -> bool:
        notes = self._notes(tenant)
        if not notes:
            return True
        if _value(self._server.read(None, _IS_CLUSTER)[0]):
            return False
        if waiting := [seq for seq, rewritten, _ in notes if not rewritten]:
            self._rewrite(tenant, waiting)

        def go_on(session: Session) -> Ending[None]:
            ((may_list,),) = session.ask((_MAY_LIST, {}))[0]
            return Ending(None, in_tenant(tenant, _LISTED if may_list else _ESTIMATED, _FINISHED))

        self._server.write(go_on)
        return not self._notes(tenant)

    def _rewrite(self, tenant: str | None, waiting: Sequence[int]) -> None:
        """Rewrite the tables, unless they are large or in use; without the right to, nothing happens."""
        rewritten_now = in_tenant(tenant, _REWRITTEN, waiting=list(waiting))
        for left in reversed(range(_TRIES)):
            if _value(self._server.read(tenant, _REWRITABLE, most=_MOST_BYTES)[0]):
                try:
                    self._server.maintain(_REWRITE)
                except ProviderError:
                    return  # no room for a copy: the next erasure goes on
                self._server.write(lambda _: Ending(None, rewritten_now))
                if not any(seq in waiting and not rewritten for seq, rewritten, _ in self._notes(tenant)):
                    return
            if left:
                time.sleep(_PAUSE)

    @_guarded
    def tenants(self) -> Sequence[str | None]:
        """Return the tenants with a log, or with a copy that has begun."""
        return _tenants(self._server.read(None, SEE_ALL, _COPYABLE)[1])

    @_guarded
    def log_part(self, tenant: str | None, since: int, limit: int | None, *, vectors: bool) -> LogPart:
        """Return a part of the log of a tenant."""
        import numpy as np

        since = _bounded(since)
        counter, said, changed, erased, *rest = self._server.read(
            tenant,
            _NEWEST,
            f"{_SAID} AND a.seq > %(since)s ORDER BY a.seq LIMIT %(limit)s",
            f"{_CHANGED} ORDER BY s.seq LIMIT %(limit)s",
            f"{_ERASED} ORDER BY d.seq LIMIT %(limit)s",
            *([f"{_VECTORS} LIMIT %(limit)s"] if vectors else []),
            *([_SUMS] if since == 0 else []),
            since=since,
            limit=None if limit is None else limit + 1,
            version=-1,
        )
        if since == 0:
            _check_sum(rest[-1], counter)
        found = {seq: np.frombuffer(row, np.float32) for seq, row, _ in rest[0]} if vectors else {}
        log = _log(tenant, said, changed, erased)
        return part_of(log, found, since=since, limit=limit, newest=_newest(counter))

    def mark_copies(self, tenants: Sequence[str | None], *, unfinished: bool) -> None:
        """Mark tenants as unfinished or finished copies."""
        steps: list[Step] = []
        for tenant in sorted(tenants, key=bytes_of):
            steps += in_tenant(tenant, *([_NEW_COUNTER] if unfinished else []), _MARK, copying=unfinished)
        self._server.write(lambda _: Ending(None, steps))

    @_guarded
    def copied(self, tenant: str | None) -> int | None:
        """Return the number up to which an unfinished copy is complete."""
        until: int | None = _value(self._server.read(tenant, _COPIED)[0])
        return until

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
            tenants = _tenants(self._server.read(None, SEE_ALL, _TENANTS)[1])
            if not tenants and not self._server.format_version():
                return [no_store(self._server.name, "check the address and its schema")]
        except NewerVersionError as error:
            return [finding_of(error, self._server.name)]
        findings = list(checked_tenants(self, tenants, progress))
        for tenant in tenants:
            findings += self._left_over(tenant)
        return findings

    def _left_over(self, tenant: str | None) -> Iterator[Finding]:
        """Yield the vectors of a tenant that belong to nothing, and its pending erasures."""
        part = tenant_words(tenant)
        if count := _value(self._server.read(tenant, _STRAY)[0]):
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
        stored = _value(self._server.read(None, _OUTLINES)[0])
        if stored is not None and stored != version:
            # Those of the other version are written over one by one, as readers make new ones.
            self._server.write(lambda _: Ending(None, [_set("outlines", str(version))]))

    @_guarded
    def put_outlines(self, tenant: str | None, outlines: Mapping[int, Outline]) -> None:
        """Store outlines of a tenant's assertions."""

        def put(session: Session) -> Ending[None]:
            wanted = in_tenant(tenant, _COUNTER, _FOR_OUTLINES, seqs=list(outlines))
            meta, *_, rows = session.ask((_META, {}), *wanted)
            version = _Meta.of(meta).outlines
            version = self._outlines if version is None else version
            part = _Part(tenant)
            for seq, packed_id, record_id, at, check in rows:
                id, outline = assertion_id(packed_id, seq), outlines[seq]
                if outline.version == version:
                    body = outline_body(seq, id, record_of(record_id, id), moment_at(at), outline)
                    part.outline(outline, check, body, seq)
            return Ending(None, part.row_steps())

        if outlines:
            self._server.write(put)

    @_guarded
    def outlined(self, tenant: str | None, since: int, limit: int) -> Outlined:
        """Return a tenant's log after a sequence number, with outlines in place of assertions."""
        since, limit = _bounded(since), min(limit, MAX_SEQ)
        counter, rows, parts, changed, erased, *sums = self._server.read(
            tenant,
            _NEWEST,
            _OUTLINED,
            _SHARED,
            f"{_CHANGED} AND s.seq <= {_UNTIL}",
            f"{_ERASED} AND d.seq <= {_UNTIL}",
            *([_SUMS] if since == 0 else []),
            since=since,
            limit=limit,
            version=-1 if self._outlines is None else self._outlines,
            others=limit - 1,
            most=MAX_SEQ,
        )
        if sums:
            _check_sum(sums[0], counter)
        there = [row for row in rows if row[2] is not None]
        shared: dict[bytes, bytes] = dict(parts)
        return read_outlines(
            [seq for seq, _, _ in there],
            [shared[digest] for _, digest, _ in there],
            [body for _, _, body in there],
            missing=[seq for seq, _, body in rows if body is None],
            rest=_log(tenant, [], changed, erased),
            until=rows[-1][0] if len(rows) == limit else _newest(counter),
        )

    @_guarded
    def recorded(self, tenant: str | None, seqs: Sequence[int]) -> tuple[Sequence[Recorded | None], int]:
        """Return assertions of a tenant by sequence number, and its newest one."""
        wanted = [seq for seq in set(seqs) if 0 < seq <= MAX_SEQ]
        rows, counter = self._server.read(tenant, _NUMBERED, _NEWEST, seqs=wanted)
        found = {item.seq: item for item in map(_read_recorded, rows)}
        if missing := [seq for seq in wanted if seq not in found]:
            left = _value(self._server.read(tenant, _LEFT, seqs=missing)[0])
            if left is not None:
                raise CorruptStoreError(f"the assertion number {left} is lost: restore the store from a backup")
        return [found.get(seq) for seq in seqs], _newest(counter)


def _delete(
    session: Session, record_ids: Collection[str], assertion_ids: Collection[str], tenant: str | None
) -> Ending[int]:
    part = _Part(tenant)
    wanted = {**_record_columns(record_ids), **_id_columns(assertion_ids)}
    *_, counter, gone = session.ask(*in_tenant(tenant, _COUNTER, _NAMED, **wanted))
    if not gone:
        return Ending(0)
    newest = part.continue_from(counter)
    part.sum -= _delete_rows(session, tenant, gone)
    ids = [assertion_id(id, seq) for seq, id, *_ in gone]
    part.bury([Tombstone(assertion_id=id, seq=seq) for seq, id in enumerate(ids, start=part.seq + 1)])
    part.seq += len(ids)
    note = (_NOTE, {"tenant": bytes_of(tenant), "seq": part.seq})
    return Ending(len(ids), [*part.steps(TrackIndex(), newest), note], part.proof())


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
    graves = [entry for entry in part.entries if isinstance(entry, Tombstone)]
    wanted = {**_record_columns(()), **_id_columns(grave.assertion_id for grave in graves)}
    stored, *_, counter, gone = session.ask((_META, {}), *in_tenant(tenant, _COUNTER, _NAMED, **wanted))
    check_part(part, tenant, counter[0][0] if counter and counter[0][3] else None)
    meta = _Meta.of(stored)
    check_vectors([row.vector for row in rows], meta.embedder, bound)
    said = {entry.id for entry in part.entries if isinstance(entry, Recorded)}
    changed = [entry.assertion_id for entry in part.entries if isinstance(entry, StateChange)]
    target, index = _Part(tenant, list(rows), [id for id in changed if id not in said]), TrackIndex()
    deleted = _delete_rows(session, tenant, gone) if gone else 0
    target.take_in(iter(session.ask(*target.questions())), index, clock)
    target.sum -= deleted
    new = iter(rows)
    for entry in part.entries:
        if isinstance(entry, Tombstone):
            continue
        joined = index.take(entry, tenant)
        clock.reached(entry.recorded_at, tenant)
        if isinstance(entry, StateChange):
            target.change(entry, joined=joined)
        else:
            target.append(next(new), entry, meta, joined=joined)
    target.seq = part.until
    target.bury(graves)
    steps = target.steps(index, _newest_time(clock, tenant))
    return Ending(None, steps, in_tenant(tenant, _COUNTER, _HAS_ARRIVED, seq=part.until))


def _bounded(since: int) -> int:
    return min(max(since, 0), MAX_SEQ)


def _value(rows: Sequence[Row]) -> Any:
    """Return the value that a statement asks for; None if there is none."""
    return rows[0][0] if rows else None


def _tenants(rows: Sequence[Row]) -> list[str | None]:
    return [name.decode() or None for (name,) in rows]


def _log(tenant: str | None, said: Sequence[Row], changed: Sequence[Row], erased: Sequence[Row] = ()) -> list[LogEntry]:
    name = bytes_of(tenant)
    return in_order(
        map(_read_recorded, said),
        (_read_state(name, row) for row in changed),
        (_read_tombstone(name, row) for row in erased),
    )


def _newest_time(clock: SteadyClock, tenant: str | None) -> int:
    return microseconds(clock.newest(tenant) or moment_at(0))


def _newest(counter: Sequence[Row]) -> int:
    return int(counter[0][0]) if counter else 0


def _check_sum(total: Sequence[Row], counter: Sequence[Row]) -> None:
    """Check that the rows of a tenant are complete.

    Raises:
        CorruptStoreError: A row was lost or changed.
    """
    if total and int(_value(total)) != (counter[0][1] if counter else 0):
        raise CorruptStoreError("rows of the store were lost or changed: restore it from a backup")


def _bind(session: Session, identity: EmbedderIdentity, *, replace: bool) -> Ending[None]:
    """Bind the store to an embedder. The vectors of earlier bindings stay until they are written over."""
    meta = _Meta.of(session.ask((_META, {}))[0])
    if not binds_anew(meta.embedder, identity, replace=replace):
        return Ending(None)
    return Ending(None, [_set("embedder", written_embedder(identity)), _set("binding", str(meta.binding + 1))])


def _set(key: str, value: str) -> Step:
    """Return the step that changes a setting of the store."""
    return _SET, {"key": key, "value": value}
