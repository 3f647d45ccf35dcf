"""Outlines: a table of their own, made when somebody uses them, from which a mirror is made in one go."""

from __future__ import annotations

import datetime as dt
import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import apsw
import attrs

from factmem.abc import Outline, Outlined, number_of_id
from factmem.errors import CorruptStoreError
from factmem.records import Recorded, StateChange, Tombstone
from factmem_sqlite_vec.rows import ASSERTION_COLUMNS, Row, read_assertion, read_state, select
from factmem_sqlite_vec.sums import check_tenant, last_seq

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Kept",
    "delete_outlines",
    "insert_outlines",
    "outlined",
    "outlines_version",
    "put_outlines",
    "recorded",
    "use_outlines",
]

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_LARGEST: Final = 2**63 - 1

_GIVEN: Final = struct.Struct("<QQq")
"""What stands before an outline's body: the numbers of the ids of assertion and record, and when it was recorded."""

_CHECKSUM: Final = struct.Struct("<Q")
"""What stands behind it: see `_checksum`."""

_ODD: Final = 0x9E3779B97F4A7C15
_WORD: Final = 2**64 - 1

_MANY: Final = 16
"""From so many on, to add up all at once is quicker."""

_TABLE: Final = """
DROP TABLE IF EXISTS outlines;
CREATE TABLE outlines(
  tenant TEXT NOT NULL,
  seq INTEGER NOT NULL,
  about TEXT NOT NULL,
  metadata TEXT NOT NULL,
  body BLOB NOT NULL,
  checksum INTEGER NOT NULL,
  PRIMARY KEY (tenant, seq)
) STRICT, WITHOUT ROWID;
"""


_PART: Final = "tenant = ? AND seq > ? AND seq <= ? ORDER BY seq"


def outlines_version(connection: apsw.Connection) -> int | None:
    """Return the version of the outlines that the store holds, or None if it holds none."""
    found = select(connection, "SELECT value FROM meta WHERE key = 'outlines'")
    return int(found[0][0]) if found else None


def use_outlines(connection: apsw.Connection, version: int) -> None:
    """See `KeepsOutlines.use_outlines`; in a transaction."""
    if outlines_version(connection) != version:
        connection.execute(_TABLE)
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('outlines', ?)", (version,))


@attrs.frozen(kw_only=True)
class Kept:
    """An outline, and the assertion that it is kept of.

    Attributes:
        seq: the assertion's number.
        id: its id.
        record_id: its record's id.
        recorded_at: when it was recorded.
        checksum: that of its row.
        tenant: whose it is; empty for nobody's.
        outline: what is kept of it.
    """

    seq: int
    id: str
    record_id: str
    recorded_at: dt.datetime
    checksum: int
    tenant: str
    outline: Outline

    def body(self) -> bytes:
        """Return what is written before the checksum."""
        given = number_of_id(self.id), number_of_id(self.record_id), (self.recorded_at - _EPOCH) // _MICROSECOND
        return _GIVEN.pack(*given) + self.outline.body


