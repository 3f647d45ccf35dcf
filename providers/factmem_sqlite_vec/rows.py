"""Queries of the tables of assertions and of changes of state; see `factmem.providers.rows` for what is in a row.

Rows of formats before 5 hold the whole document and have no head.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import apsw

from factmem.errors import CorruptStoreError
from factmem.providers.rows import SEQ_MASK, own_record_id, pack_id, seq_of, unpack_id
from factmem.records import AssertionState, StateChange

__all__ = [
    "ASSERTION_COLUMNS",
    "HEADS_SINCE",
    "OF_RECORD",
    "Row",
    "assertion_columns",
    "format_version",
    "key_of_id",
    "read_state",
    "record_key",
    "select",
    "state_changes",
]

_OWN_COLUMNS: Final = f"a.rowid & {SEQ_MASK}, a.id, a.record_id, a.recorded_at, a.checksum, a.doc, a.said_at"

ASSERTION_COLUMNS: Final = f"{_OWN_COLUMNS}, (SELECT doc FROM heads WHERE id = a.head)"
"""Columns that `read_assertion` takes, of a table called ``a``."""

OF_RECORD: Final = "(record_id = ? OR (rowid = ? AND id = ? AND record_id IS NULL))"
"""Condition on the assertions of a record; see `record_key`."""

_COLUMNS_BEFORE_HEADS: Final = f"{_OWN_COLUMNS}, NULL"
HEADS_SINCE: Final = 5
"""Version of the format from which documents share their heads."""


Row: TypeAlias = tuple[Any, ...]


def select(connection: apsw.Connection, sql: str, arguments: Sequence[Any] = ()) -> list[Row]:
    """Return all rows of a query."""
    return connection.execute(sql, arguments).fetchall()


def format_version(connection: apsw.Connection) -> int:
    """Return the version of the file's format; older than the newest only if the file is opened read-only."""
    ((found,),) = select(connection, "SELECT user_version FROM pragma_user_version")
    return int(found)


def assertion_columns(connection: apsw.Connection) -> str:
    """Return `ASSERTION_COLUMNS` for the file's format."""
    return ASSERTION_COLUMNS if format_version(connection) >= HEADS_SINCE else _COLUMNS_BEFORE_HEADS


def key_of_id(connection: apsw.Connection, base: int, tenant: str, id: str) -> int | None:
    """Return the key of a tenant's assertion by its id, or None.

    Args:
        connection: Connection in a transaction.
        base: Key of the tenant's first row; see `factmem_sqlite_vec.sequences`.
        tenant: The tenant.
        id: Id; one that another store gave does not name its row, and is looked up.
    """
    seq = seq_of(id)
    own = "SELECT rowid FROM assertions WHERE rowid = ? AND id = ? AND tenant = ?"
    found = select(connection, own, (base + seq, pack_id(id, seq), tenant))
    if not found:
        foreign = "SELECT rowid FROM assertions WHERE id = ? AND typeof(id) = 'text' AND tenant = ?"
        found = select(connection, foreign, (id, tenant))
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
    """Return the changes of state of a query: the id of the assertion and all columns, as `read_state` takes them."""
    rows = select(connection, sql, arguments)
    return [(id, key & SEQ_MASK, assertion & SEQ_MASK, *rest) for id, key, assertion, *rest in rows]


def read_state(row: Row) -> StateChange:
    """Read a change of state from `state_changes`; a store of an older format has no actors.

    Raises:
        CorruptStoreError: The row was changed.
    """
    assertion_id, seq, assertion, _, state, recorded_at, reason, *later = row
    try:
        return StateChange(
            assertion_id=unpack_id(assertion_id, assertion),
            state=AssertionState(state),
            seq=seq,
            recorded_at=dt.datetime.fromisoformat(recorded_at),
            reason=reason,
            actor=later[0] if later else None,
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptStoreError(f"the state change number {seq} is damaged: restore the store") from error
