"""Saving and loading of typed facts."""

from __future__ import annotations

import datetime as dt

import attrs
import pytest

from factmem import (
    AgentMemoryProvider,
    Concept,
    FactDetails,
    Memory,
    MemoryScope,
    MemorySubject,
    MultipleFacts,
    SingleFact,
)
from factmem.errors import (
    CapabilityError,
    ConceptConflictError,
    InvalidDataError,
    ReadOnlyError,
    RecordNotFoundError,
    StateConflictError,
)
from factmem.memory import FuturePolicy, Policies
from factmem.providers import NoMemory
from factmem.records import AssertionState
from factmem.testing import FakeClock, HashEmbedder

SEATS = Concept.single("seats", "Number of seats", int)
GUESTS = Concept.multiple("guests", "Who comes")
USER = MemorySubject("user", "The user", priority_level=1)
TEAM = MemorySubject("team", "The user's team", priority_level=5)
ALPHA = MemoryScope.product("alpha")


async def test_a_saved_value_loads_with_its_type(memory: Memory) -> None:
    (record,) = await memory.save(SingleFact(SEATS, 5), subject=USER, scope=ALPHA)
    fact = await memory.load(SEATS, subject=USER, scope=ALPHA)
    assert fact is not None
    assert fact.value == record.value == 5


async def test_a_newer_value_supersedes_and_the_old_one_stays_readable(memory: Memory, clock: FakeClock) -> None:
    await memory.save(SingleFact(SEATS, 5, timestamp=clock()), subject=USER, scope=ALPHA)
    await memory.save(SingleFact(SEATS, 7, timestamp=clock()), subject=USER, scope=ALPHA)
    history = await memory.history(SEATS, subject=USER, scope=ALPHA)
    assert [(record.value, record.state.value) for record in history] == [(5, "superseded"), (7, "active")]
    assert len({record.id for record in history}) == 1


async def test_without_a_place_the_stronger_subject_wins_over_the_newer_and_narrower(
    memory: Memory, clock: FakeClock
) -> None:
    await memory.save(SingleFact(SEATS, 1, timestamp=clock()), subject=USER, scope=MemoryScope.CROSS_PRODUCT)
    await memory.save(SingleFact(SEATS, 2, timestamp=clock()), subject=TEAM, scope=MemoryScope.agent("planner"))
    fact = await memory.load(SEATS)
    assert fact is not None
    assert fact.value == 1


async def test_at_equal_priority_the_narrower_scope_wins_and_a_child_before_its_parent(
    memory: Memory, clock: FakeClock
) -> None:
    scopes = [
        MemoryScope.agent("planner") / "notes",
        MemoryScope.agent("planner"),
        MemoryScope.feature("booking"),
        ALPHA / "hall",
        ALPHA,
        MemoryScope.CROSS_PRODUCT / "hq",
        MemoryScope.CROSS_PRODUCT,
    ]
    for number, scope in reversed(list(enumerate(scopes))):
        await memory.save(SingleFact(SEATS, number, timestamp=clock()), subject=USER, scope=scope)
        fact = await memory.load(SEATS)
        assert fact is not None
        assert fact.value == number


async def test_the_values_of_the_chosen_subject_are_united_on_its_level(memory: Memory, clock: FakeClock) -> None:
    beside, other = attrs.evolve(USER, name="customer"), MemoryScope.product("beta")
    await memory.save(MultipleFacts(GUESTS, ("Dot",), timestamp=clock()), subject=beside, scope=ALPHA)
    await memory.save(MultipleFacts(GUESTS, ("Ann", "Bo"), timestamp=clock()), subject=USER, scope=ALPHA)
    await memory.save(MultipleFacts(GUESTS, ("Bo", "Cy"), timestamp=clock()), subject=USER, scope=other)
    await memory.save(MultipleFacts(GUESTS, ("Zed",), timestamp=clock()), subject=USER)
    fact = await memory.load(GUESTS)
    assert fact is not None
    assert fact.values == ("Ann", "Bo", "Cy")


async def test_private_facts_are_their_owners_alone(memory: Memory, clock: FakeClock) -> None:
    await memory.save(SingleFact(SEATS, 5, timestamp=clock()), subject=USER)
    await memory.save(SingleFact(SEATS, 9, timestamp=clock()), subject=USER, private=True)
    mine, others = await memory.load(SEATS, subject=USER), await memory.as_viewer("bob").load(SEATS, subject=USER)
    assert mine is not None
    assert others is not None
    assert (mine.value, others.value) == (9, 5)
    assert (await memory.as_viewer(None).info()).records == 1


async def test_a_private_fact_needs_an_owner_and_only_the_owner_writes_it(memory: Memory) -> None:
    with pytest.raises(InvalidDataError, match="viewer"):
        await memory.as_viewer(None).save(SingleFact(SEATS, 5), private=True)
    with pytest.raises(InvalidDataError, match="viewer"):
        await memory.save(SingleFact(SEATS, 5), details=FactDetails(owner="bob"))


async def test_a_fact_from_the_future_is_refused_or_held_at_now(
    provider: AgentMemoryProvider, memory: Memory, clock: FakeClock
) -> None:
    ahead = SingleFact(SEATS, 5, timestamp=clock() + dt.timedelta(days=1))
    with pytest.raises(InvalidDataError, match="future"):
        await memory.save(ahead)
    clamping = Memory(provider, policies=Policies(future=FuturePolicy.CLAMP), clock=clock, embedder=HashEmbedder())
    (record,) = await clamping.save(ahead)
    assert record.timestamp <= clock()


