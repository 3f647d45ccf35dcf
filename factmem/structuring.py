"""Structuring: strict conversion between JSON and values of Python types, with the path of each fault."""

from __future__ import annotations

import enum
import functools
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from factmem.class_fields import fields_of, is_pydantic
from factmem.errors import FactMemError
from factmem.shapes import Shape, bare_type, forms_of, is_union, name_of, shape_of
from factmem.value_types import SCALARS, Scalar, WrongTypeError

if TYPE_CHECKING:
    from cattrs import Converter

_MOST_PARTS_EXPLAINED: Final = 2_000


def in_detail(error: Exception, data: object, structure: Callable[[], object]) -> Exception:
    """Return the error of a failed structuring with its path, if that is affordable, else the first error.

    cattrs collects every error in order to locate one: for a long list, that takes hundreds of megabytes.

    Args:
        error: the error of the first attempt, which stopped at the first fault.
        data: the data.
        structure: repeats the attempt, and collects errors.
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


_BOUNDS: Final = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "max_digits", "decimal_places")
"""Parts of a constraint that errors name; others may hold the value."""


def explain_structure_error(error: BaseException, path: str = "$") -> tuple[str, str]:
    """Return the path and the reason of the first fault, without the value itself.

    `cattrs.transform_error` gives the same as formatted lines; here path and reason stay apart, and a fault inside a
    tuple or a pydantic model has its step.
    """
    import cattrs

    if isinstance(error, cattrs.IterableValidationError | cattrs.ClassValidationError):
        with_notes, without = error.group_exceptions()
        for inner, note in with_notes:
            if isinstance(note, cattrs.AttributeValidationNote):
                return explain_structure_error(inner, f"{path}.{note.name}")
            step = f"[{note.index}]" if isinstance(note.index, int) else ".*"  # a key is a part of the value
            return explain_structure_error(inner, path + step)
        return explain_structure_error(without[0], path)
    if isinstance(error, _PartError):
        return explain_structure_error(error.reason, path + error.step)
    if isinstance(error, KeyError):
        return path, f"the field {error.args[0]!r} is missing"
    if isinstance(error, WrongTypeError | FactMemError):
        return path, str(error)
    if isinstance(error, ValueError) and (faults := getattr(error, "errors", None)) is not None:  # pydantic's
        fault = faults(include_input=False)[0]
        bounds = [f"{name}={bound}" for name, bound in fault.get("ctx", {}).items() if name in _BOUNDS]
        rule = " ".join([f"it breaks the rule {fault['type']!r}", *([f"({', '.join(bounds)})"] if bounds else [])])
        return ".".join([path, *map(str, fault["loc"])]), rule
    return path, f"{type(error).__name__} while reading it"


def _reader(scalar: Scalar) -> Callable[[Any, Any], Any]:
    read, scalar_type = scalar.read, scalar.type

    def structure(data: Any, typ: Any) -> Any:
        if typ is not scalar_type and _is_enum(typ):  # cattrs takes an IntEnum for an int
            return _enum(data, typ)
        return read(data)

    return structure


def _listed(data: Any) -> Any:
    """Return a list or a tuple; refuse a text, which would be read as the list of its letters."""
    if not isinstance(data, list | tuple):
        raise WrongTypeError(f"expected a list, found {type(data).__name__}")
    return data


def _list(typ: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    from cattrs import cols

    structure: Callable[[Any, Any], Any] = cols.list_structure_factory(typ, converter)
    return lambda data, typ: structure(_listed(data), typ)


def _set(typ: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    from cattrs import cols

    factory, structure = set if cols.is_set(typ) else frozenset, _list(typ, converter)
    return lambda data, _: factory(structure(data, typ))


def _is_tuple(typ: Any) -> bool:
    return typing.get_origin(typ) is tuple


def _tuple(typ: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    from cattrs import cols

    items = typing.get_args(typ)
    if items[1:] == (...,):
        read: Callable[[Any, Any], Any] = cols.homogenous_tuple_structure_factory(typ, converter)
        return lambda data, typ: read(_listed(data), typ)

    def structure(data: Any, _: Any) -> Any:
        if len(_listed(data)) != len(items):
            raise WrongTypeError(f"expected a list of {len(items)}, found one of {len(data)}")
        parts = zip(data, items, strict=True)
        return tuple(_part(converter, part, typ, f"[{index}]") for index, (part, typ) in enumerate(parts))

    return structure


class _PartError(ValueError):
    """Fault in one item of a tuple or one field of a model, with the step to it."""

    def __init__(self, step: str, reason: Exception) -> None:
        super().__init__(step)
        self.step = step
        self.reason = reason


def _part(converter: Converter, data: Any, typ: Any, step: str) -> Any:
    try:
        return converter.structure(data, typ)
    except Exception as error:
        raise _PartError(step, error) from None


def _union(typ: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    """Read JSON as the option of its form; of several classes, as the one that leaves the fewest of its keys unread."""
    shape_of(typ)  # refuses options that are not told apart
    options = [(option, shape_of(option), converter.get_structure_hook(option)) for option in typing.get_args(typ)]
    by_form: dict[type[Any], list[Any]] = {}
    for option in options:
        for form in forms_of(option[1]):
            by_form.setdefault(form, []).append(option)
    by_form.setdefault(int, by_form.get(float, []))

    def structure(data: Any, _: Any) -> Any:
        form = dict if isinstance(data, Mapping) else list if isinstance(data, tuple) else type(data)
        fault: Exception | None = None
        for option, _shape, read in sorted(by_form.get(form, ()), key=lambda option: _unread(data, option[1])):
            try:
                return read(data, option)
            except Exception as error:  # classes' own validators raise what they like
                fault = fault or error
        names = " or ".join(name_of(option) for option, *_ in options)
        raise fault or WrongTypeError(f"expected {names}, found {type(data).__name__}")

    return structure


def _unread(data: Any, shape: Shape) -> int:
    """Return the number of keys of some JSON that a class of a shape does not have."""
    match data, shape:
        case Mapping(), {"object": fields}:
            return len(data.keys() - {name.removesuffix("?") for name in fields})
        case _:
            return 0


def _is_literal(typ: Any) -> bool:
    origin: Any = typing.get_origin(typ)
    return origin is typing.Literal


def _is_enum(typ: Any) -> bool:
    return isinstance(typ, type) and issubclass(typ, enum.Enum)


def _enum(data: Any, typ: Any) -> Any:
    return typ(_member(data, [item.value for item in typ]))


def _member(data: Any, members: Sequence[Any]) -> Any:
    """Return a value of an enum or a Literal; ``1``, ``1.0`` and ``True`` differ."""
    for member in members:
        if type(member) is type(data) and member == data:
            return data
    raise WrongTypeError("it is not one of the allowed values")


def _pydantic(typ: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    """Read a model field by field, strictly, before the model's own validation."""
    fields = fields_of(typ) or ()

    def structure(data: Any, _: Any) -> Any:
        if not isinstance(data, Mapping):
            raise WrongTypeError(f"expected an object, found {type(data).__name__}")
        given = [field for field in fields if field.required or field.name in data]
        parts = ((field, _part(converter, data[field.name], field.annotation, f".{field.name}")) for field in given)
        return typ(**{field.argument: part for field, part in parts})

    return structure


