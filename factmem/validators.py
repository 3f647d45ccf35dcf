"""Checks of arguments and of attrs fields.

Each check exists twice: as a function of a value and its name (``check_whole(limit, "limit", least=1)``), for
arguments, and as an attrs validator (``attrs.field(validator=positive)``), for fields. All of them raise
`InvalidDataError` with the name of what was checked and its path.

A boolean is never taken for a number. Values that passed the checks of a class need none again: `made` and `changed`
return instances without running them.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, TypeVar

import attrs

from factmem.error_hints import kind_of
from factmem.errors import InvalidDataError
from factmem.legal_names import checked_name

T = TypeVar("T")

Validator: TypeAlias = Callable[[Any, "attrs.Attribute[Any]", Any], None]
"""A validator of an attrs field: a function of the instance, the attribute and the value."""


def check_text(text: object, *, path: str) -> None:
    """Check that every store can carry a text.

    Raises:
        InvalidDataError: it is not a string, or holds a lone surrogate.
    """
    if not isinstance(text, str):
        raise InvalidDataError(f"expected str, found {type(text).__name__}", path=path)
    if not is_sound(text):
        raise InvalidDataError("the text holds a lone surrogate, which no store can carry", path=path)


def is_sound(text: str) -> bool:
    """Return whether a text can be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def mended(text: str) -> str:
    """Return a text with each lone surrogate, which no store can carry, replaced by U+FFFD."""
    if is_sound(text):
        return text
    return "".join("\ufffd" if 0xD800 <= ord(char) <= 0xDFFF else char for char in text)


def check_whole(value: object, name: str, *, least: int = 0, most: int | None = None) -> int:
    """Return a whole number in a range.

    Args:
        value: the value to check.
        name: the argument's name, for the error.
        least: the smallest legal number.
        most: the largest legal number; None for no bound.

    Raises:
        InvalidDataError: the value is not an int, or out of range.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= least and (most is None or value <= most):
        return value
    bounds = f"of at least {least}" if most is None else f"from {least} to {most:,}"
    raise InvalidDataError(f"{name} must be a whole number {bounds}", path=f"$.{name}")


def check_number(value: object, name: str, *, most: float = math.inf) -> float:
    """Return a finite number of at least 0.

    Args:
        value: the value to check.
        name: the argument's name, for the error.
        most: the largest legal number.

    Raises:
        InvalidDataError: the value is not a number, or out of range.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most and value != math.inf:
        return value
    bounds = "of at least 0" if most == math.inf else f"from 0 to {most:g}"
    raise InvalidDataError(f"{name} must be a number {bounds}", path=f"$.{name}")


def check_fraction(value: object, name: str) -> float:
    """Return a number from 0 to 1.

    Raises:
        InvalidDataError: the value is not a number, or out of range.
    """
    return check_number(value, name, most=1)


def check_seconds(value: object, name: str) -> float:
    """Return a finite number of seconds above 0.

    Raises:
        InvalidDataError: the value is not a number, or out of range.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
        return value
    raise InvalidDataError(f"{name} must be a number of seconds above 0", path=f"$.{name}")


def check_duration(value: object, name: str) -> dt.timedelta:
    """Return a timedelta above 0.

    Raises:
        InvalidDataError: the value is not a timedelta, or not above 0.
    """
    if isinstance(value, dt.timedelta) and value > dt.timedelta(0):
        return value
    raise InvalidDataError(f"{name} must be a timedelta greater than 0", path=f"$.{name}")


def check_aware(value: object, name: str) -> dt.datetime:
    """Return a datetime with a time zone.

    Raises:
        InvalidDataError: the value is not a datetime, or is naive.
    """
    if not isinstance(value, dt.datetime):
        raise InvalidDataError(
            f"{name} must be a datetime such as datetime(2026, 5, 1, tzinfo=UTC), not {kind_of(value)}",
            path=f"$.{name}",
        )
    if value.tzinfo is None:
        raise InvalidDataError(f"{name} has no time zone: give it one, for example datetime.now(UTC)", path=f"$.{name}")
    return value


def check_instance(value: object, name: str, *types: type, hint: str = "") -> None:
    """Raise unless a value is an instance of one of some types.

    Args:
        value: the value to check.
        name: the argument's name, for the error.
        types: the legal types.
        hint: what to give instead, for the error.

    Raises:
        InvalidDataError: the value is of another type.
    """
    if not isinstance(value, types):
        found = f"{name} must be {_either(types)}, not {kind_of(value)}"
        raise InvalidDataError(f"{found}: {hint}" if hint else found, path=f"$.{name}")


def listed(name: str, given: Iterable[T], *types: type[Any]) -> tuple[T, ...]:
    """Return items as a tuple.

    Args:
        name: the argument's name, for the error.
        given: the items.
        types: the legal types of an item.

    Raises:
        InvalidDataError: it is a single item, or holds one of another type.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidDataError(
            f"{name} takes a list of {_either(types)}, not {kind_of(given)}: give [one, …]", path=f"$.{name}"
        )
    items = tuple(given)
    for number, item in enumerate(items):
        if not isinstance(item, types):
            raise InvalidDataError(f"{name} takes {_either(types)}, not {kind_of(item)}", path=f"$.{name}[{number}]")
    return items


