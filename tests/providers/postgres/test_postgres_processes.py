"""Another session that writes or holds a table: it is waited for, and a cancelled read waits no longer."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from factmem_postgres import PostgresMemoryProvider

from factmem import Memory
from factmem.errors import StoreUnavailableError
from factmem.testing import HashEmbedder
from factmem.testing.conformance.samples import CITY, PLANNER, USER, loaded_value, single
from tests.postgres import connected, postgres_address, schema_of

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])


async def test_another_writer_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    address = postgres_address(tmp_path, timeout="0.5")
    async with PostgresMemoryProvider(address) as provider:
        await provider.save(single(CITY, "Bern"), USER, PLANNER)
        with connected(address, autocommit=False) as other:
            schema = schema_of(address)
            other.execute(f'SELECT FROM "{schema}".counters FOR UPDATE'.encode())
            with pytest.raises(StoreUnavailableError, match="timeout"):
                await provider.save(single(CITY, "Basel", 1), USER, PLANNER)
            await provider.save(single(CITY, "Graz", 1), USER, PLANNER.within("acme"))
            assert await loaded_value(provider, CITY) == "Bern"
        await provider.save(single(CITY, "Basel", 1), USER, PLANNER)
        assert await loaded_value(provider, CITY) == "Basel"


async def test_a_cancelled_read_ends_its_statement_on_the_server(tmp_path: Path) -> None:
    """A table that somebody holds makes a read wait; cancelled, it neither goes on nor holds a connection."""
    address = postgres_address(tmp_path, timeout="30", pool_size="1")
    async with PostgresMemoryProvider(address) as provider:
        await provider.save(single(CITY, "Bern"), USER, PLANNER)
        with connected(address, autocommit=False) as other:
            other.execute(f'LOCK TABLE "{schema_of(address)}".assertions'.encode())
            with anyio.move_on_after(0.3) as scope:
                await provider.load(CITY, USER, PLANNER)
            assert scope.cancelled_caught
            query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
            waiting = other.execute(query, [f"{schema_of(address)}.assertions"]).fetchone()
        assert waiting == (0,)
        assert await loaded_value(provider, CITY) == "Bern"


async def test_reads_of_locked_tables_end_with_an_error_and_work_afterwards(tmp_path: Path) -> None:
    """Another session has locked them, as ``VACUUM FULL`` does."""
    address = postgres_address(tmp_path, timeout="1")
    async with Memory(address, embedder=HashEmbedder()) as memory:
        await memory.save(single(CITY, "Oslo"))
        assert len(await memory.recall("Oslo")) == 1
        with connected(address, autocommit=False) as other:
            schema = schema_of(address)
            tables = other.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]).fetchall()
            for (table,) in tables:
                other.execute(f'LOCK TABLE "{schema}"."{table}"'.encode())
            for read in (lambda: memory.recall("city"), lambda: memory.load(CITY), lambda: memory.history(CITY)):
                with pytest.raises(StoreUnavailableError, match="lock"):
                    await read()
        assert len(await memory.recall("Oslo")) == 1
