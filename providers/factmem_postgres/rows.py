"""Conversion between rows of the tables and entries of the log; see `factmem.providers.rows` for the rest."""

from __future__ import annotations

from typing import Any, Final

from factmem.errors import CorruptStoreError
from factmem.providers.rows import (
    moment_at,
    own_record_id,
    pack_id,
    pack_record_id,
    read_assertion,
    row_sum,
    seq_of,
    unpack_id,
    unpack_record_id,
)
from factmem.records import AssertionState, Recorded, StateChange, Tombstone

__all__ = [
    "ASSERTION_COLUMNS",
    "OF_RECORD",
    "OWN_RECORD",
    "STATE_COLUMNS",
    "WITH_HEAD",
    "bytes_of",
    "packed_assertion_id",
    "packed_record",
    "packed_record_id",
    "read_recorded",
    "read_state",
    "read_tombstone",
    "record_id_of",
    "record_key",
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

_OURS: Final = b"\x00"
_FOREIGN: Final = b"\x01"


def bytes_of(text: str | None) -> bytes:
    """Return a name as it is stored; the empty one stands for None."""
    return (text or "").encode(errors="surrogatepass")


def text_of(stored: bytes | None) -> str | None:
    """Return a text from its stored form."""
    return None if stored is None else stored.decode()


def packed_record(record_id: str) -> bytes:
    """Return the stored form of a record's id, which another store may have given."""
    packed = pack_id(record_id)
    return _OURS + packed if isinstance(packed, bytes) else _FOREIGN + bytes_of(packed)


def packed_record_id(recorded: Recorded) -> bytes | None:
    """Return the stored form of the id of an assertion's record; None for the record that it begins."""
    return None if pack_record_id(recorded.record_id, recorded.id) is None else packed_record(recorded.record_id)


def packed_assertion_id(id: str, seq: int) -> bytes:
    """Return the stored form of an assertion's id, without its number; for a foreign id, one that no row has."""
    packed = pack_id(id, seq)
    return packed if isinstance(packed, bytes) else b""


def record_key(record_id: str) -> tuple[bytes, int, bytes]:
    """Return the arguments ``record``, ``seq`` and ``own`` of `OF_RECORD`."""
    seq = seq_of(record_id)
    try:
        own = packed_assertion_id(own_record_id(record_id), seq)
    except ValueError:
        own = b""
    return packed_record(record_id), seq, own


def read_recorded(row: tuple[Any, ...]) -> Recorded:
    """Read the columns `ASSERTION_COLUMNS`.

    Raises:
        NewerVersionError: A newer factmem wrote it.
        CorruptStoreError: The row was changed.
    """
    seq, id, record_id, *rest = row
    return read_assertion((seq, id, _unpacked(record_id), *rest))


def record_id_of(stored: bytes | None, id: str) -> str:
    """Return the id of an assertion's record.

    Args:
        stored: Result of `packed_record_id`.
        id: Id of the assertion.
    """
    return unpack_record_id(_unpacked(stored), id)


def _unpacked(record_id: bytes | None) -> bytes | str | None:
    if record_id is None:
        return None
    return record_id[1:] if record_id.startswith(_OURS) else record_id[1:].decode(errors="surrogatepass")


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
            assertion_id=unpack_id(id, assertion),
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
    tombstone = Tombstone(assertion_id=bytes(id).hex(), seq=seq)
    if tombstone_sum(tenant, tombstone) != expected:
        raise _damaged("tombstone", seq)
    return tombstone


def _damaged(what: str, seq: int) -> CorruptStoreError:
    return CorruptStoreError(f"the {what} number {seq} is damaged: restore the store from a backup")
