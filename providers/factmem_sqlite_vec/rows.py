"""Conversion between assertions and the rows of the file: pure functions of their arguments.

The document of an assertion is stored in two parts. Its *head* (place, subject, concept, type and first state) is
the same for many assertions and is stored once, in the table ``heads``. The rest is stored with the assertion.
Rows of formats before 5 hold the whole document and have no head.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import apsw
import attrs

from factmem.abc import Append, Outline, Statement, StateRequest
from factmem.codec import decode_assertion, decode_entry, decode_head, encode_head, encode_rest
from factmem.errors import CodecError, CorruptStoreError, InvalidDataError, NewerVersionError
from factmem.records import Assertion, AssertionState, Place, Recorded, StateChange
from factmem.vectors import unit_vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "ASSERTION_COLUMNS",
    "HEADS_SINCE",
    "OF_RECORD",
    "SEQ_BITS",
    "SEQ_MASK",
    "NewRow",
    "PlaceKey",
    "Row",
    "assertion_columns",
    "checksum",
    "format_version",
    "key_of_id",
    "microseconds",
    "new_id",
    "own_record_id",
    "pack_id",
    "pack_moment",
    "pack_record_id",
    "partial_checksum",
    "place_digest",
    "prepared",
    "read_assertion",
    "read_state",
    "record_key",
    "select",
    "seq_of",
    "state_changes",
    "unpack_id",
    "unpack_moment",
    "unpack_record_id",
]

SEQ_BITS: Final = 40
"""Number of low bits of a row's key that are its sequence number; see `factmem_sqlite_vec.sequences`."""

SEQ_MASK: Final = (1 << SEQ_BITS) - 1

_OWN_COLUMNS: Final = f"a.rowid & {SEQ_MASK}, a.id, a.record_id, a.recorded_at, a.checksum, a.doc, a.said_at"

ASSERTION_COLUMNS: Final = f"{_OWN_COLUMNS}, (SELECT doc FROM heads WHERE id = a.head)"
"""Columns that `read_assertion` takes, of a table called ``a``."""

OF_RECORD: Final = "(record_id = ? OR (rowid = ? AND id = ? AND record_id IS NULL))"
"""Condition on the assertions of a record; see `record_key`."""

_COLUMNS_BEFORE_HEADS: Final = f"{_OWN_COLUMNS}, NULL"
HEADS_SINCE: Final = 5
"""Version of the format from which documents share their heads."""


_MOST_HEADS: Final = 1024
_HEADS: Final[dict[tuple[object, ...], str]] = {}

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)

_ID_DIGITS: Final = 12
"""Number of hexadecimal digits of an id that are its sequence number."""

_ID_BYTES: Final = 16
_INVERTED: Final = bytes(reversed(range(256)))

Row: TypeAlias = tuple[Any, ...]

PlaceKey: TypeAlias = tuple[str | None, tuple[str, ...], tuple[str, str | None]]


@attrs.define(eq=False)
class NewRow:
    """An assertion prepared for writing, before any transaction is open.

    Attributes:
        assertion: Assertion.
        place: Digest of its place.
        slot: See `Assertion.slot`.
        said_at: Timestamp, in microseconds since 1970.
        fingerprint: See `Assertion.fingerprint`.
        head: Part of its document that other assertions share.
        doc: Rest of its document.
        partial_checksum: Checksum of both and of the timestamp.
        vector: Embedding, of length 1.
        outline: Outline of recall.
        follows: See `Append.follows`.
    """

    assertion: Assertion
    place: bytes
    slot: bytes
    said_at: int
    fingerprint: bytes
    head: str
    doc: str
    partial_checksum: int
    vector: NDArray[np.float32] | None
    outline: Outline | None
    follows: int | None

    def said_otherwise(self, said: Assertion) -> NewRow:
        """Return the row of another assertion, without an outline: a reader that misses it makes it again."""
        return _new_row(Append(assertion=said, follows=self.follows), self.vector)


def select(connection: apsw.Connection, sql: str, arguments: Sequence[Any] = ()) -> list[Row]:
    """Return all rows of a query."""
    return connection.execute(sql, arguments).fetchall()


def format_version(connection: apsw.Connection) -> int:
    """Return the version of the file's format; older than the newest only if the file is opened read-only."""
    ((found,),) = select(connection, "SELECT user_version FROM pragma_user_version")
    return int(found)


def assertion_columns(connection: apsw.Connection) -> str:
    """Return `ASSERTION_COLUMNS` for the file's format."""
    return ASSERTION_COLUMNS if format_version(connection) >= HEADS_SINCE else _COLUMNS_BEFORE_HEADS


