"""Conversion of stored facts to another type, keyword or subject: all revisions, all or none, and after a death."""

from __future__ import annotations

import datetime as dt
import enum
import io
from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from factmem import STATEMENT, Concept, InMemoryProvider, Memory, MemorySubject, MultipleFacts, SingleFact
from factmem.abc.capabilities import EraseReceipt
from factmem.details import FactDetails, Origin
from factmem.errors import ConceptConflictError, InvalidDataError, OutOfViewError
from factmem.memory.exports import Exchange
from factmem.records import AssertionState
from factmem.testing import FakeClock, HashEmbedder
from tests.narrowing import not_none

USER = MemorySubject("user", "the person who writes")
SEATS = Concept.single("seats", "How many seats they need")
NUMBER = Concept.single("seats", "How many seats they need", int)
PETS = Concept.multiple("pets", "Animals that they keep")
ANNIE, ANN, BOB = map(MemorySubject.parse, ("user:annie", "user:ann", "user:bob"))


class OldPlan(enum.Enum):
    FREE = "free"
    PRO = "pro"


class Plan(enum.Enum):
    BASIC = "basic"
    PRO = "pro"


class GrownPlan(enum.Enum):
    FREE = "free"
    PRO = "pro"
    TEAM = "team"


def _number(old: Any) -> int:
    return int(old)


def _fewest(values: Any) -> int:
    return min(map(int, values))


def _number_of(values: Any) -> int:
    return len(values)


async def _two_seats(memory: Memory, clock: FakeClock) -> None:
    await memory.save(SingleFact(SEATS, "5", timestamp=clock()), subject=USER)
    clock.advance(dt.timedelta(days=1))
    await memory.save(SingleFact(SEATS, "7", timestamp=clock()), subject=USER)


async def test_every_revision_gets_the_new_type_and_keeps_its_time(memory: Memory, clock: FakeClock) -> None:
    await _two_seats(memory, clock)
    old = await memory.history(SEATS, subject=USER)
    assert (await memory.admin.convert("seats", NUMBER, _number)).revisions == 2
    new = await memory.history(NUMBER, subject=USER)
    assert [record.value for record in new] == [5, 7]
    assert [record.state for record in new] == [AssertionState.SUPERSEDED, AssertionState.ACTIVE]
    assert [record.timestamp for record in new] == [record.timestamp for record in old]
    assert not_none(await memory.load(NUMBER, subject=USER)).value == 7
    (found,) = await memory.recall("how many seats", limit=1)
    assert found.record.value == 7


async def test_a_conversion_that_runs_again_converts_nothing(memory: Memory) -> None:
    """Values that a newer release has saved as the new type stay, beside those of the old type as well."""
    old, new = Concept.single("plan", "Their plan", OldPlan), Concept.single("plan", "Their plan", GrownPlan)
    await memory.save(SingleFact(old, OldPlan.FREE), subject="user:ann")
    await memory.save(SingleFact(new, GrownPlan.FREE), subject="user:ann")
    await memory.save(SingleFact(old, OldPlan.FREE), subject="user:bo")
    (fresh,) = await memory.save(SingleFact(new, GrownPlan.FREE), subject="user:cy")
    calls: list[Any] = []

    def to_team(plan: Any) -> GrownPlan:
        calls.append(plan)
        return GrownPlan.TEAM

    done = [(await memory.admin.convert(old, new, to_team)).revisions for _ in range(2)]
    assert (done, calls) == ([3, 0], ["free", "free"])
    plans = {str(record.subject): record.value for record in await memory.list_records()}
    assert plans == {"user:ann": "free", "user:bo": "team", "user:cy": "free"}
    history = await memory.history(new, subject="user:ann")
    assert [record.value for record in history] == [GrownPlan.TEAM, GrownPlan.FREE]
    assert (await memory.get(fresh.id)).id == fresh.id


async def test_a_rollback_of_a_type_that_runs_again_converts_nothing(memory: Memory) -> None:
    old, new = Concept.single("plan", "Their plan", OldPlan), Concept.single("plan", "Their plan", GrownPlan)
    await memory.save(SingleFact(new, GrownPlan.FREE), subject=USER)
    assert [(await memory.admin.convert("plan", old)).revisions for _ in range(3)] == [1, 0, 0]
    assert not_none(await memory.load(old, subject=USER)).value is OldPlan.FREE


