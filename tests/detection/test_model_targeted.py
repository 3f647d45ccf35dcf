"""Concepts that a model is asked for: their types, and the values that it finds."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import attrs
import pytest
from hypothesis import given
from pydantic import TypeAdapter

from factmem.abc import Candidate, DetectionRequest
from factmem.abc.detector import Conversation, DropReason, Message
from factmem.abc.topics import MANAGED_TOPICS, Topic
from factmem.details import Evidence, Origin
from factmem.detection import InstructorDetector
from factmem.detection.prompts import sample_of, worked_examples
from factmem.detection.response_models import answer_model, answer_type, extractions_in, read_json
from factmem.detection.tasks import task_of
from factmem.errors import InvalidDataError, ModelAnswerError
from factmem.facts import Concept
from factmem.shapes import shape_of, words_for
from factmem.subjects import MemorySubject
from factmem.testing import ScriptedModel, strategies
from factmem.value_types import SCALARS
from factmem.values import decode_value, encode_value
from tests.tables import each_case, type_named

SEATS = Concept.single("seats", "How many seats are booked", int)
HOBBY = Concept.multiple("hobby", "What they like to do")


class Plan(enum.Enum):
    FREE = "free"
    PRO = "pro"


@attrs.frozen
class Pet:
    name: str
    age: int | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.ge(0)))
    tame: bool = True


def asked(*concepts: Concept[Any, Any], subjects: tuple[MemorySubject, ...] | None = None) -> DetectionRequest:
    return DetectionRequest(concepts=concepts, subjects=subjects or (MemorySubject("user"),))


def found(*items: dict[str, Any], field: str = "seats") -> dict[str, Any]:
    return {field: list(items)}


def values(candidates: tuple[Candidate, ...]) -> list[tuple[str, Any]]:
    return [(item.fact.concept.keyword, value) for item in candidates for value in item.fact.values]


async def test_a_fact_has_its_type_its_time_and_the_words_it_comes_from(read: Callable[..., Any]) -> None:
    when = dt.datetime(2023, 1, 2, 10, tzinfo=dt.UTC)
    said = Message(content="Hi! We booked 12 seats.", name="Ann", id="m7", timestamp=when)
    reading = await read([said], asked(SEATS), found({"quote": "We booked 12 seats", "message": 1, "value": 12}))
    (candidate,) = reading.detection.candidates
    assert candidate.fact == SEATS.fact([12], timestamp=when)
    assert candidate.details.origin is Origin.USER
    assert candidate.subject == MemorySubject("user")
    assert candidate.details.evidence == (
        Evidence(
            quote="We booked 12 seats",
            message_id="m7",
            role="user",
            speaker="Ann",
            conversation_id="c",
            position=0,
            start=4,
            end=22,
        ),
    )


@pytest.mark.parametrize(
    ("value_type", "answered", "value"),
    [
        (int, 12, 12),
        (int, "12", 12),
        (float, 2, 2.0),
        (bool, True, True),
        (Plan, "pro", Plan.PRO),
        (Plan, "Pro", Plan.PRO),
        (Literal["a b", 3], 3, 3),
        (dt.date, "2024-05-31", dt.date(2024, 5, 31)),
        (Pet, {"name": "Tom", "age": None, "tame": None}, Pet("Tom")),
        (list[Pet], [{"name": "Tom", "age": 3, "tame": False}], [Pet("Tom", 3, False)]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (int | str, "12", "12"),
    ],
)
async def test_the_type_of_a_concept_flows_through(
    read: Callable[..., Any], value_type: Any, answered: Any, value: Any
) -> None:
    concept = Concept.single("thing", "A thing", value_type)
    said = "The thing is so: 12, 2, pro, 3, 31 May 2024, Tom who is 3 and not tame, a is 1"
    item = {"quote": "The thing is so", "message": 1, "value": answered}
    reading = await read([said], asked(concept), found(item, field="thing"))
    assert values(reading.detection.candidates) == [("thing", value)]


@pytest.mark.parametrize(
    ("value_type", "answered"),
    [(int, "many"), (int, True), (int, 1.5), (Plan, "gold"), (Pet, {"age": 3}), (bool, "perhaps"), (float, "nan")],
)
async def test_an_answer_of_another_type_is_no_answer(read: Callable[..., Any], value_type: Any, answered: Any) -> None:
    """The schema refuses it, so that a real model is asked again; the result is never empty."""
    concept = Concept.single("thing", "A thing", value_type)
    with pytest.raises(ModelAnswerError):
        await read(["so"], asked(concept), found({"quote": "so", "message": 1, "value": answered}, field="thing"))


@each_case("value_type", "answered")
async def test_a_value_that_is_none_is_dropped_and_counted(
    read: Callable[..., Any], value_type: str, answered: Any
) -> None:
    concept = Concept.single("thing", "A thing", type_named(value_type, globals()))
    good = {"quote": "here", "message": 1, "value": answered}
    reading = await read(["it stands here"], asked(concept), found(good, field="thing"))
    assert reading.detection.candidates == ()
    assert reading.detection.dropped == {DropReason.INVALID_VALUE: 1}


@each_case("said", "quote", "value")
async def test_what_the_user_says_in_the_words_or_signs_of_a_placeholder_is_a_value(
    read: Callable[..., Any], said: str, quote: str, value: str
) -> None:
    item = {"quote": quote, "message": 1, "value": value}
    reading = await read([said], asked(Concept.single("thing", "A thing")), found(item, field="thing"))
    assert values(reading.detection.candidates) == [("thing", value)]


async def test_a_multiple_gives_its_values_once(read: Callable[..., Any]) -> None:
    """An invalid value among valid ones is dropped alone."""
    item = {"quote": "chess, go and chess", "message": 1, "values": ["chess", "go", "unknown", "chess"]}
    again = {"quote": "go", "message": 1, "values": "go"}
    reading = await read(["I like chess, go and chess"], asked(HOBBY), found(item, again, field="hobby"))
    (candidate,) = reading.detection.candidates
    assert candidate.fact.values == ("chess", "go")
    assert reading.detection.dropped == {DropReason.INVALID_VALUE: 1}


async def test_a_single_that_is_said_twice_gives_both_with_their_times(read: Callable[..., Any]) -> None:
    """The fold chooses the later one; "actually it is" needs no other handling."""
    reading = await read(
        ["We need 5 seats.", "Actually it is 7."],
        asked(SEATS),
        found({"quote": "it is 7", "message": 2, "value": 7}, {"quote": "5 seats", "message": 1, "value": 5}),
    )
    first, second = reading.detection.candidates
    assert (first.fact.value, second.fact.value) == (5, 7)
    assert first.fact.timestamp < second.fact.timestamp


async def test_one_question_asks_for_all_concepts(read: Callable[..., Any]) -> None:
    reading = await read(["Hello there."], asked(SEATS, HOBBY), {})
    (prompt,) = reading.prompts
    assert "How many seats are booked" in prompt.content
    assert "What they like to do" in prompt.content


TALK = [Message(content="I booked 12 seats.", name="Ada"), Message(content="I booked 5 seats.", name="Bo B")]
ADA, BO = (MemorySubject("user", individual_name=name) for name in ("ada", "bo"))


def booked(number: int, seats: int, about: MemorySubject | None) -> dict[str, Any]:
    label = {} if about is None else {"about": str(about)}
    return {"quote": f"I booked {seats} seats", "message": number, "value": seats, **label}


async def test_what_one_of_several_people_says_is_no_plain_fact_about_another(read: Callable[..., Any]) -> None:
    swapped = found(booked(1, 12, BO), booked(2, 5, ADA), booked(2, 5, BO))
    reading = await read(TALK, asked(SEATS, subjects=(ADA, BO)), swapped)
    judged = [(item.subject, item.doubt and item.doubt.reason) for item in reading.detection.candidates]
    assert judged == [(BO, "said by somebody else"), (ADA, "said by somebody else"), (BO, None)]
    (alone,) = (await read(TALK[1:], asked(SEATS, subjects=(ADA,)), found(booked(1, 5, None)))).detection.candidates
    assert alone.doubt is None, "the only speaker is the user, whatever their name"


async def test_a_fact_that_names_nobody_is_about_its_speaker(read: Callable[..., Any]) -> None:
    reading = await read(TALK, asked(SEATS, subjects=(ADA, BO)), found(booked(1, 12, None), booked(2, 5, None)))
    assert [(item.subject, item.doubt) for item in reading.detection.candidates] == [(ADA, None), (BO, None)]


async def test_about_whom_a_fact_is_comes_from_the_subjects_asked_for(read: Callable[..., Any]) -> None:
    ann, firm = MemorySubject("user").individual("ann"), MemorySubject("firm")
    quoted = {"quote": "12 seats", "message": 1}
    reading = await read(
        ["We have 12 seats, or 1, or 2, or 3, or 5"],
        asked(SEATS, subjects=(ann, firm)),
        found(
            {**quoted, "value": 1, "about": "Firm"},
            {**quoted, "value": 2, "about": None},
            {**quoted, "value": 3, "about": "user:ann"},
            {**quoted, "value": 4, "about": "the pope"},
            {**quoted, "value": 5, "about": "user"},
        ),
    )
    found_about = [(item.fact.value, item.subject) for item in reading.detection.candidates]
    assert found_about == [(1, firm), (2, ann), (3, ann), (5, ann)]
    assert reading.detection.dropped == {DropReason.UNKNOWN_SUBJECT: 1}


@pytest.mark.parametrize("keyword", ["facts", "model_config", "_x", "Lieblingsgetränk", "a" * 100, "quote", "copy"])
async def test_a_concept_may_have_any_keyword(keyword: str) -> None:
    """A keyword that cannot be a field name gets a substitute, which the prompt explains."""
    concept = Concept.single(keyword, "Something", int)

    def script(prompt: Any, answer: Any) -> dict[str, Any]:
        (field, _) = answer.model_json_schema()["properties"]
        assert f'field="{field}"' in prompt.content
        return {field: [{"quote": "it is", "message": 1, "value": 1}]}

    conversation = Conversation(messages=[Message(content="it is 1")])
    detection = await InstructorDetector(ScriptedModel(script)).detect(conversation, asked(concept))
    assert values(detection.candidates) == [(keyword, 1)]


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"concurrency": True}, {"max_chars": 10}])
def test_senseless_numbers_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataError):
        InstructorDetector(ScriptedModel(lambda prompt, answer: {}), **options)


@pytest.mark.parametrize("wrong", [{"subjects": ()}, {"concepts": (SEATS, Concept.single("seats", "Chairs"))}])
def test_a_request_that_cannot_be_answered_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataError):
        DetectionRequest(**wrong)


# Values of every type pass through an answer unchanged, and worked examples are valid answers.


class Level(enum.IntEnum):
    LOW = 1
    VERY_HIGH = 2


@dataclasses.dataclass(frozen=True)
class Address:
    street: str
    number: int = 1
    tags: list[str] = dataclasses.field(default_factory=list)


@attrs.frozen
class Person:
    name: str
    model_config: Level
    home: Address | None = None
    _secret: str = "none"


TYPES: Sequence[Any] = (
    *(scalar.type for scalar in SCALARS if scalar.sample is not None),
    *(Level, Address, Person, list[Person], dict[str, Address], tuple[int, str], tuple[int, ...], set[int]),
    *(Literal["a", 1], int | None, Address | None, Annotated[int, "metres"], list, dict),
)


@given(strategies.typed_values())
def test_a_value_that_is_answered_as_it_is_stored_reads_back(typed: tuple[Any, Any]) -> None:
    value_type, value = typed
    answered = json.loads(json.dumps(encode_value(value, value_type)))
    assert decode_value(read_json(answered, value_type), value_type) == value


@given(strategies.typed_values())
def test_a_value_passes_through_the_model_of_an_answer(typed: tuple[Any, Any]) -> None:
    value_type, value = typed
    question = task_of(DetectionRequest(concepts=[Concept.single("thing", "A thing", value_type)]))
    written = json.dumps({"thing": [{"quote": "x", "message": 1, "value": encode_value(value, value_type)}]})
    (finding,) = extractions_in(answer_model(question).model_validate_json(written), question)
    said: Any = finding.said
    assert [decode_value(read_json(data, value_type), value_type) for data in said.values] == [value]


@pytest.mark.parametrize("value_type", TYPES, ids=str)
def test_every_type_has_words_and_a_sample_that_is_a_value_of_it(value_type: Any) -> None:
    shape = shape_of(value_type)
    assert words_for(shape)
    decode_value(read_json(sample_of(shape)[0], value_type), value_type)
    assert json.dumps(TypeAdapter(answer_type(value_type)).json_schema())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "several"), [(Concept.single, False), (Concept.multiple, True)])
@pytest.mark.parametrize("value_type", TYPES, ids=str)
def test_worked_examples_are_right_answers(value_type: Any, kind: Any, several: bool) -> None:
    """A small model copies their form exactly."""
    subjects = [MemorySubject("user"), MemorySubject("firm")][: 1 + several]
    request = DetectionRequest(
        concepts=[kind("thing", "A thing", value_type)], open=True, topics=MANAGED_TOPICS, subjects=subjects
    )
    question = task_of(request)
    empty, full = worked_examples(question)
    model = answer_model(question)
    fields = list(model.model_json_schema()["properties"])
    assert list(json.loads(full.answer)) == list(json.loads(empty.answer)) == fields
    extractions = list(extractions_in(model.model_validate_json(full.answer), question))
    assert len(extractions) == sum(len(items) for items in json.loads(full.answer).values())
    assert list(extractions_in(model.model_validate_json(empty.answer), question)) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Concept.single, Concept.multiple])
@pytest.mark.parametrize("value_type", [*(item.type for item in SCALARS if item.sample is not None), Level, list[str]])
async def test_worked_examples_are_answers_that_the_detector_keeps(
    read: Callable[..., Any], value_type: Any, kind: Any
) -> None:
    """An example that its own rules would drop, or never ask about, teaches a model to answer so."""
    concepts = [kind("opening_hours", "When it opens", value_type)]
    request = DetectionRequest(concepts=concepts, open=True, topics=[*MANAGED_TOPICS, Topic("garden")])
    _, full = worked_examples(task_of(request))
    lines = re.findall(r'role="(\w+)"[^>]*>(.*)</message>', full.content)
    messages = [
        Message(content=text, role=role, timestamp=dt.datetime(2024, 5, 31, 9, tzinfo=dt.UTC)) for role, text in lines
    ]
    detection = (await read(messages, request, json.loads(full.answer))).detection
    assert detection.dropped == {}
    assert [item for item in detection.candidates if item.doubt and not item.doubt.askable] == []
    assert len(detection.candidates) == sum(len(items) for items in json.loads(full.answer).values())


@pytest.mark.parametrize(
    ("answered", "value_type", "value"),
    [
        ("VERY HIGH", Level, Level.VERY_HIGH),
        (2, Level, Level.VERY_HIGH),
        ("2", Level, Level.VERY_HIGH),
        (12.5, decimal.Decimal, decimal.Decimal("12.5")),
        ("yes", bool, True),
        (7, str, "7"),
        ('[1, "2"]', list[int], [1, 2]),
        ({"street": "Elm", "number": None, "extra": 1}, Address, Address("Elm")),
        (
            {"name": "Ann", "model_config": "low", "home": {"street": "Elm"}},
            Person,
            Person("Ann", Level.LOW, Address("Elm")),
        ),
    ],
)
def test_what_loses_nothing_is_read_leniently(answered: Any, value_type: Any, value: Any) -> None:
    assert decode_value(read_json(answered, value_type), value_type) == value


@each_case("answered", "value_type")
def test_a_lossy_value_is_refused_without_being_shown(answered: Any, value_type: str) -> None:
    wanted = type_named(value_type, globals())
    with pytest.raises(InvalidDataError) as refused:
        decode_value(read_json(answered, wanted), wanted)
    assert "1970" not in str(refused.value)
