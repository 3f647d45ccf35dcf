"""Values of facts: checked against a type, written as plain JSON, compared by canonical bytes.

A value is stored as JSON beside the *shape* of its type: see `factmem.shapes`, and `factmem.value_types` for the types.
"""

from __future__ import annotations

import datetime as dt
import enum
import itertools
import json
import math
import typing
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from factmem.class_fields import fields_of
from factmem.error_hints import kind_of
from factmem.errors import InvalidDataError
from factmem.shapes import bare_type, is_json, name_of
from factmem.structuring import explain_structure_error, in_detail, value_converter
from factmem.validators import check_text, is_sound

T = TypeVar("T")

Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"
"""Any JSON."""

MAX_VALUE_BYTES: Final = 1_000_000
"""Maximum size of a value, in bytes of its canonical JSON. Store larger data elsewhere and keep a reference."""

MAX_VALUE_DEPTH: Final = 64
"""Maximum nesting of a value or a shape, which fits on the stack of every reader."""

_PLAIN: Final = (str, int, bool)
"""Types of values that are their own JSON and are read strictly as what they are."""

_MAX_INTEGER_BITS: Final = 14_000  # Python reads and writes no longer integers as text by default


def encode_value(value: object, value_type: Any) -> Json:
    """Return a value as JSON.

    Raises:
        InvalidDataError: the value is not of its type, holds NaN, infinity or lone surrogates, or is larger than
            `MAX_VALUE_BYTES`. The error's path locates the fault; its text holds no value.
    """
    if isinstance(value, _PLAIN) and type(value) is value_type in _PLAIN:  # nearly all values
        _check_size(value)
        return value
    try:
        data: Json = value_converter(detailed=False).unstructure(
            value, unstructure_as=None if is_json(value_type) else value_type
        )
    except RecursionError:
        raise InvalidDataError(f"the value is nested more than {MAX_VALUE_DEPTH} deep") from None
    except InvalidDataError:
        raise
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        members = list(map(str, value_type)) if isinstance(value_type, enum.EnumMeta) else []
        why = f"; take {' or '.join(members)}" if members else f" ({type(error).__name__})"
        raise InvalidDataError(f"the value is not a valid {name_of(value_type)}: it is {kind_of(value)}{why}") from None
    _check_size(data)
    return _plain(data)


def decode_value(data: Json, value_type: type[T]) -> T:
    """Return the value of JSON, read strictly: no scalar type is coerced to another.

    Raises:
        InvalidDataError: the data is not of the type; the path locates the fault.
    """
    if type(data) in _PLAIN and type(data) is value_type:  # nearly all values
        return data
    try:
        if is_json(value_type):
            return typing.cast("T", _plain(data))  # a copy, which the caller may change
        return value_converter(detailed=False).structure(data, value_type)
    except RecursionError:
        raise InvalidDataError("the value is nested too deeply") from None
    except Exception as error:  # classes' own validators raise what they like
        detailed = in_detail(error, data, lambda: value_converter(detailed=True).structure(data, value_type))
        where, what = explain_structure_error(detailed)
        raise InvalidDataError(f"the value is not a valid {name_of(value_type)}: {what}", path=where) from None


def check_value(value: T, value_type: type[T]) -> T:
    """Return a value as it reads back from a store.

    Raises:
        InvalidDataError: see `encode_value` and `decode_value`.
    """
    if isinstance(value, str) and not value.strip() and bare_type(value_type) is str:
        raise InvalidDataError("a text value must not be blank: to clear a known one, retract its record")
    if isinstance(value, _PLAIN) and type(value) is value_type in _PLAIN:
        _check_size(value)
        return value
    read_back = decode_value(encode_value(value, value_type), value_type)
    if not _equal(read_back, value):
        path, why = _difference(value, read_back)
        raise InvalidDataError(f"the value would not read back unchanged as {name_of(value_type)}: {why}", path=path)
    return read_back


def _difference(value: object, read_back: object, path: str = "$") -> tuple[str, str]:
    """Return the path of the first part that is not read back as it was, and the reason, without the part itself."""
    if type(value) is not type(read_back):
        return path, f"{kind_of(value)} is read back as {kind_of(read_back)}"
    for step, part, other in _parts(value, read_back):
        if not _equal(part, other):
            return _difference(part, other, path + step)
    if fields_of(type(value)) is not None:
        return path, f"{kind_of(value)} holds more than its fields, or has no == that compares them"
    return path, "a validator, or its class, makes another value of it"


def _parts(value: Any, read_back: Any) -> Iterator[tuple[str, object, object]]:
    match value:
        case list() | tuple():
            for index, (part, other) in enumerate(zip(value, read_back, strict=False)):
                yield f"[{index}]", part, other
        case Mapping():
            for key in value.keys() & read_back.keys():
                yield ".*", value[key], read_back[key]  # the key is a part of the value
        case _:
            for field in fields_of(type(value)) or ():
                yield f".{field.name}", getattr(value, field.name), getattr(read_back, field.name)


def _equal(one: object, other: object) -> bool:
    if isinstance(one, dt.datetime) and isinstance(other, dt.datetime) and one.tzinfo and other.tzinfo:
        # In an hour that a clock change repeats, == is False, and near the ends of the calendar there is no such UTC.
        return one.replace(tzinfo=None) == other.replace(tzinfo=None) and one.utcoffset() == other.utcoffset()
    try:
        return bool(one == other)
    except Exception:  # a signalling NaN, an array, or a class that compares itself as it likes
        return False