async def test_values_of_the_same_type_are_converted_to_another_keyword(memory: Memory) -> None:
    cents = Concept.single("cents", "Price in cents", int)
    await memory.save(SingleFact(Concept.single("price", "Price", int), 5), subject=USER)
    for _ in range(2):
        await memory.admin.convert("price", cents, lambda old: int(str(old)) * 100)
    assert not_none(await memory.load(cents, subject=USER)).value == 500


async def test_a_lost_member_of_an_enum_is_named_anew(memory: Memory) -> None:
    await memory.save(SingleFact(Concept.single("plan", "Their plan", OldPlan), OldPlan.FREE), subject=USER)
    plan = Concept.single("plan", "Their plan", Plan)
    with pytest.raises(ConceptConflictError, match=r"Admin\.convert"):
        await memory.load(plan, subject=USER)
    await memory.admin.convert("plan", plan, lambda old: Plan.BASIC if old == "free" else Plan(str(old)))
    assert not_none(await memory.load(plan, subject=USER)).value is Plan.BASIC


@attrs.frozen
class Pet:
    name: str


@attrs.frozen
class GrownPet:
    name: str
    tame: bool = True


async def test_values_of_before_a_class_gained_a_field_become_one_with_their_equals(memory: Memory) -> None:
    old, pets = (Concept.multiple("pets", "Animals that they keep", cls) for cls in (Pet, GrownPet))
    await memory.save(MultipleFacts(old, [Pet("Rex"), Pet("Tom")]))
    await memory.save(MultipleFacts(pets, [GrownPet("Rex")]))
    assert len(await memory.list_records()) == 3
    assert (await memory.admin.convert(pets, pets)).revisions == 3
    assert set(not_none(await memory.load(pets)).values) == {GrownPet("Rex"), GrownPet("Tom")}
    assert len(await memory.list_records()) == 2
    await memory.save(MultipleFacts(pets, [GrownPet("Tom")]))
    assert len(await memory.list_records()) == 2


async def test_a_concept_is_renamed_and_joins_facts_of_the_new_name(memory: Memory) -> None:
    animals = Concept.multiple("animals", "Animals that they keep")
    await memory.save(MultipleFacts(PETS, ("cat", "dog")), subject=USER)
    await memory.save(MultipleFacts(animals, ("dog", "newt")), subject=USER)
    await memory.admin.convert("pets", animals)
    assert set(not_none(await memory.load(animals, subject=USER)).values) == {"cat", "dog", "newt"}
    assert await memory.history("pets", subject=USER) == []


@pytest.mark.parametrize("way", ["convert", "merge", "import"])
async def test_what_was_retracted_is_restored_after_its_copy(memory: Memory, way: str) -> None:
    (record,) = await memory.view(actor="ada").save(SingleFact(SEATS, "5"), subject=USER)
    await memory.retract(record.id, reason="a mistake")
    subject: Any = USER
    if way == "convert":
        await memory.admin.convert("seats", NUMBER, _number)
    elif way == "merge":
        subject = "guest"
        await memory.admin.merge(USER, into=subject)
    else:
        file = io.StringIO()
        await memory.admin.export(file)
        await memory.admin.reset()
        await memory.admin.import_(io.StringIO(file.getvalue()), trust=True)
    (retracted,) = await memory.history("seats", subject=subject)
    assert retracted.state is AssertionState.RETRACTED
    await memory.restore(retracted.id)
    assert [str(record.value) for record in await memory.list_records(subject=subject)] == ["5"]
    first, *_ = (await memory.admin.audit(retracted.id, descending=False)).entries
    assert first.actor == ("import:alice" if way == "import" else "ada")


async def test_what_was_rejected_is_listed_as_such_after_an_import(memory: Memory) -> None:
    await memory.save(SingleFact(SEATS, "5"), subject=USER, details=FactDetails(origin=Origin.DOCUMENT))
    (apart,) = await memory.inbox.quarantine.list()
    await memory.inbox.quarantine.reject(apart.id)
    file = io.StringIO()
    await memory.admin.export(file)
    await memory.admin.reset()
    await memory.admin.import_(io.StringIO(file.getvalue()), trust=True)
    (rejected,) = await memory.inbox.quarantine.list(rejected=True)
    await memory.inbox.quarantine.accept(rejected.id)
    assert [record.value for record in await memory.list_records()] == ["5"]


