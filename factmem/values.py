"""The values of facts: checked against a type, written as plain JSON, compared by canonical bytes.

A value is stored as JSON beside a *shape*, a structural tag of its type that names no class:
``"int"``, ``{"list": "str"}``, ``{"enum": ["red", "green"]}``, ``{"object": {"name": "str", "age?": "int"}}``.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import json
import math
import types
import typing
import unicodedata
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import attrs

from factmem.errors import CodecError, FactMemError, InvalidDataError

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = [
    "MAX_VALUE_BYTES",
    "Json",
    "Shape",
    "accepts",
    "canonical_bytes",
    "check_value",
    "decode_value",
    "encode_value",
    "explain_structure_error",
    "shape_of",
    "type_of",
]

T = TypeVar("T")

Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"
"""What JSON can hold."""

Shape: TypeAlias = "str | Mapping[str, Any]"
"""The structural tag of a value's type, itself JSON."""

MAX_VALUE_BYTES: Final = 1_000_000
"""The largest legal value, in bytes of its canonical JSON. Store larger things elsewhere and keep a reference."""

JSON_SHAPE: Final = "json"
"""The shape of a value of no declared type: any JSON."""

_SCALARS: Final[dict[object, str]] = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    bytes: "bytes",
    type(None): "null",
    dt.datetime: "datetime",
    dt.date: "date",
    dt.time: "time",
    dt.timedelta: "timedelta",
    decimal.Decimal: "decimal",
    uuid.UUID: "uuid",
    object: JSON_SHAPE,
    Any: JSON_SHAPE,
}
_TYPES: Final[dict[str, Any]] = {shape: typ for typ, shape in _SCALARS.items() if typ is not Any}


def shape_of(value_type: Any) -> Shape:
    """Return the structural tag of a type.

    Raises:
        InvalidDataError: the type cannot be stored as JSON.
    """
    if (scalar := _SCALARS.get(value_type) if isinstance(value_type, typing.Hashable) else None) is not None:
        return scalar
    origin, args = typing.get_origin(value_type), typing.get_args(value_type)
    if origin is typing.Annotated:
        return shape_of(args[0])
    if origin is typing.Literal:
        return {"enum": list(args)}
    if origin in (typing.Union, types.UnionType):
        return {"union": sorted((shape_of(arg) for arg in args), key=_dumps)}
    if origin in (list, tuple, set, frozenset, Sequence) and (len(args) == 1 or args[1:] == (...,)):
        return {"list": shape_of(args[0])}
    if origin is tuple and args:
        return {"tuple": [shape_of(arg) for arg in args]}
    if origin in (dict, Mapping) and len(args) == 2 and args[0] is str:
        return {"map": shape_of(args[1])}
    if isinstance(value_type, type):
        return _shape_of_class(value_type)
    raise InvalidDataError(f"{value_type!r} cannot be the type of a value: factmem cannot write it as JSON")


def _shape_of_class(cls: type[Any]) -> Shape:
    if issubclass(cls, enum.Enum):
        return {"enum": [member.value for member in cls]}
    if attrs.has(cls):
        hints = typing.get_type_hints(cls, include_extras=True)
        return {
            "object": {
                _field_name(field.name, optional=field.default is not attrs.NOTHING): shape_of(
                    hints.get(field.name, object)
                )
                for field in attrs.fields(cls)
                if field.init
            }
        }
    if dataclasses.is_dataclass(cls):
        hints = typing.get_type_hints(cls, include_extras=True)
        return {
            "object": {
                _field_name(field.name, optional=not _is_required(field)): shape_of(hints[field.name])
                for field in dataclasses.fields(cls)
                if field.init
            }
        }
    if cls in (list, dict):
        return {"list": JSON_SHAPE} if cls is list else {"map": JSON_SHAPE}
    raise InvalidDataError(f"{cls.__name__} cannot be the type of a value: make it an attrs class")


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _field_name(name: str, *, optional: bool) -> str:
    return f"{name}?" if optional else name


def type_of(shape: Shape) -> Any:
    """Return a type that reads values of this shape; objects, having lost their class, read as JSON.

    Raises:
        CodecError: it is no shape.
    """
    match shape:
        case str() if shape in _TYPES:
            return _TYPES[shape]
        case {"list": item, **rest} if not rest:
            return list[type_of(item)]  # type: ignore[misc]
        case {"map": item, **rest} if not rest:
            return dict[str, type_of(item)]  # type: ignore[misc]
        case {"enum": [*members], **rest} if not rest and members:
            return typing.Literal[tuple(members)]
        case {"tuple": [*items], **rest} if not rest:
            return tuple[tuple(type_of(item) for item in items)]  # type: ignore[misc]
        case {"union": [*options], **rest} if not rest and all(isinstance(option, str) for option in options):
            return functools.reduce(lambda left, right: left | right, (_TYPES[option] for option in options))
        case {"union": [*_], **rest} | {"object": {}, **rest} if not rest:
            return object
        case _:
            raise CodecError("not the shape of any type that this version knows", path="$.shape")