def parts_of(value: Any, given: Json, *, defaults: bool = True) -> Any:
    """Return the parts of a value that were given, as a list that may hold further ones; a scalar as it is.

    Args:
        value: the value.
        given: the JSON that it was read from; None if it is not known, as for the items of a set.
        defaults: whether fields that were given, but are equal to their defaults, are among them.
    """
    pairs: Iterable[tuple[Any, Json]]
    inner: Iterable[Json]
    if (fields := fields_of(type(value))) is not None:
        changed = {field.name: None for field in fields if getattr(value, field.name) != field.default}
        named = given if isinstance(given, Mapping) else changed
        wanted = named if defaults else named.keys() & changed
        items = ((getattr(value, field.name), named.get(field.name)) for field in fields if field.name in wanted)
        pairs = [pair for pair in items if pair[0] is not None]
    elif isinstance(value, Mapping):
        inner = given.values() if isinstance(given, Mapping) else itertools.repeat(None)
        pairs = [*((key, None) for key in value), *zip(value.values(), inner, strict=False)]
    elif isinstance(value, list | tuple | set | frozenset):
        inner = given if isinstance(given, list) and isinstance(value, list | tuple) else itertools.repeat(None)
        pairs = zip(value, inner, strict=False)
    else:
        return value
    return [parts_of(item, data, defaults=defaults) for item, data in pairs]


def value_text(data: Json) -> str:
    """Return a value as text to read: a string as it is, anything else as JSON."""
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)


def canonical_bytes(data: Json) -> bytes:
    """Return the bytes that decide whether two values are equal.

    Keys are sorted and text is in NFC. ``1``, ``1.0`` and ``True`` differ.
    """
    if type(data) is int:
        return b"%d" % data
    return _dumps(_normalized(data)).encode()


def _normalized(data: Json) -> Json:
    match data:
        case str():
            return data if data.isascii() else unicodedata.normalize("NFC", data)
        case Mapping():
            items = {unicodedata.normalize("NFC", key): _normalized(item) for key, item in data.items()}
            # Two keys that are one in NFC are two all the same: neither item may get lost.
            return items if len(items) == len(data) else {key: _normalized(item) for key, item in data.items()}
        case list() | tuple():
            return [_normalized(item) for item in data]
        case _:
            return data


def texts_in(data: Json, *, numbers: bool = True, names: bool = False) -> Iterator[str]:
    """Yield the texts in some JSON.

    Args:
        data: the JSON.
        numbers: yield numbers as texts, too.
        names: yield the keys of mappings, too.
    """
    match data:
        case str():
            yield data
        case Mapping():
            for name, item in data.items():
                if names:
                    yield name
                yield from texts_in(item, numbers=numbers, names=names)
        case list() | tuple():
            for item in data:
                yield from texts_in(item, numbers=numbers, names=names)
        case int() | float() if numbers and not isinstance(data, bool):
            yield str(data)


_dumps: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def _plain(data: Json) -> Json:
    """Return JSON as it reads back: without tuples, and without members of enums that are texts or numbers too."""
    match data:
        case enum.Enum():
            return _plain(data.value)
        case list() | tuple():
            return [_plain(item) for item in data]
        case Mapping():
            keys = (key.value if isinstance(key, enum.Enum) else key for key in data)
            return {key: _plain(item) for key, item in zip(keys, data.values(), strict=True)}
        case _:
            return data


def check_json(data: Json, *, path: str = "$") -> None:
    """Check that every store can carry some JSON, of any size.

    Args:
        data: the JSON.
        path: its own path, for the error.

    Raises:
        InvalidDataError: it holds NaN, infinity, lone surrogates, an integer too long to write or something that is
            not JSON, or is nested deeper than `MAX_VALUE_DEPTH`.
    """
    _check_tree(data, (path,), MAX_VALUE_DEPTH)


def _check_size(data: Json) -> None:
    if type(data) is str and data.isascii() and 6 * len(data) + 2 <= MAX_VALUE_BYTES:
        return
    if type(data) is int and data.bit_length() <= _MAX_INTEGER_BITS:
        return
    check_json(data)
    size = len(_dumps(data).encode())
    if size > MAX_VALUE_BYTES:
        raise InvalidDataError(
            f"the value is {size:,} bytes of JSON; {MAX_VALUE_BYTES:,} is the most. Keep a reference to it instead"
        )


def _check_tree(data: Json, trail: _Trail, depth: int) -> None:
    match data:
        case str():
            if not is_sound(data):
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
                if not is_sound(key):
                    check_text(key, path=_path(trail))
                _check_tree(item, (trail, key), depth - 1)
        case list() | tuple():
            for index, item in enumerate(data):
                _check_tree(item, (trail, index), depth - 1)
        case _:
            raise InvalidDataError(f"{kind_of(data)} cannot be written as JSON", path=_path(trail))


_Trail: TypeAlias = "tuple[str] | tuple[_Trail, str | int]"
"""Steps to a part of a value. Building their text for every part would cost more than the check."""


def _path(trail: _Trail) -> str:
    if len(trail) == 1:
        return trail[0]
    before, step = trail
    return f"{_path(before)}[{step}]" if isinstance(step, int) else f"{_path(before)}.{step}"
