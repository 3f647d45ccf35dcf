"""The values of facts: checked against a type, written as plain JSON, compared by canonical bytes.

A value is stored as JSON beside the *shape* of its type; see `factmem.shapes`.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import enum
import functools
import json
import math
import operator
import types
import typing
import unicodedata
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from factmem.errors import FactMemError, InvalidDataError
from factmem.shapes import Shape, accepts, name_of, shape_of, type_of

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = [
    "MAX_VALUE_BYTES",
    "MAX_VALUE_DEPTH",
    "Json",
    "Shape",
    "accepts",
    "canonical_bytes",
    "check_json",
    "check_text",
    "check_value",
    "decode_value",
    "encode_value",
    "explain_structure_error",
    "in_detail",
    "shape_of",
    "type_of",
]

T = TypeVar("T")

Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"
"""What JSON can hold."""

MAX_VALUE_BYTES: Final = 1_000_000
"""The largest legal value, in bytes of its canonical JSON. Store larger things elsewhere and keep a reference."""

MAX_VALUE_DEPTH: Final = 64
"""How deep a value, or the shape of a type, may be nested; so much fits on any stack that reads it."""

_MOST_PARTS_EXPLAINED: Final = 2_000
_MAX_INTEGER_BITS: Final = 14_000  # Python reads and writes no longer integers as text, unless told to


def encode_value(value: object, value_type: Any) -> Json:
    """Write a value as JSON.

    Raises:
        InvalidDataError: the value is not of its type, holds NaN, infinity or lone surrogates, or is
            larger than `MAX_VALUE_BYTES`. The error's path says where; its text holds no value.
    """
    try:
        data: Json = _converter(detailed=False).unstructure(
            value, unstructure_as=None if value_type in (object, Any) else value_type
        )
    except RecursionError:
        raise InvalidDataError(f"the value is nested more than {MAX_VALUE_DEPTH} deep") from None
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise InvalidDataError(f"the value is no {name_of(value_type)}: {type(error).__name__}") from None
    _check_size(data)
    return _plain(data)


def decode_value(data: Json, value_type: type[T]) -> T:
    """Read a value from JSON, strictly: nothing is coerced from one scalar type to another.

    Raises:
        InvalidDataError: the data is not of the type; the path says where.
    """
    try:
        if value_type in (object, Any):
            return typing.cast("T", _plain(data))  # a copy: whoever gets it may write into it
        return _converter(detailed=False).structure(data, value_type)
    except RecursionError:
        raise InvalidDataError("the value is nested too deeply") from None
    except Exception as error:  # classes' own validators raise what they like
        detailed = in_detail(error, data, lambda: _converter(detailed=True).structure(data, value_type))
        where, what = explain_structure_error(detailed)
        raise InvalidDataError(f"the value is no {name_of(value_type)}: {what}", path=where) from None


def check_value(value: T, value_type: type[T]) -> T:
    """Return ``value`` as it will read back from a store, or raise if it is not of its type.

    Raises:
        InvalidDataError: see `encode_value` and `decode_value`.
    """
    if value_type is str and isinstance(value, str) and type(value) is str:
        _check_size(value)
        if not value.strip():
            raise InvalidDataError("a text value must not be blank: there is nothing to remember")
        return value
    read_back = decode_value(encode_value(value, value_type), value_type)
    if not _equal(read_back, value):
        raise InvalidDataError(f"the value would not read back as it is: it is no {name_of(value_type)}")
    return read_back


def _equal(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except Exception:  # a signalling NaN, an array, or a class that compares itself as it likes
        return False


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
            items = {unicodedata.normalize("NFC", key): _normalised(item) for key, item in data.items()}
            # Two keys that are one in NFC are two all the same: neither item may get lost.
            return items if len(items) == len(data) else {key: _normalised(item) for key, item in data.items()}
        case list() | tuple():
            return [_normalised(item) for item in data]
        case _:
            return data


def _dumps(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _plain(data: Json) -> Json:
    """The same as JSON reads it back, without tuples."""
    match data:
        case list() | tuple():
            return [_plain(item) for item in data]
        case Mapping():
            return {key: _plain(item) for key, item in data.items()}
        case _:
            return data


def check_json(data: Json, *, path: str = "$") -> None:
    """Raise unless this is JSON that every store can carry, of any size.

    Raises:
        InvalidDataError: it holds NaN, infinity, lone surrogates, an integer too long to write, or
            something that is no JSON; or it is nested deeper than `MAX_VALUE_DEPTH`.
    """
    _check_tree(data, (path,), MAX_VALUE_DEPTH)


def check_text(text: object, *, path: str) -> None:
    """Raise unless this is a text that every store can carry.

    Raises:
        InvalidDataError: it is no string, or holds a lone surrogate.
    """
    if not isinstance(text, str):
        raise InvalidDataError(f"expected str, found {type(text).__name__}", path=path)
    if not _is_sound(text):
        raise InvalidDataError("the text holds a lone surrogate, which no store can carry", path=path)


def _is_sound(text: str) -> bool:
    return text.isascii() or not any(0xD800 <= ord(char) <= 0xDFFF for char in text)


def _check_size(data: Json) -> None:
    check_json(data)
    if isinstance(data, str) and 6 * len(data) + 2 <= MAX_VALUE_BYTES:
        return
    size = len(_dumps(data).encode())
    if size > MAX_VALUE_BYTES:
        raise InvalidDataError(
            f"the value is {size:,} bytes of JSON; {MAX_VALUE_BYTES:,} is the most. Keep a reference to it instead"
        )


def _check_tree(data: Json, trail: _Trail, depth: int) -> None:
    match data:
        case str():
            if not _is_sound(data):
                check_text(data, path=_path(trail))
        case float() if not math.isfinite(data):
            raise InvalidDataError("NaN and infinity cannot be stored", path=_path(trail))
        case int() if data.bit_length() > _MAX_INTEGER_BITS:
            raise InvalidDataError(f"the integer has more than {_MAX_INTEGER_BITS} bits", path=_path(trail))
        case None | bool() | int() | float():
            pass
        case Mapping() | list() | tuple() if depth == 0:
            raise InvalidDataError(f"the value is nested more than {MAX_VALUE_DEPTH} deep")
        case Mapping():
            for key, item in data.items():
                if not isinstance(key, str):
                    raise InvalidDataError("the keys of a stored mapping must be strings", path=_path(trail))
                if not _is_sound(key):
                    check_text(key, path=_path(trail))
                _check_tree(item, (trail, key), depth - 1)
        case list() | tuple():
            for index, item in enumerate(data):
                _check_tree(item, (trail, index), depth - 1)
        case _:
            raise InvalidDataError(f"a {type(data).__name__} cannot be written as JSON", path=_path(trail))


_Trail: TypeAlias = "tuple[str] | tuple[_Trail, str | int]"
"""A way to a part of a value; as a text, for every part, it would cost more than the check."""


def _path(trail: _Trail) -> str:
    if len(trail) == 1:
        return trail[0]
    before, step = trail
    return f"{_path(before)}[{step}]" if isinstance(step, int) else f"{_path(before)}.{step}"


def in_detail(error: Exception, data: object, structure: Callable[[], object]) -> Exception:
    """Return what is wrong with data that could not be structured, with the path to it where that can be had.

    cattrs gathers every error there is in order to tell the path of one: of a long list, hundreds of megabytes.

    Args:
        error: what the first try raised, which stopped at the first thing wrong.
        data: the data.
        structure: tries again, and gathers.
    """
    if _is_small(data):
        try:
            structure()
        except Exception as detailed:
            return detailed
    return error


def _is_small(data: object) -> bool:
    waiting, seen = [data], 0
    while waiting:
        match waiting.pop():
            case Mapping() as mapping:
                waiting.extend(mapping.values())
                seen += len(mapping)
            case list() | tuple() as items:
                waiting.extend(items)
                seen += len(items)
            case _:
                pass
        if seen > _MOST_PARTS_EXPLAINED:
            return False
    return True


def explain_structure_error(error: BaseException, path: str = "$") -> tuple[str, str]:
    """Return the path and the reason of the first thing that went wrong, without the value itself."""
    import cattrs

    if isinstance(error, cattrs.IterableValidationError | cattrs.ClassValidationError):
        with_notes, without = error.group_exceptions()
        for inner, note in with_notes:
            step = f".{note.name}" if isinstance(note, cattrs.AttributeValidationNote) else f"[{note.index}]"
            return explain_structure_error(inner, path + step)
        return explain_structure_error(without[0], path)
    if isinstance(error, _ItemError):
        return explain_structure_error(error.reason, f"{path}[{error.index}]")
    if isinstance(error, KeyError):
        return path, f"the field {error.args[0]!r} is missing"
    if isinstance(error, _WrongType | FactMemError):
        return path, str(error)
    return path, f"{type(error).__name__} while reading it"


class _WrongType(ValueError):
    """A scalar of another type than asked for; its text names both types and no value."""


def _scalar(data: Any, typ: Any) -> Any:
    if _is_enum(typ):  # an IntEnum comes here as an int
        return _enum(data, typ)
    if typ is float:
        return _float(data, typ)
    if type(data) is not typ:
        raise _WrongType(f"expected {typ.__name__}, found {type(data).__name__}")
    return data


def _parsed(parse: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    def structure(data: Any, typ: Any) -> Any:
        if not isinstance(data, str):
            raise _WrongType(f"expected the text of a {name_of(typ)}, found {type(data).__name__}")
        try:
            return parse(data)
        except (ValueError, ArithmeticError):
            raise _WrongType(f"the text is no {name_of(typ)}") from None

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


def _set(typ: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    from cattrs import cols

    structure: Callable[[Any, Any], list[Any]] = cols.list_structure_factory(typ, converter)
    factory = set if cols.is_set(typ) else frozenset
    return lambda data, _: factory(structure(data, typ))


def _is_tuple(typ: Any) -> bool:
    return typing.get_origin(typ) is tuple


def _tuple(typ: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    from cattrs import cols

    items = typing.get_args(typ)
    if items[1:] == (...,):
        return cols.homogenous_tuple_structure_factory(typ, converter)

    def structure(data: Any, _: Any) -> Any:
        if len(data) != len(items):
            raise _WrongType(f"expected a list of {len(items)}, found one of {len(data)}")
        return tuple(_item(converter, *item) for item in zip(data, items, range(len(items)), strict=True))

    return structure


class _ItemError(ValueError):
    """What went wrong with one item of a tuple, and where."""

    def __init__(self, index: int, reason: Exception) -> None:
        super().__init__(f"item {index}")
        self.index = index
        self.reason = reason


def _item(converter: Converter, data: Any, typ: Any, index: int) -> Any:
    try:
        return converter.structure(data, typ)
    except Exception as error:
        raise _ItemError(index, error) from None


_NATIVE: Final = frozenset({str, int, float, bool, type(None)})


def _is_native_union(typ: Any) -> bool:
    return typing.get_origin(typ) in (typing.Union, types.UnionType) and _NATIVE.issuperset(typing.get_args(typ))


def _one_of(options: Sequence[type[Any]]) -> Callable[[Any, Any], Any]:
    def structure(data: Any, _: Any) -> Any:
        if type(data) in options:
            return data
        if type(data) is int and float in options:
            return float(data)
        names = " or ".join(option.__name__ for option in options)
        raise _WrongType(f"expected {names}, found {type(data).__name__}")

    return structure


def _is_literal(typ: Any) -> bool:
    origin: Any = typing.get_origin(typ)
    return origin is typing.Literal


def _is_enum(typ: Any) -> bool:
    return isinstance(typ, type) and issubclass(typ, enum.Enum)


def _enum(data: Any, typ: Any) -> Any:
    return typ(_member(data, [item.value for item in typ]))


def _member(data: Any, members: Sequence[Any]) -> Any:
    """Read one of the values of an enum or a Literal; ``1``, ``1.0`` and ``True`` differ."""
    for member in members:
        if type(member) is type(data) and member == data:
            return data
    raise _WrongType("it is none of the values that are allowed")


@functools.cache
def _converter(*, detailed: bool) -> Converter:
    from cattrs import Converter, cols

    conv = Converter(detailed_validation=detailed, unstruct_collection_overrides={set: sorted, frozenset: sorted})
    for scalar in (str, int, bool, float):
        conv.register_structure_hook(scalar, _scalar)
    conv.register_structure_hook_func(functools.partial(operator.is_, object), lambda data, _: data)
    conv.register_unstructure_hook(float, float)
    for typ, parse in _PARSERS.items():
        conv.register_structure_hook(typ, _parsed(parse))
    for typ, write in _WRITERS.items():
        conv.register_unstructure_hook(typ, write)
    conv.register_structure_hook(dt.timedelta, _seconds)
    conv.register_structure_hook_factory(cols.is_mutable_sequence, _listing(cols.list_structure_factory))
    conv.register_structure_hook_factory(cols.is_any_set, _listing(_set))
    conv.register_structure_hook_factory(_is_tuple, _listing(_tuple))
    conv.register_structure_hook_factory(_is_native_union, lambda typ: _one_of(typing.get_args(typ)))
    conv.register_structure_hook_func(_is_literal, lambda data, typ: _member(data, typing.get_args(typ)))
    conv.register_structure_hook_func(_is_enum, _enum)
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
