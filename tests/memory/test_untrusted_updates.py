"""Untrusted updates of known facts: they wait in quarantine, and the caller is told so."""

from __future__ import annotations

from typing import Any

import pytest

from factmem import AgentMemoryProvider, Memory, MultipleFacts, SingleFact
from factmem.records import AssertionState, FactDetails, Origin
from tests.memory.telling import BEGAN, CITY, PETS, USER, opened, said


async def test_what_is_saved_into_quarantine_is_handed_back_as_such(memory: Memory) -> None:
    (apart,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN), details=FactDetails(origin=Origin.UNKNOWN))
    (known,) = await memory.save(SingleFact(CITY, "Rome"))
    assert (apart.state, known.state) == (AssertionState.QUARANTINED, AssertionState.ACTIVE)


async def test_an_untrusted_update_changes_nothing_until_it_is_let_in(provider: AgentMemoryProvider) -> None:
    async with opened(provider) as memory:
        (city,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN), subject=USER)
        change = await memory.update(city.id, value="Rome", importance=0.9, origin=Origin.UNKNOWN)
        assert change.record.state is AssertionState.QUARANTINED
        assert [(item.value, item.importance) for item in await memory.list_records()] == [("Oslo", 0.5)]
        assert said(await memory.history(CITY)) == ["Oslo"]
        (apart,) = await memory.quarantine.list()
        await memory.quarantine.accept(apart.id)
        assert [(item.id, item.value) for item in await memory.list_records()] == [(city.id, "Rome")]


async def test_an_untrusted_update_of_one_of_several_values_takes_its_place_once_let_in(memory: Memory) -> None:
    cat, _ = await memory.save(MultipleFacts(PETS, ("cat", "dog"), timestamp=BEGAN))
    await memory.update(cat.id, value="cow", origin=Origin.TOOL)
    assert said(await memory.list_records()) == ["cat", "dog"]
    (apart,) = await memory.quarantine.list()
    await memory.quarantine.accept(apart.id)
    assert said(await memory.list_records()) == ["cow", "dog"]


@pytest.mark.parametrize("value", ["Rome", None])
async def test_an_untrusted_update_can_be_turned_away_and_undone(memory: Memory, value: str | None) -> None:
    (city,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN))
    given: dict[str, Any] = {} if value is None else {"value": value}
    change = await memory.update(city.id, importance=0.1, origin=Origin.DOCUMENT, **given)
    await memory.undo([change])
    assert [(item.value, item.importance) for item in await memory.list_records()] == [("Oslo", 0.5)]


async def test_counts_can_be_narrowed_to_subjects(memory: Memory) -> None:
    alice, bob = USER.individual("alice"), USER.individual("bob")
    await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN), subject=alice, scope="/product/alpha")
    await memory.save(SingleFact(CITY, "Rome"), subject=bob, scope="/product/beta")
    info, tree = await memory.info(subjects=[alice]), await memory.tree(subjects=[alice])
    assert (info.records, info.subjects, [str(scope) for scope in info.scopes]) == (
        1,
        {"user:alice": 1},
        ["/product/alpha"],
    )
    assert [child.name for child in tree.children[0].children] == ["alpha"]
