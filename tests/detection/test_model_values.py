"""Values of every type pass through an answer unchanged, and worked examples are valid answers."""

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

from factmem.abc import DetectionRequest
from factmem.abc.detector import Message
from factmem.abc.topics import MANAGED_TOPICS, Topic
from factmem.detection.prompts import sample_of, worked_examples
from factmem.detection.response_models import answer_model, answer_type, extractions_in, read_value
from factmem.detection.tasks import task_of
from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.shapes import shape_of, words_for
from factmem.subjects import MemorySubject
from factmem.testing import strategies
from factmem.value_types import SCALARS
from factmem.values import encode_value


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
    assert read_value(answered, value_type) == value


@given(strategies.typed_values())
def test_a_value_passes_through_the_model_of_an_answer(typed: tuple[Any, Any]) -> None:
    value_type, value = typed
    question = task_of(DetectionRequest(concepts=[Concept.single("thing", "A thing", value_type)]))
    written = json.dumps({"thing": [{"quote": "x", "message": 1, "value": encode_value(value, value_type)}]})
    (finding,) = extractions_in(answer_model(question).model_validate_json(written), question)
    said: Any = finding.said
    assert [read_value(data, value_type) for data in said.values] == [value]


@pytest.mark.parametrize("value_type", TYPES, ids=str)
def test_every_type_has_words_and_a_sample_that_is_a_value_of_it(value_type: Any) -> None:
    shape = shape_of(value_type)
    assert words_for(shape)
    read_value(sample_of(shape)[0], value_type)
    assert json.dumps(TypeAdapter(answer_type(value_type)).json_schema())


@pytest.mark.slow
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", [Concept.single, Concept.multiple])
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
    assert read_value(answered, value_type) == value


@pytest.mark.parametrize(
    ("answered", "value_type"),
    [
        (True, int),
        (True, str),
        (["a"], str),
        ("NaN", float),
        (float("inf"), float),
        (1.5, int),
        ("3", Level),
        (None, int),
        ("1970-13-01", dt.date),
        ("nan.5", decimal.Decimal),
        ([1], tuple[int, str]),
        ({"number": 1}, Address),
        ("{", Address),
        ({"a": float("nan")}, object),
    ],
)
def test_a_lossy_value_is_refused_without_being_shown(answered: Any, value_type: Any) -> None:
    with pytest.raises(InvalidDataError) as refused:
        read_value(answered, value_type)
    assert "1970" not in str(refused.value)
