"""What is easily written wrong is refused with a word of what to write, and never taken for something else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from factmem import InMemoryProvider, Memory, Message, SingleFact
from factmem.errors import InvalidDataError
from factmem.testing import HashEmbedder
from tests.memory.telling import CITY, USER, said, talk

Call = Callable[..., Awaitable[object]]


@pytest.fixture
def memory() -> Memory:
    return Memory(InMemoryProvider(), embedder=HashEmbedder())


@pytest.mark.parametrize("name", ["categories", "topics", "sources", "concepts", "record_ids"])
async def test_a_filter_of_several_takes_no_single_text(memory: Memory, name: str) -> None:
    """Letter by letter it would mean something else, and as a part of a text more than was meant."""
    await memory.remember("The mill is old.", categories=["m"], source="mill")
    wrong: dict[str, Any] = {name: "mill"}
    for call in (memory.list_records, memory.list_page, memory.purge):
        with pytest.raises(InvalidDataError, match="list"):
            await call(**wrong)
    with pytest.raises(InvalidDataError, match="list"):
        await memory.recall("mill", **wrong)
    assert said(await memory.list_records(sources=["mill"])) == ["The mill is old."]


@pytest.mark.parametrize("name", ["categories", "sources", "concepts"])
async def test_nothing_is_forgotten_by_a_single_text(memory: Memory, name: str) -> None:
    await memory.remember("The mill is old.", categories=["m"], source="m")
    wrong: dict[str, Any] = {name: "mill"}
    with pytest.raises(InvalidDataError, match="list"):
        await memory.forget(**wrong)
    assert said(await memory.list_records()) == ["The mill is old."]


async def test_filters_take_texts_only(memory: Memory) -> None:
    wrong: list[Any] = [5]
    with pytest.raises(InvalidDataError, match="list of texts"):
        await memory.list_records(sources=wrong)


async def test_a_subject_is_a_subject(memory: Memory) -> None:
    name: Any = "user"
    fact = SingleFact(CITY, "Rome")
    for call in (memory.list_records, memory.would_forget, memory.purge):
        with pytest.raises(InvalidDataError, match="MemorySubject"):
            await call(subject=name)
    for saving in (memory.save(fact, subject=name), memory.remember("The mill is old.", subject=name)):
        with pytest.raises(InvalidDataError, match="MemorySubject"):
            await saving
    assert await memory.list_records() == []


async def test_categories_of_what_is_remembered_are_no_single_text(memory: Memory) -> None:
    with pytest.raises(InvalidDataError, match="lists of strings"):
        await memory.remember("The mill is old.", categories="venue")
    assert await memory.list_records() == []


@pytest.mark.parametrize("what", ["The mill is old.", Message(content="The mill is old."), talk("The mill is old.")])
async def test_many_things_to_remember_are_a_list(memory: Memory, what: Any) -> None:
    async with memory:
        with pytest.raises(InvalidDataError, match="a list"):
            await memory.remember_many(what)
        assert await memory.list_records() == []


@pytest.mark.parametrize("wrong", [{"limit": -1}, {"offset": -1}, {"limit": 1.5}, {"offset": True}])
async def test_a_listing_counts_in_whole_numbers(memory: Memory, wrong: dict[str, Any]) -> None:
    await memory.save(SingleFact(CITY, "Rome"), subject=USER)
    with pytest.raises(InvalidDataError, match="whole number"):
        await memory.list_records(**wrong)
    assert await memory.list_records(limit=0) == []
