"""A server that is killed again and again under load: nothing acknowledged is lost, and nobody opens anything anew."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.to_thread
import pytest

from factmem import Concept, Memory, MemoryScope, MemorySubject, MultipleFacts, SingleFact
from factmem.errors import StoreUnavailableError
from factmem.testing import HashEmbedder
from tests.conftest import Promise
from tests.narrowing import not_none
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
    async with Memory(address.replace("timeout=20", "timeout=1"), embedder=HashEmbedder()) as memory:
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
