"""Sequence numbers, of each tenant its own, and the keys of the rows that they name.

In every table that is keyed by a sequence number, each tenant has a range of keys: the key of a row is the tenant's
*base* (its number times 2^40) plus the sequence number. So a range of keys is one tenant's log in order, without an
index, and in a store without tenants the keys are the sequence numbers.

Formats before 6 have one sequence for all tenants, whose numbers are the keys. The first write migrates such a file;
one that is opened read-only is read as it is, with the base 0 for every tenant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import apsw
import attrs

from factmem.errors import CorruptStoreError
from factmem.providers.rows import SEQ_BITS, SEQ_MASK
from factmem_sqlite_vec.rows import format_version, select

__all__ = ["LastSeq", "NewSeqs", "base_of", "is_only_tenant", "last_write", "newest_seq", "of_tenant"]

_TENANTS_SINCE: Final = 6
_UNKNOWN: Final = (1 << 63) - 1 - SEQ_MASK
"""Base of a tenant without rows: no key lies in its range."""

_LAST: Final = "SELECT number, seq, again FROM tenants WHERE name = ?"


def base_of(connection: apsw.Connection, tenant: str | None) -> int:
    """Return the base of a tenant: of one that has no rows, a base that no row has."""
    if format_version(connection) < _TENANTS_SINCE:
        return 0
    found = select(connection, "SELECT number FROM tenants WHERE name = ?", (tenant or "",))
    return int(found[0][0]) << SEQ_BITS if found else _UNKNOWN


def of_tenant(
    connection: apsw.Connection, tenant: str | None, since: int = 0, until: int = SEQ_MASK
) -> tuple[str, int, int]:
    """Return the arguments of ``tenant = ? AND rowid > ? AND rowid <= ?``: rows after a number, up to another one."""
    base = base_of(connection, tenant)
    return tenant or "", base + min(max(since, 0), SEQ_MASK), base + min(until, SEQ_MASK)


def newest_seq(connection: apsw.Connection, tenant: str | None) -> int:
    """Return the newest sequence number of a tenant, or in an older format of the store.

    Raises:
        CorruptStoreError: Its two copies differ.
    """
    if format_version(connection) < _TENANTS_SINCE:
        return last_write(connection)
    found = select(connection, _LAST, (tenant or "",))
    return _agreed(found[0][1:]) if found else 0


def last_write(connection: apsw.Connection) -> int:
    """Return the number of the store's last write, counted over all tenants; it only grows.

    Raises:
        CorruptStoreError: Its two copies differ.
    """
    copies = select(connection, "SELECT value FROM meta WHERE key IN ('seq', 'seq again')")
    return _agreed([number for (number,) in copies])


def _agreed(copies: Sequence[Any]) -> int:
    """Return a sequence number from its copies.

    Raises:
        CorruptStoreError: They differ.
    """
    if len(set(copies)) != 1:
        raise CorruptStoreError("the number of the last change is damaged: restore the store from a backup")
    return int(copies[0])


def is_only_tenant(connection: apsw.Connection, tenant: str | None) -> bool:
    """Return whether the store has rows of one tenant alone."""
    if format_version(connection) < _TENANTS_SINCE:
        found = select(connection, "SELECT min(tenant), max(tenant) FROM assertions")
        return found[0] == (tenant or "", tenant or "")
    return select(connection, "SELECT name FROM tenants LIMIT 2") == [(tenant or "",)]


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
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._last: dict[str, LastSeq] = {}

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
            for number, *copies in select(self._connection, _LAST, (tenant,)):
                seq = _agreed(copies)
                self._last[tenant] = LastSeq(number << SEQ_BITS, seq, seq)
        return self._last.get(tenant)

    def _new_number(self, tenant: str) -> int:
        """Store a tenant; the one without a name has number 0."""
        number = "0" if not tenant else "(SELECT coalesce(max(number), 0) + 1 FROM tenants)"
        self._connection.execute(f"INSERT INTO tenants(number, name, seq, again) VALUES ({number}, ?, 0, 0)", (tenant,))
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

    def write(self) -> None:
        """Store the last numbers."""
        changed = {tenant: last for tenant, last in self._last.items() if last.seq != last.stored}
        if changed:
            numbers = [(last.seq, last.seq, tenant) for tenant, last in changed.items()]
            self._connection.executemany("UPDATE tenants SET seq = ?, again = ? WHERE name = ?", numbers)
            added = sum(last.seq - last.stored for last in changed.values())
            wanted = "WHERE key IN ('seq', 'seq again')"
            self._connection.execute(f"UPDATE meta SET value = value + ? {wanted}", (added,))
