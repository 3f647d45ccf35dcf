"""Facts of several people in one store: whose facts a read without a subject gives."""

from __future__ import annotations

import datetime as dt
from typing import Any

import attrs
import pytest

from factmem import AgentMemoryProvider, Concept, Memory, MemoryScope, MemorySubject, MultipleFacts, SingleFact
from factmem.errors import RecordNotFoundError, SeveralIndividualsError
from factmem.testing import FakeClock, HashEmbedder

CITY = Concept.single("city", "Where the person lives")
NAME = Concept.single("name", "What the person is called")
LANGUAGES = Concept.multiple("languages", "Languages that the person speaks")
ALPHA = MemoryScope.product("alpha")
NOON = dt.datetime(2026, 3, 4, 12, tzinfo=dt.UTC)


@attrs.frozen
class Guest:
    """A profile of two facts."""

    name: str
    city: str


async def told(memory: Memory, clock: FakeClock) -> None:
    """Save public facts of two people and one about no individual."""
    await memory.save(SingleFact(CITY, "Oslo", timestamp=clock()), subject="user:carl")
    await memory.save(SingleFact(NAME, "Dora", timestamp=clock()), subject="user:dora")
    await memory.save(SingleFact(CITY, "Bergen", timestamp=clock()), subject=MemorySubject("office"))


async def test_a_user_reads_nothing_of_others_without_naming_them(memory: Memory, clock: FakeClock) -> None:
    await told(memory, clock)
    eve = memory.for_user("eve")
    assert await eve.load(NAME) is None
    assert set((await eve.profile(Guest, partial=True)).known) == {"city"}
    assert {record.value for record in await eve.list_records()} == {"Bergen"}
    assert {match.record.value for match in await eve.recall("city name")} == {"Bergen"}
    assert (await eve.info()).records == 1
    assert {match.record.value for match in await eve.recall("Oslo Dora", strongest=True)} <= {"Bergen"}


async def test_what_is_public_about_others_is_read_by_naming_them(memory: Memory, clock: FakeClock) -> None:
    await told(memory, clock)
    eve = memory.for_user("eve")
    assert await eve.load(CITY, subject="user:carl") == await memory.load(CITY, subject="user:carl")
    assert [match.record.value for match in await eve.recall("name", subject="user:dora")] == ["Dora"]
    (record,) = await eve.list_records(subject="user:carl")
    assert (await eve.get(record.id)).value == "Oslo"
    assert {record.value for record in await eve.list_records(subjects=["user:carl", "user:dora"])} == {"Oslo", "Dora"}


async def test_a_user_reads_the_newest_of_their_private_and_public_facts(memory: Memory, clock: FakeClock) -> None:
    carl = memory.for_user("carl")
    await carl.save(SingleFact(CITY, "Oslo", timestamp=clock()), private=True)
    await carl.save(SingleFact(CITY, "Bergen", timestamp=clock()), private=False)
    fact = await carl.load(CITY)
    assert fact is not None
    assert fact.value == "Bergen"
    await carl.save(SingleFact(CITY, "Lund", timestamp=clock()), private=True)
    fact = await carl.load(CITY)
    assert fact is not None
    assert fact.value == "Lund"


@pytest.mark.parametrize("named", [True, False], ids=["exact place", "chosen place"])
async def test_private_and_public_values_of_a_place_are_united_for_their_owner(
    memory: Memory, clock: FakeClock, named: bool
) -> None:
    carl = memory.for_user("carl")
    place: dict[str, Any] = {"subject": "user:carl", "scope": ALPHA} if named else {}
    await carl.save(MultipleFacts(LANGUAGES, ("Norwegian", "Sami"), timestamp=clock()), scope=ALPHA, private=True)
    await carl.save(MultipleFacts(LANGUAGES, ("English", "Sami"), timestamp=clock()), scope=ALPHA, private=False)
    fact = await carl.load(LANGUAGES, **place)
    assert fact is not None
    assert set(fact.values) == {"Norwegian", "Sami", "English"}
    assert len(fact.values) == 3
    public = await memory.load(LANGUAGES, **place)
    assert public is not None
    assert set(public.values) == {"English", "Sami"}


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


async def test_people_whom_the_caller_may_not_see_are_neither_mixed_in_nor_named(
    memory: Memory, clock: FakeClock
) -> None:
    await memory.save(SingleFact(CITY, "Oslo", timestamp=clock()), subject="user:bob")
    await memory.as_viewer("zoe").save(SingleFact(CITY, "Rome", timestamp=clock()), subject="user:zoe", private=True)
    fact = await memory.load(CITY)
    assert fact is not None
    assert fact.value == "Oslo"


async def test_one_stronger_individual_is_chosen_over_several_weaker_ones(memory: Memory, clock: FakeClock) -> None:
    boss = MemorySubject("boss", priority_level=0).individual("ann")
    await memory.save(SingleFact(CITY, "Rome", timestamp=clock()), subject=boss)
    for name in ("bob", "cid"):
        await memory.save(SingleFact(CITY, "Oslo", timestamp=clock()), subject=f"user:{name}")
    fact = await memory.load(CITY)
    assert fact is not None
    assert fact.value == "Rome"


async def test_a_users_write_and_the_ids_of_others_still_work(memory: Memory, clock: FakeClock) -> None:
    await told(memory, clock)
    eve = memory.for_user("eve")
    (record,) = await memory.list_records(subject="user:carl")
    await eve.retract(record.id)
    with pytest.raises(RecordNotFoundError):
        await eve.get(record.id)
    (own,) = await eve.save(SingleFact(CITY, "Faro", timestamp=clock()))
    assert own.subject == MemorySubject("user").individual("eve")


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


async def test_what_is_known_of_others_changes_no_score_of_a_users_recall(clock: FakeClock) -> None:
    async def scores(*, others: bool) -> list[tuple[object, float]]:
        async with Memory("memory:", embedder=HashEmbedder(), clock=lambda: NOON) as memory:
            eve = memory.for_user("eve")
            for number in range(5):
                await eve.save(SingleFact(CITY, f"Faro {number}", timestamp=NOON), scope=f"/product/p{number}")
                if others:
                    await memory.save(SingleFact(CITY, f"Oslo {number}", timestamp=NOON), subject=f"user:{number}")
            return [(match.record.value, match.score) for match in await eve.recall("Where in Faro?")]

    assert await scores(others=True) == await scores(others=False)
