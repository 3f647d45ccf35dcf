"""Tables that another session has locked, as ``VACUUM FULL`` does: reads end by themselves, and can be cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from psycopg import sql

from factmem import Concept, Memory, SingleFact
from factmem.errors import StoreUnavailableError
from factmem.testing import HashEmbedder
from tests.postgres import connected, postgres_address

CITY = Concept.single("city", "Where the user lives")

# The server ends these waits, whatever the event loop; that a wait is cancelled is tested on both.
on_one_loop = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@contextmanager
def locked(address: str) -> Iterator[None]:
    """Hold every table of a store."""
    schema = parse_qs(urlsplit(address).query)["schema"][0]
    with connected(address) as connection, connection.transaction():
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]).fetchall()
        for (table,) in tables:
            lock = sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE")
            connection.execute(lock.format(sql.Identifier(schema, table)))
        yield


@on_one_loop
async def test_reads_of_locked_tables_end_with_an_error_and_work_afterwards(tmp_path: Path) -> None:
    address = postgres_address(tmp_path, timeout="1")
    async with Memory(address, embedder=HashEmbedder()) as memory:
        await memory.save(SingleFact(CITY, "Oslo"))
        assert len(await memory.recall("Oslo")) == 1
        with locked(address):
            for read in (lambda: memory.recall("city"), lambda: memory.load(CITY), lambda: memory.history(CITY)):
                with pytest.raises(StoreUnavailableError, match="lock"):
                    await read()
        assert len(await memory.recall("Oslo")) == 1
