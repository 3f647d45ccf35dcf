"""Saving and loading of typed facts."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from typing import Any

import attrs
import pytest

from factmem import (
    AgentMemoryProvider,
    Concept,
    FactDetails,
    Memory,
    MemoryScope,
    MemorySubject,
    Message,
    MultipleFacts,
    SingleFact,
)
from factmem.errors import (
    CapabilityError,
    InvalidDataError,
    ReadOnlyError,
    RecordNotFoundError,
    SeveralIndividualsError,
)
from factmem.memory.context import FuturePolicy, Policies
from factmem.providers.memory import NoMemory
from factmem.records import AssertionState
from factmem.testing import FakeClock, HashEmbedder
from tests.narrowing import not_none

SEATS = Concept.single("seats", "Number of seats", int)
GUESTS = Concept.multiple("guests", "Who comes")
USER = MemorySubject("user", "The user", priority_level=1)
ALPHA = MemoryScope.product("alpha")


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
        assert not_none(await memory.load(SEATS)).value == number


async def test_a_subject_that_is_written_as_a_text_is_as_strong_as_the_declared_one(
    memory: Memory, clock: FakeClock
) -> None:
    """Otherwise what an agent saved would stand above what the user's own settings say later."""
    await memory.save(SingleFact(SEATS, 5, timestamp=clock()), subject=USER, scope=ALPHA)
    await memory.save(SingleFact(SEATS, 9, timestamp=clock()), subject="user", scope=MemoryScope.agent("planner"))
    await memory.save(SingleFact(SEATS, 7, timestamp=clock()), subject="customer", scope=MemoryScope.agent("planner"))
    assert not_none(await memory.load(SEATS)).value == 9
    (match,) = await memory.recall("seats", strongest=True)
    assert match.record.value == 9


async def test_the_values_of_the_chosen_subject_are_united_on_its_level(memory: Memory, clock: FakeClock) -> None:
    beside, other = attrs.evolve(USER, name="customer"), MemoryScope.product("beta")
    await memory.save(MultipleFacts(GUESTS, ("Dot",), timestamp=clock()), subject=beside, scope=ALPHA)
    await memory.save(MultipleFacts(GUESTS, ("Ann", "Bo"), timestamp=clock()), subject=USER, scope=ALPHA)
    await memory.save(MultipleFacts(GUESTS, ("Bo", "Cy"), timestamp=clock()), subject=USER, scope=other)
    await memory.save(MultipleFacts(GUESTS, ("Zed",), timestamp=clock()), subject=USER)
    assert not_none(await memory.load(GUESTS)).values == ("Ann", "Bo", "Cy")


async def test_private_facts_are_their_owners_alone(memory: Memory, clock: FakeClock) -> None:
    await memory.save(SingleFact(SEATS, 5, timestamp=clock()), subject=USER)
    await memory.save(SingleFact(SEATS, 9, timestamp=clock()), subject=USER, private=True)
    mine, others = await memory.load(SEATS, subject=USER), await memory.view(viewer="bob").load(SEATS, subject=USER)
    assert mine is not None
    assert others is not None
    assert (mine.value, others.value) == (9, 5)
    assert (await memory.view(viewer=None).admin.info()).records == 1


async def test_a_private_fact_needs_an_owner_and_only_the_owner_writes_it(memory: Memory) -> None:
    with pytest.raises(InvalidDataError, match="viewer"):
        await memory.view(viewer=None).save(SingleFact(SEATS, 5), private=True)
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


async def test_an_update_by_id_keeps_the_id_and_the_history(memory: Memory) -> None:
    (record,) = await memory.remember("The venue is the old mill.")
    change = await memory.update(record.id, value="The venue is the new hall.", importance=0.9)
    assert change.record.id == record.id
    assert not_none(change.previous).value == "The venue is the old mill."
    current = await memory.get(record.id)
    assert (current.value, current.importance) == ("The venue is the new hall.", 0.9)
    assert len(await memory.list_records()) == 1


async def test_updating_what_is_not_there_or_to_a_wrong_type_fails(memory: Memory) -> None:
    (record,) = await memory.save(SingleFact(SEATS, 5), subject=USER)
    with pytest.raises(RecordNotFoundError):
        await memory.update("no-such-id", value=6)
    with pytest.raises(InvalidDataError):
        await memory.update(record.id, value="six")
    assert (await memory.get(record.id)).value == 5


@attrs.frozen
class Room:
    name: str
    seats: int = 2


@attrs.frozen
class RoomLater(Room):
    floor: int = 0


