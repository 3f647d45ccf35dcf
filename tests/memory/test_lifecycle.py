"""Updates, rollbacks and history: metadata, labels, revisions, earlier moments, retractions and erasures."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

import pytest

from factmem import (
    ChangeKind,
    Concept,
    FactDetails,
    FactRecord,
    Memory,
    MemorySubject,
    MultipleFacts,
    SingleFact,
)
from factmem.errors import CapabilityError, InvalidDataError, RecordNotFoundError, StateConflictError
from factmem.providers.memory import NoMemory
from factmem.records import MetadataMerge
from factmem.testing import FakeClock, HashEmbedder
from factmem.values import Json

CITY = Concept.single("city", "Where the user lives")
USER = MemorySubject("user", priority_level=1)
DAY = dt.timedelta(days=1)


async def saved(memory: Memory, city: str, clock: FakeClock, *, private: bool = False) -> FactRecord[str]:
    (record,) = await memory.save(SingleFact(CITY, city, timestamp=clock()), subject=USER, private=private)
    return record


async def city(memory: Memory) -> str | None:
    fact = await memory.load(CITY, subject=USER)
    return fact.value if fact else None


@pytest.mark.parametrize(
    ("merge", "expected"),
    [
        (MetadataMerge.MERGE, {"a": 1, "b": 3, "c": 4}),
        (MetadataMerge.OVERWRITE, {"b": 3, "c": 4}),
        (MetadataMerge.REQUIRE_EXACT_MATCH, None),
    ],
)
async def test_metadata_is_merged_overwritten_or_required(
    memory: Memory, clock: FakeClock, merge: MetadataMerge, expected: Mapping[str, Json] | None
) -> None:
    fact = SingleFact(CITY, "Porto", timestamp=clock())
    (record,) = await memory.save(fact, details=FactDetails(metadata={"a": 1, "b": 2}))
    if expected is None:
        with pytest.raises(StateConflictError, match="metadata"):
            await memory.update(record.id, metadata={"b": 3, "c": 4}, merge=merge)
        assert (await memory.get(record.id)).details.metadata == {"a": 1, "b": 2}
        expected = {"b": 2, "a": 1}
    change = await memory.update(record.id, metadata=expected, merge=merge)
    assert change.record.details.metadata == (await memory.get(record.id)).details.metadata == expected


async def test_metadata_that_nobody_names_stays(memory: Memory, clock: FakeClock) -> None:
    (record,) = await memory.save(SingleFact(CITY, "Porto", timestamp=clock()), details=FactDetails(metadata={"a": 1}))
    await memory.update(record.id, value="Faro", merge=MetadataMerge.OVERWRITE)
    assert (await memory.get(record.id)).details.metadata == {"a": 1}


async def test_a_record_whose_time_lies_ahead_is_updated_none_the_less(memory: Memory, clock: FakeClock) -> None:
    """Another machine's clock may be ahead by as much as the skew that a memory allows."""
    fact = SingleFact(CITY, "Porto", timestamp=clock() + dt.timedelta(minutes=2))
    (record,) = await memory.save(fact, subject=USER)
    change = await memory.update(record.id, value="Faro")
    assert (change.record.value, await city(memory)) == ("Faro", "Faro")


async def test_a_rollback_makes_the_record_what_it_was(memory: Memory, clock: FakeClock) -> None:
    for name in ("Porto", "Lisbon", "Faro"):
        await saved(memory, name, clock)
    first, *_ = history = await memory.history(CITY)
    change = await memory.rollback(first, reason="a mistake")
    assert (change.kind, change.record.value) == (ChangeKind.UPDATED, "Porto")
    assert change.previous is not None
    assert change.previous.value == "Faro"
    assert await city(memory) == "Porto"
    assert [match.record.value for match in await memory.recall("where does the user live")] == ["Porto"]
    back = await memory.rollback(history[2].revision)
    assert (back.record.value, await city(memory)) == ("Faro", "Faro")


async def test_an_expired_revision_cannot_hold_again(memory: Memory, clock: FakeClock) -> None:
    (record,) = await memory.save(SingleFact(CITY, "Porto", timestamp=clock()), subject=USER, ttl=DAY)
    await memory.update(record.id, value="Faro", expires_at=None)
    clock.advance(2 * DAY)
    with pytest.raises(RecordNotFoundError, match="expired"):
        await memory.rollback(record)
    assert await city(memory) == "Faro"


async def test_a_store_of_four_verbs_says_that_it_has_no_revisions() -> None:
    async with Memory(NoMemory(), embedder=HashEmbedder()) as memory:
        with pytest.raises(InvalidDataError, match="empty"):
            await memory.forget(dry_run=True)
        with pytest.raises(CapabilityError, match="history"):
            await memory.rollback(1)
        with pytest.raises(CapabilityError, match="cannot erase"):
            await memory.forget(concepts=[CITY])


# History: as-of, known-at, retract and restore, forget.

MARCH = dt.datetime(2025, 3, 1, tzinfo=dt.UTC)
JUNE = dt.datetime(2025, 6, 1, tzinfo=dt.UTC)


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
