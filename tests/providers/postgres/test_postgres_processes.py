"""Several processes write, and one follows the feed by polling: it misses nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from factmem_postgres import PostgresMemoryProvider

from factmem.errors import StoreUnavailableError
from factmem.records import Recorded
from factmem.testing.conformance.samples import CITY, PLANNER, USER, loaded_value, single
from tests.conftest import Promise
from tests.postgres import connected, postgres_address, schema_of

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])

PROCESSES = 4
WRITERS = 8


@pytest.mark.processes
@pytest.mark.timeout(0)
async def test_a_polling_reader_misses_nothing_that_others_write(tmp_path: Path, big: bool, promise: Promise) -> None:
    each = 2500 if big else 80
    address = postgres_address(tmp_path, timeout="60")
    program = [sys.executable, str(Path(__file__).with_name("writing_process.py")), address]
    seen: list[int] = []
    polls = 0
    async with PostgresMemoryProvider(address) as provider:
        started = [_started(*program, str(n * each), str(each), str(WRITERS)) for n in range(PROCESSES)]
        running = True
        while running:
            running = any(process.poll() is None for process in started)
            entries = await provider.changes(None, max(seen, default=0))
            seen += [entry.seq for entry in entries]
            polls += 1
            await anyio.sleep(0.001)
        acknowledged = {int(line) for process in started for line in process.communicate()[0].split()}
        kept = [entry.assertion.data for entry in await provider.changes(None) if isinstance(entry, Recorded)]
    assert [process.returncode for process in started] == [0] * PROCESSES
    assert acknowledged == set(range(PROCESSES * each))
    assert sorted(kept) == sorted(acknowledged)
    assert seen == list(range(1, PROCESSES * each + 1))
    promise(
        "polling the feed of PostgreSQL",
        f"{PROCESSES} processes x {WRITERS} writers, {len(kept)} rows, {polls} polls: 0 missed, 0 lost",
    )


def _started(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


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
