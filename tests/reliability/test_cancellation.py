"""Tasks cancelled in the middle of a save, and an event loop that nothing blocks."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from blockbuster import blockbuster_ctx

from factmem import Concept, Memory
from factmem.crypto import Passphrase
from factmem.crypto.keys import Argon2id
from factmem.testing import HashEmbedder
from tests.conftest import Promise
from tests.reliability.stores import NOON, PLANNER, USER, DurableStore, every_store

THINGS = Concept.multiple("things", "Twenty at a time, so that a part of a save would show")
FACT = THINGS.fact([f"thing {number}" for number in range(20)], timestamp=NOON)


async def values(provider: Any, person: str) -> int:
    fact = await provider.load(THINGS, USER.individual(person), PLANNER)
    return len(fact.values) if fact else 0


class Saves:
    """Three concurrent saves, each to a place of its own."""

    def __init__(self, provider: Any, number: int) -> None:
        self._provider = provider
        self.people = [f"person {number % 50} {place} of {number // 50}" for place in range(3)]
        self.unfinished = set(self.people)

    async def save(self, person: str) -> None:
        await self._provider.save(FACT, USER.individual(person), PLANNER)
        self.unfinished.discard(person)

    async def cancel(self, pause: float) -> int:
        """Start the saves, cancel them after a pause, and return the number of unfinished ones."""
        unfinished = 0
        async with anyio.create_task_group() as tasks:
            for person in self.people:
                tasks.start_soon(self.save, person)
            await anyio.sleep(pause)
            unfinished = len(self.unfinished)
            tasks.cancel_scope.cancel()
        return unfinished

    async def cancel_as_asyncio_does(self, pause: float) -> int:
        """Do the same without anyio's scopes, whose shields do not stop asyncio's cancellation."""
        tasks = [asyncio.create_task(self.save(person)) for person in self.people]
        await anyio.sleep(pause)
        unfinished = len(self.unfinished)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return unfinished

    async def check(self) -> int:
        """Check that each save is complete or absent, and complete after a retry; count the complete ones."""
        found = [await values(self._provider, person) for person in self.people]
        assert set(found) <= {0, 20}
        for person in self.people:
            await self.save(person)
            assert await values(self._provider, person) == 20
        return found.count(20)


@pytest.mark.timeout(1800)
@every_store
async def test_a_cancelled_save_is_complete_or_absent(
    store: DurableStore, tmp_path: Path, big: bool, promise: Promise, anyio_backend: str
) -> None:
    """The cancellation comes at any moment, also from asyncio itself; a retry completes the save."""
    chance = random.Random(16)
    cancelled, whole, rounds = 0, 0, 0
    async with store.open(tmp_path / "store") as provider:
        await provider.save(FACT, USER, PLANNER)
        while cancelled < (1000 if big else 25):
            saves = Saves(provider, rounds)
            natively = anyio_backend == "asyncio" and rounds % 2
            cancel = saves.cancel_as_asyncio_does if natively else saves.cancel
            cancelled += await cancel(chance.random() * 0.006)
            whole += await saves.check()
            rounds += 1
    async with store.open(tmp_path / "store") as again:
        assert len(await again.changes(None)) == 20 * (3 * rounds + 1)
    figure = f"{cancelled:,} cancelled while under way, {whole:,} of {3 * rounds:,} written all the same, 0 torn"
    promise(f"cancellations, {store}, {anyio_backend}", figure)


def test_the_first_calls_of_a_process_read_no_table_on_the_event_loop() -> None:
    program = """
import anyio
from blockbuster import blockbuster_ctx
from factmem import Concept, Memory, SingleFact
from factmem.testing import HashEmbedder

async def main():
    memory = Memory("memory:", embedder=HashEmbedder())
    with blockbuster_ctx():
        await memory.save(SingleFact(Concept.single("home_city", "Where they live"), "Oslo"))
        await memory.remember("My sister lives in Lyon.")
        await memory.recall("Where does my sister live?")
    await memory.aclose()

anyio.run(main)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # blockbuster detects blocking calls on asyncio only
@every_store
async def test_nothing_blocks_the_event_loop(store: DurableStore, tmp_path: Path, anyio_backend: str) -> None:
    """Making a store, every kind of call, recall, stretching a passphrase and closing happen in threads."""
    provider = store.open(tmp_path / "new" / "store")
    cheap = Argon2id(memory_kib=19 * 1024, passes=2, lanes=1)
    with blockbuster_ctx():
        memory = Memory(provider, embedder=HashEmbedder())
        records = await memory.save(FACT, subject=USER, scope=PLANNER)
        assert await memory.recall("thing 7", scope=PLANNER)
        assert await provider.load(THINGS, USER, PLANNER) == FACT
        assert len(await provider.changes(None)) == len((await provider.vectors(None))[0]) == 20
        await memory.forget(records[0].id)
        if store.name.startswith("encrypted"):
            await provider.rotate(Passphrase("plum lantern orbit velvet", cost=cheap))
        assert await provider.version(None) >= 21
        await provider.aclose()
