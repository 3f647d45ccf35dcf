"""Facts of the concepts in the request: of their exact types, each with its evidence."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable
from typing import Any, Literal

import attrs
import pytest

from factmem.abc import Candidate, DetectionRequest, Detector
from factmem.abc.detector import Conversation, DropReason, Message
from factmem.details import Evidence, Origin
from factmem.detection import InstructorDetector
from factmem.errors import InvalidDataError, ModelAnswerError, ModelUnavailableError
from factmem.facts import Concept
from factmem.subjects import MemorySubject
from factmem.testing import ScriptedModel

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
    assert candidate.subject is None
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


@pytest.mark.parametrize(
    ("value_type", "answered"),
    [
        (dt.date, "next Tuesday"),
        (Pet, {"name": "Tom", "age": -3, "tame": None}),
        (str, " \n"),
        (str, "unknown"),
        (str, "N/A"),
        (str, "None mentioned."),
        (str, "No facts extracted"),
        (str, "}]}, "),
        (str, "[redacted: password]"),
    ],
)
async def test_a_value_that_is_none_is_dropped_and_counted(
    read: Callable[..., Any], value_type: Any, answered: Any
) -> None:
    concept = Concept.single("thing", "A thing", value_type)
    good = {"quote": "here", "message": 1, "value": answered}
    reading = await read(["it stands here"], asked(concept), found(good, field="thing"))
    assert reading.detection.candidates == ()
    assert reading.detection.dropped == {DropReason.INVALID_VALUE: 1}


async def test_what_the_user_says_in_the_words_of_a_placeholder_is_a_value(read: Callable[..., Any]) -> None:
    cause = Concept.single("cause", "The cause")
    item = {"quote": "The cause is unknown", "message": 1, "value": "unknown"}
    reading = await read(["The cause is unknown."], asked(cause), found(item, field="cause"))
    assert values(reading.detection.candidates) == [("cause", "unknown")]


async def test_signs_that_the_user_wrote_are_a_value(read: Callable[..., Any]) -> None:
    mood = Concept.single("mood", "The mood, as a sign")
    item = {"quote": "today is :-)", "message": 1, "value": ":-)"}
    reading = await read(["For me today is :-)"], asked(mood), found(item, field="mood"))
    assert values(reading.detection.candidates) == [("mood", ":-)")]


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


async def test_nothing_found_is_an_empty_result(read: Callable[..., Any]) -> None:
    reading = await read(["Hello there."], asked(SEATS, HOBBY), {"seats": [], "hobby": None})
    assert reading.detection.candidates == ()
    assert reading.detection.dropped == {}


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
        ["We have 12 seats, or 1, or 2, or 3"],
        asked(SEATS, subjects=(ann, firm)),
        found(
            {**quoted, "value": 1, "about": "Firm"},
            {**quoted, "value": 2, "about": None},
            {**quoted, "value": 3, "about": "user:ann"},
            {**quoted, "value": 4, "about": "the pope"},
        ),
    )
    assert [(item.fact.value, item.subject) for item in reading.detection.candidates] == [(1, firm), (2, ann), (3, ann)]
    assert reading.detection.dropped == {DropReason.UNKNOWN_SUBJECT: 1}


@pytest.mark.parametrize("keyword", ["facts", "model_config", "_x", "Lieblingsgetränk", "a" * 100, "quote", "copy"])
async def test_a_concept_may_have_any_keyword(read: Callable[..., Any], keyword: str) -> None:
    """A keyword that cannot be a field name gets a substitute, which the prompt explains."""
    concept = Concept.single(keyword, "Something", int)

    def script(prompt: Any, answer: Any) -> dict[str, Any]:
        (field, _) = answer.model_json_schema()["properties"]
        assert f'field="{field}"' in prompt.content
        return {field: [{"quote": "it is", "message": 1, "value": 1}]}

    conversation = Conversation(messages=[Message(content="it is 1")])
    detection = await InstructorDetector(ScriptedModel(script)).detect(conversation, asked(concept))
    assert values(detection.candidates) == [(keyword, 1)]


async def test_the_failure_of_the_model_is_raised(read: Callable[..., Any]) -> None:
    """There is neither a sentinel value nor an empty result."""
    with pytest.raises(ModelUnavailableError):
        await read(["Hello there."], asked(SEATS), ModelUnavailableError("no"))


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"concurrency": True}, {"max_chars": 10}])
def test_senseless_numbers_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataError):
        InstructorDetector(ScriptedModel(lambda prompt, answer: {}), **options)


@pytest.mark.parametrize("wrong", [{"subjects": ()}, {"concepts": (SEATS, Concept.single("seats", "Chairs"))}])
def test_a_request_that_cannot_be_answered_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataError):
        DetectionRequest(**wrong)


def test_it_is_a_detector() -> None:
    detector: Detector = InstructorDetector(ScriptedModel(lambda prompt, answer: {}))
    assert isinstance(detector, Detector)