async def test_expired_facts_are_gone_at_once_and_what_was_before_is_back(memory: Memory, clock: FakeClock) -> None:
    await memory.save(SingleFact(SEATS, 5, timestamp=clock()), subject=USER)
    soon = clock() + dt.timedelta(hours=1)
    await memory.save(SingleFact(SEATS, 9, timestamp=clock()), subject=USER, details=FactDetails(expires_at=soon))
    assert [record.value for record in await memory.list_records()] == [9]
    clock.advance(dt.timedelta(hours=2))
    fact = await memory.load(SEATS, subject=USER)
    assert fact is not None
    assert fact.value == 5
    assert [record.value for record in await memory.list_records()] == [5]


async def test_a_conflicting_type_names_both_and_changes_nothing(memory: Memory) -> None:
    await memory.save(SingleFact(SEATS, 5), subject=USER)
    with pytest.raises(ConceptConflictError, match=r"int.*str"):
        await memory.save(SingleFact(Concept.single("seats", "Seats in words"), "five"), subject=USER)
    assert [record.value for record in await memory.list_records()] == [5]


async def test_an_update_to_the_value_of_another_record_is_refused(memory: Memory) -> None:
    """Equal values are one record: the updated one would be neither shown nor found any more."""
    ann, ben = await memory.save(MultipleFacts(GUESTS, ("Ann", "Ben")), subject=USER)
    with pytest.raises(StateConflictError, match="the value of another record"):
        await memory.update(ann.id, value="Ben")
    assert {record.id for record in await memory.list_records()} == {ann.id, ben.id}
    assert (await memory.update(ann.id, value="Ann", importance=0.9)).record.id == ann.id
    assert (await memory.update(ann.id, value="Anne")).record.id == ann.id


async def test_an_update_by_id_keeps_the_id_and_the_history(memory: Memory) -> None:
    (record,) = await memory.remember("The venue is the old mill.")
    change = await memory.update(record.id, value="The venue is the new hall.", importance=0.9)
    assert change.record.id == record.id
    assert change.previous is not None
    assert change.previous.value == "The venue is the old mill."
    current = await memory.get(record.id)
    assert (current.value, current.importance) == ("The venue is the new hall.", 0.9)
    assert len(await memory.list_records()) == 1


async def test_details_can_be_changed_again_and_again_without_moving_the_fact_in_time(memory: Memory) -> None:
    (record,) = await memory.save(SingleFact(SEATS, 5), subject=USER)
    for importance in (0.9, 0.1, 0.9, 0.1):
        await memory.update(record.id, importance=importance)
    current = await memory.get(record.id)
    assert (current.importance, current.timestamp) == (0.1, record.timestamp)


async def test_updating_what_is_not_there_or_to_a_wrong_type_fails(memory: Memory) -> None:
    (record,) = await memory.save(SingleFact(SEATS, 5), subject=USER)
    with pytest.raises(RecordNotFoundError):
        await memory.update("no-such-id", value=6)
    with pytest.raises(InvalidDataError):
        await memory.update(record.id, value="six")
    assert (await memory.get(record.id)).value == 5


async def test_a_read_only_memory_refuses_every_write(provider: AgentMemoryProvider, memory: Memory) -> None:
    (record,) = await memory.remember("The key is under the mat.")
    reader = Memory(provider, read_only=True, embedder=HashEmbedder())
    writes = [
        reader.save(SingleFact(SEATS, 5)),
        reader.remember("More."),
        reader.update(record.id, importance=1.0),
        reader.retract(record.id),
        reader.restore(record.id),
        reader.forget(record.id),
        reader.reembed(),
        reader.import_("nowhere.jsonl"),
    ]
    for write in writes:
        with pytest.raises(ReadOnlyError):
            await write
    assert len(await reader.list_records()) == 1


async def test_no_memory_keeps_nothing_and_says_what_it_cannot_keep() -> None:
    async with Memory(NoMemory(), embedder=HashEmbedder()) as memory:
        assert await memory.save(SingleFact(SEATS, 5)) == ()
        assert await memory.load(SEATS) is None
        assert await memory.recall("seats") == []
        with pytest.raises(CapabilityError):
            await memory.save(SingleFact(SEATS, 5), details=FactDetails(importance=1.0))
        with pytest.raises(CapabilityError):
            await memory.remember("Something with evidence.")
        with pytest.raises(CapabilityError):
            await memory.forget(concepts=[SEATS])


async def test_a_retracted_fact_saved_again_as_it_was_stays_retracted_and_says_so(
    memory: Memory, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    fact = SingleFact(SEATS, 5, timestamp=clock())
    (record,) = await memory.save(fact, subject=USER)
    await memory.retract(record.id)
    (again,) = await memory.save(fact, subject=USER)
    assert (again.id, again.state) == (record.id, AssertionState.RETRACTED)
    assert "restore()" in caplog.text
    assert await memory.load(SEATS) is None
    await memory.restore(again.id)
    assert await memory.load(SEATS) == fact


async def test_a_retracted_value_said_anew_is_active(memory: Memory, clock: FakeClock) -> None:
    (record,) = await memory.save(SingleFact(SEATS, 5, timestamp=clock()), subject=USER)
    await memory.retract(record.id)
    (again,) = await memory.save(SingleFact(SEATS, 5, timestamp=clock()), subject=USER)
    assert again.state is AssertionState.ACTIVE
    fact = await memory.load(SEATS)
    assert fact is not None
    assert fact.value == 5