def prepared(statements: Sequence[Statement]) -> list[NewRow | StateRequest]:
    """Prepare the statements of a transaction for writing.

    Raises:
        InvalidVectorError: A vector is NaN, infinite or zero.
        InvalidDataError: A text holds a lone surrogate.
    """
    try:
        vectors = iter(unit_vectors([item.vector for item in statements if isinstance(item, Append)]))
        return [
            _new_row(item, next(vectors)) if isinstance(item, Append) else _checked_request(item) for item in statements
        ]
    except UnicodeEncodeError:
        raise InvalidDataError("a text holds a lone surrogate, which no store can carry") from None


def _new_row(item: Append, vector: NDArray[np.float32] | None) -> NewRow:
    said = item.assertion
    head = _head(said)
    doc = _ENCODER.encode(encode_rest(said))
    said_at = microseconds(said.timestamp)
    return NewRow(
        assertion=said,
        place=place_digest(said.place),
        slot=said.slot,
        said_at=said_at,
        fingerprint=said.fingerprint,
        head=head,
        doc=doc,
        partial_checksum=partial_checksum(doc, said_at, head),
        vector=vector,
        outline=item.outline,
        follows=item.follows,
    )


def _head(said: Assertion) -> str:
    if type(said.shape) is not str:
        return _ENCODER.encode(encode_head(said))
    key = (said.place, said.keyword, said.description, said.fact_type, said.shape, said.state)
    head = _HEADS.get(key)
    if head is None:
        if len(_HEADS) >= _MOST_HEADS:
            _HEADS.clear()
        head = _HEADS[key] = _ENCODER.encode(encode_head(said))
    return head


def _checked_request(request: StateRequest) -> StateRequest:
    "".join((request.reason or "", request.actor or "")).encode()
    return request


def place_digest(place: Place) -> bytes:
    """Return the 16 bytes that identify a place; they depend on its key alone."""
    return _key_digest(place.key)


@functools.lru_cache(maxsize=4096)
def _key_digest(key: PlaceKey) -> bytes:
    # JSON distinguishes None from every name.
    return hashlib.blake2b(json.dumps(key).encode(), digest_size=16).digest()


