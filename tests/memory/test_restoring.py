"""Restoring undoes the last retraction, and raises before any write if a record cannot be restored."""

from __future__ import annotations

import datetime as dt

import pytest

from factmem import AgentMemoryProvider, Concept, Memory, MultipleFacts
from factmem.errors import RecordNotFoundError
from factmem.records import FactDetails
from factmem.testing import FakeClock
from tests.memory.telling import PETS, log_of

NUMBER = Concept.single("number", "a number", int)
DAY = dt.timedelta(days=1)


async def number(memory: Memory) -> int | None:
    fact = await memory.load(NUMBER)
    return None if fact is None else fact.value


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
