"""Conversion between assertions and the rows of a database: pure functions of their arguments.

The document of an assertion is stored in two parts. Its *head* (place, subject, concept, type and first state) is
the same for many assertions and is stored once, in a table of its own. The rest is stored with the assertion.
The id of an assertion begins with its sequence number, so that a row is found by its key, and the id of the record
that it begins is derived from its own.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import itertools
import json
import os
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from factmem.abc.capabilities import Append, EmbedderIdentity, LogPart, Statement, StateRequest
from factmem.abc.outlines import Outline, Outlined, number_of_id
from factmem.codec import decode_assertion, decode_entry, decode_head, encode_head, encode_rest
from factmem.errors import (
    CodecError,
    CorruptStoreError,
    EmbedderMismatchError,
    InvalidDataError,
    InvalidVectorError,
    NewerVersionError,
)
from factmem.facts import microseconds, moment_at
from factmem.records import Assertion, LogEntry, Place, Recorded
from factmem.vectors import unit_vector, unit_vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SEQ_BITS: Final = 40
"""Number of bits that hold every sequence number of a tenant."""

SEQ_MASK: Final = (1 << SEQ_BITS) - 1

_MOST_HEADS: Final = 1024
_HEADS: Final[dict[tuple[object, ...], str]] = {}

_SURROGATE: Final = "a text holds a lone surrogate, which no store can carry"

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)

_ID_DIGITS: Final = 12
"""Number of hexadecimal digits of an id that are its sequence number."""

_ID_BYTES: Final = 16
_INVERTED: Final = bytes(reversed(range(256)))

_PlaceKey: TypeAlias = tuple[str | None, tuple[str, ...], tuple[str, str | None]]


@attrs.define(eq=False)
class NewRow:
    """An assertion prepared for writing, before any transaction is open.

    Attributes:
        assertion: Assertion.
        tenant: Its tenant.
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
    tenant: str | None
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
        return _new_rows([Append(assertion=said, follows=self.follows)], [self.vector])[0]


PreparedRow: TypeAlias = NewRow | StateRequest
"""A statement, prepared for writing."""


def prepared(statements: Sequence[Statement]) -> list[PreparedRow]:
    """Prepare the statements of a transaction for writing.

    Raises:
        InvalidVectorError: A vector is NaN, infinite or zero.
        InvalidDataError: A text holds a lone surrogate.
    """
    try:
        appends = [item for item in statements if isinstance(item, Append)]
        rows = iter(_new_rows(appends, unit_vectors([item.vector for item in appends])))
        return [next(rows) if isinstance(item, Append) else _checked_request(item) for item in statements]
    except UnicodeEncodeError:
        raise InvalidDataError(_SURROGATE) from None


def prepared_part(part: LogPart) -> list[NewRow]:
    """Prepare the assertions of a part of a log for writing.

    Raises:
        InvalidVectorError: A vector is NaN, infinite or zero.
        InvalidDataError: A text holds a lone surrogate.
    """
    said = [entry for entry in part.entries if isinstance(entry, Recorded)]
    rows = prepared([Append(assertion=entry.assertion, vector=part.vectors.get(entry.seq)) for entry in said])
    return [row for row in rows if isinstance(row, NewRow)]


def part_of(
    entries: Sequence[LogEntry],
    vectors: Mapping[int, NDArray[np.float32]],
    *,
    since: int,
    limit: int | None,
    newest: int,
) -> LogPart:
    """Return a part of a log.

    Args:
        entries: The entries after ``since``, in order: all of them, or at least one more than the limit.
        vectors: Vectors by sequence number; those of other entries are left out.
        since: The sequence number that the part begins after.
        limit: Maximum number of entries; None for no limit.
        newest: The newest sequence number of the tenant.
    """
    until = max(since, newest) if limit is None or len(entries) <= limit else entries[limit - 1].seq
    entries = entries[:limit]
    here = {entry.seq for entry in entries}
    return LogPart(
        since=since, until=until, entries=entries, vectors={seq: row for seq, row in vectors.items() if seq in here}
    )


def in_order(*entries: Iterable[LogEntry]) -> list[LogEntry]:
    """Return the entries of a log by their sequence numbers."""
    return sorted(itertools.chain.from_iterable(entries), key=lambda entry: entry.seq)


