"""Values are checked against their type, written as JSON and compared by canonical bytes."""

from __future__ import annotations

import datetime as dt
import enum
import fractions
import json
import unicodedata
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType
from zoneinfo import ZoneInfo

import attrs
import pydantic
import pytest
from annotated_types import Ge
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from factmem import Concept, Conversation, Message, SingleFact, structuring, value_types
from factmem.abc import DetectionRequest
from factmem.browse.texts import parsed_value
from factmem.detection import InstructorDetector
from factmem.detection.prompts import sample_of
from factmem.detection.response_models import answer_type, read_json
from factmem.errors import InvalidDataError
from factmem.shapes import is_json, shape_of, type_of, words_for
from factmem.structuring import value_converter
from factmem.testing import ScriptedModel, strategies
from factmem.value_types import SCALARS, Scalar, ScalarKind, WrongTypeError, scalar_named, scalar_of, typed_names
from factmem.values import MAX_VALUE_BYTES, MAX_VALUE_DEPTH, canonical_bytes, check_value, decode_value, encode_value
from tests.tables import each_case, type_named


class Level(enum.IntEnum):
    LOW = 1


class Mood(enum.StrEnum):
    CALM = "calm"


class Colour(str, enum.Enum):  # noqa: UP042 - as before Python 3.11
    RED = "red"


@attrs.frozen
class Room:
    name: str
    seats: int = attrs.field(default=2, validator=attrs.validators.gt(0))


@attrs.frozen
class House:
    rooms: list[Room]
    labels: dict[str, str] = attrs.field(factory=dict)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize("member", [Level.LOW, Mood.CALM, Colour.RED])
def test_a_member_of_an_enum_that_is_a_text_or_a_number_is_written_as_its_value(member: enum.Enum) -> None:
    kind = type(member)
    typed: list[tuple[Any, Any]] = [(member, kind), ([member], list[kind]), ({member}, set[kind])]  # type: ignore[valid-type]
    if isinstance(member, str):
        typed.append(({member: 1}, dict[kind, int]))  # type: ignore[valid-type]
    for value, value_type in typed:
        written = encode_value(value, value_type)
        assert repr(written) == repr(json.loads(json.dumps(written)))
        assert check_value(value, value_type) == decode_value(written, value_type) == value


@given(strategies.typed_values())
def test_a_value_survives_json(typed: tuple[Any, Any]) -> None:
    value_type, value = typed
    written = json.loads(json.dumps(encode_value(value, value_type)))
    read = decode_value(written, value_type)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("fold", [0, 1])
def test_a_time_in_an_hour_that_a_clock_change_repeats_is_kept(fold: int) -> None:
    moment = dt.datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)
    assert check_value(moment, dt.datetime).timestamp() == moment.timestamp()


@pytest.mark.parametrize(
    "moment",
    [
        dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=14))),
        dt.datetime.max.replace(tzinfo=dt.timezone(-dt.timedelta(hours=5))),
    ],
)
def test_a_time_that_utc_cannot_express_is_kept(moment: dt.datetime) -> None:
    assert check_value(moment, dt.datetime) == moment


@given(strategies.json_values())
def test_canonical_bytes_differ_exactly_where_json_does(value: Any) -> None:
    data = encode_value(value, object)
    assert canonical_bytes(data) == canonical_bytes(json.loads(json.dumps(data)))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_normal_forms_of_one_text_are_one_value(text: str) -> None:
    forms = {canonical_bytes(unicodedata.normalize(form, text)) for form in ("NFC", "NFD")}
    assert len(forms) == 1


def test_the_order_of_keys_makes_no_difference() -> None:
    assert canonical_bytes({"a": 1, "b": [2]}) == canonical_bytes({"b": [2], "a": 1})


def test_numbers_and_booleans_of_equal_value_differ() -> None:
    values: list[Any] = [1, 1.0, True, "1", [1], None, 0, False, ""]
    assert len({canonical_bytes(value) for value in values}) == len(values)


@each_case("data", "value_type", "path")
def test_an_error_says_where(data: Any, value_type: str, path: str) -> None:
    with pytest.raises(InvalidDataError) as error:
        decode_value(data, type_named(value_type, globals()))
    assert error.value.path == path
    assert path == "$" or path in str(error.value)


@each_case("data", "value_type")
def test_nothing_is_coerced(data: Any, value_type: str) -> None:
    with pytest.raises(InvalidDataError):
        decode_value(data, type_named(value_type, globals()))


@pytest.mark.parametrize(
    ("value", "value_type"), [(True, float), ([1.5, True], list[float]), ({"x": True}, dict[str, float])]
)
def test_a_boolean_is_no_number(value: Any, value_type: Any) -> None:
    with pytest.raises(InvalidDataError, match="not a valid"):
        encode_value(value, value_type)


