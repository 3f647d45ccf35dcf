"""Stored bodies of outlines: recall's bytes behind the numbers of their assertion and a checksum."""

from __future__ import annotations

import datetime as dt
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs

from factmem.abc import Outline, Outlined, number_of_id
from factmem.errors import CorruptStoreError
from factmem.providers.rows import microseconds
from factmem.records import LogEntry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["OutlineRow", "outline_body", "read_outlines"]

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
        """Return the stored bytes."""
        return outline_body(self.seq, self.id, self.record_id, self.recorded_at, self.outline)


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
