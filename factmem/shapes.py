"""Shapes of values: structural tags of their types, which name no class.

A shape is JSON: ``"int"``, ``{"list": "str"}``, ``{"enum": ["red", "green"]}``,
``{"object": {"name": "str", "age?": "int"}}``.
"""

from __future__ import annotations

import enum
import functools
import itertools
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Final, TypeAlias

import attrs

from factmem.class_fields import stored_fields
from factmem.error_hints import kind_of
from factmem.errors import CodecError, InvalidDataError
from factmem.value_types import JSON_SHAPE, scalar_of, scalar_of_shape

Shape: TypeAlias = "str | Mapping[str, Any]"
"""The structural tag of a value's type, itself JSON."""

_MOST_COMPARISONS: Final = 20_000
"""Maximum number of pairs of parts that are compared for two shapes."""

_ANY_FORM: Final[Set[type[Any]]] = frozenset({str, int, float, bool, type(None), list, dict})


class _Lost(str):
    """The shape, as JSON, of values that read as JSON since their class is not known."""

    __slots__ = ()


def shape_of(value_type: Any) -> Shape:
    """Return the structural tag of a type.

    Raises:
        InvalidDataError: the type cannot be stored as JSON.
    """
    try:
        return _shape_of(value_type)
    except RecursionError:
        raise InvalidDataError(
            f"{name_of(value_type)} cannot be the type of a value: it contains itself; use object instead"
        ) from None


def _shape_of(value_type: Any) -> Shape:
    if (scalar := scalar_of(value_type)) is not None:
        return scalar.shape
    origin, args = typing.get_origin(value_type), typing.get_args(value_type)
    if origin is typing.Annotated:
        return next((json.loads(note) for note in value_type.__metadata__ if type(note) is _Lost), _shape_of(args[0]))
    if origin is typing.Literal:
        return _enumeration(value_type, args)
    if is_union(value_type):
        return _union(value_type, [_shape_of(arg) for arg in args])
    if origin in (list, tuple, set, frozenset, Sequence) and (len(args) == 1 or args[1:] == (...,)):
        return {"list": _shape_of(args[0])}
    if origin is tuple and args:
        return {"tuple": [_shape_of(arg) for arg in args]}
    if origin in (dict, Mapping) and len(args) == 2 and args[0] is str:
        return {"map": _shape_of(args[1])}
    if isinstance(value_type, type):
        return _shape_of_class(value_type)
    raise InvalidDataError(
        f"{value_type!r} cannot be the type of a value: factmem cannot write it as JSON{_instead_of(value_type)}"
    )


def _instead_of(value_type: Any) -> str:
    """Return the end of the error about a type of no shape that names what to use; empty if nothing is known."""
    if (underlying := getattr(value_type, "__supertype__", None)) is not None:  # of typing.NewType
        return f". Use {name_of(underlying)} itself"
    if typing.get_origin(value_type) in (dict, Mapping):
        key, value = (name_of(arg) for arg in typing.get_args(value_type))
        return f", whose keys are texts. Use dict[str, {value}], or pairs: list[tuple[{key}, {value}]]"
    return ""


def bare_type(value_type: Any) -> Any:
    """Return a type without the notes of ``Annotated``."""
    return typing.get_args(value_type)[0] if typing.get_origin(value_type) is typing.Annotated else value_type


def is_json(value_type: Any) -> bool:
    """Return whether values of a type are read as the JSON that they are."""
    return bare_type(value_type) in (object, Any)


def is_union(value_type: Any) -> bool:
    """Return whether a type is a union, however it is written."""
    return typing.get_origin(value_type) in (typing.Union, types.UnionType)


def _union(value_type: Any, options: list[Shape]) -> Shape:
    """Return the shape of a union, in whose JSON one option is never taken for another."""
    for one, other in itertools.combinations(options, 2):
        if not (_is_json_itself(one) and _is_json_itself(other)) and not _is_told_apart(one, other):
            raise InvalidDataError(
                f"{value_type} cannot be the type of a value: the stored JSON does not tell {words_for(one)} from "
                f"{words_for(other)}. Use one of the types, or a class with a field for each"
            )
    return {"union": sorted(options, key=_written)}


def _is_told_apart(one: Shape, other: Shape) -> bool:
    """Return whether no JSON that is written for one shape is read as the other."""
    match one, other:
        case {"enum": members}, {"enum": others}:
            return not _typed(members) & _typed(others)
        case {"object": dict(fields)}, {"object": dict(others)}:
            mine, theirs = _by_name(fields), _by_name(others)
            alone = fields.keys() - theirs.keys() | others.keys() - mine.keys()
            return any(not name.endswith("?") for name in alone) or any(
                _is_told_apart(mine[name], theirs[name]) for name in mine.keys() & theirs.keys()
            )
        case _:
            forms, others, numbers = forms_of(one), forms_of(other), {int, float}
            return forms.isdisjoint(others) and (numbers.isdisjoint(forms) or numbers.isdisjoint(others))


