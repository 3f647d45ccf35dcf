"""Sums of the checksums of rows, stored by place and keyword, and by tenant, to detect lost and changed rows.

The last sequence numbers of tenants stand beside them, so that a transaction changes all in one statement.

SQLite does not detect all damage: an index that lost a row hides an assertion, and a changed date is a valid one. So
reading all rows of a place or of a tenant includes adding up their checksums. The sums are ordinary rows. Checksums
of pages would break in a copy made by SQLite's own tools.

The vectors of a tenant have a sum, too, because every changed number is a valid one.
"""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import apsw

from factmem.errors import CorruptStoreError
from factmem.providers.rows import row_sum
from factmem_sqlite_vec.rows import Row, select

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "LAST_SEQS",
    "OF_SLOTS",
    "OF_VECTORS",
    "NewSums",
    "check_place",
    "check_tenant",
    "slots_in_use",
    "sum_of_vectors",
    "sum_of_vectors_kept",
    "tenants_with_sums",
]

OF_VECTORS: Final = b"vectors"
"""Placeholder of the place in the sums of the vectors of tenants; digests of places are longer."""

_OF_TENANTS: Final = b""
"""Placeholder of the place in the sums of tenants; no place has an empty digest."""

LAST_SEQS: Final = (b"seq", b"again")
"""Placeholders of the place of the last sequence number of a tenant, which is kept twice."""

OF_SLOTS: Final = b"slots"
"""Placeholder of the place of the number of slots; see `factmem_sqlite_vec.chunks`."""

_MOST_AT_ONCE: Final = 64


def sum_of_vectors(seqs: Iterable[int], rows: Iterable[bytes] | NDArray[np.float32]) -> int:
    """Return the sum of the checksums of vectors, each with the number of its assertion."""
    return sum(map(zlib.crc32, rows, seqs))


class NewSums:
    """Changes of sums in one transaction."""

    def __init__(self) -> None:
        self._added: list[tuple[bytes, bytes | str, int]] = []

    def __len__(self) -> int:
        return len(self._added)

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

    def add_vector(self, seq: int, vector: bytes, tenant: str) -> None:
        """Add a vector of an assertion; see `sum_of_vectors`."""
        self._added.append((OF_VECTORS, tenant, zlib.crc32(vector, seq)))

    def take_vector(self, seq: int, vector: bytes, tenant: str) -> None:
        """Subtract a deleted vector."""
        self._added.append((OF_VECTORS, tenant, -zlib.crc32(vector, seq)))

    def advance(self, tenant: str, by: int) -> None:
        """Raise the last sequence number of a tenant."""
        self._added += [(place, tenant, by) for place in LAST_SEQS]

    def take_slots(self, number: int) -> None:
        """Raise the number of slots in use."""
        self._added.append((OF_SLOTS, "", number))

    def forget(self, length: int) -> None:
        """Drop all additions after the first ``length``."""
        del self._added[length:]

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
    connection: apsw.Connection, place: bytes, keyword: bytes | None, said: Iterable[Row], changed: Iterable[Row]
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
    """Return the number of slots in use; see `factmem_sqlite_vec.chunks`."""
    return _kept(connection, OF_SLOTS, "")


def _kept(connection: apsw.Connection, place: bytes, keyword: bytes | str | None) -> int:
    where, wanted = ("", (place,)) if keyword is None else (" AND keyword = ?", (place, keyword))
    ((kept,),) = select(connection, f"SELECT coalesce(sum(sum), 0) FROM sums WHERE place = ?{where}", wanted)
    return int(kept)


def tenants_with_sums(connection: apsw.Connection) -> set[str]:
    """Return the tenants that rows were kept of."""
    return {tenant for (tenant,) in select(connection, "SELECT keyword FROM sums WHERE place = ?", (_OF_TENANTS,))}