async def test_an_update_by_id_stays_one_record_with_its_history(memory: Memory, clock: FakeClock) -> None:
    (cat,) = await memory.save(MultipleFacts(PETS, ("cat",), timestamp=clock()), subject=USER)
    clock.advance(dt.timedelta(hours=1))
    await memory.update(cat.id, value="lynx")
    animals = Concept.multiple("animals", "Animals that they keep")
    await memory.admin.convert("pets", animals)
    assert not_none(await memory.load(animals, subject=USER)).values == ("lynx",)
    assert len({record.id for record in await memory.history(animals, subject=USER)}) == 1


async def test_a_value_that_cannot_be_converted_leaves_everything_as_it_was(memory: Memory, clock: FakeClock) -> None:
    await _two_seats(memory, clock)
    await memory.save(SingleFact(SEATS, "many"), subject=USER.individual("bo"))
    (wrong, *_) = before = await memory.list_records()
    with pytest.raises(InvalidDataError, match=f"{wrong.id} .* raised ValueError"):
        await memory.admin.convert("seats", NUMBER, _number)
    with pytest.raises(InvalidDataError, match=f"{before[-1].id} .* int"):
        await memory.admin.convert("seats", NUMBER)
    assert await memory.list_records() == before


async def test_a_conflict_at_the_new_keyword_leaves_everything_as_it_was(memory: Memory, clock: FakeClock) -> None:
    await _two_seats(memory, clock)
    places = Concept.single("places", "How many seats they need", int)
    await memory.save(SingleFact(places, 3), subject=USER)
    before = await memory.list_records()
    with pytest.raises(ConceptConflictError):
        await memory.admin.convert("seats", Concept.single("places", "How many seats they need"))
    assert await memory.list_records() == before