def new_id(seq: int) -> str:
    """Return a new id of an assertion.

    It begins with the sequence number, which locates its row without an index, and ends at random.
    """
    random = os.urandom(_ID_BYTES - _ID_DIGITS // 2)
    return f"{seq:0{_ID_DIGITS}x}{random.hex()}"


def seq_of(id: str) -> int:
    """Return the sequence number that an assertion's id begins with; 0 for ids of other stores."""
    try:
        seq = int(id[:_ID_DIGITS], 16)
    except ValueError:
        return 0
    return seq if 0 <= seq <= SEQ_MASK else 0


def pack_id(id: str, seq: int | None = None) -> bytes | str:
    """Return the stored form of an id: bytes for one of ours, otherwise the id itself.

    Args:
        id: Id.
        seq: For the id of an assertion, its sequence number, which is not stored twice.
    """
    try:
        packed = bytes.fromhex(id)
    except ValueError:
        return id
    if len(packed) != _ID_BYTES or packed.hex() != id:
        return id
    if seq is None:
        return packed
    return packed[_ID_DIGITS // 2 :] if seq_of(id) == seq else id


def key_of_id(connection: apsw.Connection, base: int, tenant: str, id: str) -> int | None:
    """Return the key of a tenant's assertion by its id, or None.

    Args:
        connection: Connection in a transaction.
        base: Key of the tenant's first row; see `factmem_sqlite_vec.sequences`.
        tenant: The tenant.
        id: Id; one that another store gave does not name its row, and is looked up.
    """
    seq = seq_of(id)
    own = "SELECT rowid FROM assertions WHERE rowid = ? AND id = ? AND tenant = ?"
    found = select(connection, own, (base + seq, pack_id(id, seq), tenant))
    if not found:
        foreign = "SELECT rowid FROM assertions WHERE id = ? AND typeof(id) = 'text' AND tenant = ?"
        found = select(connection, foreign, (id, tenant))
    return int(found[0][0]) if found else None


def unpack_id(stored: bytes | str, seq: int) -> str:
    """Return an id from the result of `pack_id`."""
    if isinstance(stored, str):
        return stored
    return stored.hex() if len(stored) == _ID_BYTES else f"{seq:0{_ID_DIGITS}x}{stored.hex()}"


def own_record_id(id: str) -> str:
    """Return the id of the record that an assertion begins. It is derived from the assertion's id, and not stored."""
    return id[:_ID_DIGITS] + bytes.fromhex(id[_ID_DIGITS:]).translate(_INVERTED).hex()


def pack_record_id(record_id: str, id: str) -> bytes | str | None:
    """Return the stored form of a record's id; None for the record that the assertion begins."""
    return None if record_id == own_record_id(id) else pack_id(record_id)


def unpack_record_id(stored: bytes | str | None, id: str) -> str:
    """Return a record's id from the result of `pack_record_id`."""
    return own_record_id(id) if stored is None else unpack_id(stored, 0)


def record_key(record_id: str, base: int) -> tuple[bytes | str, int, bytes | str]:
    """Return the arguments of `OF_RECORD`.

    Args:
        record_id: Id of the record.
        base: Key of the tenant's first row; see `factmem_sqlite_vec.sequences`.
    """
    seq = seq_of(record_id)
    try:
        return pack_id(record_id), base + seq, pack_id(own_record_id(record_id), seq)
    except ValueError:
        return record_id, 0, record_id


def microseconds(moment: dt.datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def pack_moment(text: str) -> int | str:
    """Return the ISO text of a time as microseconds since 1970 if these give the same text again, else the text."""
    try:
        number = microseconds(dt.datetime.fromisoformat(text))
    except (ValueError, TypeError):
        return text
    return number if unpack_moment(number) == text else text


def unpack_moment(stored: int | str) -> str:
    """Return the ISO text of a time from the result of `pack_moment`."""
    return stored if isinstance(stored, str) else (_EPOCH + stored * _MICROSECOND).isoformat()


def partial_checksum(doc: str, said_at: int, head: str | None) -> int:
    """Return the checksum of a row without its number; rows without a head cover the rest."""
    if head is None:
        return zlib.crc32(doc.encode())
    return zlib.crc32(f"{said_at} {doc}".encode(), _checksum_of_head(head))


def checksum(seq: int, id: str, record_id: str, recorded_at: str, partial: int) -> int:
    """Return the checksum of a row from `partial_checksum`."""
    return zlib.crc32(f"{seq} {id} {record_id} {recorded_at}".encode(), partial)


def _damaged(seq: int) -> CorruptStoreError:
    return CorruptStoreError(f"the assertion number {seq} is damaged: restore the store from a backup")


def read_assertion(row: Row) -> Recorded:
    """Read the columns `ASSERTION_COLUMNS`.

    Raises:
        NewerVersionError: A newer factmem wrote it.
        CorruptStoreError: The row was changed.
    """
    seq, packed_id, packed_record_id, packed_moment, expected, doc, said_at, head = row
    try:
        id, recorded_at = unpack_id(packed_id, seq), unpack_moment(packed_moment)
        record_id = unpack_record_id(packed_record_id, id)
        found = checksum(seq, id, record_id, recorded_at, partial_checksum(doc, said_at, head))
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise _damaged(seq) from None
    if found != expected:
        raise _damaged(seq)
    try:
        if head is None:
            given = {"id": id, "record_id": record_id, "seq": seq, "recorded_at": recorded_at}
            entry = decode_entry({**json.loads(doc), **given})
            assert isinstance(entry, Recorded)
            return entry
        return Recorded(
            assertion=decode_assertion(_read_head(head), json.loads(doc), _EPOCH + said_at * _MICROSECOND),
            id=id,
            record_id=record_id,
            seq=seq,
            recorded_at=dt.datetime.fromisoformat(recorded_at),
        )
    except NewerVersionError:
        raise
    except (CodecError, ValueError, TypeError, AssertionError) as error:
        raise CorruptStoreError(f"the assertion number {seq} cannot be read: restore the store") from error


@functools.lru_cache(maxsize=4096)
def _read_head(head: str) -> Mapping[str, Any]:
    return decode_head(json.loads(head))


@functools.lru_cache(maxsize=4096)
def _checksum_of_head(head: str) -> int:
    return zlib.crc32(head.encode())


def state_changes(connection: apsw.Connection, sql: str, arguments: Sequence[Any] = ()) -> list[Row]:
    """Return the changes of state of a query: the id of the assertion and all columns, as `read_state` takes them."""
    rows = select(connection, sql, arguments)
    return [(id, key & SEQ_MASK, assertion & SEQ_MASK, *rest) for id, key, assertion, *rest in rows]


def read_state(row: Row) -> StateChange:
    """Read a change of state from `state_changes`; a store of an older format has no actors.

    Raises:
        CorruptStoreError: The row was changed.
    """
    assertion_id, seq, assertion, _, state, recorded_at, reason, *later = row
    try:
        return StateChange(
            assertion_id=unpack_id(assertion_id, assertion),
            state=AssertionState(state),
            seq=seq,
            recorded_at=dt.datetime.fromisoformat(recorded_at),
            reason=reason,
            actor=later[0] if later else None,
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptStoreError(f"the state change number {seq} is damaged: restore the store") from error