def _is_json_itself(shape: Shape) -> bool:
    scalar = scalar_of_shape(shape)
    return scalar is not None and (scalar.is_native or scalar.shape == JSON_SHAPE)


def forms_of(shape: Shape) -> Set[type[Any]]:
    """Return the Python types of the JSON that stands for values of a shape."""
    match shape:
        case {"enum": members}:
            return {type(member) for member in members}
        case {"union": options}:
            return {form for option in options for form in forms_of(option)}
        case {"list": _} | {"tuple": _}:
            return {list}
        case {"map": _} | {"object": _}:
            return {dict}
    scalar = scalar_of_shape(shape)
    return _ANY_FORM if scalar is None or scalar.json_type is object else {scalar.json_type}


def _typed(members: Iterable[Any]) -> Set[tuple[type[Any], Any]]:
    return {(type(member), member) for member in members}


def _by_name(fields: Mapping[str, Shape]) -> dict[str, Shape]:
    return {name.removesuffix("?"): shape for name, shape in fields.items()}


def _shape_of_class(cls: type[Any]) -> Shape:
    if issubclass(cls, enum.Enum):
        return _enumeration(cls, [member.value for member in cls])
    if cls in (list, dict):
        return {"list": JSON_SHAPE} if cls is list else {"map": JSON_SHAPE}
    names = ((field.name if field.required else f"{field.name}?", field.annotation) for field in stored_fields(cls))
    return {"object": {name: _shape_of(annotation) for name, annotation in names}}


def _enumeration(value_type: Any, members: Sequence[Any]) -> Shape:
    if not all(isinstance(member, str | int | float | None) and member == member for member in members):
        raise InvalidDataError(
            f"{name_of(value_type)} cannot be the type of a value: its members must be strings, numbers or booleans"
        )
    return {"enum": list(members)}


def _written(shape: Shape) -> str:
    return json.dumps(shape, sort_keys=True)


def type_of(shape: Shape) -> Any:
    """Return a type that reads values of this shape. Objects, which lost their class, read as JSON; see `check_fits`.

    Raises:
        CodecError: it is not a shape.
    """
    try:
        return _type_of(shape)
    except RecursionError:
        raise CodecError("the shape is nested too deeply", path="$.shape") from None


def _type_of(shape: Shape) -> Any:
    match shape:
        case str() if (scalar := scalar_of_shape(shape)) is not None:
            return scalar.type
        case {"list": item, **rest} if not rest:
            return list[_type_of(item)]  # type: ignore[misc]
        case {"map": item, **rest} if not rest:
            return dict[str, _type_of(item)]  # type: ignore[misc]
        case {"enum": [*members], **rest} if not rest and members and not {list, dict} & set(map(type, members)):
            return typing.Literal[tuple(members)]
        case {"tuple": [*items], **rest} if not rest:
            return tuple[tuple(_type_of(item) for item in items)]  # type: ignore[misc]
        case {"union": [_, *_] as options, **rest} if not rest:
            readers = [_type_of(option) for option in options]
            if not all(scalar_of_shape(option) for option in options):
                return typing.Annotated[object, _Lost(_written(shape))]
            return functools.reduce(lambda left, right: left | right, readers)
        case {"object": dict(fields), **rest} if not rest:
            for field in fields.values():
                _type_of(field)
            return typing.Annotated[object, _Lost(_written(shape))]
        case _:
            raise CodecError("not the shape of any type that this version knows", path="$.shape")


def check_fits(data: Any, shape: Shape, *, path: str = "$") -> None:
    """Check that some JSON is of a shape. For a type that reads JSON as it is, nothing else does.

    Raises:
        InvalidDataError: it is not; the path locates the fault.
    """
    match shape, data:
        case {"list": item}, list():
            for index, part in enumerate(data):
                check_fits(part, item, path=f"{path}[{index}]")
        case {"tuple": items}, list() if len(items) == len(data):
            for index, (part, item) in enumerate(zip(data, items, strict=True)):
                check_fits(part, item, path=f"{path}[{index}]")
        case {"map": item}, dict():
            for name, part in data.items():
                check_fits(part, item, path=f"{path}.{name}")
        case {"object": dict(fields)}, dict():
            known = _by_name(fields)
            if unknown := data.keys() - known.keys():
                raise InvalidDataError(f"there is no field {min(unknown)!r}: it has {', '.join(known)}", path=path)
            for name, item in known.items():
                if name in data:
                    check_fits(data[name], item, path=f"{path}.{name}")
                elif name in fields:
                    raise InvalidDataError(f"the field {name!r} is missing", path=path)
        case {"enum": members}, _ if (type(data), data) in [(type(member), member) for member in members]:
            pass
        case {"union": options}, _ if any(_fits(data, option) for option in options):
            pass
        case str(), _ if (scalar := scalar_of_shape(shape)) is not None:
            try:
                scalar.read(data)
            except ValueError as error:
                raise InvalidDataError(str(error), path=path) from None
        case _:
            raise InvalidDataError(f"{kind_of(data)} is not {words_for(shape)}", path=path)


