"""Stored bodies of outlines: recall's bytes behind the numbers of their assertion and a checksum."""

from __future__ import annotations

import datetime as dt
import struct
import zlib
from collections.abc import Sequence
from typing import Final

import attrs

from factmem.abc import Outline, Outlined, number_of_id
from factmem.errors import CorruptStoreError
from factmem.providers.rows import microseconds
from factmem.records import LogEntry

__all__ = ["OutlineRow", "read_outlines"]

_GIVEN: Final = struct.Struct("<QQqI")
"""Prefix of a body: the numbers of the ids of assertion and record, the time of recording, and a checksum."""

_GIVEN_FIELDS: Final = [("id", "<u8"), ("record", "<u8"), ("recorded_at", "<i8"), ("checksum", "<u4")]
_NUMBERS: Final = struct.Struct("<QQq")


@attrs.frozen(kw_only=True)
class OutlineRow:
    """An outline with the columns of its assertion.

    Attributes:
        seq: Sequence number of the assertion.
        id: Id of the assertion.
        record_id: Id of its record.
        recorded_at: Time of recording.
        checksum: Checksum of its row.
        tenant: Tenant; empty for none.
        outline: Outline.
    """

    seq: int
    id: str
    record_id: str
    recorded_at: dt.datetime
    checksum: int
    tenant: str
    outline: Outline

    def body(self) -> bytes:
        """The stored bytes."""
        numbers = number_of_id(self.id), number_of_id(self.record_id), microseconds(self.recorded_at)
        found = _checksum(self.seq, self.outline.shared, _NUMBERS.pack(*numbers), self.outline.own)
        return _GIVEN.pack(*numbers, found) + self.outline.own


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
) -> Outlined:
    """Return outlines from their stored bodies; see `Outlined` for the arguments.

    Raises:
        CorruptStoreError: An outline was changed.
    """
    import numpy as np

    given = [body[: _GIVEN.size] for body in bodies]
    own = [body[_GIVEN.size :] for body in bodies]
    table = np.frombuffer(_checked(seqs, shared, given, own), _GIVEN_FIELDS)
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
    )


def _checked(seqs: Sequence[int], shared: Sequence[bytes], given: Sequence[bytes], own: Sequence[bytes]) -> bytes:
    """Return the concatenated prefixes of bodies.

    Raises:
        CorruptStoreError: An outline was changed.
    """
    of_numbers, of_own = _NUMBERS.size, zlib.crc32
    for seq, part, prefix, body in zip(seqs, shared, given, own, strict=True):
        numbers, found = prefix[:of_numbers], prefix[of_numbers:]
        expected = of_own(body, of_own(numbers, of_own(part, seq & 0xFFFFFFFF)))
        if int.from_bytes(found, "little") != expected or len(prefix) != _GIVEN.size:
            raise CorruptStoreError(f"the outline of assertion number {seq} is damaged: restore the store")
    return b"".join(given)
