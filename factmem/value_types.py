"""The scalar types of values.

`SCALARS` is the one table of them. Shapes, the strict reading and writing of JSON, prompts, the response models of
language models, the command line, the MCP server, the support of values by quotes and recall's kinds of values all
follow from it: to support another type, add a `Scalar` to the table.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import enum
import functools
import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from factmem.errors import InvalidDataError
from factmem.subjects import MemorySubject

JSON_SHAPE: Final = "json"
"""The shape of a value of no declared type: any JSON."""


class ScalarKind(enum.Enum):
    """The kind of question that a value answers."""

    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    TRUTH = "truth"
    SUBJECT = "subject"
    NOTHING = "nothing"


class WrongTypeError(ValueError):
    """Raised when JSON is not of the type asked for. The message names types and never the value."""


@attrs.frozen(kw_only=True)
class Scalar:
    """One scalar type.

    Attributes:
        shape: the tag that is stored beside the values.
        type: the Python type of a value.
        json_type: the Python type of the JSON that stands for a value; ``object`` for any JSON.
        words: the type's description in prompts and schemas.
        sample: the JSON of an example.
        spoken: the example as a person says it; empty for the text of its JSON.
        read: makes a value of JSON, strictly. Raises `WrongTypeError`.
        write: makes JSON of a value; None if a value is its own JSON.
        parse: makes a value of the text that a person types. Raises `ValueError`. None if nobody types such values.
        kind: the kind of question that a value answers.
        schema_format: the ``format`` in a JSON schema.
        reads_numbers: a number in a model's answer stands for its text.
    """

    shape: str
    type: Any
    json_type: type[Any]
    words: str
    sample: Any
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] | None = None
    parse: Callable[[str], Any] | None = None
    spoken: str = ""
    kind: ScalarKind = ScalarKind.TEXT
    schema_format: str | None = None
    reads_numbers: bool = False

    @property
    def is_native(self) -> bool:
        """Whether JSON has this type itself."""
        return self.json_type is self.type and self.type is not object


def is_number(data: object) -> bool:
    """Return whether this is an int or a float; a boolean is neither."""
    return isinstance(data, int | float) and not isinstance(data, bool)


def _read_exactly(typ: type[Any], data: Any) -> Any:
    if type(data) is not typ:
        raise WrongTypeError(f"expected {typ.__name__}, found {type(data).__name__}")
    return data


def _read_float(data: Any) -> float:
    if not is_number(data):
        raise WrongTypeError(f"expected float, found {type(data).__name__}")
    return float(data)


def _write_float(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError("expected float, found bool")
    return float(value)


def _read_text(name: str, parse: Callable[[str], Any], data: Any) -> Any:
    if not isinstance(data, str):
        raise WrongTypeError(f"expected the text of a {name}, found {type(data).__name__}")
    try:
        return parse(data)
    except (ValueError, ArithmeticError):
        raise WrongTypeError(f"the text is not a valid {name}") from None


def _native(typ: type[Any], words: str, sample: Any, **rest: Any) -> Scalar:
    read = functools.partial(_read_exactly, typ)
    return Scalar(**{"shape": typ.__name__, "read": read, **rest}, type=typ, json_type=typ, words=words, sample=sample)


def _as_text(typ: type[Any], read: Callable[[str], Any], write: Callable[[Any], str], **rest: Any) -> Scalar:
    """Return the scalar of a type that is written as text."""
    strict = functools.partial(_read_text, typ.__name__, read)
    named = {"shape": typ.__name__.lower(), "parse": read, **rest}
    return Scalar(**named, type=typ, json_type=str, read=strict, write=write)


def _parse_bool(text: str) -> bool:
    match text.strip().lower():
        case "true" | "yes" | "on" | "1":
            return True
        case "false" | "no" | "off" | "0":
            return False
        case _:
            raise ValueError("neither true nor false")


def as_utc(moment: dt.datetime) -> dt.datetime:
    """Return a time in UTC; one without a zone is taken as UTC.

    Raises:
        ValueError: It lies outside the years that UTC can express.
    """
    try:
        return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
    except OverflowError:
        raise ValueError("the time lies outside the years that UTC can express") from None


def _parse_moment(text: str) -> dt.datetime:
    return as_utc(dt.datetime.fromisoformat(text.strip()))


def _write_time(time: dt.time) -> str:
    if time.tzinfo is not None and time.utcoffset() is None:
        raise InvalidDataError(
            "the offset of a time of day in a zone such as Europe/Berlin depends on the day, and the zone would be "
            "lost: keep its name in a field of its own"
        )
    return time.isoformat()


UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
"""Seconds of the units that a length of time may be written with."""


def _parse_seconds(text: str) -> dt.timedelta:
    """Parse a number of seconds, or of another unit, such as ``90m``, ``12h`` or ``30d``."""
    unit = text.strip()[-1:].lower()
    try:
        return dt.timedelta(seconds=float(text.strip()[:-1]) * UNITS[unit] if unit in UNITS else float(text))
    except OverflowError:
        raise ValueError("too long") from None


def _parse_decimal(text: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError("no decimal number") from None


def _read_subject(text: str) -> MemorySubject:
    """Return the subject of a text such as ``user:alice``, without what is declared of it."""
    subject = MemorySubject.parse(text)
    return attrs.evolve(subject, name=subject.name.replace("%3A", ":").replace("%25", "%"))


def _write_subject(subject: MemorySubject) -> str:
    name = subject.name.replace("%", "%25").replace(":", "%3A")
    return name if subject.individual_name is None else f"{name}:{subject.individual_name}"


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


SCALARS: Final[Sequence[Scalar]] = (
    _native(str, "text", "Alder", parse=str),
    _native(int, "whole number", 7, parse=int, kind=ScalarKind.NUMBER),
    _native(float, "number", 2.5, read=_read_float, write=_write_float, parse=float, kind=ScalarKind.NUMBER),
    _native(bool, "true or false", True, spoken="yes", parse=_parse_bool, kind=ScalarKind.TRUTH),
    _native(type(None), "null", None, shape="null", kind=ScalarKind.NOTHING),
    _as_text(
        dt.datetime,
        dt.datetime.fromisoformat,
        dt.datetime.isoformat,
        words="date and time, like 2024-05-31T18:30:00+00:00",
        sample="2024-05-31T18:30:00+00:00",
        spoken="31 May 2024 at 18:30 UTC",
        parse=_parse_moment,
        kind=ScalarKind.TIME,
        schema_format="date-time",
    ),
    _as_text(
        dt.date,
        dt.date.fromisoformat,
        dt.date.isoformat,
        words="date, like 2024-05-31",
        sample="2024-05-31",
        spoken="31 May 2024",
        kind=ScalarKind.TIME,
        schema_format="date",
    ),
    _as_text(
        dt.time,
        dt.time.fromisoformat,
        _write_time,
        words="time, like 18:30:00",
        sample="18:30:00",
        spoken="18:30",
        kind=ScalarKind.TIME,
        schema_format="time",
    ),
    Scalar(
        shape="timedelta",
        type=dt.timedelta,
        json_type=float,
        words="number of seconds",
        sample=3600,
        spoken="one hour",
        read=lambda data: dt.timedelta(seconds=_read_float(data)),
        write=dt.timedelta.total_seconds,
        parse=_parse_seconds,
        kind=ScalarKind.NUMBER,
    ),
    _as_text(
        decimal.Decimal,
        decimal.Decimal,
        str,
        words="decimal number, as text",
        sample="12.50",
        parse=_parse_decimal,
        kind=ScalarKind.NUMBER,
        reads_numbers=True,
    ),
    _as_text(
        bytes,
        functools.partial(base64.b64decode, validate=True),
        lambda value: base64.b64encode(value).decode(),
        words="base64 text",
        sample="Ymx1ZQ==",
    ),
    _as_text(
        uuid.UUID, uuid.UUID, str, words="UUID", sample="6fa459ea-ee8a-3ca4-894e-db77e160355e", schema_format="uuid"
    ),
    _as_text(
        MemorySubject,
        _read_subject,
        _write_subject,
        shape="subject",
        words="name of somebody or something that facts are about",
        sample="Ada Lovelace",
        kind=ScalarKind.SUBJECT,
    ),
    Scalar(
        shape=JSON_SHAPE,
        type=object,
        json_type=object,
        words="any JSON",
        sample="Alder",
        read=lambda data: data,
        parse=_parse_json,
    ),
)
"""All scalar types, in the order in which they are offered to people."""

_BY_SHAPE: Final[dict[str, Scalar]] = {scalar.shape: scalar for scalar in SCALARS}
_BY_TYPE: Final[dict[Any, Scalar]] = {scalar.type: scalar for scalar in SCALARS} | {Any: _BY_SHAPE[JSON_SHAPE]}


def scalar_of(value_type: Any) -> Scalar | None:
    """Return the scalar of a Python type; None if it is not a scalar type."""
    try:
        return _BY_TYPE.get(value_type)
    except TypeError:  # it is not hashable
        return None


def scalar_of_shape(shape: object) -> Scalar | None:
    """Return the scalar with a shape; None if it belongs to no scalar."""
    return _BY_SHAPE.get(shape) if isinstance(shape, str) else None


def typed_names() -> list[str]:
    """Return the names of the types whose values people can type."""
    return [name for name, scalar in _BY_SHAPE.items() if scalar.parse is not None]


def scalar_named(name: object) -> Scalar:
    """Return the scalar that a person names by its shape.

    Raises:
        InvalidDataError: there is none, or nobody can type its values.
    """
    scalar = scalar_of_shape(name)
    if scalar is None or scalar.parse is None:
        raise InvalidDataError(f"the type of a value is one of {', '.join(typed_names())}")
    return scalar