def test_a_whole_number_is_a_float() -> None:
    """JSON from elsewhere writes 1.0 as 1."""
    read = decode_value(1, float)
    assert (read, type(read)) == (1.0, float)
    assert type(decode_value(1, float | str)) is float  # type: ignore[arg-type]


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
NO_VALUES: dict[str, tuple[Any, str | None, list[Any]]] = {
    "numbers that JSON lacks": (object, None, [float("nan"), float("inf"), [1, {"a": float("-inf")}]]),
    "lone surrogates": (object, None, ["\ud800", ["a", "\udfff"], {"\ud800": 1}, {"a": {"b": "x\udc00"}}]),
    "neither JSON nor declared": (object, None, [(1, 2), {1, 2}, dt.date(2024, 1, 1), Room("x"), object(), {1: 2}]),
    "nested too deep": (object, "nested", [nested(MAX_VALUE_DEPTH + 1), nested(50_000), CYCLE]),
    "a blank text": (str, None, ["", "  ", "\n"]),
}


@pytest.mark.parametrize(("value_type", "why", "values"), NO_VALUES.values(), ids=NO_VALUES)
def test_what_is_no_value_is_refused(value_type: Any, why: str | None, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidDataError, match=why):
            check_value(value, value_type)


def test_json_too_deep_to_be_read_is_refused() -> None:
    with pytest.raises(InvalidDataError, match="nested"):
        decode_value(nested(50_000), object)


def test_a_value_of_the_greatest_depth_is_kept() -> None:
    assert check_value(nested(MAX_VALUE_DEPTH), object) == nested(MAX_VALUE_DEPTH)


@pytest.mark.parametrize("unit", ["x", "é", "👩", "\n", "\x01"])
def test_the_limit_of_size_is_one_of_bytes_written(unit: str) -> None:
    """It is checked on construction, alike for a text alone and for one inside another value."""
    written = len(json.dumps(unit, ensure_ascii=False).encode()) - 2
    most = (MAX_VALUE_BYTES - 2) // written
    fitting = "v" + unit * (most - 1)
    assert check_value(fitting, str) == fitting
    too_large: list[tuple[Any, Any]] = [("v" + unit * (most + 1), str), ([unit * (most + 1)], list[str])]
    for value, value_type in too_large:
        with pytest.raises(InvalidDataError, match="bytes"):
            check_value(value, value_type)


def test_an_integer_too_long_to_write_is_refused() -> None:
    assert check_value(10**4000, int) == 10**4000
    for value in (10**5000, -(10**5000)):
        with pytest.raises(InvalidDataError, match="bits"):
            check_value([value], list[int])


def test_a_checked_value_is_a_copy() -> None:
    """Changing the caller's list later does not change the fact."""
    given_value = ["a"]
    checked = check_value(given_value, list[str])
    given_value.append("b")
    assert checked == ["a"]


class Geo(pydantic.BaseModel):
    lat: float


class Home(pydantic.BaseModel):
    street: str
    number: int = pydantic.Field(gt=0)
    since: dt.date | None = None
    geo: Geo | None = None
    zip_code: str = pydantic.Field(default="", alias="zip")


@pytest.mark.parametrize(
    "house",
    [Home(street="Elm", number=3), Home(street="Elm", number=3, since=dt.date(2024, 1, 1), geo=Geo(lat=1), zip="9")],
)
def test_a_pydantic_model_is_a_value(house: Home) -> None:
    data = json.loads(json.dumps(encode_value(house, Home)))
    assert decode_value(data, Home) == check_value(house, Home) == house
    assert is_json(type_of(shape_of(Home)))


@each_case("data", "path")
def test_a_pydantic_model_is_read_strictly(data: Any, path: str) -> None:
    with pytest.raises(InvalidDataError) as caught:
        decode_value(data, Home)
    assert caught.value.path == path
    assert "north" not in str(caught.value)


Percent = Annotated[int, pydantic.Field(ge=0, le=100)]


@attrs.frozen
class Share:
    of: Percent


@pytest.mark.parametrize(
    ("value_type", "good", "bad", "path"),
    [
        (Percent, 100, 101, "$"),
        (Annotated[int, Ge(0)], 0, -1, "$"),
        (Percent | None, None, -1, "$"),
        (list[Percent], [0, 1], [0, 101], "$[1]"),
        (Annotated[list[Share], pydantic.Field(max_length=1)], [Share(1)], [Share(1), Share(2)], "$"),
        (Annotated[str, pydantic.Field(pattern=r"^\S+@\S+$")], "ann@example.org", "ann at example", "$"),
        (Annotated[Decimal, pydantic.Field(decimal_places=2)], Decimal("1.25"), Decimal("1.255"), "$"),
    ],
)
def test_constraints_in_an_annotation_are_checked(value_type: Any, good: Any, bad: Any, path: str) -> None:
    assert check_value(good, value_type) == good
    with pytest.raises(InvalidDataError, match="rule") as caught:
        check_value(bad, value_type)
    assert caught.value.path == path


def test_a_field_with_constraints_is_checked_where_its_class_does_not() -> None:
    assert check_value(Share(100), Share) == Share(100)
    with pytest.raises(InvalidDataError, match="less_than_equal"):
        check_value(Share(101), Share)


@attrs.frozen
class Animal:
    name: str


@attrs.frozen
class Bird(Animal):
    can_fly: bool = True


@attrs.frozen
class Zoo:
    animals: list[Animal]


