"""History: as-of, known-at, retract and restore, forget."""

from __future__ import annotations

import datetime as dt

import pytest

from factmem import Concept, Memory, MemorySubject, MultipleFacts, SingleFact
from factmem.errors import InvalidDataError

CITY = Concept.single("city", "Where the user lives")
USER = MemorySubject("user", priority_level=1)
MARCH = dt.datetime(2025, 3, 1, tzinfo=dt.UTC)
JUNE = dt.datetime(2025, 6, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


async def city(memory: Memory) -> str | None:
    fact = await memory.load(CITY, subject=USER)
    return fact.value if fact else None


async def test_a_time_without_a_zone_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidDataError, match="zone"):
        memory.view(as_of=dt.datetime(2025, 1, 1))
    with pytest.raises(InvalidDataError, match="zone"):
        await memory.recall("x", since=dt.datetime(2025, 1, 1))


async def test_the_filters_of_forget_combine_and_an_empty_one_is_an_error(memory: Memory) -> None:
    words = Concept.multiple("words", "Words")
    await memory.save(MultipleFacts(words, ("old",), timestamp=MARCH), scope="/product/a")
    await memory.save(MultipleFacts(words, ("new",), timestamp=JUNE), scope="/product/a")
    await memory.save(MultipleFacts(words, ("old",), timestamp=MARCH), scope="/product/ab")
    await memory.forget(scope="/product/a", until=MARCH + DAY)
    assert {(record.value, str(record.scope)) for record in await memory.list_records()} == {
        ("new", "/product/a"),
        ("old", "/product/ab"),
    }
    for nothing in (memory.forget(), memory.forget(exact=True), memory.forget(concepts=[])):
        with pytest.raises(InvalidDataError, match="what to forget"):
            await nothing
    assert len(await memory.list_records()) == 2


async def test_what_would_be_forgotten_is_what_is_forgotten_whatever_its_state(memory: Memory) -> None:
    (kept,) = await memory.save(SingleFact(CITY, "Porto", timestamp=JUNE), subject=USER)
    (taken_back,) = await memory.remember("We meet at the harbour.")
    await memory.retract(taken_back.id)
    doomed = await memory.forget(concepts=["statement"], dry_run=True)
    assert [(record.id, record.state.value) for record in doomed] == [(taken_back.id, "retracted")]
    assert (await memory.forget(concepts=["statement"])).erased == 1
    assert not await memory.forget(concepts=["statement"], dry_run=True)
    assert [record.id for record in await memory.list_records()] == [kept.id]