def _new_rows(items: Sequence[Append], vectors: Sequence[NDArray[np.float32] | None]) -> list[NewRow]:
    """Return the rows of assertions, column by column."""
    said = [item.assertion for item in items]
    heads, docs = list(map(_head, said)), _documents(said)
    times = [microseconds(it.timestamp) for it in said]
    return [
        NewRow(
            assertion=it,
            tenant=item.tenant,
            place=place_digest(it.place),
            slot=it.slot,
            said_at=said_at,
            fingerprint=it.fingerprint,
            head=head,
            doc=doc,
            partial_checksum=check,
            vector=vector,
            outline=item.outline,
            follows=item.follows,
        )
        for item, it, said_at, head, doc, check, vector in zip(
            items, said, times, heads, docs, map(partial_checksum, docs, times, heads), vectors, strict=True
        )
    ]


def _documents(said: Sequence[Assertion]) -> list[str]:
    """Return the documents of assertions without their heads, in a third of the time that `json` takes."""
    from pydantic_core import PydanticSerializationError, to_json

    try:
        return [to_json(encode_rest(it)).decode() for it in said]
    except PydanticSerializationError:
        raise InvalidDataError(_SURROGATE) from None


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
def _key_digest(key: _PlaceKey) -> bytes:
    # JSON distinguishes None from every name.
    return hashlib.blake2b(json.dumps(key).encode(), digest_size=16).digest()


