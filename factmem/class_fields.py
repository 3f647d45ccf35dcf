"""Fields of the classes whose instances are values or profiles: attrs classes, dataclasses and pydantic models."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import attrs

from factmem.errors import InvalidDataError

_FACTORY: Final[type[Any]] = type(attrs.Factory(list))
_MISSING: Final = dataclasses.MISSING


class ClassField(NamedTuple):
    """A field that the constructor of a class takes.

    Attributes:
        name: Name on an instance.
        argument: Name in the constructor.
        annotation: Type; object if it has none.
        constraints: Constraints of a pydantic field, which stand beside its type.
        required: Whether it has no default.
        default: Its default; None if it has none, or makes one each time.
        description: Description of what it holds, if the class has one.
    """

    name: str
    argument: str
    annotation: Any
    constraints: Sequence[Any]
    required: bool
    default: Any
    description: str | None


def fields_of(cls: Any) -> list[ClassField] | None:
    """Return the fields of a class; None if it is of no kind that has fields.

    Raises:
        InvalidDataError: One of its annotations cannot be resolved.
    """
    if not isinstance(cls, type):
        return None
    if is_pydantic(cls):
        return _of_pydantic(cls)
    fields: Sequence[Any]
    if attrs.has(cls):
        fields = attrs.fields(cls)
    elif dataclasses.is_dataclass(cls):
        fields = dataclasses.fields(cls)
    else:
        return None
    hints, found = _hints(cls), list[ClassField]()
    for field in fields:
        unset = field.default is attrs.NOTHING or field.default is _MISSING
        made = isinstance(field.default, _FACTORY) or getattr(field, "default_factory", _MISSING) is not _MISSING
        annotation, argument = hints.get(field.name, object), getattr(field, "alias", None) or field.name
        default = None if unset or made else field.default
        if field.init:
            description = field.metadata.get("description")
            found.append(ClassField(field.name, argument, annotation, (), unset and not made, default, description))
    return found


def stored_fields(cls: type[Any]) -> list[ClassField]:
    """Return the fields of a class whose instances are values.

    Raises:
        InvalidDataError: It has none that are known.
    """
    if (fields := fields_of(cls)) is None:
        kinds = "an attrs class, a dataclass or a pydantic model"
        raise InvalidDataError(f"{cls.__name__} cannot be the type of a value: make it {kinds}")
    return fields


def is_pydantic(cls: object) -> bool:
    """Return whether a class is a pydantic model. If it is one, pydantic is imported already."""
    pydantic: Any = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)


def _of_pydantic(model: Any) -> list[ClassField]:
    try:
        model.model_rebuild()
    except NameError:
        raise _unresolved(model) from None
    found = []
    for name, field in model.model_fields.items():
        alias = field.validation_alias or field.alias
        argument = alias if isinstance(alias, str) else name
        default = None if field.is_required() or field.default_factory is not None else field.default
        kept = field.annotation, field.metadata, field.is_required(), default, field.description
        found.append(ClassField(name, argument, *kept))
    return found


def _hints(cls: type[Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError, SyntaxError, AttributeError):
        raise _unresolved(cls) from None


def _unresolved(cls: type[Any]) -> InvalidDataError:
    return InvalidDataError(f"the fields of {cls.__name__} are not known: one of its annotations cannot be resolved")
