"""Checked but never run: each marked line is a mistake that a checker must report.

An unneeded ignore is an error itself, so that an undetected mistake fails the check.
"""

from __future__ import annotations

from typing import Literal

from factmem import Memory
from factmem.abc.provider import AgentMemoryProvider
from factmem.facts import Concept, MultipleFacts, SingleFact
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

SEATS = Concept.single("seats", "How many seats", int)
TAGS = Concept.multiple("tags", "Labels")
MEAL = Concept.single("meal", "What they eat", Literal["fish", "meat"])
USER = MemorySubject("user")
AGENT = MemoryScope.agent("a")

wrong_value = SingleFact(SEATS, "four")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
wrong_values = MultipleFacts(TAGS, (1, 2))  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
wrong_listed = MultipleFacts(TAGS, [1])  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
multiple_of_single = MultipleFacts(SEATS, (4,))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
single_of_multiple = SingleFact(TAGS, "a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
no_option = SingleFact(MEAL, "stones")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
no_string = Concept.single("seats", 5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
SEATS.keyword = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


async def save(memory: Memory) -> None:
    await memory.save(SingleFact(SEATS, "many"))  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await memory.save_many([SingleFact(SEATS, "many")])  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await memory.save_many([(SingleFact(SEATS, "many"), USER, None)])  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await memory.save_many([5])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    await memory.save(MultipleFacts(TAGS, (1,)))  # type: ignore[misc]  # pyright: ignore[reportArgumentType]


async def use(provider: AgentMemoryProvider) -> None:
    seats = await provider.load(SEATS, USER, AGENT)
    print(seats.value)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    if seats is not None:
        as_text: str = seats.value  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
        seats.value = 5  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
        print(as_text)
    tags = await provider.load(TAGS, USER, AGENT)
    if tags is not None:
        print(tags.value)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    await provider.save(SEATS, USER, AGENT)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await provider.load("seats", USER, AGENT)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await provider.load(SEATS, AGENT, USER)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
