"""Conversion between rows of the tables and entries of the log; see `factmem.providers.rows` for the rest."""

from __future__ import annotations

from typing import Any, Final

from factmem.errors import CorruptStoreError
from factmem.providers.rows import (
    moment_at,
    own_record_id,
    pack_id,
    read_assertion,
    row_sum,
    seq_of,
    unpack_id,
)
from factmem.records import AssertionState, Recorded, StateChange, Tombstone

__all__ = [
    "ASSERTION_COLUMNS",
    "BY_ID",
    "OF_RECORD",
    "OWN_RECORD",
    "STATE_COLUMNS",
    "WITH_HEAD",
    "assertion_id",
    "assertion_key",
    "bytes_of",
    "packed",
    "packed_assertion",
    "packed_record",
    "read_recorded",
    "read_state",
    "read_tombstone",
    "record_key",
    "record_of",
    "state_sum",
    "text_of",
    "tombstone_sum",
]

ASSERTION_COLUMNS: Final = "a.seq, a.id, a.record_id, a.recorded_at, a.checksum, a.doc, a.said_at, h.doc"
"""Columns that `read_recorded` takes, of ``a`` and `WITH_HEAD`."""

WITH_HEAD: Final = "LEFT JOIN {schema}.heads h ON h.tenant = a.tenant AND h.id = a.head"

STATE_COLUMNS: Final = "a.id, s.seq, s.assertion, s.state, s.recorded_at, s.reason, s.actor, s.checksum"
"""Columns that `read_state` takes, of ``s`` and its assertion ``a``."""

OF_RECORD: Final = "(a.record_id = w.record OR (a.seq = w.seq AND a.id = w.own AND a.record_id IS NULL))"
"""Condition on the assertions of a record; see `record_key`."""

OWN_RECORD: Final = (
    "'\\x00'::bytea || substring(int8send(a.seq) FROM 3)"
    " || decode(translate(encode(a.id, 'hex'), '0123456789abcdef', 'fedcba9876543210'), 'hex')"
)
"""Packed id of the record that an assertion ``a`` begins, as `factmem.providers.rows.own_record_id` derives it."""

BY_ID: Final = (
    "(SELECT * FROM {schema}.assertions WHERE tenant = %s AND seq = w.seq AND id = w.own"
    " UNION ALL SELECT * FROM {schema}.assertions WHERE tenant = %s AND id = w.id AND octet_length(id) <> 10)"
)
"""Assertion of an id, from `assertion_key`; an id of another store does not name its number, and is looked up."""

_OWN_BYTES: Final = 10
"""Length of the stored form of an id of ours, which every other form avoids."""

_HEXADECIMAL: Final = b"\x00"
_TEXT: Final = b"\x01"
_PADDED_TEXT: Final = b"\x02"


def bytes_of(text: str | None) -> bytes:
    """Return a name as it is stored; the empty one stands for None."""
    return (text or "").encode(errors="surrogatepass")


def text_of(stored: bytes | None) -> str | None:
    """Return a text from its stored form."""
    return None if stored is None else stored.decode()


def packed(id: str) -> bytes:
    """Return the stored form of an id of any store."""
    short = pack_id(id)
    if isinstance(short, bytes):
        return _HEXADECIMAL + short
    text = bytes_of(short)
    return _PADDED_TEXT + text + b"\0" if len(text) == _OWN_BYTES - 1 else _TEXT + text


def _unpacked(stored: bytes) -> str:
    """Return an id from the result of `packed`."""
    match stored[:1]:
        case b"\x00":
            return stored[1:].hex()
        case b"\x02":
            return stored[1:-1].decode(errors="surrogatepass")
        case _:
            return stored[1:].decode(errors="surrogatepass")


def packed_assertion(id: str, seq: int) -> bytes:
    """Return the stored form of an assertion's id: one that begins with its number is stored without that."""
    own = pack_id(id, seq)
    return own if isinstance(own, bytes) else packed(id)


def assertion_id(stored: bytes, seq: int) -> str:
    """Return an assertion's id from the result of `packed_assertion`."""
    return unpack_id(stored, seq) if len(stored) == _OWN_BYTES else _unpacked(stored)


def packed_record(record_id: str, id: str, seq: int) -> bytes | None:
    """Return the stored form of the id of an assertion's record; None for the record that one of ours begins.

    Args:
        record_id: Id of the record.
        id: Id of the assertion.
        seq: Number of the assertion.
    """
    if len(packed_assertion(id, seq)) == _OWN_BYTES and record_id == own_record_id(id):
        return None
    return packed(record_id)


def record_of(stored: bytes | None, id: str) -> str:
    """Return the id of the record of an assertion from the result of `packed_record`.

    Args:
        stored: Stored form.
        id: Id of the assertion.
    """
    return own_record_id(id) if stored is None else _unpacked(stored)


def assertion_key(id: str) -> tuple[int, bytes, bytes]:
    """Return the arguments ``seq``, ``own`` and ``id`` of `BY_ID`."""
    seq = seq_of(id)
    return seq, packed_assertion(id, seq), packed(id)


def record_key(record_id: str) -> tuple[bytes, int, bytes]:
    """Return the arguments ``record``, ``seq`` and ``own`` of `OF_RECORD`."""
    seq = seq_of(record_id)
    try:
        own = packed_assertion(own_record_id(record_id), seq)
    except ValueError:
        own = b""
    return packed(record_id), seq, own


def read_recorded(row: tuple[Any, ...]) -> Recorded:
    """Read the columns `ASSERTION_COLUMNS`.

    Raises:
        NewerVersionError: A newer factmem wrote it.
        CorruptStoreError: The row was changed.
    """
    seq, packed_id, packed_record_id, *rest = row
    id = assertion_id(packed_id, seq)
    return read_assertion((seq, id, record_of(packed_record_id, id), *rest))


def state_sum(tenant: bytes, change: StateChange, assertion: int) -> int:
    """Return the checksum of a change of state."""
    columns = (change.seq, assertion, change.state.value, change.recorded_at.isoformat(), change.reason, change.actor)
    return row_sum(tenant, *columns)


def read_state(tenant: bytes, row: tuple[Any, ...]) -> StateChange:
    """Read the columns `STATE_COLUMNS`.

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
            reason=text_of(reason),
            actor=text_of(actor),
        )
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise _damaged("state change", seq) from None
    if state_sum(tenant, change, assertion) != expected:
        raise _damaged("state change", seq)
    return change


def tombstone_sum(tenant: bytes, tombstone: Tombstone) -> int:
    """Return the checksum of a tombstone."""
    return row_sum(tenant, tombstone.seq, tombstone.assertion_id)


def read_tombstone(tenant: bytes, row: tuple[Any, ...]) -> Tombstone:
    """Read the number, packed id and checksum of a tombstone.

    Raises:
        CorruptStoreError: The row was changed.
    """
    seq, id, expected = row
    tombstone = Tombstone(assertion_id=_unpacked(id), seq=seq)
    if tombstone_sum(tenant, tombstone) != expected:
        raise _damaged("tombstone", seq)
    return tombstone


def _damaged(what: str, seq: int) -> CorruptStoreError:
    return CorruptStoreError(f"the {what} number {seq} is damaged: restore the store from a backup")
