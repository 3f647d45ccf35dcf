"""Untrusted updates of known facts: they are quarantined, and the returned change says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from factmem import AgentMemoryProvider, InMemoryProvider, Memory, MultipleFacts, SingleFact
from factmem.records import AssertionState, FactDetails, Origin
from tests.memory.telling import BEGAN, CITY, PETS, USER, opened, said


async def test_what_is_saved_into_quarantine_is_handed_back_as_such(memory: Memory) -> None:
    (apart,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN), details=FactDetails(origin=Origin.UNKNOWN))
    (known,) = await memory.save(SingleFact(CITY, "Rome"))
    assert (apart.state, known.state) == (AssertionState.QUARANTINED, AssertionState.ACTIVE)


async def test_quarantined_assertions_are_filtered_as_records_are(memory: Memory) -> None:
    for number, city in enumerate(["Oslo", "Rome"]):
        details = FactDetails(origin=Origin.TOOL, metadata={"page": number})
        await memory.save(SingleFact(CITY, city), scope=f"/product/{city.lower()}", details=details)
    assert said(await memory.inbox.quarantine.list()) == ["Oslo", "Rome"]
    assert said(await memory.inbox.quarantine.list(scope="/product/rome")) == ["Rome"]
    assert said(await memory.inbox.quarantine.list(metadata={"page": 0})) == ["Oslo"]
    assert said(await memory.inbox.quarantine.list(rejected=True, metadata={"page": 0})) == []
    with pytest.raises(TypeError, match="scop"):
        await memory.inbox.quarantine.list(scop="/product/rome")  # type: ignore[call-arg]


async def test_an_untrusted_update_changes_nothing_until_it_is_accepted(provider: AgentMemoryProvider) -> None:
    async with opened(provider) as memory:
        (city,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN), subject=USER)
        change = await memory.update(city.id, value="Rome", importance=0.9, origin=Origin.UNKNOWN)
        assert change.record.state is AssertionState.QUARANTINED
        assert [(item.value, item.importance) for item in await memory.list_records()] == [("Oslo", 0.5)]
        assert said(await memory.history(CITY)) == ["Oslo"]
        (apart,) = await memory.inbox.quarantine.list()
        await memory.inbox.quarantine.accept(apart.id)
        assert [(item.id, item.value) for item in await memory.list_records()] == [(city.id, "Rome")]


async def test_an_untrusted_update_of_one_of_several_values_takes_its_place_once_accepted(memory: Memory) -> None:
    cat, _ = await memory.save(MultipleFacts(PETS, ("cat", "dog"), timestamp=BEGAN))
    await memory.update(cat.id, value="cow", origin=Origin.TOOL)
    assert said(await memory.list_records()) == ["cat", "dog"]
    (apart,) = await memory.inbox.quarantine.list()
    await memory.inbox.quarantine.accept(apart.id)
    assert said(await memory.list_records()) == ["cow", "dog"]


@pytest.mark.parametrize("value", ["Rome", None])
async def test_an_untrusted_update_can_be_rejected_and_undone(memory: Memory, value: str | None) -> None:
    (city,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN))
    given: dict[str, Any] = {} if value is None else {"value": value}
    change = await memory.update(city.id, importance=0.1, origin=Origin.DOCUMENT, **given)
    await memory.undo([change])
    assert [(item.value, item.importance) for item in await memory.list_records()] == [("Oslo", 0.5)]


@pytest.mark.parametrize("value", ["EVILTOWN", None])
async def test_an_update_in_the_assistants_words_stands_beside_what_the_user_said(
    provider: AgentMemoryProvider, value: str | None
) -> None:
    async with opened(provider) as memory:
        (city,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN), subject=USER)
        given: dict[str, Any] = {} if value is None else {"value": value}
        change = await memory.update(city.id, importance=0.9, origin=Origin.ASSISTANT, **given)
        assert change.record.state is AssertionState.SUPERSEDED
        assert [(item.value, item.importance) for item in await memory.list_records()] == [("Oslo", 0.5)]
        beside = (await memory.history(CITY))[-1]
        assert (beside.value, beside.details.origin) == (value or "Oslo", Origin.ASSISTANT)
        assert not [match for match in await memory.recall("city EVILTOWN") if match.record.value == "EVILTOWN"]


async def test_what_the_assistant_saves_neither_replaces_nor_hides_what_the_user_said(
    provider: AgentMemoryProvider,
) -> None:
    of_assistant = FactDetails(origin=Origin.ASSISTANT)
    async with opened(provider) as memory:
        await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN), subject=USER)
        await memory.save(SingleFact(CITY, "EVILTOWN"), subject=USER, details=of_assistant)
        await memory.save(MultipleFacts(PETS, ("cat",), timestamp=BEGAN), subject=USER)
        await memory.save(MultipleFacts(PETS, ("cat", "dog")), subject=USER, details=of_assistant)
        assert {(item.value, item.details.origin) for item in await memory.list_records()} == {
            ("Oslo", Origin.USER),
            ("cat", Origin.USER),
            ("dog", Origin.ASSISTANT),
        }
        loaded = await memory.load(CITY, subject=USER)
        assert loaded is not None
        assert loaded.value == "Oslo"
        assert sorted(said(await memory.history(CITY))) == ["EVILTOWN", "Oslo"]


async def test_a_program_may_roll_back_to_what_the_assistant_said(memory: Memory) -> None:
    """Explicit calls of the program apply to words of every origin, and are reversible."""
    (of_assistant,) = await memory.save(
        SingleFact(CITY, "Rome", timestamp=BEGAN), details=FactDetails(origin=Origin.ASSISTANT)
    )
    await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN))
    change = await memory.rollback(of_assistant.revision)
    assert said(await memory.list_records()) == ["Rome"]
    await memory.undo([change])
    assert said(await memory.list_records()) == ["Oslo"]


async def test_what_was_accepted_can_be_updated(memory: Memory) -> None:
    (apart,) = await memory.save(SingleFact(CITY, "Rome"), details=FactDetails(origin=Origin.UNKNOWN))
    await memory.inbox.quarantine.accept((await memory.inbox.quarantine.list())[0].id)
    await memory.update(apart.id, value="Bern")
    await memory.update(apart.id, importance=0.9)
    assert [(item.value, item.importance) for item in await memory.list_records()] == [("Bern", 0.9)]


async def test_what_was_accepted_stands_after_an_export_and_an_import(memory: Memory, tmp_path: Path) -> None:
    await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN))
    await memory.save(SingleFact(CITY, "Rome"), details=FactDetails(origin=Origin.DOCUMENT))
    await memory.inbox.quarantine.accept((await memory.inbox.quarantine.list())[0].id)
    await memory.admin.export(tmp_path / "facts.jsonl")
    async with opened(InMemoryProvider()) as other:
        receipt = await other.admin.import_(tmp_path / "facts.jsonl", trust=True)
        assert (receipt.imported, receipt.quarantined, receipt.accepted) == (2, 0, 0)
        assert said(await other.list_records()) == said(await memory.list_records()) == ["Rome"]
        again = await other.admin.import_(tmp_path / "facts.jsonl", trust=True)
        assert (again.imported, again.accepted) == (0, 0)


async def test_counts_can_be_narrowed_to_subjects(memory: Memory) -> None:
    alice, bob = USER.individual("alice"), USER.individual("bob")
    await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN), subject=alice, scope="/product/alpha")
    await memory.save(SingleFact(CITY, "Rome"), subject=bob, scope="/product/beta")
    info, tree = await memory.admin.info(subjects=[alice]), await memory.admin.tree(subjects=[alice])
    assert (info.records, info.subjects, [str(scope) for scope in info.scopes]) == (
        1,
        {"user:alice": 1},
        ["/product/alpha"],
    )
    assert [child.name for child in tree.children[0].children] == ["alpha"]
