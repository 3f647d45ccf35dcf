"""Untrusted updates of known facts: they are quarantined, and the returned change says so."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import Any

import pytest

from factmem import ChangeKind, Memory, Message, SingleFact
from factmem.details import FactDetails, Origin
from factmem.errors import InvalidDataError, RecordNotFoundError
from factmem.records import AssertionState
from factmem.testing import FakeClock
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


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("rejected", [False, True], ids=["waiting", "rejected"])
async def test_the_quarantine_is_listed_page_by_page(memory: Memory, rejected: bool, descending: bool) -> None:
    """Entries that were accepted, and retracted since, are passed over, whatever they take of a page."""
    quarantine = memory.inbox.quarantine
    await memory.remember([Message(content=f"Door {number} is red.", role="tool") for number in range(30)])
    ids = [record.id for record in await quarantine.list()]
    await quarantine.reject(*ids[::2])
    await memory.retract(*(change.record.id for change in await quarantine.accept(*ids[:20])))
    listed = partial(quarantine.list, rejected=rejected, descending=descending)
    whole = [record.value for record in await listed()]
    expected = [f"Door {number} is red." for number in range(20 if rejected else 21, 30, 2)]
    assert whole == (expected[::-1] if descending else expected)
    paged, page = [], None
    while True:
        found = await listed(limit=2, page=page)
        paged += [record.value for record in found]
        if (page := found.next_page) is None:
            break
        await quarantine.accept(found[-1].id)  # what leaves the listing does not shift its pages
    assert paged == whole
    assert (await listed(limit=9)).next_page is None


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": "2"}, {"page": "x"}, {"page": 7}, {"page": "9" * 30}])
async def test_a_page_that_there_is_not_is_refused(memory: Memory, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataError):
        await memory.inbox.quarantine.list(**wrong)


@pytest.mark.parametrize("value", ["Rome", None])
async def test_an_untrusted_update_can_be_rejected_and_undone(memory: Memory, value: str | None) -> None:
    (city,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN))
    given: dict[str, Any] = {} if value is None else {"value": value}
    change = await memory.update(city.id, importance=0.1, origin=Origin.DOCUMENT, **given)
    (undone,) = await memory.undo([change])
    assert [(item.value, item.importance) for item in await memory.list_records()] == [("Oslo", 0.5)]
    assert (change.kind, undone.kind) == (ChangeKind.UNCHANGED, ChangeKind.UNCHANGED)
    assert undone.record.state is AssertionState.RETRACTED
    assert await memory.inbox.quarantine.list() == []
    with pytest.raises(RecordNotFoundError, match="undone already"):
        await memory.undo([change])


@pytest.mark.parametrize(
    ("origin", "state"), [(Origin.TOOL, AssertionState.QUARANTINED), (Origin.ASSISTANT, AssertionState.SUPERSEDED)]
)
async def test_an_update_that_changes_nothing_says_so(memory: Memory, origin: Origin, state: AssertionState) -> None:
    (city,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN))
    change = await memory.update(city.id, value="Rome", origin=origin)
    assert (change.kind, change.record.value, change.record.state) == (ChangeKind.UNCHANGED, "Rome", state)
    assert change.previous == city == await memory.get(city.id)
    await memory.undo([change])
    assert next((it.value, it.state) for it in await memory.history(CITY)) == ("Oslo", AssertionState.ACTIVE)


async def test_what_waits_is_handed_back_under_the_id_by_which_it_is_accepted(memory: Memory) -> None:
    (city,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN))
    (saved,) = await memory.save(SingleFact(CITY, "Rome"), details=FactDetails(origin=Origin.TOOL))
    updated = (await memory.update(city.id, value="Bern", origin=Origin.TOOL)).record
    assert [saved.id, updated.id] == [record.id for record in await memory.inbox.quarantine.list()]
    assert (await memory.get(city.id)).value == "Oslo"
    (accepted,) = await memory.inbox.quarantine.accept(updated.id)
    assert (accepted.kind, accepted.record.id, accepted.record.value) == (ChangeKind.UPDATED, city.id, "Bern")
    assert (await memory.get(city.id)).value == "Bern"


async def test_an_accepted_value_that_is_older_changes_nothing_and_can_wait_again(memory: Memory) -> None:
    tool = FactDetails(origin=Origin.TOOL)
    (waiting,) = await memory.save(SingleFact(CITY, "Rome", timestamp=BEGAN), details=tool)
    await memory.save(SingleFact(CITY, "Oslo"))
    (accepted,) = await memory.inbox.quarantine.accept(waiting.id)
    assert (accepted.kind, accepted.record.state) == (ChangeKind.UNCHANGED, AssertionState.SUPERSEDED)
    assert said(await memory.list_records()) == ["Oslo"]
    (undone,) = await memory.undo([accepted])
    assert (undone.kind, undone.record.state) == (ChangeKind.UNCHANGED, AssertionState.QUARANTINED)
    assert said(await memory.inbox.quarantine.list()) == ["Rome"]


async def test_of_two_values_that_are_accepted_together_the_newer_one_is_new(memory: Memory) -> None:
    for minutes, city in enumerate(("Rome", "Bern")):
        fact = SingleFact(CITY, city, timestamp=BEGAN + dt.timedelta(minutes=minutes))
        await memory.save(fact, details=FactDetails(origin=Origin.TOOL))
    waiting = [record.id for record in await memory.inbox.quarantine.list()]
    kinds = [change.kind for change in await memory.inbox.quarantine.accept(*waiting)]
    assert kinds == [ChangeKind.UNCHANGED, ChangeKind.CREATED]


async def test_an_accepted_value_that_has_expired_changes_nothing(memory: Memory, clock: FakeClock) -> None:
    tool = FactDetails(origin=Origin.TOOL)
    (waiting,) = await memory.save(SingleFact(CITY, "Rome"), details=tool, ttl=dt.timedelta(days=1))
    clock.advance(dt.timedelta(days=2))
    (accepted,) = await memory.inbox.quarantine.accept(waiting.id)
    assert (accepted.kind, accepted.record.state) == (ChangeKind.UNCHANGED, AssertionState.SUPERSEDED)
    assert await memory.load(CITY) is None


async def test_a_rollback_to_what_is_current_changes_nothing(memory: Memory) -> None:
    (city,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN))
    assert (await memory.rollback(city)).kind is ChangeKind.UNCHANGED


async def test_an_update_of_nothing_is_refused(memory: Memory) -> None:
    (city,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=BEGAN))
    with pytest.raises(InvalidDataError, match="say what to change"):
        await memory.update(city.id)


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
