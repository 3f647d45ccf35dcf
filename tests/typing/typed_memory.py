"""Checked but never run: the type of a concept's values passes through a provider in both directions."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal, assert_type

from factmem import BlockingMemory, Memory
from factmem.abc.provider import AgentMemoryProvider
from factmem.facts import STATEMENT, Concept, Fact, MultipleConcept, MultipleFacts, SingleConcept, SingleFact
from factmem.fold import Current
from factmem.providers import fact_of
from factmem.records import FactRecord, Recorded, record_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import check_value, decode_value

SEATS = Concept.single("seats", "How many seats", int)
CITY = Concept.single("city", "Where the person lives")
TAGS = Concept.multiple("tags", "Labels")
MEAL = Concept.single("meal", "What they eat", Literal["fish", "meat"])
FLOORS = Concept.multiple("floors", "Floors that would do", int | None)
BIRTHDAYS = Concept.multiple("birthdays", "Birthdays in the family", dt.date)
USER = MemorySubject("user")
AGENT = MemoryScope.agent("a")
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)

assert_type(SEATS, SingleConcept[int])
assert_type(CITY, SingleConcept[str])
assert_type(TAGS, MultipleConcept[str])
assert_type(BIRTHDAYS, MultipleConcept[dt.date])
assert_type(MEAL, SingleConcept[Literal["fish", "meat"]])
assert_type(FLOORS, MultipleConcept[int | None])
assert_type(STATEMENT, MultipleConcept[str])
assert_type(SEATS.value_type, type[int])

assert_type(SingleFact(SEATS, 4), SingleFact[int])
assert_type(SingleFact(SEATS, 4).value, int)
assert_type(SingleFact(SEATS, 4).values, tuple[int, ...])
assert_type(MultipleFacts(TAGS, ("a",)).values, tuple[str, ...])
assert_type(MultipleFacts(TAGS, ["a"]).values, tuple[str, ...])
assert_type(SEATS.fact([4], timestamp=NOON), SingleFact[int])
assert_type(BIRTHDAYS.fact([NOON.date()], timestamp=NOON), MultipleFacts[dt.date])
assert_type(SingleFact(MEAL, "fish").value, Literal["fish", "meat"])
assert_type(MultipleFacts(FLOORS, [2, None]).values, tuple[int | None, ...])
assert_type(decode_value(4, int), int)
assert_type(check_value("x", str), str)


async def out_of(provider: AgentMemoryProvider) -> None:
    assert_type(await provider.load(SEATS, USER, AGENT), SingleFact[int] | None)
    assert_type(await provider.load(TAGS, USER, AGENT), MultipleFacts[str] | None)
    seats = await provider.load(SEATS, USER, AGENT)
    if seats is not None:
        assert_type(seats.value, int)
        await provider.save(SingleFact(SEATS, seats.value + 1), USER, AGENT)
    for fact in await provider.load_all(USER, AGENT):
        assert_type(fact, Fact[Any])
        assert_type(fact.timestamp, dt.datetime)


async def remembered_by(memory: Memory) -> None:
    assert_type(await memory.load(SEATS, subject="user:alice"), SingleFact[int] | None)
    assert_type(await memory.history(SEATS), list[FactRecord[int]])
    assert_type(await memory.history("seats"), list[FactRecord[Any]])
    assert_type(await memory.save(SingleFact(SEATS, 4)), tuple[FactRecord[int], ...])
    await memory.save_many([SingleFact(SEATS, 4), (MultipleFacts(TAGS, ["a"]), USER, None)])
    assert_type(await memory.save(MultipleFacts(BIRTHDAYS, (NOON.date(),))), tuple[FactRecord[dt.date], ...])
    await memory.list_records(concepts=[SEATS, TAGS, "city"])


def saved_by(memory: BlockingMemory, fact: Fact[int]) -> None:
    assert_type(memory.save(SingleFact(SEATS, 4)), tuple[FactRecord[int], ...])
    assert_type(memory.save(fact), tuple[FactRecord[int], ...])


def read_with(recorded: Recorded, current: Current) -> None:
    assert_type(record_of(recorded, SEATS), FactRecord[int])
    assert_type(record_of(recorded, SEATS).value, int)
    assert_type(fact_of(BIRTHDAYS, [current]), MultipleFacts[dt.date])


def of_any_type(concept: SingleConcept[int] | MultipleConcept[int]) -> None:
    fact = concept.fact([1], timestamp=NOON)
    assert_type(fact, SingleFact[int] | MultipleFacts[int])
    assert_type(fact.values, tuple[int, ...])
