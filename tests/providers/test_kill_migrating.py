"""A process that is killed while it migrates an old SQLite store leaves it as it was, and the next one migrates it."""

from __future__ import annotations

import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import anyio
import apsw
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.abc.capabilities import Append
from factmem.records import Recorded

STORES: Final = Path(__file__).with_name("stores")

KILLED: Final = """
import os, signal, sys
import anyio, apsw
from factmem_sqlite_vec import SqliteVecMemoryProvider

left = int(sys.argv[2])

def kill(event):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

def watch(connection):
    if connection.open_flags & apsw.SQLITE_OPEN_READWRITE and connection.filename:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, kill)

apsw.connection_hooks.append(watch)

async def migrate():
    async with SqliteVecMemoryProvider(sys.argv[1]) as provider:
        await provider.upgrade()

anyio.run(migrate)
"""


async def contents(path: Path) -> object:
    async with SqliteVecMemoryProvider(path) as provider:
        logs = [await provider.changes(tenant) for tenant in (None, "acme")]
        return logs, [(seqs, rows.tolist()) for seqs, rows in [await provider.vectors(None)]]


def migrated(path: Path, statement: int) -> bool:
    """Migrate in a process that dies before a statement; return whether it lived to the end."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), str(statement)], check=False, capture_output=True)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_store_survives_a_death_at_each_step(tmp_path: Path, big: bool) -> None:
    archive = STORES / "ddb8ec8.zip"
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path)
    path = tmp_path / "sqlite-vec" / "facts.db"
    whole, before = path.read_bytes(), await contents(path)
    statement, done = 5, False
    while not done:
        for left in path.parent.iterdir():
            left.unlink()
        path.write_bytes(whole)
        done = await anyio.to_thread.run_sync(migrated, path, statement)
        assert await contents(path) == before
        async with SqliteVecMemoryProvider(path) as provider:
            (first, *_) = [entry for entry in await provider.changes(None) if isinstance(entry, Recorded)]
            (receipt,) = await provider.append([Append(assertion=first.assertion)])
            assert receipt.recorded == first
        assert await contents(path) == before
        assert apsw.Connection(str(path)).execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        statement += 1 if big else 13
