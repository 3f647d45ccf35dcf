"""A server that is killed again and again under load: nothing acknowledged is lost, and nobody opens anything anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, LiteralString
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import pytest

from factmem import Concept, Memory, MemoryScope, MemorySubject, MultipleFacts, SingleFact
from factmem.errors import ReadOnlyError, StoreUnavailableError
from factmem.testing import HashEmbedder
from tests.conftest import Promise
from tests.narrowing import not_none
from tests.postgres import connected, own_server
from tests.postgres_server import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

NUMBERS = Concept.multiple("numbers", "One a save", int)
USER = MemorySubject("user")
WRITERS = 8
BETWEEN_KILLS = 40
"""Number of saves that are acknowledged before the server is killed again."""


class _Work:
    """Writers that save one number after another, each until it is acknowledged."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.acknowledged: list[int] = []
        self.refused = 0
        self.done = False
        self._another = anyio.Event()

    async def write(self, writer: int) -> None:
        scope, number = MemoryScope.agent(f"{writer % 3}"), writer
        while not self.done:
            try:
                await self._memory.save(MultipleFacts(NUMBERS, (number,)), subject=USER, scope=scope)
            except StoreUnavailableError:  # of any other error, this test fails
                self.refused += 1
                continue
            self.acknowledged.append(number)
            self._another.set()
            number += WRITERS

    async def more(self, count: int) -> None:
        """Wait until so many more saves are acknowledged."""
        wanted = len(self.acknowledged) + count
        while len(self.acknowledged) < wanted:
            self._another = anyio.Event()
            await self._another.wait()


@pytest.mark.timeout(0)
async def test_a_killed_server_loses_nothing_that_was_acknowledged(
    durable_server: PostgresServer, address: str, big: bool, promise: Promise
) -> None:
    kills = 100 if big else 2
    async with Memory(address, embedder=HashEmbedder()) as memory:
        work = _Work(memory)
        async with anyio.create_task_group() as tasks:
            for writer in range(WRITERS):
                tasks.start_soon(work.write, writer)
            for _ in range(kills):
                await work.more(BETWEEN_KILLS)
                durable_server.kill()
                await anyio.to_thread.run_sync(durable_server.start)
            await work.more(BETWEEN_KILLS)
            work.done = True
        kept: list[int] = []
        for agent in range(3):
            fact = not_none(await memory.load(NUMBERS, subject=USER, scope=MemoryScope.agent(f"{agent}")))
            kept += fact.values
    assert set(work.acknowledged) - set(kept) == set()
    assert len(kept) == len(set(kept))
    promise(
        "killed PostgreSQL servers",
        f"{kills} kills, {len(work.acknowledged)} saves acknowledged: 0 lost, {work.refused} typed errors",
    )


async def test_a_server_that_stays_away_is_reported_and_used_again_when_it_is_back(
    durable_server: PostgresServer, address: str
) -> None:
    async with Memory(address.replace("timeout=60", "timeout=1"), embedder=HashEmbedder()) as memory:
        oslo = SingleFact(Concept.single("city", "Where"), "Oslo")
        await memory.save(oslo, subject=USER)
        durable_server.kill()
        calls: list[Callable[[], object]] = [lambda: memory.save(oslo, subject=USER), lambda: memory.recall("Oslo")]
        try:
            for call in calls:
                with pytest.raises(StoreUnavailableError) as refused:
                    await call()  # type: ignore[misc]
                assert "Oslo" not in str(refused.value)
        finally:
            await anyio.to_thread.run_sync(durable_server.start)
        assert await memory.recall("Oslo")


# A standby answers reads, and takes the place of a primary that is gone: nobody opens anything anew.


if TYPE_CHECKING:
    from psycopg.sql import Composed


CITY = Concept.single("city", "Where somebody lives")