def one_or_more(name: str, given: Any, *types: type[Any]) -> tuple[Any, ...]:
    """Return one item, or several, as a tuple. A text is not one item: it could be a list that was forgotten.

    Raises:
        InvalidDataError: one is of another type, or it is a text.
    """
    return listed(name, [given] if isinstance(given, types) and not isinstance(given, str) else given, *types)


def _either(types: Iterable[type]) -> str:
    return " or ".join("None" if typ is type(None) else typ.__name__ for typ in types)


def _validator(check: Callable[[object, str], object]) -> Validator:
    def validate(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        check(value, attribute.name)

    return validate


def whole(least: int, most: int | None = None) -> Validator:
    """Return a validator of whole numbers in a range."""
    return _validator(lambda value, name: check_whole(value, name, least=least, most=most))


count: Final = whole(0)
"""Accept whole numbers of at least 0."""

positive: Final = whole(1)
"""Accept whole numbers of at least 1."""

weight: Final = _validator(check_number)
"""Accept finite numbers of at least 0."""

fraction: Final = _validator(check_fraction)
"""Accept numbers from 0 to 1."""

seconds: Final = _validator(check_seconds)
"""Accept finite numbers of seconds above 0."""

duration: Final = _validator(check_duration)
"""Accept a timedelta above 0."""

aware: Final = _validator(check_aware)
"""Accept a datetime with a time zone."""


def instance_of(*types: type) -> Validator:
    """Return a validator that accepts instances of these types.

    Example:
        >>> owner: str | None = attrs.field(validator=instance_of(str, type(None)))
    """

    def validate(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, types):
            check_instance(value, attribute.name, *types)

    return validate


def named(what: str) -> Validator:
    """Return a validator that accepts legal names, and None if that is the default.

    Args:
        what: the kind of thing that is named, for the error.
    """

    def validate(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if value is not None or attribute.default is not None:
            checked_name(value, what=what)

    return validate


def text(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Accept strings that every store can carry, and None if that is the default."""
    if type(value) is str and value.isascii():
        return  # the common case, at every read and write
    if value is not None or attribute.default is not None:
        check_text(value, path=f"$.{attribute.name}")


_put: Final = object.__setattr__


def made(cls: type[T], /, **fields: Any) -> T:
    """Return an instance of an attrs class, given all of its fields, of which each would pass its checks."""
    instance = cls.__new__(cls)
    for name, value in fields.items():
        _put(instance, name, value)
    return instance


def changed(instance: T, /, **fields: Any) -> T:
    """Return a copy of an attrs instance with other values in some fields, of which each would pass its checks.

    It takes a third of the time of `attrs.evolve`, which converts and validates every field again.
    """
    cls: Any = type(instance)
    copy: T = cls.__new__(cls)
    for name in _names(cls):
        _put(copy, name, fields[name] if name in fields else getattr(instance, name))
    return copy


@functools.cache
def _names(cls: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(cls))
