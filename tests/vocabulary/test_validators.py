"""Validators: accepted values, refused values, and the names in the errors."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import attrs
import pytest

from factmem.errors import InvalidDataError
from factmem.validators import (
    Validator,
    aware,
    changed,
    check_whole,
    count,
    duration,
    fraction,
    instance_of,
    made,
    positive,
    seconds,
    text,
    weight,
    whole,
)

UTC_NOON = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)

CASES: dict[str, tuple[Validator, list[Any], list[Any]]] = {
    "count": (count, [0, 1, 10**30], [-1, True, 1.0, "1", None]),
    "positive": (positive, [1, 2], [0, -1, True, False, 1.0, None]),
    "whole": (whole(2, 5), [2, 5], [1, 6, 3.0]),
    "weight": (weight, [0, 0.0, 7.5], [-0.1, math.inf, math.nan, True, "1", None]),
    "fraction": (fraction, [0, 0.5, 1], [-0.1, 1.1, math.nan, True, None]),
    "seconds": (seconds, [0.1, 60], [0, -1, math.inf, math.nan, True, None]),
    "duration": (duration, [dt.timedelta(seconds=1)], [dt.timedelta(0), dt.timedelta(-1), 1, None]),
    "aware": (aware, [UTC_NOON], [UTC_NOON.replace(tzinfo=None), dt.date(2026, 5, 1), "2026-05-01", None]),
    "instance_of": (instance_of(str, type(None)), ["a", None], [1, b"a"]),
    "text": (text, ["", "plain", "naïve"], ["\ud800", 1, None]),
}


def field_of(validator: Validator) -> Any:
    return attrs.make_class("Thing", {"field": attrs.field(validator=validator)})


@pytest.mark.parametrize("name", CASES)
def test_legal_values_pass(name: str) -> None:
    validator, legal, _ = CASES[name]
    assert [field_of(validator)(value).field for value in legal] == legal


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, case in CASES.items() for value in case[2]])
def test_an_illegal_value_is_refused_by_the_name_of_its_field(name: str, value: Any) -> None:
    with pytest.raises(InvalidDataError) as caught:
        field_of(CASES[name][0])(value)
    assert caught.value.path == "$.field"


def test_a_text_may_be_none_only_if_that_is_the_default() -> None:
    cls = attrs.make_class("Thing", {"field": attrs.field(default=None, validator=text)})
    assert cls().field is None


def test_a_range_is_part_of_the_error() -> None:
    with pytest.raises(InvalidDataError, match="size must be a whole number from 1 to 1,000"):
        check_whole(1_001, "size", least=1, most=1_000)
    with pytest.raises(InvalidDataError, match="size must be a whole number of at least 1"):
        check_whole(0, "size", least=1)


def test_what_is_changed_is_a_copy_that_was_not_checked_again() -> None:
    checks: list[object] = []
    cls = attrs.make_class(
        "Thing",
        {"one": attrs.field(validator=lambda *given: checks.append(given)), "two": attrs.field(default=2)},
        frozen=True,
        slots=True,
    )
    before = cls(1)
    after = changed(before, two=3)
    assert len(checks) == 1
    assert after == made(cls, one=1, two=3)
    assert before == made(cls, one=1, two=2)