def new_ids(seq: int) -> tuple[str, str]:
    """Return a new id of an assertion, and the id of a record that it begins.

    It begins with the sequence number, which locates its row without an index, and ends at random.
    """
    number, rest = f"{seq:0{_ID_DIGITS}x}", os.urandom(_ID_BYTES - _ID_DIGITS // 2)
    return number + rest.hex(), number + rest.translate(_INVERTED).hex()


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


def pack_moment(text: str) -> int | str:
    """Return the ISO text of a time as microseconds since 1970 if these give the same text again, else the text."""
    try:
        number = microseconds(dt.datetime.fromisoformat(text))
    except (ValueError, TypeError):
        return text
    return number if unpack_moment(number) == text else text


def unpack_moment(stored: int | str) -> str:
    """Return the ISO text of a time from the result of `pack_moment`."""
    return stored if isinstance(stored, str) else moment_at(stored).isoformat()


def partial_checksum(doc: str, said_at: int, head: str | None) -> int:
    """Return the checksum of a row without its number; rows without a head cover the rest."""
    if head is None:
        return zlib.crc32(doc.encode())
    return zlib.crc32(f"{said_at} {doc}".encode(), _checksum_of_head(head))


def checksum(seq: int, id: str, record_id: str, recorded_at: str, partial: int) -> int:
    """Return the checksum of a row from `partial_checksum`."""
    return zlib.crc32(f"{seq} {id} {record_id} {recorded_at}".encode(), partial)


def row_sum(*columns: object) -> int:
    """Return the checksum of a row that has none of its own."""
    return zlib.crc32(repr(columns).encode(errors="replace"))


def _damaged(seq: int) -> CorruptStoreError:
    return CorruptStoreError(f"the assertion number {seq} is damaged: restore the store from a backup")


def read_assertion(row: Sequence[Any]) -> Recorded:
    """Read an assertion from its row.

    Args:
        row: Sequence number, packed id, packed record id, packed time of recording, checksum, document, timestamp in
            microseconds, and head; a document without a head is whole.

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
            assertion=decode_assertion(_read_head(head), json.loads(doc), moment_at(said_at)),
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


_GIVEN: Final = struct.Struct("<QQqI")
"""Prefix of a body: the numbers of the ids of assertion and record, the time of recording, and a checksum."""

_GIVEN_FIELDS: Final = [("id", "<u8"), ("record", "<u8"), ("recorded_at", "<i8"), ("checksum", "<u4")]
_NUMBERS: Final = struct.Struct("<QQq")


def outline_body(seq: int, id: str, record_id: str, recorded_at: dt.datetime, outline: Outline) -> bytes:
    """Return the stored bytes of the outline of an assertion."""
    numbers = number_of_id(id), number_of_id(record_id), microseconds(recorded_at)
    found = _checksum(seq, outline.shared, _NUMBERS.pack(*numbers), outline.own)
    return _GIVEN.pack(*numbers, found) + outline.own


def _checksum(seq: int, shared: bytes, numbers: bytes, own: bytes) -> int:
    return zlib.crc32(own, zlib.crc32(numbers, zlib.crc32(shared, seq & 0xFFFFFFFF)))


def read_outlines(
    seqs: Sequence[int],
    shared: Sequence[bytes],
    bodies: Sequence[bytes],
    *,
    missing: Sequence[int],
    rest: Sequence[LogEntry],
    until: int,
    ahead: int = 0,
) -> Outlined:
    """Return outlines from their stored bodies; see `Outlined` for the arguments.

    Raises:
        CorruptStoreError: An outline was changed.
    """
    own = [body[_GIVEN.size :] for body in bodies]
    table = _checked(seqs, shared, [body[: _GIVEN.size] for body in bodies], own)
    return Outlined(
        seqs=seqs,
        ids=table["id"],
        records=table["record"],
        recorded_at=table["recorded_at"],
        shared=shared,
        own=own,
        missing=missing,
        rest=rest,
        until=until,
        ahead=ahead,
    )


def _checked(
    seqs: Sequence[int], shared: Sequence[bytes], given: Sequence[bytes], own: Sequence[bytes]
) -> NDArray[np.void]:
    """Return the prefixes of bodies as a table of `_GIVEN_FIELDS`.

    Raises:
        CorruptStoreError: An outline was changed.
    """
    import numpy as np

    prefixes = b"".join(given)
    if len(prefixes) != len(seqs) * _GIVEN.size:
        raise _damaged_outline(next(seq for seq, prefix in zip(seqs, given, strict=True) if len(prefix) < _GIVEN.size))
    table = np.frombuffer(prefixes, _GIVEN_FIELDS)
    sums = map(zlib.crc32, shared, seqs)
    sums = map(zlib.crc32, [prefix[: _NUMBERS.size] for prefix in given], sums)
    wrong = np.flatnonzero(table["checksum"] != np.fromiter(map(zlib.crc32, own, sums), np.uint32, len(seqs)))
    if len(wrong):
        raise _damaged_outline(seqs[int(wrong[0])])
    return table


def _damaged_outline(seq: int) -> CorruptStoreError:
    return CorruptStoreError(f"the outline of assertion number {seq} is damaged: restore the store")


@functools.lru_cache(maxsize=16)
def read_embedder(text: str | None) -> EmbedderIdentity | None:
    """Read the identity of an embedder as it is stored; None for None."""
    return None if text is None else EmbedderIdentity(**json.loads(text))


def written_embedder(identity: EmbedderIdentity) -> str:
    """Return the identity of an embedder as it is stored."""
    return json.dumps(attrs.asdict(identity), ensure_ascii=False)


def binds_anew(stored: EmbedderIdentity | None, wanted: EmbedderIdentity, *, replace: bool) -> bool:
    """Return whether binding a store to an embedder changes it; see `KeepsLog.use_embedder`.

    Raises:
        EmbedderMismatchError: The store is bound to another one.
    """
    if stored not in (None, wanted) and not replace:
        raise _mismatch(stored, wanted)
    return replace or stored != wanted


def check_vectors(
    vectors: Iterable[NDArray[np.float32] | None], stored: EmbedderIdentity | None, bound: EmbedderIdentity | None
) -> None:
    """Raise unless a store can take vectors.

    Args:
        vectors: Vectors of length 1; None for assertions without one.
        stored: Embedder that the store is bound to.
        bound: Embedder in use in this process, if any.

    Raises:
        InvalidVectorError: One is of another dimension than the store's.
        EmbedderMismatchError: The store was bound to another embedder meanwhile.
    """
    given = [vector for vector in vectors if vector is not None]
    if not given:
        return
    if stored is None:
        raise InvalidVectorError("the store has no embedder yet: call use_embedder before you pass vectors")
    if bound not in (None, stored):
        raise _mismatch(stored, bound)
    for vector in given:
        if len(vector) != stored.dimension:
            unit_vector(vector, dimension=stored.dimension)


def damaged_vectors(name: str) -> CorruptStoreError:
    """Return the error of a store whose vectors were changed, and its facts were not."""
    return CorruptStoreError(
        f"the embeddings in {name} are damaged, its facts are not: make them again with "
        "Admin.reembed() or `factmem reembed`, or restore it from a backup"
    )


def _mismatch(stored: EmbedderIdentity | None, wanted: EmbedderIdentity | None) -> EmbedderMismatchError:
    return EmbedderMismatchError(
        f"this store's vectors come from {stored}, not from {wanted}: "
        "open it with that embedder, or embed it again with Admin.reembed() or `factmem reembed`"
    )
