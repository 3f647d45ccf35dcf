"""Access to the tables; see `factmem.providers.rows` for what is in a row."""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import apsw

from factmem.errors import CorruptStoreError
from factmem.providers.rows import SEQ_BITS, SEQ_MASK, own_record_id, pack_id, row_sum, seq_of, unpack_id
from factmem.records import AssertionState, StateChange

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "ACCESSES_THERE",
    "ASSERTION_COLUMNS",
    "LAST_SEQS",
    "MOVED",
    "NO_BASE",
    "OF_RECORD",
    "OF_SLOTS",
    "OF_VECTORS",
    "SLOTS",
    "STATE_COLUMNS",
    "VECTORS",
    "NewSums",
    "Row",
    "base_of",
    "check_place",
    "check_tenant",
    "copied",
    "format_version",
    "key_of_id",
    "keyed",
    "last_write",
    "newest_seq",
    "of_tenant",
    "outlines_version",
    "overwrite",
    "read_slot",
    "read_slots",
    "read_state",
    "record_key",
    "select",
    "slots_in_use",
    "slots_of",
    "state_changes",
    "sum_of_vectors",
    "sum_of_vectors_kept",
    "tenants_with_sums",
    "use_outlines",
    "write_slots",
]

ASSERTION_COLUMNS: Final = (
    f"a.seq & {SEQ_MASK}, a.id, a.record_id, a.recorded_at, a.checksum, a.doc, a.said_at,"
    " (SELECT doc FROM heads WHERE id = a.head)"
)
"""Columns that `read_assertion` takes, of a table called ``a``."""

STATE_COLUMNS: Final = "s.seq, s.assertion, s.tenant, s.state, s.recorded_at, s.reason, s.actor"
"""Columns of a change of state, of a table called ``s``."""

OF_RECORD: Final = "(record_id = ? OR (seq = ? AND id = ? AND record_id IS NULL))"
"""Condition on the assertions of a record; see `record_key`."""


Row: TypeAlias = tuple[Any, ...]


def select(connection: apsw.Connection, sql: str, arguments: Sequence[Any] = ()) -> list[Row]:
    """Return all rows of a query."""
    return connection.execute(sql, arguments).fetchall()


def format_version(connection: apsw.Connection) -> int:
    """Return the version of the file's format."""
    ((found,),) = select(connection, "PRAGMA user_version")
    return int(found)


def keyed(key: bytes, value: bytes | str) -> bytes:
    """Return the 16 bytes by which a store looks up a value, which without its key says nothing about it."""
    return hashlib.blake2b(value if isinstance(value, bytes) else value.encode(), key=key, digest_size=16).digest()


def key_of_id(connection: apsw.Connection, base: int, id: str) -> int | None:
    """Return the key of a tenant's assertion by its id, or None.

    Args:
        connection: Connection in a transaction.
        base: Key of the tenant's first row; see `factmem_sqlite_vec.tables`.
        id: Id; one that another store gave does not name its row, and is looked up.
    """
    seq = seq_of(id)
    own = "SELECT seq FROM assertions WHERE seq = ? AND id = ?"
    found = select(connection, own, (base + seq, pack_id(id, seq)))
    if not found:
        foreign = "SELECT seq FROM assertions WHERE id = ? AND typeof(id) = 'text' AND seq > ? AND seq <= ?"
        found = select(connection, foreign, (id, base, base + SEQ_MASK))
    return int(found[0][0]) if found else None


def record_key(record_id: str, base: int) -> tuple[bytes | str, int, bytes | str]:
    """Return the arguments of `OF_RECORD`.

    Args:
        record_id: Id of the record.
        base: Key of the tenant's first row; see `factmem_sqlite_vec.tables`.
    """
    seq = seq_of(record_id)
    try:
        return pack_id(record_id), base + seq, pack_id(own_record_id(record_id), seq)
    except ValueError:
        return record_id, 0, record_id


def state_changes(connection: apsw.Connection, sql: str, arguments: Sequence[Any] = ()) -> list[Row]:
    """Return the changes of state of a query for an id and `STATE_COLUMNS`, as `read_state` takes them."""
    rows = select(connection, sql, arguments)
    return [(id, key & SEQ_MASK, assertion & SEQ_MASK, *rest) for id, key, assertion, *rest in rows]


