"""Profiles: classes filled with known facts."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import pydantic
import pytest

from factmem import Concept, InMemoryProvider, Memory, MemoryScope, MemorySubject, MultipleFacts, SingleFact, Topic
from factmem.abc import DetectionRequest
from factmem.abc.detector import DropReason
from factmem.errors import ConceptConflictError, FactMemError, IncompleteProfileError, InvalidDataError
from factmem.facts import FactType
from factmem.memory import concepts_of
from factmem.memory.profiles import ProfileSchema
from factmem.providers.memory import NoMemory
from factmem.testing import FakeClock, HashEmbedder, ScriptedModel
from tests.memory.telling import BEGAN, opened, talk, well
from tests.tables import each_case

pytestmark = pytest.mark.processes

USER = MemorySubject("user", priority_level=1)
ALPHA = MemoryScope.product("alpha")


class Diet(enum.Enum):
    """A closed set of values."""

    ANY = "any"
    VEGAN = "vegan"


@attrs.frozen(kw_only=True)
class Address:
    """A value with fields of its own."""

    street: str
    number: int = 1


@attrs.frozen(kw_only=True)
class UserProfile:
    """A profile of the user, as an agent might declare it."""

    name: str = attrs.field(metadata={"description": "What the user is called"})
    age: int | None = None
    home: Address | None
    diet: Diet = Diet.ANY
    likes: list[str] = attrs.field(factory=list)
    allergies: frozenset[str]
    inner: tuple[int, ...] = (7,)
    _secret: str | None = None
    derived: int = attrs.field(default=0, init=False)


class UserModel(pydantic.BaseModel):
    """The same profile as a pydantic model."""

    name: str = pydantic.Field(description="What the user is called", alias="fullName")
    age: Annotated[int, pydantic.Field(ge=0)] | None = None
    likes: set[str]
    score: float = pydantic.Field(default=0.5, le=1)


async def met(memory: Memory, clock: FakeClock) -> None:
    await memory.save(SingleFact(Concept.single("name", "n"), "Maya", timestamp=clock()), subject=USER, scope=ALPHA)
    likes = Concept.multiple("likes", "l")
    await memory.save(MultipleFacts(likes, ("tea", "jazz"), timestamp=clock()), subject=USER, scope=ALPHA)


def test_the_fields_of_a_class_are_concepts() -> None:
    concepts = {concept.keyword: concept for concept in concepts_of(UserProfile)}
    assert list(concepts) == ["name", "age", "home", "diet", "likes", "allergies", "inner", "secret"]
    assert (concepts["name"].description, concepts["age"].description) == ("What the user is called", "age")
    assert {name for name, item in concepts.items() if item.fact_type is FactType.MULTIPLE} == {
        "likes",
        "allergies",
        "inner",
    }
    types: list[Any] = [concepts[name].value_type for name in ("age", "home", "diet", "likes", "inner")]
    assert types == [int, Address, Diet, str, int]


def test_the_fields_of_a_pydantic_model_are_concepts() -> None:
    name, age, likes, score = concepts_of(UserModel)
    assert (name.keyword, name.description) == ("name", "What the user is called")
    assert (age.shape, likes.fact_type, likes.value_type, score.shape) == ("int", FactType.MULTIPLE, str, "float")


async def test_a_profile_is_filled_with_what_is_known_and_what_the_class_says_otherwise(
    memory: Memory, clock: FakeClock
) -> None:
    await met(memory, clock)
    profile: UserProfile = await memory.profile(UserProfile, subject=USER, scope=ALPHA)
    assert profile == UserProfile(
        name="Maya", home=None, likes=["tea", "jazz"], allergies=frozenset(), diet=Diet.ANY, inner=(7,)
    )
    model: UserModel = await memory.profile(UserModel, subject=USER, scope=ALPHA)
    assert (model.name, model.age, model.likes, model.score) == ("Maya", None, {"tea", "jazz"}, 0.5)


async def test_what_is_required_and_unknown_is_listed(memory: Memory, clock: FakeClock) -> None:
    with pytest.raises(IncompleteProfileError, match="name") as caught:
        await memory.profile(UserProfile, subject=USER)
    assert caught.value.missing == ("name",)
    partial = await memory.profile(UserProfile, subject=USER, partial=True)
    assert (partial.profile, dict(partial.known), partial.missing) == (None, {}, ("name",))
    await met(memory, clock)
    partial = await memory.profile(UserProfile, subject=USER, partial=True)
    assert partial.profile == await memory.profile(UserProfile)
    assert (dict(partial.known), partial.missing) == ({"name": "Maya", "likes": ["tea", "jazz"]}, ())


async def test_each_field_is_kept_as_a_fact_of_its_own(memory: Memory) -> None:
    home = Address(street="Mill Lane", number=4)
    profile = UserProfile(name="Maya", age=40, home=home, diet=Diet.VEGAN, likes=["tea", "jazz"], allergies=frozenset())
    records = await memory.save_profile(profile, subject=USER, scope=ALPHA)
    assert [record.concept.keyword for record in records] == ["name", "age", "home", "diet", "likes", "likes", "inner"]
    assert await memory.profile(UserProfile, subject=USER, scope=ALPHA) == profile
    await memory.update(records[1].id, value=41)
    assert (await memory.profile(UserProfile, subject=USER)).age == 41
    await memory.save_profile(attrs.evolve(profile, age=None, likes=[]), subject=USER, scope=ALPHA)
    again = await memory.profile(UserProfile, subject=USER)
    assert (again.age, again.likes) == (41, ["tea", "jazz"])


async def test_a_field_of_a_pydantic_model_that_was_not_set_leaves_what_is_known(memory: Memory) -> None:
    known = UserModel(fullName="Maya", likes={"tea"}, score=0.9)
    await memory.save_profile(known, subject=USER, scope=ALPHA)
    await memory.save_profile(UserModel(fullName="May", likes={"jazz"}), subject=USER, scope=ALPHA)
    found = await memory.profile(UserModel, subject=USER, scope=ALPHA)
    assert (found.name, found.likes, found.score) == ("May", {"tea", "jazz"}, 0.9)
    await memory.save_profile(UserModel(fullName="May", likes=set(), score=0.5), subject=USER, scope=ALPHA)
    assert (await memory.profile(UserModel, subject=USER, scope=ALPHA)).score == 0.5


@attrs.frozen
class Device:
    """A class with defaults that are empty."""

    name: str
    note: str = ""
    config: dict[str, int] = attrs.field(factory=dict)
    tags: list[str] = attrs.field(factory=list)


async def test_empty_texts_and_collections_of_any_kind_change_nothing(memory: Memory) -> None:
    known = Device("lamp", "by the door", {"watts": 5}, ["light"])
    await memory.save_profile(Device("lamp"), subject="device:lamp")
    assert await memory.profile(Device, subject="device:lamp") == Device("lamp")
    await memory.save_profile(known, subject="device:lamp")
    await memory.save_profile(Device("lamp"), subject="device:lamp")
    assert await memory.profile(Device, subject="device:lamp") == known


async def test_a_value_that_cannot_be_saved_is_refused_with_its_field(memory: Memory) -> None:
    with pytest.raises(InvalidDataError, match=r"blank.*\(at \$\.note\)"):
        await memory.save_profile(Device("lamp", note=" "))
    with pytest.raises(InvalidDataError) as caught:
        await memory.save_profile(UserProfile(name="Maya", home=Address(street="\ud800"), allergies=frozenset()))
    assert caught.value.path.startswith("$.home")


async def test_the_class_of_a_profile_is_no_instance(memory: Memory) -> None:
    with pytest.raises(InvalidDataError, match="takes an instance, not the class UserModel"):
        await memory.save_profile(UserModel)


async def test_a_profile_of_another_time_holds_what_was_said_by_then(memory: Memory, clock: FakeClock) -> None:
    await met(memory, clock)
    then = clock()
    await memory.save(SingleFact(Concept.single("name", "n"), "Mia", timestamp=clock()), subject=USER, scope=ALPHA)
    assert (await memory.view(as_of=then).profile(UserProfile)).name == "Maya"
    assert (await memory.profile(UserProfile)).name == "Mia"


async def test_all_of_a_profile_is_kept_or_nothing(memory: Memory) -> None:
    await memory.save(SingleFact(Concept.single("score", "s"), "high"), subject=USER)
    with pytest.raises(ConceptConflictError):
        await memory.save_profile(UserModel(fullName="Maya", likes={"tea"}, score=0.5), subject=USER)
    assert [record.value for record in await memory.list_records()] == ["high"]
    with pytest.raises(ConceptConflictError):
        await memory.profile(UserModel, subject=USER)


async def test_a_value_that_the_class_rejects_is_reported_without_it(memory: Memory) -> None:
    await memory.save(SingleFact(Concept.single("score", "s", float), 66.25), subject=USER)
    await memory.save(SingleFact(Concept.single("name", "n"), "Maya"), subject=USER)
    with pytest.raises(InvalidDataError, match="score") as caught:
        await memory.profile(UserModel, subject=USER)
    assert "66" not in str(caught.value)


class Booking(pydantic.BaseModel):
    """A profile with limits, of fields and between them."""

    name: str
    seats: int | None = pydantic.Field(default=None, ge=1, le=50, description="How many seats are booked")
    nights: Annotated[int, pydantic.Field(ge=1)] | None = None
    rooms: list[Annotated[int, pydantic.Field(le=9)]] = pydantic.Field(default=[], max_length=2)
    code: str = "A1"

    @pydantic.field_validator("name", "code")
    @classmethod
    def short(cls, text: str) -> str:
        if len(text) > 4:
            raise ValueError("too long")
        return text


@attrs.frozen
class Stay:
    """A profile whose fields are compared."""

    begin: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    end: int = 9

    def __attrs_post_init__(self) -> None:
        if self.end < self.begin:
            raise ValueError("it ends before it begins")


async def test_a_value_outside_of_a_fields_limits_is_no_finding_and_cannot_be_saved() -> None:
    async with opened(InMemoryProvider(), ScriptedModel(well), concepts=(), profiles=[Booking]) as memory:
        outcome = await memory.remember(talk("We booked 73 seats.", "We booked 12 seats."), subject=USER)
        assert [record.value for record in outcome.records] == [12]
        assert outcome.dropped == {DropReason.INVALID_VALUE: 1}
        with pytest.raises(InvalidDataError, match="greater_than_equal"):
            await memory.save_profile(Booking.model_construct(name="Maya", seats=0), subject=USER)
        found = (await memory.profile(subject=USER))["Booking"]
        assert (found.known, found.missing, found.refused) == ({"seats": 12}, ("name",), ())


@pytest.mark.parametrize(
    ("schema", "stored", "profile", "known", "refused"),
    [
        (Booking, {"name": "Maya", "seats": 73}, Booking(name="Maya"), {"name": "Maya"}, ("seats",)),
        (Booking, {"name": "Maya", "code": "ABCDE"}, Booking(name="Maya"), {"name": "Maya"}, ("code",)),
        (Booking, {"name": "Maximilian", "nights": 2}, None, {"nights": 2}, ("name",)),
        (Stay, {"begin": -1, "end": 3}, Stay(end=3), {"end": 3}, ("begin",)),
        (Stay, {"begin": 5, "end": 3}, Stay(begin=5), {"begin": 5}, ("end",)),
    ],
)
async def test_a_stored_value_that_the_class_refuses_hides_no_other(
    memory: Memory, schema: Any, stored: dict[str, Any], profile: object, known: dict[str, Any], refused: tuple[str]
) -> None:
    for keyword, value in stored.items():
        await memory.save(SingleFact(Concept.single(keyword, keyword, type(value)), value), subject=USER)
    found = await memory.profile(schema, subject=USER, partial=True)
    assert (found.profile, dict(found.known), found.refused) == (profile, known, refused)
    with pytest.raises(InvalidDataError, match=f"of {refused[0]}: correct it"):
        await memory.profile(schema, subject=USER)


async def test_of_several_stored_values_those_that_are_refused_are_left_out(memory: Memory) -> None:
    await memory.save(MultipleFacts(Concept.multiple("rooms", "r", int), (7, 12)), subject=USER)
    await memory.save(SingleFact(Concept.single("name", "n"), "Maya"), subject=USER)
    found = await memory.profile(Booking, subject=USER, partial=True)
    assert (found.profile, found.refused) == (Booking(name="Maya", rooms=[7]), ("rooms",))


@dataclasses.dataclass
class Trip:
    city: str = dataclasses.field(metadata={"description": "Where it goes"})
    nights: int = 1


async def test_a_dataclass_is_a_profile(memory: Memory) -> None:
    await memory.save_profile(Trip("Faro"))
    assert await memory.profile(Trip) == Trip("Faro", 1)
    assert [concept.description for concept in concepts_of(Trip)] == ["Where it goes", "nights"]


def test_only_classes_with_storable_fields_are_profiles() -> None:
    class Plain:
        name: str

    class Nested(pydantic.BaseModel, arbitrary_types_allowed=True):
        inner: Plain

    unfit: list[Any] = [Nested, Plain, dict, "name", UserModel(fullName="Maya", likes=set())]
    for wrong in unfit:
        with pytest.raises(InvalidDataError):
            ProfileSchema.of(wrong)


async def test_a_store_of_four_verbs_takes_a_profile_field_by_field() -> None:
    async with Memory(NoMemory(), embedder=HashEmbedder()) as memory:
        assert await memory.save_profile(UserModel(fullName="Maya", likes={"tea"})) == ()


def test_profiles_of_attrs_classes_do_without_pydantic() -> None:
    code = (
        "import sys, attrs\n"
        "from factmem.memory import concepts_of\n"
        "assert concepts_of(attrs.make_class('P', {'name': attrs.field(type=str)}))\n"
        "assert 'pydantic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class Pet(pydantic.BaseModel):
    """A second profile, of a JSON Schema."""

    pets: list[str] = []
    seats: int | None = pydantic.Field(default=None, description="How many seats are booked")
    mood: Literal["good", "bad"] = "good"
    born: dt.date | None = None
    home: dict[str, Any] | None = None


@attrs.frozen
class Home:
    """A profile that a model fills."""

    city: str = attrs.field(metadata={"description": "Where somebody lives"})


SCHEMA: dict[str, Any] = json.loads(Path(__file__).with_name("profile_schema.json").read_text())


def test_the_properties_of_a_json_schema_are_concepts() -> None:
    schema = ProfileSchema.of(SCHEMA)
    assert schema.name == "trip"
    kinds = {concept.keyword: (concept.fact_type.value, concept.shape) for concept in schema.concepts}
    assert kinds == {
        "seats": ("single", "int"),
        "nights": ("single", "int"),
        "tags": ("multiple", "str"),
        "class": ("single", {"enum": ["first", "second"]}),
        "leaves": ("single", "date"),
        "plan": ("single", "json"),
    }
    assert schema.concepts[0].description == "How many seats are booked"
    assert [field.attribute for field in schema.fields if field.required] == ["seats"]


async def test_a_profile_of_a_json_schema_is_a_dict(memory: Memory) -> None:
    """With the values as JSON, as Memory Bank returns them, and the defaults."""
    schema = ProfileSchema.of(SCHEMA)
    with pytest.raises(IncompleteProfileError, match="seats"):
        await memory.profile(schema)
    for concept, value in zip(schema.concepts, (3, 2, "sea", "first", dt.date(2026, 5, 1), {"x": 1}), strict=True):
        await memory.save(concept.fact([value], timestamp=BEGAN), subject=USER)
        if concept.keyword == "seats":
            assert await memory.profile(schema, subject=USER) == {"seats": 3, "class": "second"}
    assert await memory.profile(schema, subject=USER) == {
        "seats": 3,
        "nights": 2,
        "tags": ["sea"],
        "class": "first",
        "leaves": "2026-05-01",
        "plan": {"x": 1},
    }


def test_a_dict_of_a_json_schema_has_its_facts() -> None:
    schema = ProfileSchema.of(SCHEMA)
    given = {"seats": 3, "tags": ["sea", "sun"], "leaves": "2026-05-01", "plan": {"x": 1}}
    found = {fact.concept.keyword: fact.values for fact in schema.facts(given, BEGAN)}
    assert found == {"seats": (3,), "tags": ("sea", "sun"), "leaves": (dt.date(2026, 5, 1),), "plan": ({"x": 1},)}
    with pytest.raises(InvalidDataError, match=r"at \$\.leaves"):
        schema.facts({"leaves": "May"}, BEGAN)


@pytest.mark.parametrize("value", ["sea", {"a": 1}, 5])
def test_what_is_no_list_is_not_taken_apart(value: Any) -> None:
    with pytest.raises(InvalidDataError, match=r"give a list of them \(at \$\.tags\)"):
        ProfileSchema.of(SCHEMA).facts({"tags": value}, BEGAN)


def test_the_schema_of_a_pydantic_model_gives_the_same_concepts() -> None:
    def told(concepts: Any) -> list[Any]:
        return [(item.keyword, item.fact_type, item.description) for item in concepts]

    of_schema = ProfileSchema.of(Pet.model_json_schema(), name="Pet").concepts
    typed = {concept.keyword: concept.shape for concept in of_schema}
    assert told(of_schema) == [
        (item.keyword, item.fact_type, item.description if item.keyword == "seats" else item.keyword.title())
        for item in concepts_of(Pet)
    ]
    assert {key: typed[key] for key in ("pets", "seats", "mood", "born", "home")} == {
        "pets": "str",
        "seats": "int",
        "mood": {"enum": ["good", "bad"]},
        "born": "date",
        "home": "json",
    }


@each_case("schema")
def test_what_is_no_schema_of_a_profile_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(FactMemError):
        ProfileSchema.of(schema)


async def test_every_detection_fills_the_profiles_and_all_of_them_are_listed() -> None:
    """It does not matter what else is looked for: concepts, topics, or anything."""
    options: dict[str, Any] = {"concepts": (), "profiles": [Home, Pet]}
    requests = (
        DetectionRequest(subjects=[USER], topics=[Topic("work")]),
        DetectionRequest(subjects=[USER], concepts=[Concept.single("job", "What somebody does")]),
        DetectionRequest(subjects=[USER]),
        None,
    )
    for number, request in enumerate(requests):
        async with opened(InMemoryProvider(), ScriptedModel(well), **options) as memory:
            talked = talk("I live in Oslo.", "I have a cat.", "We booked 12 seats.", id=str(number))
            await memory.remember(talked, subject=USER, looking_for=request, scope="/product/alpha")
            found = await memory.profile(subject=USER, scope="/product/alpha")
            assert {name: item.profile for name, item in found.items()} == {
                "Home": Home("Oslo"),
                "Pet": Pet(pets=["cat"], seats=12),
            }
            elsewhere = await memory.scope("/product/beta").profile()
            assert {name: item.missing for name, item in elsewhere.items()} == {"Home": ("city",), "Pet": ()}


def test_profiles_that_contradict_each_other_are_refused() -> None:
    other = attrs.make_class("Other", {"city": attrs.field(type=int)})
    for profiles, concepts in (([Home, other], ()), ([Home], [Concept.single("city", "c", int)]), ([Home, Home], ())):
        with pytest.raises(InvalidDataError, match=r"profiles"):
            Memory("memory:", profiles=profiles, concepts=concepts)
    with pytest.raises(InvalidDataError, match="list"):
        Memory("memory:", profiles=Home)  # type: ignore[arg-type]