def _fits(data: Any, shape: Shape) -> bool:
    try:
        check_fits(data, shape)
    except InvalidDataError:
        return False
    return True


def with_parts(data: Any, shape: Shape, wanted: Shape, change: Callable[[Any], Any]) -> Any:
    """Return some JSON of a shape, each part of another shape changed.

    Args:
        data: the JSON.
        shape: its shape.
        wanted: the scalar shape of the parts.
        change: returns what takes the place of a part.
    """
    if shape == wanted:
        return change(data)
    match shape, data:
        case {"list": item}, list():
            return [with_parts(part, item, wanted, change) for part in data]
        case {"tuple": items}, list():
            return [with_parts(part, item, wanted, change) for part, item in zip(data, items, strict=True)]
        case {"map": item}, dict():
            return {name: with_parts(part, item, wanted, change) for name, part in data.items()}
        case {"object": dict(fields)}, dict():
            known = _by_name(fields)
            return {
                name: with_parts(part, known[name], wanted, change) if name in known else part
                for name, part in data.items()
            }
        case {"union": options}, _:
            fitting = (option for option in options if _fits(data, option))
            return with_parts(data, next(fitting, JSON_SHAPE), wanted, change)
        case _:
            return data


def accepts(stored: Shape, wanted: Shape) -> bool:
    """Return whether values of the shape ``stored`` can be read as ``wanted``.

    Equal shapes are compatible. So are an object that gained or lost a field with a default, an enum that gained
    members, a union that gained options, and anything read as undeclared JSON. Different shapes that take more than
    `_MOST_COMPARISONS` to compare are not; no type of a real program does.
    """
    if wanted == JSON_SHAPE or (stored == wanted and _written(stored) == _written(wanted)):  # [1] == [True]
        return True
    return _Comparison().accepts(stored, wanted)


@attrs.define
class _Comparison:
    """Comparison of two shapes with a bounded number of steps: nested unions would take exponential time."""

    _left: int = _MOST_COMPARISONS

    def accepts(self, stored: Shape, wanted: Shape) -> bool:
        self._left -= 1
        if self._left < 0:
            return False
        if wanted == JSON_SHAPE or (isinstance(stored, str) and stored == wanted):
            return True
        match stored, wanted:
            case {"enum": old}, {"enum": new}:
                return _typed(old) <= _typed(new)
            case ({"list": old}, {"list": new}) | ({"map": old}, {"map": new}):
                return self.accepts(old, new)
            case {"tuple": old}, {"tuple": new}:
                return len(old) == len(new) and all(map(self.accepts, old, new))
            case {"object": dict(old)}, {"object": dict(new)}:
                return self._object(old, new)
            case {"union": old}, {"union": new}:
                return all(any(self.accepts(a, b) for b in new) for a in old)
            case _, {"union": new}:
                return any(self.accepts(stored, option) for option in new)
            case _:
                return False

    def _object(self, stored: Mapping[str, Shape], wanted: Mapping[str, Shape]) -> bool:
        have = _by_name(stored)
        return all(
            self.accepts(have[name.removesuffix("?")], shape) if name.removesuffix("?") in have else name.endswith("?")
            for name, shape in wanted.items()
        )


def words_for(shape: Shape) -> str:
    """Return the description of a shape's values, in a few words."""
    match shape:
        case str() if (scalar := scalar_of_shape(shape)) is not None:
            return scalar.words
        case {"enum": members}:
            return "one of " + ", ".join(json.dumps(member, ensure_ascii=False) for member in members)
        case {"list": item}:
            return f"list of ({words_for(item)})"
        case {"map": item}:
            return f"object of ({words_for(item)}) by name"
        case {"tuple": items}:
            return "list of " + ", then ".join(f"({words_for(item)})" for item in items)
        case {"union": options}:
            return " or ".join(words_for(option) for option in options)
        case {"object": dict(fields)}:
            return "object with " + ", ".join(_words_for_field(name, inner) for name, inner in fields.items())
        case _:
            return "any JSON"


def _words_for_field(name: str, shape: Shape) -> str:
    optional = "; null if not said" if name.endswith("?") else ""
    return f"{name.removesuffix('?')} ({words_for(shape)}{optional})"


def name_of(value_type: Any) -> str:
    """Return the name of a type for messages."""
    named = bare_type(value_type)
    return "json" if is_json(named) else getattr(named, "__name__", None) or str(named)
