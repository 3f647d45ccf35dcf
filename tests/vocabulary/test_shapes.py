"""Shapes describe the types of values structurally, and decide which stored types can be read as which."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
from typing import Any, Literal, NamedTuple

import attrs
import pytest
from hypothesis import given

from factmem.errors import CodecError, InvalidDataError
from factmem.facts import Concept
from factmem.shapes import accepts, check_fits, shape_of, type_of
from factmem.testing import strategies
from factmem.values import decode_value, encode_value
from tests.tables import each_case, type_named


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class SizeLater(enum.Enum):
    SMALL = "s"
    LARGE = "l"
    HUGE = "h"


class Raw(enum.Enum):
    ONE = b"1"


class Pair(enum.Enum):
    ONE = (1, 2)


@attrs.frozen
class Shirt:
    size: Size
    price: float = 1.0


@attrs.frozen
class ShirtLater:
    size: SizeLater
    price: float = 1.0
    colour: str | None = None


@attrs.frozen
class Tree:
    branches: list[Tree]


@attrs.frozen
class Broken:
    field: Nowhere  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


class Named(NamedTuple):
    x: int


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@each_case("value_type", "shape")
def test_a_shape_names_no_class(value_type: str, shape: Any) -> None:
    assert shape_of(type_named(value_type, globals())) == shape
    assert json.loads(json.dumps(shape)) == shape


@pytest.mark.parametrize(
    "value_type", [Tree, Broken, Raw, Pair, Literal[b"x"], Named, complex, set, dict[int, str], type, "int", 5, []]
)
def test_a_type_that_cannot_be_stored_is_refused(value_type: Any) -> None:
    with pytest.raises(InvalidDataError):
        shape_of(value_type)


@attrs.frozen
class Named1:
    name: str
    age: int = 0


@attrs.frozen
class Named2:
    name: str
    size: float = 1.0


@attrs.frozen
class Holder:
    due: dt.date | str


@each_case("value_type")
def test_a_union_whose_json_does_not_tell_its_options_apart_is_no_type_of_a_concept(value_type: str) -> None:
    with pytest.raises(InvalidDataError, match="does not tell"):
        Concept.single("due", "When it is due", type_named(value_type, globals()))


@given(strategies.typed_values())
def test_the_type_of_a_shape_reads_the_values_of_the_shape(typed: tuple[Any, Any]) -> None:
    """A reader that has not declared a concept can still read every value of it."""
    value_type, value = typed
    data = json.loads(json.dumps(encode_value(value, value_type)))
    read_as = type_of(shape_of(value_type))
    assert shape_of(read_as) == shape_of(value_type)
    check_fits(data, shape_of(value_type))
    assert json.loads(json.dumps(encode_value(decode_value(data, read_as), read_as))) == data


@given(strategies.typed_values())
def test_every_shape_accepts_itself_and_is_read_as_json(typed: tuple[Any, Any]) -> None:
    shape = shape_of(typed[0])
    assert accepts(shape, shape)
    assert accepts(shape, "json")
    assert accepts(shape, {"union": [shape, "null"]})


@each_case("shape")
def test_what_is_no_shape_is_a_typed_error(shape: Any) -> None:
    with pytest.raises(CodecError):
        type_of(shape)


def test_a_bottomless_shape_is_a_typed_error() -> None:
    shape: Any = "int"
    for _ in range(5000):
        shape = {"list": shape}
    with pytest.raises(CodecError):
        type_of(shape)


@attrs.frozen
class ReadingWithoutUnit:
    """A class that lost a field with a default."""

    room: str
    value: float


@attrs.frozen
class Reading(ReadingWithoutUnit):
    """A class with a field that has a default."""

    unit: str = "°C"


@attrs.frozen
class ReadingWithoutValue:
    """A class that lost a field without a default."""

    room: str


@each_case("stored", "wanted", "compatible")
def test_what_can_be_read_as_what(stored: str, wanted: str, compatible: bool) -> None:
    kept, asked = (shape_of(type_named(each, globals())) for each in (stored, wanted))
    assert accepts(kept, asked) is compatible


@given(strategies.typed_values(), strategies.typed_values())
def test_what_is_accepted_can_be_read(stored: tuple[Any, Any], wanted: tuple[Any, Any]) -> None:
    """The promise of `accepts`: no value of the stored type fails as the requested one."""
    if accepts(shape_of(stored[0]), shape_of(wanted[0])):
        decode_value(json.loads(json.dumps(encode_value(stored[1], stored[0]))), wanted[0])


@each_case("data", "path")
def test_json_of_a_class_that_is_not_known_is_checked_by_its_shape(data: Any, path: str | None) -> None:
    for inside, step in (data, ""), ([data], "[0]"), ({"a": data}, ".a"):
        shape: Any = shape_of({"": Shirt, "[0]": list[Shirt], ".a": dict[str, Shirt]}[step])
        if path is None:
            check_fits(inside, shape)
        else:
            with pytest.raises(InvalidDataError) as caught:
                check_fits(inside, shape)
            assert caught.value.path == path.replace("$", f"${step}", 1)