def accepts(stored: Shape, wanted: Shape) -> bool:
    """Whether values of the shape ``stored`` can be read as ``wanted``.

    Equal shapes are compatible; so is an object that gained or lost a field with a default, an enum
    that gained members, a union that gained options, and anything read as undeclared JSON.
    """
    if wanted in (stored, JSON_SHAPE):
        return True
    match stored, wanted:
        case {"enum": old}, {"enum": new}:
            return all(any(a == b and type(a) is type(b) for b in new) for a in old)
        case ({"list": old}, {"list": new}) | ({"map": old}, {"map": new}):
            return accepts(old, new)
        case {"tuple": old}, {"tuple": new}:
            return len(old) == len(new) and all(map(accepts, old, new))
        case {"object": dict(old)}, {"object": dict(new)}:
            return _object_accepts(old, new)
        case {"union": old}, {"union": new}:
            return all(any(accepts(a, b) for b in new) for a in old)
        case _, {"union": new}:
            return any(accepts(stored, option) for option in new)
        case _:
            return False


def _object_accepts(stored: Mapping[str, Shape], wanted: Mapping[str, Shape]) -> bool:
    have = {name.removesuffix("?"): shape for name, shape in stored.items()}
    return all(
        accepts(have[name.removesuffix("?")], shape) if name.removesuffix("?") in have else name.endswith("?")
        for name, shape in wanted.items()
    )


def encode_value(value: object, value_type: Any) -> Json:
    """Write a value as JSON.

    Raises:
        InvalidDataError: the value is not of its type, holds NaN, infinity or lone surrogates, or is
            larger than `MAX_VALUE_BYTES`. The error's path says where; its text holds no value.
    """
    try:
        data: Json = _converter().unstructure(value, unstructure_as=None if value_type in (object, Any) else value_type)
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError) as error:
        raise InvalidDataError(f"the value is no {_name_of(value_type)}: {type(error).__name__}") from None
    _check_json(data)
    return data


def decode_value(data: Json, value_type: type[T]) -> T:
    """Read a value from JSON, strictly: nothing is coerced from one scalar type to another.

    Raises:
        InvalidDataError: the data is not of the type; the path says where.
    """
    if value_type in (object, Any):
        return typing.cast("T", data)
    try:
        return _converter().structure(data, value_type)
    except RecursionError:
        raise InvalidDataError("the value is nested too deeply") from None
    except Exception as error:  # cattrs raises groups, and classes' own validators raise what they like
        where, what = explain_structure_error(error)
        raise InvalidDataError(f"the value is no {_name_of(value_type)}: {what}", path=where) from None


def check_value(value: T, value_type: type[T]) -> T:
    """Return ``value`` as it will read back from a store, or raise if it is not of its type.

    Raises:
        InvalidDataError: see `encode_value` and `decode_value`.
    """
    if value_type is str and isinstance(value, str) and type(value) is str:
        _check_text(value, path="$")
        if not value.strip():
            raise InvalidDataError("a text value must not be blank: there is nothing to remember")
        return value
    read_back = decode_value(encode_value(value, value_type), value_type)
    if read_back != value:
        raise InvalidDataError(f"the value would not read back as it is: it is no {_name_of(value_type)}")
    return read_back


def canonical_bytes(data: Json) -> bytes:
    """Return the bytes that decide whether two values are equal.

    Keys are sorted and text is in NFC; ``1``, ``1.0`` and ``True`` differ.
    """
    return _dumps(_normalised(data)).encode()


def _normalised(data: Json) -> Json:
    match data:
        case str():
            return data if data.isascii() else unicodedata.normalize("NFC", data)
        case Mapping():
            return {unicodedata.normalize("NFC", key): _normalised(item) for key, item in data.items()}
        case list() | tuple():
            return [_normalised(item) for item in data]
        case _:
            return data