def _checksum(seq: int, about: int, metadata: str, body: bytes) -> int:
    """Return a sum of all words of eight bytes, each times an odd number of its place: see `_checksums`."""
    words: tuple[int, ...] = struct.unpack(f"<{-(-len(body) // 8)}Q", body.ljust(-(-len(body) // 8) * 8, b"\0"))
    beside = (zlib.crc32(metadata.encode()) << 32 | about) ^ seq
    return (beside + sum(word * (place * _ODD | 1) for place, word in enumerate(words, start=1))) & _WORD


def _checksums(
    seqs: Sequence[int], about: Sequence[int], metadata: Sequence[str], bodies: Sequence[bytes]
) -> NDArray[np.uint64]:
    """Return what `_checksum` does, of many at once; of bodies of whole words, each with a checksum behind it."""
    import numpy as np

    words = np.frombuffer(b"".join(bodies), "<u8")
    sizes = np.fromiter(map(len, bodies), np.int64, len(bodies)) // 8
    starts = np.cumsum(sizes) - sizes
    places = np.arange(1, int(sizes.max()) + 1, dtype=np.uint64) * np.uint64(_ODD) | np.uint64(1)
    products = words * places[np.arange(len(words)) - np.repeat(starts, sizes)]
    last = starts + sizes - 1
    products[last] = 0
    more = np.fromiter((zlib.crc32(text.encode()) if text else 0 for text in metadata), np.uint64, len(metadata))
    beside = (more << np.uint64(32) | np.array(about, np.uint64)) ^ np.array(seqs, np.uint64)
    found: NDArray[np.uint64] = beside + np.add.reduceat(products, starts)
    return found


def insert_outlines(connection: apsw.Connection, kept: Sequence[Kept]) -> None:
    """Write outlines; in a transaction."""
    seqs, bodies = [item.seq for item in kept], [item.body() for item in kept]
    crcs = {text: zlib.crc32(text.encode()) for text in {item.outline.about for item in kept}}
    about, metadata = [crcs[item.outline.about] for item in kept], [item.outline.metadata for item in kept]
    if len(kept) >= _MANY and all(len(body) % 8 == 0 for body in bodies):
        sums = _checksums(seqs, about, metadata, [body + bytes(_CHECKSUM.size) for body in bodies]).tolist()
    else:
        sums = list(map(_checksum, seqs, about, metadata, bodies))
    connection.executemany(
        "INSERT OR REPLACE INTO outlines VALUES (?, ?, ?, ?, ?, ?)",
        [
            (
                item.tenant,
                item.seq,
                item.outline.about,
                item.outline.metadata,
                body + _CHECKSUM.pack(own),
                item.checksum,
            )
            for item, body, own in zip(kept, bodies, sums, strict=True)
        ],
    )


def put_outlines(connection: apsw.Connection, outlines: Mapping[int, Outline]) -> None:
    """See `KeepsOutlines.put_outlines`; in a transaction."""
    version = outlines_version(connection)
    wanted = [seq for seq, outline in outlines.items() if outline.version == version]
    rows = select(
        connection,
        "SELECT a.seq, a.id, a.record_id, a.recorded_at, a.checksum, a.tenant"
        " FROM json_each(?) j CROSS JOIN assertions a ON a.seq = j.value",
        (json.dumps(wanted),),
    )
    insert_outlines(
        connection,
        [
            Kept(
                seq=seq,
                id=id,
                record_id=record_id,
                recorded_at=dt.datetime.fromisoformat(at),
                checksum=checksum,
                tenant=tenant,
                outline=outlines[seq],
            )
            for seq, id, record_id, at, checksum, tenant in rows
        ],
    )


def delete_outlines(connection: apsw.Connection, seqs: Iterable[int], tenant: str | None) -> None:
    """Delete the outlines of assertions; in a transaction."""
    if outlines_version(connection) is not None:
        wanted = [(tenant or "", seq) for seq in seqs]
        connection.executemany("DELETE FROM outlines WHERE tenant = ? AND seq = ?", wanted)


def recorded(connection: apsw.Connection, tenant: str | None, seqs: Sequence[int]) -> list[Recorded | None]:
    """See `KeepsOutlines.recorded`."""
    rows = select(
        connection,
        f"SELECT {ASSERTION_COLUMNS} FROM json_each(?) j CROSS JOIN assertions a ON a.seq = j.value WHERE a.tenant = ?",
        (json.dumps(list(seqs)), tenant or ""),
    )
    found = {item.seq: item for item in map(read_assertion, rows)}
    if len(found) < len(set(seqs)) and outlines_version(connection) is not None:
        _check_gone(connection, tenant, [seq for seq in seqs if seq not in found])
    return [found.get(seq) for seq in seqs]


def outlined(connection: apsw.Connection, version: int | None, tenant: str | None, since: int, limit: int) -> Outlined:
    """See `KeepsOutlines.outlined`.

    Args:
        connection: in a transaction.
        version: of the outlines that are wanted.
        tenant: whose.
        since: after which number.
        limit: how many assertions at the most.
    """
    import numpy as np

    since = min(since, _LARGEST)
    if since <= 0:
        _check_all(connection, tenant or "")
    part = (tenant or "", since, _until(connection, tenant, since, limit))
    usable = version is not None and outlines_version(connection) == version
    seqs, about, metadata, bodies = [], [], [], []
    rows = connection.execute(f"SELECT seq, about, metadata, body FROM outlines WHERE {_PART}", part) if usable else ()
    for seq, text, more, body in rows:  # row by row: thousands of tuples at once set off full garbage collections
        seqs.append(seq)
        about.append(text)
        metadata.append(more)
        bodies.append(body)
    _check(seqs, about, metadata, bodies)
    given = np.frombuffer(b"".join([body[: _GIVEN.size] for body in bodies]), "<u8").reshape(-1, 3)
    return Outlined(
        seqs=seqs,
        ids=given[:, 0],
        records=given[:, 1],
        recorded_at=given[:, 2].view(np.int64),
        about=about,
        metadata=metadata,
        bodies=[body[_GIVEN.size : -_CHECKSUM.size] for body in bodies],
        missing=_missing(connection, part, seqs),
        rest=sorted([*_changes(connection, part), *_erased(connection, part)], key=lambda entry: entry.seq),
        until=part[2],
    )


def _until(connection: apsw.Connection, tenant: str | None, since: int, limit: int) -> int:
    """Return up to which number to read, so that some assertions are read at the most."""
    last = select(
        connection,
        "SELECT seq FROM assertions WHERE tenant = ? AND seq > ? ORDER BY seq LIMIT 1 OFFSET ?",
        (tenant or "", since, min(limit, _LARGEST) - 1),
    )
    return int(last[0][0]) if last else last_seq(connection)


def _check(seqs: Sequence[int], about: Sequence[str], metadata: Sequence[str], bodies: Sequence[bytes]) -> None:
    """Raise unless each outline is as it was written."""
    import numpy as np

    if not bodies:
        return
    cut, crcs = -_CHECKSUM.size, {text: zlib.crc32(text.encode()) for text in set(about)}
    of_about = [crcs[text] for text in about]
    wrong = [row for row, body in enumerate(bodies) if len(body) < _GIVEN.size + _CHECKSUM.size]
    if not wrong and all(len(body) % 8 == 0 for body in bodies):
        kept = np.frombuffer(b"".join([body[cut:] for body in bodies]), "<u8")
        wrong = np.flatnonzero(kept != _checksums(seqs, of_about, metadata, bodies)).tolist()
    elif not wrong:
        parts = enumerate(zip(seqs, of_about, metadata, bodies, strict=True))
        wrong = [
            row
            for row, (seq, crc, more, body) in parts
            if int.from_bytes(body[cut:], "little") != _checksum(seq, crc, more, body[:cut])
        ]
    if wrong:
        raise CorruptStoreError(f"the outline of assertion number {seqs[wrong[0]]} is damaged: restore the store")


def _check_gone(connection: apsw.Connection, tenant: str | None, seqs: Sequence[int]) -> None:
    """Raise if there are outlines of assertions that are not there: the two go together."""
    left = select(
        connection,
        "SELECT o.seq FROM json_each(?) j CROSS JOIN outlines o ON o.tenant = ? AND o.seq = j.value",
        (json.dumps(list(seqs)), tenant or ""),
    )
    if left:
        raise CorruptStoreError(f"the assertion number {left[0][0]} is lost: restore the store from a backup")


def _check_all(connection: apsw.Connection, tenant: str) -> None:
    """Raise unless what is told of a tenant is all there is; see `factmem_sqlite_vec.sums`."""
    part = (tenant, 0, _LARGEST)
    of_outlines, there, missing = 0, 0, []
    if outlines_version(connection) is not None:
        total = f"SELECT coalesce(sum(checksum), 0), count(*) FROM outlines WHERE {_PART}"
        ((of_outlines, there),) = select(connection, total, part)
    if there != _assertions(connection, part):
        rows = select(connection, f"SELECT seq FROM outlines WHERE {_PART}", part) if there else []
        missing = _missing(connection, part, [seq for (seq,) in rows])
    of_missing = select(
        connection,
        "SELECT coalesce(sum(a.checksum), 0) FROM json_each(?) j CROSS JOIN assertions a ON a.seq = j.value",
        (json.dumps(missing),),
    )
    changed = select(connection, f"SELECT '', s.* FROM state_changes s WHERE {_PART}", part)
    erased = select(connection, f"SELECT assertion_id, seq FROM tombstones WHERE {_PART}", part)
    said = [(0, 0, 0, 0, int(of_outlines) + int(of_missing[0][0]))]
    check_tenant(connection, tenant, said, changed, erased)


def _missing(connection: apsw.Connection, part: Row, there: Sequence[int]) -> list[int]:
    if _assertions(connection, part) == len(there):
        return []
    known = set(there)
    rows = select(connection, f"SELECT seq FROM assertions WHERE {_PART}", part)
    return [seq for (seq,) in rows if seq not in known]


def _assertions(connection: apsw.Connection, part: Row) -> int:
    ((count,),) = select(connection, f"SELECT count(*) FROM assertions WHERE {_PART}", part)
    return int(count)


def _changes(connection: apsw.Connection, part: Row) -> list[StateChange]:
    rows = select(
        connection,
        "SELECT a.id, s.* FROM state_changes s CROSS JOIN assertions a ON a.seq = s.assertion"
        " WHERE s.tenant = ? AND s.seq > ? AND s.seq <= ?",
        part,
    )
    return list(map(read_state, rows))


def _erased(connection: apsw.Connection, part: Row) -> list[Tombstone]:
    rows = select(connection, f"SELECT assertion_id, seq FROM tombstones WHERE {_PART}", part)
    return [Tombstone(assertion_id=id, seq=seq) for id, seq in rows]
