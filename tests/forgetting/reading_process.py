"""A process that reads a SQLite file for as long as a test wants."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path


def hold_a_reading_transaction(path: Path, pipe: Connection) -> None:
    """Read a SQLite file and hold the same snapshot of it until the other end says so."""
    import apsw

    connection = apsw.Connection(str(path))
    connection.execute("BEGIN; SELECT count(*) FROM assertions").fetchall()
    pipe.send("reading")
    pipe.recv()
    connection.close()
    pipe.send("done")