async def test_a_program_that_does_not_know_a_class_writes_values_of_it(
    provider: AgentMemoryProvider, memory: Memory, clock: FakeClock
) -> None:
    """It reads them as JSON; what is not a value of the class is refused, which nobody could read."""
    room, later = Concept.single("room", "Room", Room), Concept.single("room", "Room", RoomLater)
    await memory.save(SingleFact(room, Room("hall")))
    (record,) = await memory.list_records()
    seen: Any = record.concept
    with pytest.raises(InvalidDataError, match="no field 'beds'"):
        await memory.update(record.id, value={"name": "barn", "beds": 3})
    clock.advance(dt.timedelta(minutes=1))
    with pytest.raises(InvalidDataError, match="'name' is missing"):
        await memory.save(SingleFact(seen, {}, timestamp=clock()))
    await memory.save(SingleFact(seen, {"name": "barn"}, timestamp=clock()))
    assert not_none(await memory.load(room)).value == Room("barn")
    knowing = Memory(provider, concepts=[later], clock=clock, embedder=HashEmbedder())
    await knowing.update(record.id, value=RoomLater("loft", floor=2))  # a class that has gained a field
    assert not_none(await memory.load(later)).value == RoomLater("loft", floor=2)


async def test_a_read_only_memory_refuses_every_write(provider: AgentMemoryProvider, memory: Memory) -> None:
    (record,) = await memory.remember("The key is under the mat.")
    async with Memory(provider, read_only=True, embedder=HashEmbedder()) as reader:
        writes = [
            reader.save(SingleFact(SEATS, 5)),
            reader.remember("More."),
            reader.update(record.id, importance=1.0),
            reader.retract(record.id),
            reader.restore(record.id),
            reader.forget(record.id),
            reader.rollback(record),
            reader.admin.expire(),
            reader.admin.reembed(),
            reader.admin.import_("nowhere.jsonl"),
            reader.admin.convert("places", SEATS),
            reader.admin.merge("user", into="guest"),
            reader.generate([SingleFact(SEATS, 5)]),
            reader.remember_many(["More."]),
            reader.inbox.ingest_events("chat", [Message(content="More.")]),
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
        for kept in (memory.remember("Something with evidence."), memory.remember_many(["Something with evidence."])):
            with pytest.raises(CapabilityError):
                await kept
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


async def test_a_fact_of_an_earlier_time_is_returned_as_superseded(memory: Memory, clock: FakeClock) -> None:
    """A value that is said already stays current, whatever the time of saying it again."""
    await memory.save(SingleFact(SEATS, 5), subject=USER)
    for seats, hours, state in ((4, -2, "superseded"), (5, -1, "active"), (6, 0, "active")):
        fact = SingleFact(SEATS, seats, timestamp=clock() + dt.timedelta(hours=hours))
        (record,) = await memory.save(fact, subject=USER)
        assert record.state is AssertionState(state)
    assert not_none(await memory.load(SEATS)).value == 6


# Facts of several people in one store: whose facts a read without a subject gives.

CITY = Concept.single("city", "Where the person lives")
NAME = Concept.single("name", "What the person is called")
LANGUAGES = Concept.multiple("languages", "Languages that the person speaks")


@attrs.frozen
class Guest:
    """A profile of two facts."""

    name: str
    city: str


async def told(memory: Memory, clock: FakeClock) -> None:
    """Save public facts of two people and one about a subject with a priority."""
    await memory.save(SingleFact(CITY, "Oslo", timestamp=clock()), subject="user:carl")
    await memory.save(SingleFact(NAME, "Dora", timestamp=clock()), subject="user:dora")
    await memory.save(SingleFact(CITY, "Bergen", timestamp=clock()), subject=MemorySubject("office", priority_level=9))


async def test_a_user_reads_nothing_of_others_without_naming_them(memory: Memory, clock: FakeClock) -> None:
    await told(memory, clock)
    eve = memory.for_user("eve")
    assert await eve.load(NAME) is None
    assert set((await eve.profile(Guest, partial=True)).known) == {"city"}
    assert {record.value for record in await eve.list_records()} == {"Bergen"}
    assert {match.record.value for match in await eve.recall("city name")} == {"Bergen"}
    assert (await eve.admin.info()).records == 1
    assert {match.record.value for match in await eve.recall("Oslo Dora", strongest=True)} <= {"Bergen"}


async def test_what_is_public_about_others_is_read_by_naming_them(memory: Memory, clock: FakeClock) -> None:
    await told(memory, clock)
    eve = memory.for_user("eve")
    assert await eve.load(CITY, subject="user:carl") == await memory.load(CITY, subject="user:carl")
    assert [match.record.value for match in await eve.recall("name", subject="user:dora")] == ["Dora"]
    (record,) = await eve.list_records(subject="user:carl")
    assert (await eve.get(record.id)).value == "Oslo"
    assert {record.value for record in await eve.list_records(subjects=["user:carl", "user:dora"])} == {"Oslo", "Dora"}


async def test_a_read_without_a_subject_never_mixes_people(memory: Memory, clock: FakeClock) -> None:
    await memory.save(MultipleFacts(LANGUAGES, ("Norwegian",), timestamp=clock()), subject="user:alice")
    await memory.save(MultipleFacts(LANGUAGES, ("Danish",), timestamp=clock()), subject="user:bob")
    with pytest.raises(SeveralIndividualsError, match="user:alice, user:bob") as raised:
        await memory.load(LANGUAGES)
    assert raised.value.individuals == ("user:alice", "user:bob")
    assert len(await memory.list_records()) == len(await memory.recall("languages")) == 2


async def test_a_profile_is_never_put_together_of_two_people(memory: Memory, clock: FakeClock) -> None:
    await memory.save(SingleFact(NAME, "Alice", timestamp=clock()), subject="user:alice")
    await memory.save(SingleFact(CITY, "Oslo", timestamp=clock()), subject="user:bob")
    with pytest.raises(SeveralIndividualsError, match="subject="):
        await memory.profile(Guest, partial=True)
    assert (await memory.profile(Guest, partial=True, subject="user:bob")).known.keys() == {"city"}


async def test_a_users_own_fact_is_chosen_before_those_of_any_other_subject(memory: Memory, clock: FakeClock) -> None:
    eve = memory.for_user("eve")
    await eve.save(SingleFact(CITY, "Faro", timestamp=clock()))
    await eve.save(SingleFact(NAME, "Eve", timestamp=clock()))
    clock.advance(dt.timedelta(minutes=1))
    await eve.save(SingleFact(CITY, "Oslo", timestamp=clock()), subject="Lena", scope=ALPHA)
    await eve.save(SingleFact(CITY, "Rome", timestamp=clock()), subject=MemorySubject("boss", priority_level=0))
    assert await eve.load(CITY) == await eve.load(CITY, subject="user:eve")
    assert await eve.profile(Guest) == Guest("Eve", "Faro")
    listed = await eve.list_records(concepts=[CITY], strongest=True)
    matches = await eve.recall("Which city?", concepts=[CITY], strongest=True)
    assert [record.value for record in (*listed, *(match.record for match in matches))] == ["Faro", "Faro"]


async def test_where_a_user_has_no_fact_the_stronger_subject_is_chosen_that_is_no_other_person(
    memory: Memory, clock: FakeClock
) -> None:
    eve = memory.for_user("eve")
    await eve.save(SingleFact(NAME, "Zoe", timestamp=clock()), subject=MemorySubject("boss", priority_level=2))
    await eve.save(SingleFact(CITY, "Bern", timestamp=clock()), subject=MemorySubject("boss", priority_level=2))
    await eve.save(SingleFact(CITY, "Rome", timestamp=clock()), subject=MemorySubject("office", priority_level=5))
    clock.advance(dt.timedelta(minutes=1))
    await eve.save(SingleFact(CITY, "Oslo", timestamp=clock()), subject="Lena")
    await memory.save(SingleFact(CITY, "Bonn", timestamp=clock()), subject="user:carl")
    assert not_none(await eve.load(CITY)).value == "Rome"
    assert (await eve.profile(Guest, partial=True)).known == {"city": "Rome"}


async def test_where_a_user_has_no_fact_none_of_a_subject_without_a_rank_stands_for_it(clock: FakeClock) -> None:
    async with Memory("memory:", subjects=["office"], embedder=HashEmbedder(), clock=clock) as memory:
        eve = memory.for_user("eve")
        await eve.save(SingleFact(NAME, "Lena", timestamp=clock()), subject="Lena")
        await eve.save(SingleFact(CITY, "Oslo", timestamp=clock()), subject="Lena")
        assert await eve.load(CITY) is None
        assert (await eve.profile(Guest, partial=True)).known == {}
        assert not_none(await eve.load(CITY, subject="Lena")).value == "Oslo"
        for subject, city in (("everything", "Bonn"), ("office", "Rome"), ("user", "Faro")):
            await memory.save(SingleFact(CITY, city, timestamp=clock()), subject=subject)
            clock.advance(dt.timedelta(minutes=1))
            assert not_none(await eve.load(CITY)).value == city


async def test_a_user_of_a_store_of_four_verbs_reads_their_own(clock: FakeClock) -> None:
    from tests.memory.shelves import Shelf

    provider: AgentMemoryProvider = Shelf()
    people = ["user:eve", "user:carl", "office"]
    async with Memory(provider, subjects=people, embedder=HashEmbedder(), clock=clock) as memory:
        await told_of(memory, clock)
        eve = memory.for_user("eve")
        assert {match.record.value for match in await eve.recall("city")} == {"Bergen"}
        assert {match.record.value for match in await eve.recall("city", subject="user:carl")} == {"Oslo"}
        await memory.save(SingleFact(CITY, "Faro", timestamp=clock()), subject="user:eve")
        with pytest.raises(SeveralIndividualsError):
            await memory.load(CITY)


async def told_of(memory: Memory, clock: FakeClock) -> None:
    await memory.save(SingleFact(CITY, "Oslo", timestamp=clock()), subject="user:carl")
    await memory.save(SingleFact(CITY, "Bergen", timestamp=clock()), subject="office")


async def test_a_fact_without_a_time_is_dated_by_the_clock_of_the_memory() -> None:
    for year in (2024, 2031):
        clock = FakeClock(dt.datetime(year, 5, 10, 20, tzinfo=zoneinfo.ZoneInfo("America/Los_Angeles")))
        async with Memory("memory:", clock=clock, embedder=HashEmbedder()) as memory:
            (record,) = await memory.save(SingleFact(Concept.single("city", "City"), "Oslo"))
        assert record.timestamp == clock()
