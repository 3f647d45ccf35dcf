"""Between assertions and the rows of the file: pure functions of their arguments."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import apsw
import attrs

from factmem.abc import Append, Outline, Statement, StateRequest
from factmem.codec import decode_entry, encode_entry
from factmem.errors import CodecError, CorruptStoreError, InvalidDataError, NewerVersionError
from factmem.records import Assertion, AssertionState, Place, Recorded, StateChange
from factmem.vectors import unit_vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "ASSERTION_COLUMNS",
    "NewRow",
    "PlaceKey",
    "Row",
    "checksum",
    "numbered_id",
    "place_digest",
    "prepared",
    "read_assertion",
    "read_state",
    "select",
    "seq_of",
]

ASSERTION_COLUMNS: Final = "a.seq, a.id, a.record_id, a.recorded_at, a.checksum, a.doc"
"""What `read_assertion` takes, of a table called ``a``."""

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)

_ID_DIGITS: Final = 12
"""How many hexadecimal digits of an id are its sequence number."""

Row: TypeAlias = tuple[Any, ...]

PlaceKey: TypeAlias = tuple[str | None, tuple[str, ...], tuple[str, str | None]]


@attrs.define(eq=False)
class NewRow:
    """An assertion made ready to be written, before any transaction is open.

    Attributes:
        assertion: what it says.
        place: the digest of its place.
        slot: see `Assertion.slot`.
        said_at: the assertion's timestamp, in microseconds.
        fingerprint: see `Assertion.fingerprint`.
        doc: the assertion as a JSON document.
        partial_checksum: that of the document alone.
        text: what the full-text index takes of it.
        vector: its embedding, of length 1.
        outline: what recall keeps of it.
        follows: see `Append.follows`.
    """

    assertion: Assertion
    place: bytes
    slot: bytes
    said_at: int
    fingerprint: bytes
    doc: str
    partial_checksum: int
    text: str
    vector: NDArray[np.float32] | None
    outline: Outline | None
    follows: int | None


def select(connection: apsw.Connection, sql: str, arguments: Sequence[Any] = ()) -> list[Row]:
    """Return all rows of a query."""
    return connection.execute(sql, arguments).fetchall()


def prepared(statements: Sequence[Statement]) -> list[NewRow | StateRequest]:
    """Make a transaction's statements ready to be written.

    Raises:
        InvalidVectorError: a vector is NaN, infinite or zero.
        InvalidDataError: a text holds a lone surrogate.
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
    document = encode_entry(Recorded(assertion=said, id="", record_id="", seq=0, recorded_at=said.timestamp))
    # What the store gives has columns of its own, and is not known yet.
    for given in ("id", "record_id", "seq", "recorded_at"):
        del document[given]
    doc = _ENCODER.encode(document)
    return NewRow(
        assertion=said,
        place=place_digest(said.place),
        slot=said.slot,
        said_at=(said.timestamp - _EPOCH) // _MICROSECOND,
        fingerprint=said.fingerprint,
        doc=doc,
        partial_checksum=zlib.crc32(doc.encode()),
        text=" ".join((said.description, said.keyword, *_texts_of(said.data))),
        vector=vector,
        outline=item.outline,
        follows=item.follows,
    )


def _checked_request(request: StateRequest) -> StateRequest:
    "".join((request.reason or "", request.actor or "")).encode()
    return request


def _texts_of(data: Any) -> Iterator[str]:
    match data:
        case str():
            yield data
        case Mapping():
            for item in data.values():
                yield from _texts_of(item)
        case list() | tuple():
            for item in data:
                yield from _texts_of(item)
        case int() | float():
            yield str(data)


def place_digest(place: Place) -> bytes:
    """Return what a place is looked up by: 16 bytes that depend on its key and nothing else."""
    return _key_digest(place.key)


@functools.lru_cache(maxsize=4096)
def _key_digest(key: PlaceKey) -> bytes:
    # JSON keeps None and every name apart, whatever a name holds.
    return hashlib.blake2b(json.dumps(key).encode(), digest_size=16).digest()


def numbered_id(seq: int, random: str) -> str:
    """Return a fresh id that begins with a sequence number and ends at random.

    Ids that grow keep their index in few pages, and lead back to their row without one.
    """
    return f"{seq:0{_ID_DIGITS}x}{random[_ID_DIGITS:]}"


def seq_of(id: str) -> int:
    """Return the sequence number that an assertion's id begins with; 0 for what is no id of ours."""
    try:
        return int(id[:_ID_DIGITS], 16)
    except ValueError:
        return 0


def checksum(seq: int, id: str, record_id: str, recorded_at: str, partial: int) -> int:
    """Return the checksum of a row, from that of its document."""
    return zlib.crc32(f"{seq} {id} {record_id} {recorded_at}".encode(), partial)


def read_assertion(row: Row) -> Recorded:
    """Read the columns `ASSERTION_COLUMNS`.

    Raises:
        NewerVersionError: a newer factmem wrote it.
        CorruptStoreError: the row is not what was written.
    """
    seq, id, record_id, recorded_at, expected, doc = row
    if checksum(seq, id, record_id, recorded_at, zlib.crc32(doc.encode())) != expected:
        raise CorruptStoreError(f"the assertion number {seq} is damaged: restore the store from a backup")
    try:
        entry = decode_entry(
            {**json.loads(doc), "id": id, "record_id": record_id, "seq": seq, "recorded_at": recorded_at}
        )
    except NewerVersionError:
        raise
    except (CodecError, ValueError, TypeError) as error:
        raise CorruptStoreError(f"the assertion number {seq} cannot be read: restore the store") from error
    assert isinstance(entry, Recorded)
    return entry


def read_state(row: Row) -> StateChange:
    """Read a state change: the assertion's id, then all of its columns; a store that is older has no actors.

    Raises:
        CorruptStoreError: the row is not what was written.
    """
    assertion_id, seq, _, _, state, recorded_at, reason, *later = row
    try:
        return StateChange(
            assertion_id=assertion_id,
            state=AssertionState(state),
            seq=seq,
            recorded_at=dt.datetime.fromisoformat(recorded_at),
            reason=reason,
            actor=later[0] if later else None,
        )
    except (ValueError, TypeError) as error:
        raise CorruptStoreError(f"the state change number {seq} is damaged: restore the store") from error
