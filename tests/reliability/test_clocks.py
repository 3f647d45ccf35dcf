"""Clocks that jump: nothing is lost, nothing is numbered twice, and what was said last is what counts."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

from factmem import Memory
from factmem.facts import Concept
from factmem.testing import FakeClock, HashEmbedder
from tests.conftest import Promise
from tests.reliability.stores import CITY, NOON, NUMBERS, PLANNER, USER, DurableStore, durable_stores

TOWNS = Concept.multiple("towns", "Where the person has been")


@durable_stores
async def test_a_clock_that_jumps_between_saves_changes_no_answer(
    store: DurableStore, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """Back and forth by minutes and decades; every other save is made by a provider that was opened anew."""
    chance, clock, count = random.Random(17), FakeClock(), 200 if big else 16
    provider = store.open(tmp_path / "store", clock=clock)
    for number in range(count):
        clock.set(NOON + dt.timedelta(seconds=chance.choice([1, 10**5, 10**9]) * chance.uniform(-1, 1)))
        said = NOON + dt.timedelta(minutes=number)
        await provider.save(CITY.fact([f"city {number}"], timestamp=said), USER, PLANNER)
        await provider.save(TOWNS.fact([f"town {number}"], timestamp=said), USER, PLANNER)
        if number % 2:
            await provider.aclose()
            provider = store.open(tmp_path / "store", clock=clock)
        city = await provider.load(CITY, USER, PLANNER)
        towns = await provider.load(TOWNS, USER, PLANNER)
        assert city == CITY.fact([f"city {number}"], timestamp=said)
        assert list(towns.values) == [f"town {known}" for known in range(number + 1)]
    changes = await provider.changes(None)
    assert [entry.seq for entry in changes] == list(range(1, 2 * count + 1))
    assert len({entry.id for entry in changes}) == 2 * count
    await provider.aclose()
    promise(f"clock jumps, {store}", f"{count} jumps of up to 30 years: 0 facts lost, 0 answers changed")


@durable_stores
async def test_a_memory_whose_clock_was_set_back_goes_on(store: DurableStore, tmp_path: Path) -> None:
    """Facts saved before the clock was set back, now in the future, are kept, and so are facts saved afterwards."""
    clock = FakeClock(NOON)
    async with Memory(store.open(tmp_path / "store", clock=clock), embedder=HashEmbedder(), clock=clock) as memory:
        for number, jump in enumerate([0, 400, -3000, 2]):
            clock.advance(dt.timedelta(days=jump))
            await memory.save(NUMBERS.fact([f"{number}"], timestamp=clock()), subject=USER, scope=PLANNER)
            known = await memory.load(NUMBERS, subject=USER, scope=PLANNER)
            assert known is not None
            assert set(known.values) == {f"{said}" for said in range(number + 1)}
        found = await memory.recall("numbers", scope=PLANNER)
        assert all(0 <= hit.score <= 1 for hit in found)