@pytest.fixture
def servers() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A primary, and a standby that has what the primary acknowledges."""
    with own_server() as primary, PostgresServer(standby_of=primary) as standby:
        with connected(primary.address()) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("ALTER SYSTEM SET synchronous_commit = 'remote_apply'")
            connection.execute("SELECT pg_reload_conf()")
        yield primary, standby


def _of_both(*servers: PostgresServer) -> str:
    hosts = [parse_qs(urlsplit(server.address()).query)["host"][0] for server in servers]
    return servers[0].address(host=",".join(hosts), target_session_attrs="read-write", timeout="60")


async def _save(memory: Memory, number: int) -> None:
    await memory.save(MultipleFacts(NUMBERS, (number,)), subject=USER)


async def test_a_memory_goes_on_with_the_standby_that_is_promoted(
    servers: tuple[PostgresServer, PostgresServer],
) -> None:
    primary, standby = servers
    async with Memory(_of_both(*servers), embedder=HashEmbedder()) as memory:
        for number in range(20):
            await _save(memory, number)
        await memory.remember("The cellar is cold.")
        assert await memory.recall("cellar")
        primary.kill()
        await anyio.to_thread.run_sync(standby.promote)
        for number in range(20, 40):
            await _save(memory, number)
        assert not_none(await memory.load(NUMBERS, subject=USER)).values == tuple(range(40))
        assert [match.record.value for match in await memory.recall("cellar", limit=1)] == ["The cellar is cold."]


async def test_a_standby_answers_reads_and_refuses_writes(servers: tuple[PostgresServer, PostgresServer]) -> None:
    primary, standby = servers
    async with Memory(primary.address(), embedder=HashEmbedder()) as memory:
        await memory.remember("The cellar is cold.")
    async with Memory(standby.address(), embedder=HashEmbedder(), read_only=True) as memory:
        assert await memory.recall("cellar")
        async with Memory(primary.address(), embedder=HashEmbedder()) as writer:
            await writer.remember("The cellar is damp.")
        assert len(await memory.recall("cellar")) == 2
    async with Memory(standby.address(), embedder=HashEmbedder()) as memory:
        with pytest.raises(ReadOnlyError, match="primary"):
            await memory.remember("The cellar is dry.")


def _sql(text: LiteralString, *names: str) -> Composed:
    from psycopg import sql

    return sql.SQL(text).format(*map(sql.Identifier, names))


@pytest.mark.parametrize("since", [0, 1, 4], ids=["nobody wrote since", "less than was lost", "more than was lost"])
async def test_an_open_memory_follows_a_history_that_lost_its_end(address: str, since: int) -> None:
    """After a restored dump, or a failover to a standby that lacked the last commits, it forgets what is gone."""
    schema = parse_qs(urlsplit(address).query)["schema"][0]
    async with Memory(address, embedder=HashEmbedder()) as memory:
        await memory.save(SingleFact(CITY, "Porto"), subject=USER)
        with connected(address) as connection:
            tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
            names = [name for (name,) in tables]
            for name in names:
                connection.execute(_sql("CREATE TEMP TABLE {0} AS TABLE {1}.{0}", name, schema))
            for number in range(3):
                await memory.save(SingleFact(CITY, f"lost {number}"), subject=USER)
            assert await memory.recall("lost")
            with connection.transaction():
                for name in names:
                    connection.execute(_sql("DELETE FROM {1}.{0}", name, schema))
                    connection.execute(_sql("INSERT INTO {1}.{0} TABLE pg_temp.{0}", name, schema))
        async with Memory(address, embedder=HashEmbedder()) as other:
            for number in range(since):
                await other.save(SingleFact(CITY, f"new {number}"), subject=USER)
            expected = ["Porto", *(f"new {number}" for number in range(since))]
            for each in (memory, other):
                assert [record.value for record in await each.history(CITY, subject=USER)] == expected
                assert [match.record.value for match in await each.recall("lost")] == expected[-1:]


async def test_a_memory_whose_schema_was_dropped_begins_anew(address: str) -> None:
    async with Memory(address, embedder=HashEmbedder()) as memory:
        await memory.save(SingleFact(CITY, "Porto"), subject=USER)
        assert await memory.recall("Porto")
        with connected(address) as connection:
            connection.execute(_sql("DROP SCHEMA {} CASCADE", parse_qs(urlsplit(address).query)["schema"][0]))
        assert await memory.load(CITY, subject=USER) is None
        await memory.save(SingleFact(CITY, "Faro"), subject=USER)
        assert [match.record.value for match in await memory.recall("city")] == ["Faro"]