def _pydantic_written(typ: Any, converter: Converter) -> Callable[[Any], Any]:
    fields = fields_of(typ) or ()
    return lambda value: {
        field.name: converter.unstructure(getattr(value, field.name), unstructure_as=field.annotation)
        for field in fields
    }


def is_constrained(typ: Any) -> bool:
    """Return whether a type has constraints: notes of annotated_types or pydantic, as of ``Annotated[int, Ge(0)]``."""
    return typing.get_origin(typ) is typing.Annotated and any(map(_is_constraint, typ.__metadata__))


def _is_constraint(note: object) -> bool:
    if getattr(note, "discriminator", None) is not None:  # the shapes of the options tell them apart
        return bool(getattr(note, "metadata", ()))
    package = type(note).__module__.partition(".")[0]
    return package in ("annotated_types", "pydantic") or hasattr(note, "__get_pydantic_core_schema__")


def _constrained(typ: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    """Read a value of the type, then have pydantic check the constraints alone: it does not know every type."""
    from pydantic import TypeAdapter

    plain = bare_type(typ)
    read = converter.get_structure_hook(plain)
    checked: TypeAdapter[Any] = TypeAdapter(typing.Annotated[Any, *typ.__metadata__])
    return lambda data, _: checked.validate_python(read(data, plain))


@functools.cache
def value_converter(*, detailed: bool) -> Converter:
    """Return the converter of values. It is strict: nothing is coerced from one scalar type to another.

    Args:
        detailed: collect every error with its path, instead of stopping at the first.
    """
    from cattrs import Converter, cols

    conv = Converter(detailed_validation=detailed, unstruct_collection_overrides={set: sorted, frozenset: sorted})
    for scalar in SCALARS:
        if scalar.type is object:  # as a class it would take in every other type
            conv.register_structure_hook_func(lambda typ: typ is object, lambda data, _: data)
        else:
            conv.register_structure_hook(scalar.type, _reader(scalar))
        if scalar.write is not None:
            conv.register_unstructure_hook(scalar.type, scalar.write)
    conv.register_structure_hook_factory(cols.is_mutable_sequence, _list)
    conv.register_structure_hook_factory(cols.is_any_set, _set)
    conv.register_structure_hook_factory(_is_tuple, _tuple)
    conv.register_structure_hook_factory(is_union, _union)
    conv.register_structure_hook_func(_is_literal, lambda data, typ: _member(data, typing.get_args(typ)))
    conv.register_structure_hook_func(_is_enum, _enum)
    conv.register_structure_hook_factory(is_pydantic, _pydantic)
    conv.register_structure_hook_factory(is_constrained, _constrained)
    conv.register_unstructure_hook_factory(is_pydantic, _pydantic_written)
    return conv
