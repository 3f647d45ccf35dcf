"""SQLite databases that are changed behind the back of their store."""

from __future__ import annotations

import contextlib
from pathlib import Path

import apsw


def alter(path: Path, statements: str, values: tuple[apsw.SQLiteValue, ...] = ()) -> None:
    """Execute statements in the file of a database."""
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute(statements, values).fetchall()