async def test_a_conversion_that_fails_takes_back_its_own_writes_alone(
    memory: Memory, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep what somebody else saved under the new keyword meanwhile."""
    await _two_seats(memory, clock)
    places = Concept.single("places", "How many seats they need")
    done = Exchange.import_

    async def interrupted(exchange: Exchange, *args: Any, **kwargs: Any) -> None:
        await done(exchange, *args, **kwargs)
        await memory.save(SingleFact(places, "9"), subject=USER.individual("bo"))
        raise OSError

    monkeypatch.setattr(Exchange, "import_", interrupted)
    with pytest.raises(OSError):  # noqa: PT011 - it has no message
        await memory.admin.convert("seats", places)
    assert [record.value for record in await memory.history("places")] == ["9"]
    assert [record.value for record in await memory.history("seats", subject=USER)] == ["5", "7"]


async def test_a_dry_run_writes_nothing(memory: Memory, clock: FakeClock) -> None:
    await _two_seats(memory, clock)
    found = await memory.admin.convert("seats", NUMBER, _number, dry_run=True)
    assert (found.revisions, found.dry_run) == (2, True)
    assert (await memory.admin.merge("user", "user:ann", dry_run=True)).revisions == 2
    assert [record.value for record in await memory.history("seats", subject=USER)] == ["5", "7"]


async def test_a_single_becomes_a_multiple_of_its_one_value_with_its_history(memory: Memory, clock: FakeClock) -> None:
    await _two_seats(memory, clock)
    clock.advance(dt.timedelta(days=1))
    (left,) = await memory.save(SingleFact(SEATS, "2", timestamp=clock()), subject="user:ann")
    await memory.save(SingleFact(SEATS, "3", timestamp=clock()), subject="user:ann", ttl=dt.timedelta(hours=1))
    clock.advance(dt.timedelta(days=1))
    several = Concept.multiple("seats", "How many seats they need")
    with pytest.raises(ConceptConflictError, match=r"Admin\.convert"):
        await memory.save(MultipleFacts(several, ("9",)), subject=USER)
    assert [(await memory.admin.convert("seats", several)).revisions for _ in range(2)] == [4, 0]
    await memory.save(MultipleFacts(several, ("9",)), subject=USER)
    assert not_none(await memory.load(several, subject=USER)).values == ("7", "9")
    assert not_none(await memory.load(several, subject="user:ann")).values == (left.value,)
    history = await memory.history(several, subject=USER)
    assert [record.value for record in history] == ["5", "7", "9"]
    assert [record.state for record in history][:2] == [AssertionState.SUPERSEDED, AssertionState.ACTIVE]
    assert history[0].id == history[1].id != history[2].id
    await memory.rollback(history[0])
    assert set(not_none(await memory.load(several, subject=USER)).values) == {"5", "9"}


async def test_a_multiple_with_one_value_left_becomes_a_single(memory: Memory, clock: FakeClock) -> None:
    await memory.save(MultipleFacts(PETS, ("cat",), timestamp=clock()), subject=USER)
    (dog,) = await memory.save(MultipleFacts(PETS, ("dog",), timestamp=clock()), subject=USER)
    (lynx,) = await memory.save(MultipleFacts(PETS, ("lynx",), timestamp=clock()), subject="user:ann")
    await memory.retract(dog.id)
    await memory.retract(lynx.id)
    pet = Concept.single("pets", "The animal that they keep")
    assert [(await memory.admin.convert("pets", pet)).revisions for _ in range(2)] == [3, 0]
    assert not_none(await memory.load(pet, subject=USER)).value == "cat"
    assert await memory.load(pet, subject="user:ann") is None
    history = await memory.history(pet, subject=USER)
    assert [(it.value, it.state is AssertionState.ACTIVE) for it in history] == [("cat", True), ("dog", False)]


async def test_of_several_values_the_function_chooses_the_single_one(memory: Memory, clock: FakeClock) -> None:
    several = Concept.multiple("seats", "How many seats they need")
    for value in ("8", "5", "7"):
        await memory.save(MultipleFacts(several, (value,), timestamp=clock()), subject=USER)
    await memory.save(MultipleFacts(several, ("2",)), subject="user:ann")
    before = await memory.list_records()
    with pytest.raises(InvalidDataError, match="give a function that chooses"):
        await memory.admin.convert("seats", SEATS)
    with pytest.raises(InvalidDataError, match="one of them"):
        await memory.admin.convert("seats", NUMBER, _number_of)
    assert await memory.list_records() == before
    await memory.admin.convert("seats", NUMBER, _fewest)
    assert not_none(await memory.load(NUMBER, subject=USER)).value == 5
    assert not_none(await memory.load(NUMBER, subject="user:ann")).value == 2
    history = await memory.history(NUMBER, subject=USER)
    assert [(record.value, record.state) for record in history] == [
        (8, AssertionState.SUPERSEDED),
        (5, AssertionState.ACTIVE),
        (7, AssertionState.RETRACTED),
    ]
    await memory.save(SingleFact(NUMBER, 9), subject=USER)
    assert not_none(await memory.load(NUMBER, subject=USER)).value == 9


async def test_a_concept_becomes_multiple_under_another_keyword(memory: Memory, clock: FakeClock) -> None:
    await _two_seats(memory, clock)
    rows = Concept.multiple("rows", "Rows that they need", int)
    await memory.save(MultipleFacts(rows, (1,)), subject=USER)
    await memory.admin.convert(SEATS, rows, _number)
    assert set(not_none(await memory.load(rows, subject=USER)).values) == {1, 7}
    assert await memory.load(SEATS, subject=USER) is None


async def test_statements_are_not_converted(memory: Memory) -> None:
    with pytest.raises(InvalidDataError, match="statements"):
        await memory.admin.convert("seats", STATEMENT)
    await memory.remember("The cellar is cold.")
    with pytest.raises(InvalidDataError, match="statements"):
        await memory.admin.convert("statement", NUMBER)


async def test_where_nothing_is_to_convert_or_merge_the_log_says_so(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    await memory.save(SingleFact(SEATS, "4"))
    assert (await memory.admin.convert("seat", SEATS)).revisions == 0
    assert (await memory.admin.merge("nobody", into="user")).revisions == 0
    assert [record.message for record in caplog.records] == [
        "nothing is converted: no fact that is visible here has the keyword 'seat'",
        "nothing is merged: no fact that is visible here is about nobody",
    ]


async def test_a_value_that_is_no_member_is_answered_with_the_members(memory: Memory) -> None:
    plan: Any = Concept.single("plan", "The plan that they pay for", Plan)
    with pytest.raises(InvalidDataError, match=r"take Plan\.BASIC or Plan\.PRO"):
        await memory.save(SingleFact(plan, "basic"))


async def test_two_subjects_become_one(memory: Memory, clock: FakeClock) -> None:
    await memory.save(SingleFact(SEATS, "5", timestamp=clock()), subject="user:annie")
    clock.advance(dt.timedelta(days=1))
    await memory.save(SingleFact(SEATS, "7", timestamp=clock()), subject="user:ann")
    await memory.save(MultipleFacts(PETS, ("cat",)), subject="user:annie")
    assert (await memory.admin.merge("user:annie", into="user:ann")).revisions == 2
    assert [record.value for record in await memory.history("seats", subject="user:ann")] == ["5", "7"]
    assert not_none(await memory.load(PETS, subject="user:ann")).values == ("cat",)
    assert await memory.list_records(subject="user:annie") == []
    with pytest.raises(InvalidDataError, match="itself"):
        await memory.admin.merge("user:ann", into="user:ann")


async def test_values_that_are_a_merged_subject_follow_it(memory: Memory) -> None:
    boss = Concept.single("boss", "Whom they report to", MemorySubject)
    annie, ann = map(MemorySubject.parse, ("user:annie", "user:ann"))
    await memory.save(SingleFact(boss, annie), subject="user:bob")
    await memory.save(SingleFact(SEATS, "5"), subject=annie)
    assert (await memory.admin.merge(annie, into=ann)).revisions == 2
    loaded = not_none(await memory.load(boss, subject="user:bob"))
    assert loaded.value.key == ann.key
    assert [record.value for record in await memory.history("seats", subject=loaded.value)] == ["5"]


@attrs.frozen
class Team:
    lead: MemorySubject
    name: str = "user:annie"
    deputy: MemorySubject | None = None


@pytest.mark.parametrize(
    ("value_type", "value", "merged"),
    [
        (list[MemorySubject], [ANNIE, BOB], [ANN, BOB]),
        (tuple[int, MemorySubject], (1, ANNIE), (1, ANN)),
        (dict[str, MemorySubject], {"user:annie": ANNIE}, {"user:annie": ANN}),
        (MemorySubject | None, ANNIE, ANN),
        (Team, Team(ANNIE, deputy=ANNIE), Team(ANN, deputy=ANN)),
        (list[Team | int], [Team(BOB, deputy=ANNIE), 3], [Team(BOB, deputy=ANN), 3]),
        (list[str], ["user:annie"], ["user:annie"]),
    ],
)
async def test_subjects_inside_values_follow_a_merged_one(
    memory: Memory, value_type: Any, value: Any, merged: Any
) -> None:
    crew = Concept.single("crew", "Who works there", value_type)
    await memory.save(SingleFact(crew, value), subject="user:bob")
    assert (await memory.admin.merge(ANNIE, into=ANN)).revisions == (value != merged)
    assert not_none(await memory.load(crew, subject="user:bob")).value == merged


async def test_private_facts_of_all_users_are_converted_and_a_user_is_renamed() -> None:
    async with Memory("memory:") as memory:
        ann, bo = memory.for_user("ann"), memory.for_user("bo")
        for user in (ann, bo):
            await user.save(SingleFact(SEATS, "5"))
        assert (await memory.admin.convert("seats", NUMBER, _number)).revisions == 0
        assert (await ann.admin.convert("seats", NUMBER, _number, dry_run=True)).revisions == 1
        assert (await memory.admin.convert("seats", NUMBER, _number, all_users=True)).revisions == 2
        assert (await memory.admin.merge("user:ann", into="user:anna", all_users=True)).revisions == 1
        for name, value in (("anna", 5), ("bo", 5), ("ann", None)):
            found = await memory.for_user(name).load(NUMBER)
            assert (found and found.value) == value
        assert await memory.list_records() == []  # they are private as before
        with pytest.raises(InvalidDataError, match="their own private facts"):
            await ann.admin.merge("user:anna", into="user:ann", all_users=True)
        with pytest.raises(OutOfViewError):
            await memory.scope("/product/alpha").admin.convert("seats", NUMBER, all_users=True)


@pytest.mark.parametrize("deaths", [1, 2])
@pytest.mark.parametrize("wanted", [NUMBER, Concept.multiple("seats", "How many seats they need", int)], ids=str)
async def test_a_conversion_that_was_killed_goes_on(deaths: int, wanted: Concept[int, Any], clock: FakeClock) -> None:
    """The process dies before the first erasure, or before the second one."""
    alive = True

    class Dies(InMemoryProvider):
        left = deaths

        async def erase(
            self, record_ids: Sequence[str], *, tenant: str | None, assertion_ids: Sequence[str] = ()
        ) -> EraseReceipt:
            self.left -= alive
            if alive and self.left <= 0:
                raise KeyboardInterrupt
            return await super().erase(record_ids, tenant=tenant, assertion_ids=assertion_ids)

    async with Memory(Dies(clock=clock), embedder=HashEmbedder(), clock=clock) as memory:
        await _two_seats(memory, clock)
        with pytest.raises(KeyboardInterrupt):
            await memory.admin.convert("seats", wanted, _number)
        alive = False
        await memory.admin.convert("seats", wanted, _number)
        assert [record.value for record in await memory.history(wanted, subject=USER)] == [5, 7]
        assert [record.value for record in await memory.list_records()] == [7]