def read_state(row: Row) -> StateChange:
    """Read a change of state from `state_changes`.

    Raises:
        CorruptStoreError: The row was changed.
    """
    assertion_id, seq, assertion, _, state, recorded_at, reason, actor = row
    try:
        return StateChange(
            assertion_id=unpack_id(assertion_id, assertion),
            state=AssertionState(state),
            seq=seq,
            recorded_at=dt.datetime.fromisoformat(recorded_at),
            reason=reason,
            actor=actor,
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptStoreError(f"the state change number {seq} is damaged: restore the store") from error


VECTORS: Final = "CREATE TABLE vectors(chunk INTEGER PRIMARY KEY, embeddings BLOB NOT NULL) STRICT"
"""Empty table of vectors."""

SLOTS: Final = 16
"""Number of vectors in a row."""


def slots_of(connection: apsw.Connection, part: tuple[int, int]) -> NDArray[np.int64]:
    """Return the keys and the slots of the vectors in a part of a tenant's log, in two rows; see `of_tenant`."""
    import numpy as np

    rows = connection.execute(
        "SELECT seq, vector FROM assertions WHERE seq > ? AND seq <= ? AND vector IS NOT NULL ORDER BY seq", part
    )
    numbers = np.fromiter((number for row in rows for number in row), np.int64)
    return np.ascontiguousarray(numbers.reshape(-1, 2).T)


def read_slots(
    connection: apsw.Connection, slots: NDArray[np.int64], dimension: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield vectors by their slots: places among these, and their vectors, one a row; nothing for lost ones."""
    import numpy as np

    order = np.argsort(slots, kind="stable")
    chunks = slots[order] // SLOTS
    starts = np.flatnonzero(np.diff(chunks, prepend=-2))
    parts = np.split(order, starts[1:])
    rows = connection.executemany(
        "SELECT (SELECT embeddings FROM vectors WHERE chunk = ?)", [(int(chunk),) for chunk in chunks[starts]]
    )
    for places, (found,) in zip(parts, rows, strict=False):
        if found is not None and len(found) == SLOTS * dimension * 4:
            yield places, np.frombuffer(found, np.float32).reshape(SLOTS, dimension)[slots[places] % SLOTS]


def read_slot(connection: apsw.Connection, slot: int, size: int) -> bytes:
    """Return the bytes of one vector."""
    chunk, place = divmod(slot, SLOTS)
    found = select(connection, "SELECT embeddings FROM vectors WHERE chunk = ?", (chunk,))
    return bytes(found[0][0][place * size : (place + 1) * size]) if found else b""


def overwrite(connection: apsw.Connection, slot: int, vectors: bytes, size: int) -> None:
    """Write one or more vectors of a row in place."""
    chunk, place = divmod(slot, SLOTS)
    with connection.blob_open("main", "vectors", "embeddings", chunk, True) as blob:
        blob.seek(place * size)
        blob.write(vectors)


def write_slots(connection: apsw.Connection, slot: int, vectors: Sequence[bytes]) -> None:
    """Write vectors of one length to the slots after the last one in use.

    Args:
        connection: Connection in a transaction.
        slot: The first of the slots.
        vectors: The vectors.
    """
    done = 0
    while done < len(vectors):
        some = vectors[done : done + SLOTS - (slot + done) % SLOTS]
        if (slot + done) % SLOTS:
            overwrite(connection, slot + done, b"".join(some), len(some[0]))
        else:
            row = b"".join(some) + bytes((SLOTS - len(some)) * len(some[0]))
            connection.execute("INSERT INTO vectors VALUES (?, ?)", ((slot + done) // SLOTS, row))
        done += len(some)


OF_VECTORS: Final = b"vectors"
"""Placeholder of the place in the sums of the vectors of tenants; digests of places are longer."""

_OF_TENANTS: Final = b""
"""Placeholder of the place in the sums of tenants; no place has an empty digest."""

LAST_SEQS: Final = (b"seq", b"again")
"""Placeholders of the place of the last sequence number of a tenant, which is kept twice."""

OF_SLOTS: Final = b"slots"
"""Placeholder of the place of the number of slots; see `factmem_sqlite_vec.tables`."""

_MOST_AT_ONCE: Final = 64


def sum_of_vectors(seqs: Iterable[int], rows: Iterable[bytes] | NDArray[np.float32]) -> int:
    """Return the sum of the checksums of vectors, each with the number of its assertion."""
    return sum(map(zlib.crc32, rows, seqs))


class NewSums:
    """Changes of sums in one transaction."""

    def __init__(self) -> None:
        self._added: list[tuple[bytes, bytes | str, int]] = []

    def add(self, checksum: int, tenant: str, track: tuple[bytes, bytes] | None = None) -> None:
        """Add or subtract a row.

        Args:
            checksum: Checksum of the row, negative for a deleted row.
            tenant: Tenant of the row.
            track: `keyed` digests of its place and its keyword, if it is read with a place.
        """
        self._added.append((_OF_TENANTS, tenant, checksum))
        if track is not None:
            self._added.append((*track, checksum))

    def add_vector(self, seq: int, vector: bytes, tenant: str, sign: int = 1) -> None:
        """Add a vector of an assertion, or subtract a deleted one; see `sum_of_vectors`."""
        self._added.append((OF_VECTORS, tenant, sign * zlib.crc32(vector, seq)))

    def advance(self, tenant: str, by: int) -> None:
        """Raise the last sequence number of a tenant."""
        self._added += [(place, tenant, by) for place in LAST_SEQS]

    def take_slots(self, number: int) -> None:
        """Raise the number of slots in use."""
        self._added.append((OF_SLOTS, "", number))

    def write(self, connection: apsw.Connection) -> None:
        """Write the changes. A sum of 0 is deleted, and the keyword with it."""
        totals: Counter[tuple[bytes, bytes | str]] = Counter()
        for place, keyword, checksum in self._added:
            totals[place, keyword] += checksum
        rows = [(*key, total) for key, total in totals.items() if total]
        for start in range(0, len(rows), _MOST_AT_ONCE):
            some = rows[start : start + _MOST_AT_ONCE]
            connection.execute(
                f"INSERT INTO sums VALUES {', '.join(['(?, ?, ?)'] * len(some))}"
                " ON CONFLICT DO UPDATE SET sum = sum + excluded.sum",
                tuple(itertools.chain.from_iterable(some)),
            )
        if gone := [row[:2] for row in rows if row[2] < 0]:
            connection.executemany("DELETE FROM sums WHERE place = ? AND keyword = ? AND sum = 0", gone)


def check_place(
    connection: apsw.Connection,
    place: bytes,
    keyword: bytes | None = None,
    *,
    said: Iterable[Row],
    changed: Iterable[Row],
) -> None:
    """Check that rows are complete and unchanged rows of a place.

    Args:
        connection: Connection in a transaction.
        place: `keyed` digest of the place.
        keyword: That of the keyword of the concept that was read, or None.
        said: Rows of the assertions, with the columns `ASSERTION_COLUMNS`.
        changed: Their changes of state, from `state_changes`.

    Raises:
        CorruptStoreError: A row was lost or changed.
    """
    _check(connection, place, keyword, _sum_of(said, changed))


def check_tenant(
    connection: apsw.Connection, tenant: str, said: Iterable[Row], changed: Iterable[Row], erased: Iterable[Row]
) -> None:
    """Check that rows are complete and unchanged rows of a tenant.

    Args:
        connection: Connection in a transaction.
        tenant: The tenant.
        said: See `check_place`.
        changed: See `check_place`.
        erased: Ids and numbers of tombstones.

    Raises:
        CorruptStoreError: A row was lost or changed.
    """
    found = _sum_of(said, changed) + sum(row_sum(*row) for row in erased)
    _check(connection, _OF_TENANTS, tenant, found)


def _sum_of(said: Iterable[Row], changed: Iterable[Row]) -> int:
    return sum(int(row[4]) for row in said) + sum(row_sum(*row[1:]) for row in changed)


def _check(connection: apsw.Connection, place: bytes, keyword: bytes | str | None, found: int) -> None:
    if _kept(connection, place, keyword) != found:
        raise CorruptStoreError("rows of the store were lost or changed: restore it from a backup")


def sum_of_vectors_kept(connection: apsw.Connection, tenant: str) -> int:
    """Return the expected `sum_of_vectors` of all vectors of a tenant."""
    return _kept(connection, OF_VECTORS, tenant)


def slots_in_use(connection: apsw.Connection) -> int:
    """Return the number of slots in use; see `factmem_sqlite_vec.tables`."""
    return _kept(connection, OF_SLOTS, "")


def _kept(connection: apsw.Connection, place: bytes, keyword: bytes | str | None) -> int:
    where, wanted = ("", (place,)) if keyword is None else (" AND keyword = ?", (place, keyword))
    ((kept,),) = select(connection, f"SELECT coalesce(sum(sum), 0) FROM sums WHERE place = ?{where}", wanted)
    return int(kept)


def tenants_with_sums(connection: apsw.Connection) -> set[str]:
    """Return the tenants that rows were kept of."""
    return {tenant for (tenant,) in select(connection, "SELECT keyword FROM sums WHERE place = ?", (_OF_TENANTS,))}


NO_BASE: Final = (1 << 63) - 1 - SEQ_MASK
"""Base of a tenant without rows: no key lies in its range."""


def base_of(connection: apsw.Connection, tenant: str | None) -> int:
    """Return the base of a tenant: of one that has no rows, a base that no row has."""
    found = select(connection, "SELECT number FROM tenants WHERE name = ?", (tenant or "",))
    return int(found[0][0]) << SEQ_BITS if found else NO_BASE


def of_tenant(
    connection: apsw.Connection, tenant: str | None, since: int = 0, until: int = SEQ_MASK
) -> tuple[int, int]:
    """Return the arguments of ``seq > ? AND seq <= ?``: rows of a tenant after a number, up to another one."""
    base = base_of(connection, tenant)
    return base + min(max(since, 0), SEQ_MASK), base + min(until, SEQ_MASK)


def newest_seq(connection: apsw.Connection, tenant: str | None) -> int:
    """Return the newest sequence number of a tenant.

    Raises:
        CorruptStoreError: Its two copies differ.
    """
    wanted = "SELECT sum FROM sums WHERE place IN (?, ?) AND keyword = ?"
    return _agreed([found for (found,) in select(connection, wanted, (*LAST_SEQS, tenant or ""))])


def last_write(connection: apsw.Connection) -> int:
    """Return the number of the store's last write, counted over all tenants; it only grows, also by a migration.

    Raises:
        CorruptStoreError: Its two copies differ.
    """
    copies = select(connection, "SELECT value FROM meta WHERE key IN ('seq', 'seq again')")  # before format 8
    if not copies:
        copies = select(connection, "SELECT sum(sum) FROM sums WHERE place IN (?, ?) GROUP BY place", LAST_SEQS)
    return _agreed([number for (number,) in copies])


def _agreed(copies: Sequence[Any]) -> int:
    """Return a sequence number from its copies, 0 from none.

    Raises:
        CorruptStoreError: They differ.
    """
    if copies and (len(copies) != len(LAST_SEQS) or len(set(copies)) != 1):
        raise CorruptStoreError("the number of the last change is damaged: restore the store from a backup")
    return int(copies[0]) if copies else 0


def copied(connection: apsw.Connection, tenant: str | None) -> int | None:
    """Return the number up to which an unfinished copy is complete."""
    if not select(connection, "SELECT 1 FROM tenants WHERE name = ? AND copying", (tenant or "",)):
        return None
    return newest_seq(connection, tenant)


ACCESSES_THERE: Final = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'accesses'"

MOVED: Final = "INSERT OR REPLACE INTO meta VALUES ('moved', randomblob(8))"
"""Note that rows grew or shrank, so that SQLite may have left copies of them; see `factmem_sqlite_vec.writing`."""


def outlines_version(connection: apsw.Connection) -> int | None:
    """Return the version of the outlines in the store, or None if it holds none."""
    found = select(connection, "SELECT value FROM meta WHERE key = 'outlines'")
    return int(found[0][0]) if found else None


def use_outlines(connection: apsw.Connection, version: int) -> None:
    """Drop the outlines of other versions; in a transaction."""
    stored = outlines_version(connection)
    if stored != version:
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('outlines', ?)", (version,))
    if stored not in (None, version):
        connection.execute(f"UPDATE assertions SET outline = NULL; UPDATE heads SET shared = NULL; {MOVED}")