def _dumps(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _check_json(data: Json) -> None:
    try:
        _check_tree(data, "$")
        size = len(_dumps(data).encode())
    except RecursionError:
        raise InvalidDataError("the value is nested too deeply") from None
    if size > MAX_VALUE_BYTES:
        raise InvalidDataError(
            f"the value is {size:,} bytes of JSON; {MAX_VALUE_BYTES:,} is the most. Keep a reference to it instead"
        )


def _check_tree(data: Json, path: str) -> None:
    match data:
        case str():
            _check_text(data, path=path)
        case float() if not math.isfinite(data):
            raise InvalidDataError("NaN and infinity cannot be stored", path=path)
        case Mapping():
            for key, item in data.items():
                if not isinstance(key, str):
                    raise InvalidDataError("the keys of a stored mapping must be strings", path=path)
                _check_text(key, path=path)
                _check_tree(item, f"{path}.{key}")
        case list() | tuple():
            for index, item in enumerate(data):
                _check_tree(item, f"{path}[{index}]")
        case None | bool() | int() | float():
            pass
        case _:
            raise InvalidDataError(f"a {type(data).__name__} cannot be written as JSON", path=path)


def _check_text(text: str, *, path: str) -> None:
    if len(text) > MAX_VALUE_BYTES:
        raise InvalidDataError(f"the text is {len(text):,} characters long; {MAX_VALUE_BYTES:,} is the most", path=path)
    if not text.isascii() and any(0xD800 <= ord(char) <= 0xDFFF for char in text):
        raise InvalidDataError("the text holds a lone surrogate, which no store can carry", path=path)


def _name_of(value_type: Any) -> str:
    return getattr(value_type, "__name__", None) or str(value_type)


def explain_structure_error(error: BaseException, path: str = "$") -> tuple[str, str]:
    """Return the path and the reason of the first thing that went wrong, without the value itself."""
    import cattrs

    if isinstance(error, cattrs.IterableValidationError | cattrs.ClassValidationError):
        with_notes, without = error.group_exceptions()
        for inner, note in with_notes:
            step = f".{note.name}" if isinstance(note, cattrs.AttributeValidationNote) else f"[{note.index}]"
            return explain_structure_error(inner, path + step)
        return explain_structure_error(without[0], path)
    if isinstance(error, KeyError):
        return path, f"the field {error.args[0]!r} is missing"
    if isinstance(error, _WrongType | FactMemError):
        return path, str(error)
    return path, f"{type(error).__name__} while reading it"


class _WrongType(ValueError):
    """A scalar of another type than asked for; its text names both types and no value."""


def _exactly(typ: type[Any]) -> Callable[[Any, Any], Any]:
    def structure(data: Any, _: Any) -> Any:
        if type(data) is not typ:
            raise _WrongType(f"expected {typ.__name__}, found {type(data).__name__}")
        return data

    return structure


def _parsed(parse: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    def structure(data: Any, typ: Any) -> Any:
        if not isinstance(data, str):
            raise _WrongType(f"expected the text of a {_name_of(typ)}, found {type(data).__name__}")
        try:
            return parse(data)
        except (ValueError, ArithmeticError):
            raise _WrongType(f"the text is no {_name_of(typ)}") from None

    return structure


def _float(data: Any, _: Any) -> float:
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise _WrongType(f"expected float, found {type(data).__name__}")
    return float(data)


def _seconds(data: Any, typ: Any) -> dt.timedelta:
    return dt.timedelta(seconds=_float(data, typ))


def _listing(factory: Callable[[Any, Converter], Callable[[Any, Any], Any]]) -> Callable[[Any, Converter], Any]:
    """Keep a text from being read as the list of its letters."""

    def guarded(typ: Any, converter: Converter) -> Callable[[Any, Any], Any]:
        structure = factory(typ, converter)

        def hook(data: Any, typ: Any) -> Any:
            if not isinstance(data, list | tuple):
                raise _WrongType(f"expected a list, found {type(data).__name__}")
            return structure(data, typ)

        return hook

    return guarded


@functools.cache
def _converter() -> Converter:
    from cattrs import Converter, cols
    from cattrs.strategies import configure_union_passthrough

    conv = Converter(unstruct_collection_overrides={set: sorted, frozenset: sorted})
    for scalar in (str, int, bool):
        conv.register_structure_hook(scalar, _exactly(scalar))
    conv.register_structure_hook(float, _float)
    conv.register_unstructure_hook(float, float)
    for typ, parse in _PARSERS.items():
        conv.register_structure_hook(typ, _parsed(parse))
    for typ, write in _WRITERS.items():
        conv.register_unstructure_hook(typ, write)
    conv.register_structure_hook(dt.timedelta, _seconds)
    conv.register_structure_hook_factory(cols.is_mutable_sequence, _listing(cols.list_structure_factory))
    configure_union_passthrough(str | int | float | bool | None, conv)
    return conv


_PARSERS: Final[dict[Any, Callable[[str], Any]]] = {
    bytes: functools.partial(base64.b64decode, validate=True),
    dt.datetime: dt.datetime.fromisoformat,
    dt.date: dt.date.fromisoformat,
    dt.time: dt.time.fromisoformat,
    decimal.Decimal: decimal.Decimal,
    uuid.UUID: uuid.UUID,
}
_WRITERS: Final[dict[Any, Callable[[Any], Json]]] = {
    bytes: lambda value: base64.b64encode(value).decode(),
    dt.datetime: dt.datetime.isoformat,
    dt.date: dt.date.isoformat,
    dt.time: dt.time.isoformat,
    dt.timedelta: dt.timedelta.total_seconds,
    decimal.Decimal: str,
    uuid.UUID: str,
}
