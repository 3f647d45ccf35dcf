"""Sequence numbers, of each tenant its own, and the keys of the rows that they name.

In every table whose rows have a sequence number, each tenant has a range of keys: the key of a row is the tenant's
*base* (its number times 2^40) plus the sequence number. So a range of keys is one tenant's log in order, and in a store
without tenants the keys are the sequence numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import apsw
import attrs

from factmem.errors import CorruptStoreError
from factmem.providers.rows import SEQ_BITS, SEQ_MASK
from factmem_sqlite_vec.rows import select
from factmem_sqlite_vec.sums import LAST_SEQS, NewSums

__all__ = ["LastSeq", "NewSeqs", "base_of", "last_write", "newest_seq", "of_tenant"]

_UNKNOWN: Final = (1 << 63) - 1 - SEQ_MASK
"""Base of a tenant without rows: no key lies in its range."""


def base_of(connection: apsw.Connection, tenant: str | None) -> int:
    """Return the base of a tenant: of one that has no rows, a base that no row has."""
    found = select(connection, "SELECT number FROM tenants WHERE name = ?", (tenant or "",))
    return int(found[0][0]) << SEQ_BITS if found else _UNKNOWN


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


@attrs.define
class LastSeq:
    """The last number of a tenant in a transaction.

    Attributes:
        base: Base of the tenant.
        seq: Last number assigned.
        stored: Last number that the store knows.
    """

    base: int
    seq: int
    stored: int


class NewSeqs:
    """Assigns sequence numbers in one write transaction.

    Args:
        connection: Connection with an open transaction.
        last: Last numbers of tenants that are known to be in the store; it is kept up to date.
    """

    def __init__(self, connection: apsw.Connection, last: dict[str, LastSeq]) -> None:
        self._connection = connection
        self._last = last

    def next_key(self, tenant: str) -> int:
        """Return the key of the next row of a tenant; its low bits are the sequence number."""
        last = self.entered(tenant)
        last.seq += 1
        return last.base + last.seq

    def entered(self, tenant: str) -> LastSeq:
        """Return the last number of a tenant, which is stored if it is new."""
        last = self._stored(tenant)
        if last is None:
            last = self._last[tenant] = LastSeq(self._new_number(tenant) << SEQ_BITS, 0, 0)
        return last

    def advance_to(self, tenant: str, seq: int) -> int:
        """Continue a tenant's numbers after a given one, which is not lower than the last; return its key."""
        last = self.entered(tenant)
        last.seq = seq
        return last.base + seq

    def base_of(self, tenant: str | None) -> int:
        """Return the base of a tenant: of one that has no rows yet, a base that no row has."""
        last = self._stored(tenant or "")
        return _UNKNOWN if last is None else last.base

    def _stored(self, tenant: str) -> LastSeq | None:
        if tenant not in self._last:
            base = base_of(self._connection, tenant)
            if base != _UNKNOWN:
                seq = newest_seq(self._connection, tenant)
                self._last[tenant] = LastSeq(base, seq, seq)
        return self._last.get(tenant)

    def _new_number(self, tenant: str) -> int:
        """Store a tenant; the one without a name has number 0."""
        number = "0" if not tenant else "(SELECT coalesce(max(number), 0) + 1 FROM tenants)"
        self._connection.execute(f"INSERT INTO tenants(number, name) VALUES ({number}, ?)", (tenant,))
        return self._connection.last_insert_rowid()

    def marks(self) -> dict[str, int]:
        """Return the last numbers, for `reset`."""
        return {tenant: last.seq for tenant, last in self._last.items()}

    def reset(self, marks: dict[str, int]) -> None:
        """Return to earlier numbers, after the writes since then were rolled back."""
        for tenant in [tenant for tenant in self._last if tenant not in marks]:
            del self._last[tenant]
        for tenant, seq in marks.items():
            self._last[tenant].seq = seq

    def write(self, sums: NewSums) -> None:
        """Add the numbers assigned to the changes of sums."""
        for tenant, last in self._last.items():
            if last.seq != last.stored:
                sums.advance(tenant, last.seq - last.stored)
                last.stored = last.seq
