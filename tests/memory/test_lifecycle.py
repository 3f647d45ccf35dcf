"""Updates, rollbacks and history: metadata, labels, revisions, earlier moments, retractions and erasures."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

import pytest

from factmem import (
    ChangeKind,
    Concept,
    Conversation,
    FactDetails,
    FactRecord,
    Memory,
    MemorySubject,
    Message,
    SingleFact,
)
from factmem.details import MetadataMerge
from factmem.errors import InvalidDataError, RecordNotFoundError, StateConflictError
from factmem.testing import FakeClock
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


async def test_an_updated_answer_keeps_its_question(clock: FakeClock) -> None:
    said = [
        Message(role=role, content=text, id=str(number), timestamp=clock() + dt.timedelta(seconds=number))
        for number, (role, text) in enumerate(
            [
                ("assistant", "Which plan do you have?"),
                ("user", "Fibre 250."),
                ("user", "I pay by direct debit from my Sparkasse account."),
                ("assistant", "Where is your router?"),
                ("user", "In the cellar."),
            ]
        )
    ]
    async with Memory("memory:", clock=clock) as memory:
        records = {record.value: record for record in await memory.remember(Conversation(id="chat", messages=said))}
        clock.advance(DAY)
        plan = (await memory.update(records["Fibre 250."].id, value="Fibre 500.")).record
        await memory.update(records["In the cellar."].id, value="In the hall.")
        (evidence,) = plan.evidence
        assert (evidence.quote, evidence.answers, evidence.message_id) == (
            "Fibre 500.",
            "Which plan do you have?",
            None,
        )
        (first, *_) = await memory.recall("Which plan does the customer have?")
        assert first.record.value == "Fibre 500."
        await memory.forget(plan.id)
        assert "In the hall." in {record.value for record in await memory.list_records()}


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


async def test_the_history_of_an_earlier_moment_ends_there(memory: Memory, clock: FakeClock) -> None:
    for name in ("Porto", "Lisbon", "Faro"):
        moment = clock()
        await memory.save(SingleFact(CITY, name, timestamp=moment))
        clock.advance(DAY)
    (rome,) = await memory.save(SingleFact(CITY, "Rome", timestamp=clock()), subject=USER)
    then = memory.view(as_of=moment - DAY)
    history = await then.history(CITY)
    assert [(record.value, record.state.value) for record in history] == [
        ("Porto", "superseded"),
        ("Lisbon", "active"),
    ]
    assert await then.history(history[0].id) == history
    with pytest.raises(RecordNotFoundError):
        await then.history(rome.id)


async def test_an_expired_revision_cannot_hold_again(memory: Memory, clock: FakeClock) -> None:
    (record,) = await memory.save(SingleFact(CITY, "Porto", timestamp=clock()), subject=USER, ttl=DAY)
    await memory.update(record.id, value="Faro", expires_at=None)
    clock.advance(2 * DAY)
    with pytest.raises(RecordNotFoundError, match="expired"):
        await memory.rollback(record)
    assert await city(memory) == "Faro"


# History: as-of, known-at, retract and restore, forget.


async def test_a_time_without_a_zone_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidDataError, match="zone"):
        memory.view(as_of=dt.datetime(2025, 1, 1))
    with pytest.raises(InvalidDataError, match="zone"):
        await memory.recall("x", since=dt.datetime(2025, 1, 1))
