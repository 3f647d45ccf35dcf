"""Queries of the tables of assertions and of changes of state; see `factmem.providers.rows` for what is in a row.

Rows that formats before 5 wrote hold the whole document, and their head has none.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import apsw

from factmem.errors import CorruptStoreError
from factmem.providers.rows import SEQ_MASK, own_record_id, pack_id, seq_of, unpack_id
from factmem.records import AssertionState, StateChange

__all__ = [
    "ASSERTION_COLUMNS",
    "OF_RECORD",
    "STATE_COLUMNS",
    "Row",
    "format_version",
    "key_of_id",
    "keyed",
    "read_state",
    "record_key",
    "select",
    "state_changes",
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
        base: Key of the tenant's first row; see `factmem_sqlite_vec.sequences`.
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
        base: Key of the tenant's first row; see `factmem_sqlite_vec.sequences`.
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
