"""Clocks that jump: nothing is lost, no number is used twice, and the latest statement is current."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from factmem import InMemoryProvider, Memory, Message
from factmem.facts import ClockTime, Concept, MultipleFacts, SingleFact
from factmem.records import AssertionState, Recorded
from factmem.testing import FakeClock, HashEmbedder
from tests.conftest import Promise
from tests.narrowing import not_none
from tests.reliability.stores import CITY, EVERY_STORE, NOON, PLANNER, USER, DurableStore, every_store

TOWNS = Concept.multiple("towns", "Where the person has been")


@every_store
async def test_a_clock_that_jumps_between_saves_changes_no_answer(
    store: DurableStore, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """The clock jumps by minutes and decades in both directions; a newly opened provider makes every other save."""
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


CLOCKS = [DurableStore("memory", "memory:"), *EVERY_STORE]
any_store = pytest.mark.parametrize("store", CLOCKS, ids=str)


def opened(store: DurableStore, path: Path, clock: FakeClock) -> Any:
    return InMemoryProvider(clock=clock) if store.name == "memory" else store.open(path, clock=clock)


@any_store
async def test_what_is_saved_after_the_clock_stepped_back_is_current(
    store: DurableStore, tmp_path: Path, caplog: pytest.LogCaptureFixture, promise: Promise
) -> None:
    """Assigned times are never earlier than the latest of the store, and the program is warned once."""
    clock = FakeClock(NOON)
    provider = opened(store, tmp_path / "store", clock)
    for number, minutes in enumerate((0, -60, -30, -90, 10, 5)):
        clock.set(NOON + dt.timedelta(minutes=minutes))
        if store.name != "memory" and number == 2:
            await provider.aclose()
            provider = opened(store, tmp_path / "store", clock)
        fact = CITY.fact([f"city {number}"], timestamp=ClockTime.of(clock()))
        for _ in range(2):  # the repeated save changes nothing
            await provider.save(fact, USER, PLANNER)
        found = await provider.load(CITY, USER, PLANNER)
        assert found.values == (f"city {number}",)
    recorded = [entry for entry in await provider.changes(None) if isinstance(entry, Recorded)]
    assert [entry.assertion.data for entry in recorded] == [f"city {number}" for number in range(6)]
    times = [entry.recorded_at for entry in recorded]
    assert times == sorted(times)
    assert [entry.assertion.timestamp for entry in recorded] == times
    await provider.aclose()
    warned = [record for record in caplog.records if "the clock is" in record.getMessage()]
    assert len(warned) == (1 if store.name == "memory" else 2)  # once for each opening
    assert f"the clock is 1:00:00 behind {NOON:%Y-%m-%d %H:%M:%S}+00:00, the newest time" in warned[0].getMessage()
    promise(f"clock steps back, {store}", f"{len(recorded)} saves: each current, recorded times in order, warned once")


@any_store
@pytest.mark.parametrize("minutes", [0, -5], ids=["stands still", "stepped back"])
async def test_a_value_that_comes_back_is_current_although_the_clock_gives_one_time_twice(
    store: DurableStore, tmp_path: Path, minutes: int
) -> None:
    clock = FakeClock(NOON)
    provider = opened(store, tmp_path / "store", clock)
    async with Memory(provider, clock=clock, embedder=HashEmbedder()) as memory:
        for number, town in enumerate(("Bern", "Genf", "Bern", "Genf", "Bern")):
            (saved,) = await memory.save(SingleFact(CITY, town))
            assert saved.state is AssertionState.ACTIVE
            assert not_none(await memory.load(CITY)).value == town, number
            clock.set(NOON + dt.timedelta(minutes=minutes))
        assert [record.value for record in await memory.history(CITY)] == ["Bern", "Genf", "Bern", "Genf", "Bern"]
        assert {record.timestamp for record in await memory.history(CITY)} == {NOON}
        towns = MultipleFacts(TOWNS, ["Bern"])
        for _ in range(2):
            (record,) = await memory.save(towns)
            await memory.retract(record.id)
            (again,) = await memory.save(towns)
            assert (again.id, again.state) == (record.id, AssertionState.ACTIVE)
            assert not_none(await memory.load(TOWNS)).values == ("Bern",)
        for _ in range(2):  # what somebody dated is the same fact, whatever came between
            for town in ("Lugano", "Chur"):
                await memory.save(SingleFact(CITY, town, timestamp=NOON - dt.timedelta(days=1)))
        assert len(await memory.history(CITY)) == 7
    await provider.aclose()


@any_store
async def test_one_tenant_with_another_clock_dates_nothing_of_the_others(store: DurableStore, tmp_path: Path) -> None:
    """A store has a newest time of each organization; reopened, and with a provider that both share."""
    clock = FakeClock(NOON)
    provider = opened(store, tmp_path / "store", clock)
    for days in (9_000, 0, 1):
        clock.set(NOON + dt.timedelta(days=days))
        async with Memory(provider, organization=f"plan {days > 1}", clock=clock, embedder=HashEmbedder()) as memory:
            (saved,) = await memory.save(SingleFact(CITY, f"city {days}"))
            assert (saved.timestamp, saved.recorded_at) == (clock(), clock())
        if store.name != "memory":
            await provider.aclose()
            provider = opened(store, tmp_path / "store", clock)
    await provider.aclose()


@any_store
async def test_a_time_that_somebody_gave_is_kept_while_the_clock_is_behind(store: DurableStore, tmp_path: Path) -> None:
    clock = FakeClock(NOON)
    provider = opened(store, tmp_path / "store", clock)
    await provider.save(CITY.fact(["Bern"], timestamp=NOON), USER, PLANNER)
    clock.advance(dt.timedelta(hours=-1))
    for days in (2, 1):
        await provider.save(CITY.fact([f"city {days}"], timestamp=NOON - dt.timedelta(days=days)), USER, PLANNER)
    said = [entry.assertion.timestamp for entry in await provider.changes(None) if isinstance(entry, Recorded)]
    assert said == [NOON, NOON - dt.timedelta(days=2), NOON - dt.timedelta(days=1)]
    await provider.aclose()


@every_store
async def test_processes_share_the_newest_time(store: DurableStore, tmp_path: Path) -> None:
    """An open process uses times after those recorded by another one."""
    clock = FakeClock(NOON)
    async with opened(store, tmp_path / "store", clock) as one, opened(store, tmp_path / "store", clock) as other:
        await one.save(CITY.fact(["Bern"], timestamp=ClockTime.of(clock())), USER, PLANNER)
        clock.advance(dt.timedelta(minutes=10))
        await other.save(CITY.fact(["Genf"], timestamp=ClockTime.of(clock())), USER, PLANNER)
        clock.advance(dt.timedelta(minutes=-30))
        await one.save(CITY.fact(["Chur"], timestamp=ClockTime.of(clock())), USER, PLANNER)
        assert (await other.load(CITY, USER, PLANNER)).values == ("Chur",)


@any_store
async def test_a_memory_recalls_what_was_said_last_although_the_clock_stepped_back(
    store: DurableStore, tmp_path: Path
) -> None:
    clock = FakeClock(NOON)
    provider = opened(store, tmp_path / "store", clock)
    async with Memory(provider, clock=clock, embedder=HashEmbedder()) as memory:
        saved = await memory.save(SingleFact(CITY, "Bern", timestamp=ClockTime.of(clock())), subject=USER)
        clock.advance(dt.timedelta(hours=-2))
        await memory.save(SingleFact(CITY, "Genf", timestamp=ClockTime.of(clock())), subject=USER)
        await memory.update(saved[0].id, value="Chur")
        assert not_none(await memory.load(CITY, subject=USER)).value == "Chur"
        await memory.remember("The venue has 120 seats.")
        matches = await memory.recall("How many seats does the venue have?")
        assert matches[0].record.value == "The venue has 120 seats."
    await provider.aclose()


def test_a_fact_without_a_time_has_one_that_the_clock_gave() -> None:
    fact = SingleFact(CITY, "Bern")
    assert isinstance(fact.timestamp, ClockTime)
    assert repr(fact.timestamp).startswith("datetime.datetime(")
    assert not isinstance(SingleFact(CITY, "Bern", timestamp=NOON).timestamp, ClockTime)


async def test_a_time_that_is_handed_out_or_computed_counts_as_given() -> None:
    clock, day = FakeClock(NOON), dt.timedelta(days=1)
    async with Memory("memory:", clock=clock, embedder=HashEmbedder()) as memory:
        (today,) = await memory.save(SingleFact(CITY, "Bern"))
        (heard,) = await memory.remember("The venue has 120 seats.")
        loaded = not_none(await memory.load(CITY))
        clock.advance(day)
        for time in (today.timestamp, heard.timestamp, loaded.timestamp):
            assert type(time) is dt.datetime
        await memory.save(SingleFact(CITY, "Genf", timestamp=today.timestamp - day))
        assert not_none(await memory.load(CITY)).value == "Bern"
        (said,) = await memory.remember(Message(content="I had the flu.", timestamp=heard.timestamp - day))
        assert said.timestamp == NOON - day
        for record in reversed(await memory.history(CITY)):
            await memory.save(record.fact, subject="copy")
        assert not_none(await memory.load(CITY, subject="copy")).value == "Bern"


@pytest.mark.parametrize(
    "computed",
    [
        lambda it: it - dt.timedelta(0),
        lambda it: dt.timedelta(0) + it,
        lambda it: it.replace(second=0),
        lambda it: it.astimezone(dt.timezone(dt.timedelta(hours=1))),
        copy.deepcopy,
        lambda it: pickle.loads(pickle.dumps(it)),
        lambda it: type(it).fromisoformat(it.isoformat()),
    ],
    ids=["difference", "sum", "replace", "astimezone", "copy", "pickle", "text"],
)
def test_what_is_computed_from_the_time_of_a_clock_is_a_plain_time(computed: Callable[[Any], dt.datetime]) -> None:
    time = ClockTime.of(NOON)
    assert computed(time) == NOON
    assert type(computed(time)) is dt.datetime
