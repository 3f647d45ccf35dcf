"""Validators of attrs classes that raise factmem's own errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from factmem.errors import InvalidDataError
from factmem.values import check_text

__all__ = ["instance_of", "text"]


def instance_of(*types: type) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """Return a validator that lets only instances of these types pass.

    Raises:
        InvalidDataError: from the validator, naming the attribute and both types.
    """

    def validate(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, types):
            wanted = " or ".join("None" if typ is type(None) else typ.__name__ for typ in types)
            path = f"$.{attribute.name}"
            raise InvalidDataError(f"{attribute.name} must be {wanted}, not {type(value).__name__}", path=path)

    return validate


def text(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Let only texts pass that every store can carry, and None where that is the default.

    Raises:
        InvalidDataError: naming the attribute.
    """
    if type(value) is str and value.isascii():
        return  # nearly all there is, read or written
    if value is not None or attribute.default is not None:
        check_text(value, path=f"$.{attribute.name}")
