"""Restoring undoes the last retraction, and raises before any write if a record cannot be restored."""

from __future__ import annotations

import datetime as dt

import pytest

from factmem import AgentMemoryProvider, Concept, Memory, MultipleFacts, SingleFact
from factmem.errors import RecordNotFoundError
from factmem.records import FactDetails, FactRecord
from factmem.testing import FakeClock
from tests.memory.telling import PETS, log_of

NUMBER = Concept.single("number", "a number", int)
DAY = dt.timedelta(days=1)


async def saved(memory: Memory, *numbers: int) -> list[FactRecord[int]]:
    start = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
    return [
        record
        for number in numbers
        for record in await memory.save(SingleFact(NUMBER, number, timestamp=start + number * DAY))
    ]


async def number(memory: Memory) -> int | None:
    fact = await memory.load(NUMBER)
    return None if fact is None else fact.value


@pytest.mark.parametrize("reason", [None, "a mistake"])
@pytest.mark.parametrize("back_to", [0, 1])
async def test_what_was_rolled_back_before_stays_so(memory: Memory, back_to: int, reason: str | None) -> None:
    """Neither the order of the revisions nor an equal reason of both changes makes a difference."""
    revisions = await saved(memory, 1, 2, 3)
    await memory.rollback(revisions[back_to], reason=reason)
    await memory.retract(revisions[0].id, reason=reason)
    assert await number(memory) is None
    (change,) = await memory.restore(revisions[0].id)
    assert change.record.value == await number(memory) == back_to + 1


async def test_all_that_one_retraction_took_comes_back(memory: Memory) -> None:
    """Statements made since the first retraction are not part of it."""
    record, *_ = await saved(memory, 1, 2)
    await memory.retract(record.id)
    await memory.restore(record.id)
    assert await number(memory) == 2
    await memory.rollback(record)
    assert await number(memory) == 1


async def test_what_was_retracted_before_it_was_said_anew_stays_so(memory: Memory) -> None:
    record, *_ = await saved(memory, 1, 3)
    await memory.retract(record.id)
    await saved(memory, 2)
    await memory.retract(record.id)
    await memory.restore(record.id)
    assert await number(memory) == 2


async def test_what_was_restored_is_not_restored_twice(memory: Memory) -> None:
    revisions = await saved(memory, 1, 2)
    await memory.rollback(revisions[0])
    await memory.retract(revisions[0].id)
    await memory.restore(revisions[0].id)
    with pytest.raises(RecordNotFoundError):
        await memory.restore(revisions[0].id)
    assert await number(memory) == 1


async def test_a_record_that_has_expired_is_left_as_it_is(
    provider: AgentMemoryProvider, memory: Memory, clock: FakeClock
) -> None:
    """Nothing is written, neither the record nor those restored with it."""
    expiring = FactDetails(expires_at=clock() + DAY)
    cat, dog = [
        record
        for pet, details in (("cat", expiring), ("dog", FactDetails()))
        for record in await memory.save(MultipleFacts(PETS, (pet,), timestamp=clock()), details=details)
    ]
    await memory.retract(cat.id, dog.id)
    clock.advance(2 * DAY)
    before = await log_of(provider)
    with pytest.raises(RecordNotFoundError, match="expired"):
        await memory.restore(cat.id, dog.id)
    assert await log_of(provider) == before
    assert await memory.list_records() == []


async def test_a_value_that_another_record_has_by_now_is_not_restored(
    provider: AgentMemoryProvider, memory: Memory, clock: FakeClock
) -> None:
    (dog,) = await memory.save(MultipleFacts(PETS, ("dog",), timestamp=clock()))
    (cat,) = await memory.save(MultipleFacts(PETS, ("cat",), timestamp=clock() + dt.timedelta(minutes=2)))
    await memory.retract(cat.id)
    await memory.update(dog.id, value="cat")
    before = await log_of(provider)
    with pytest.raises(RecordNotFoundError, match="another record"):
        await memory.restore(cat.id)
    assert await log_of(provider) == before


async def test_restoring_nothing_does_nothing(provider: AgentMemoryProvider, memory: Memory) -> None:
    assert await memory.restore() == ()
    assert (await log_of(provider))[0] == []
    with pytest.raises(RecordNotFoundError):
        await memory.restore("nowhere")
