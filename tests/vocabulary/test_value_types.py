"""Scalar types: one table feeds storage, prompts, response models and the command line."""

from __future__ import annotations

import fractions
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter

from factmem import Conversation, Message, structuring, value_types
from factmem.abc import DetectionRequest
from factmem.browse.texts import parsed_value
from factmem.detection import InstructorDetector
from factmem.detection.prompts import sample_of
from factmem.detection.response_models import answer_type, read_value
from factmem.errors import InvalidDataError
from factmem.facts import Concept, SingleFact
from factmem.shapes import shape_of, type_of, words_for
from factmem.structuring import value_converter
from factmem.testing import ScriptedModel, strategies
from factmem.value_types import SCALARS, Scalar, ScalarKind, WrongTypeError, scalar_named, scalar_of, typed_names
from factmem.values import decode_value, encode_value


def _ratio(data: Any) -> fractions.Fraction:
    if not isinstance(data, str):
        raise WrongTypeError("expected the text of a ratio")
    return fractions.Fraction(data.removesuffix("%")) / 100


def _written(ratio: fractions.Fraction) -> str:
    return f"{float(100 * ratio):g}%"


RATIO = Scalar(
    shape="ratio",
    type=fractions.Fraction,
    json_type=str,
    words="ratio, like 75%",
    sample="75%",
    read=_ratio,
    write=_written,
    parse=_ratio,
    kind=ScalarKind.NUMBER,
)


@pytest.fixture
def ratio(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scalar]:
    """Add a type to the table for one test."""
    monkeypatch.setitem(value_types._BY_SHAPE, RATIO.shape, RATIO)
    monkeypatch.setitem(value_types._BY_TYPE, RATIO.type, RATIO)
    monkeypatch.setattr(structuring, "SCALARS", (*SCALARS, RATIO))
    value_converter.cache_clear()
    yield RATIO
    value_converter.cache_clear()


def test_a_type_that_is_added_to_the_table_is_known_everywhere(ratio: Scalar) -> None:
    half = fractions.Fraction(1, 2)
    assert shape_of(list[fractions.Fraction]) == {"list": "ratio"}
    assert type_of("ratio") is fractions.Fraction
    assert encode_value([half], list[fractions.Fraction]) == ["50%"]
    assert decode_value("50%", fractions.Fraction) == half
    assert SingleFact(Concept.single("share", "A share", fractions.Fraction), half).value == half
    assert words_for("ratio") == "ratio, like 75%"
    assert read_value(sample_of("ratio")[0], fractions.Fraction) == fractions.Fraction(3, 4)
    assert TypeAdapter(answer_type(fractions.Fraction)).json_schema()["description"] == "ratio, like 75%"
    assert parsed_value("50%", scalar_named("ratio")) == half
    assert "ratio" in typed_names()


@pytest.mark.parametrize(("said", "believed"), [("50%", True), ("30%", False)])
async def test_a_value_of_a_type_that_is_added_to_the_table_is_supported_by_words_as_it_is_written(
    ratio: Scalar, said: str, believed: bool
) -> None:
    """The text of such a value in Python, 1/2, is in no message."""
    share = Concept.single("share", "The share that is sold", fractions.Fraction)
    quote = f"the share is {said}"
    model = ScriptedModel(lambda prompt, answer: {"share": [{"quote": quote, "message": 1, "value": "50%"}]})
    conversation = Conversation(messages=[Message(content=f"Well, {quote}.")])
    found = await InstructorDetector(model).detect(conversation, DetectionRequest(concepts=[share]))
    assert [item.fact.values for item in found.candidates if item.doubt is None] == (
        [(fractions.Fraction(1, 2),)] if believed else []
    )


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda scalar: scalar.shape)
def test_every_scalar_has_a_sample_that_reads_back(scalar: Scalar) -> None:
    value = scalar.read(scalar.sample)
    assert encode_value(value, scalar.type) == scalar.sample
    assert type(scalar.sample) in (scalar.json_type, int) or scalar.json_type is object


@pytest.mark.parametrize("scalar", [item for item in SCALARS if item.type is not object], ids=lambda item: item.shape)
def test_a_scalar_refuses_json_of_another_type_without_naming_it(scalar: Scalar) -> None:
    with pytest.raises(WrongTypeError) as refused:
        scalar.read(["secret"])
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("name", typed_names())
def test_a_text_that_is_no_value_of_its_type_is_refused(name: str) -> None:
    if name in ("str", "subject"):
        return
    with pytest.raises(InvalidDataError, match=f"not a valid {name}"):
        parsed_value("no such {value", scalar_named(name))


def test_an_unknown_name_is_answered_with_those_that_are_known() -> None:
    with pytest.raises(InvalidDataError, match="one of str, int, float, bool, datetime"):
        scalar_named("strnig")


def test_what_is_no_scalar_type_has_none() -> None:
    assert scalar_of(list[int]) is None
    assert scalar_of(InstructorDetector) is None
    assert scalar_of([]) is None


def test_every_scalar_is_generated_by_the_strategies() -> None:
    generated = {value_type for value_type, _ in strategies._TYPED}
    assert {scalar.type for scalar in SCALARS} - generated == {type(None)}
