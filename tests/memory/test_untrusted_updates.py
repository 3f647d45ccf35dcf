"""Untrusted updates of known facts: they are quarantined, and the returned change says so."""

from __future__ import annotations

from typing import Any

import pytest

from factmem import Memory, SingleFact
from factmem.details import FactDetails, Origin
from factmem.records import AssertionState
from tests.memory.telling import BEGAN, CITY, USER, said


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


@pytest.mark.parametrize("value", ["Rome", None])
async def test_an_untrusted_update_can_be_rejected_and_undone(memory: Memory, value: str | None) -> None:
    (city,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN))
    given: dict[str, Any] = {} if value is None else {"value": value}
    change = await memory.update(city.id, importance=0.1, origin=Origin.DOCUMENT, **given)
    await memory.undo([change])
    assert [(item.value, item.importance) for item in await memory.list_records()] == [("Oslo", 0.5)]


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