@attrs.frozen(eq=False)
class Unlike:
    name: str


class More(pydantic.BaseModel, extra="allow"):
    name: str


class Counted(pydantic.BaseModel):
    number: int

    @pydantic.field_validator("number")
    @classmethod
    def one_more(cls, number: int) -> int:
        return number + 1


@pytest.mark.parametrize(
    ("value", "value_type", "path", "why"),
    [
        (Zoo([Animal("emu"), Bird("emu")]), Zoo, "$.animals[1]", "a Bird is read back as an Animal"),
        ({"zoo": Bird("emu")}, dict[str, Animal], "$.*", "a Bird is read back as an Animal"),
        (Unlike("emu"), Unlike, "$", "Unlike holds more than its fields, or has no == "),
        (More.model_validate({"name": "emu", "legs": 2}), More, "$", "a More holds more than its fields"),
        (Counted(number=1), Counted, "$.number", "a validator, or its class, makes another value"),
    ],
)
def test_a_value_that_does_not_read_back_says_which_part_and_why(
    value: object, value_type: Any, path: str, why: str
) -> None:
    with pytest.raises(InvalidDataError, match=why) as caught:
        check_value(value, value_type)
    assert caught.value.path == path
    assert "emu" not in str(caught.value)


@attrs.frozen
class Opening:
    at: dt.time


def test_a_time_of_day_whose_zone_would_be_lost_is_refused() -> None:
    berlin, offset = dt.time(9, tzinfo=ZoneInfo("Europe/Berlin")), dt.time(9, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert check_value(offset, dt.time).utcoffset() == dt.timedelta(hours=2)
    with pytest.raises(InvalidDataError, match="in a field of its own"):
        check_value(berlin, dt.time)
    with pytest.raises(InvalidDataError, match="in a field of its own"):
        check_value(Opening(berlin), Opening)


def test_a_text_with_constraints_must_not_be_blank() -> None:
    short: Any = Annotated[str, pydantic.Field(max_length=9)]
    with pytest.raises(InvalidDataError, match="blank"):
        check_value(" ", short)


def test_the_error_about_a_constraint_names_its_bound_and_not_the_value() -> None:
    share: Any = Annotated[int, pydantic.Field(ge=0, le=100)]
    with pytest.raises(InvalidDataError, match=r"'less_than_equal' \(le=100\)$") as caught:
        check_value(4711, share)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize(
    ("value_type", "instead"),
    [
        (dict[int, str], r"dict\[str, str\], or pairs: list\[tuple\[int, str\]\]"),
        (Mapping[Level, int], r"dict\[str, int\], or pairs"),
        (NewType("Kelvin", float), "Use float itself"),
    ],
)
def test_the_error_about_a_type_that_is_no_json_names_one_that_is(value_type: Any, instead: str) -> None:
    with pytest.raises(InvalidDataError, match=instead):
        Concept.single("reading", "A reading", value_type)


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    name: str


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


Told: Any = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


@attrs.frozen
class Tent:
    name: str
    height: float = 1.0


@attrs.frozen
class Boat:
    name: str
    crew: int


class Size(enum.Enum):
    SMALL = "s"


@pytest.mark.parametrize(
    ("value_type", "values"),
    [
        (dt.date | int | None, [dt.date(2026, 1, 1), 5, None]),
        (dt.timedelta | str, [dt.timedelta(seconds=3), "soon"]),
        (Size | int, [Size.SMALL, 3]),
        (Literal["a"] | bool, ["a", True]),
        (float | int, [1, 1.0]),
        (list[dt.date] | dt.date, [[dt.date(2026, 1, 1)], dt.date(2026, 1, 1)]),
        (Cat | Dog, [Cat(name="Tom"), Dog(name="Tom")]),
        (Told, [Cat(name="Tom"), Dog(name="Tom")]),
        (Told | None, [None, Dog(name="Tom")]),
        (Room | Boat | str, [Room("hall"), Boat("Ada", 3), "neither"]),
        (Tent | Boat, [Tent("low"), Boat("Ada", 3)]),
        (dict[str, int] | int, [{"a": 1}, 1]),
        (object | None, [None, 3]),
        (type(None), [None]),
    ],
)
def test_each_option_of_a_union_reads_back(value_type: Any, values: list[Any]) -> None:
    for value in values:
        data = json.loads(json.dumps(encode_value(value, value_type)))
        for read in (check_value(value, value_type), decode_value(data, value_type)):
            assert (type(read), read) == (type(value), value)
    inside = list[value_type]
    assert check_value(values, inside) == values


def test_a_fault_in_an_option_of_a_union_has_its_path() -> None:
    boat_or_text: Any = Boat | str
    with pytest.raises(InvalidDataError) as caught:
        decode_value({"name": "Ada", "crew": "three"}, boat_or_text)
    assert caught.value.path == "$.crew"


# Scalar types: one table feeds storage, prompts, response models and the command line.


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
    answered = read_json(sample_of("ratio")[0], fractions.Fraction)
    assert decode_value(answered, fractions.Fraction) == fractions.Fraction(3, 4)
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
