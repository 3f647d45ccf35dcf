"""What a model may answer for a value: pydantic types made from the types of values, and how they are read.

The types stand for the JSON that `factmem.values` writes, so that an answer that passes goes through factmem's
own strict codec. They are lenient where nothing is lost: ``"120"`` is an int, ``Good`` the member ``good``.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeAlias

import attrs
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    create_model,
    model_serializer,
)

from factmem.errors import InvalidDataError
from factmem.scalars import Scalar, is_number, scalar_of
from factmem.values import Json, check_json, decode_value

__all__ = ["AnswerPart", "answer_type", "read_value", "strict_schema"]

# What is made here at run time, no type checker can know.
_Dynamic: TypeAlias = Any


def strict_schema(schema: dict[str, Any]) -> None:
    """Require every field in a model's JSON schema, as endpoints that constrain answers want it.

    Reading an answer stays lenient: a field that is missing takes its default.
    """
    schema["required"] = list(schema.get("properties", {}))
    for field in schema.get("properties", {}).values():
        field.pop("default", None)
    schema["additionalProperties"] = False


class AnswerPart(BaseModel):
    """What answers are made of: unknown keys are dropped, numbers stand for texts, and every field is asked for."""

    model_config: ClassVar[ConfigDict] = ConfigDict(coerce_numbers_to_str=True, json_schema_extra=strict_schema)


class _Record(AnswerPart):
    """An object: it is written with the names of its class, without what is left to the class's defaults."""

    names: ClassVar[Mapping[str, str]] = {}
    optional: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _with_the_names_of_the_class(self, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        written = handler(self)
        return {
            name: written[field]
            for field, name in self.names.items()
            if field not in self.optional or (field in self.model_fields_set and written[field] is not None)
        }


def _no_bool(data: object) -> object:
    if isinstance(data, bool):
        raise ValueError("expected a number, not true or false")
    return data


def _text_of_number(data: object) -> object:
    return str(data) if is_number(data) else data


def _scalar_answer(scalar: Scalar) -> _Dynamic:
    """Return the pydantic type of the JSON that a scalar is written as."""
    described: dict[str, Any] = {} if scalar.is_native else {"description": scalar.words}
    if scalar.json_type is object:
        return Any
    if scalar.json_type is float:
        return Annotated[float, BeforeValidator(_no_bool), Field(allow_inf_nan=False, **described)]
    if scalar.json_type is int:
        return Annotated[int, BeforeValidator(_no_bool)]
    if scalar.is_native:
        return None if scalar.type is type(None) else scalar.type
    schema_format = {} if scalar.schema_format is None else {"format": scalar.schema_format}
    text: _Dynamic = Annotated[str, WithJsonSchema({"type": "string", **schema_format, **described})]
    return Annotated[text, BeforeValidator(_text_of_number)] if scalar.reads_numbers else text


def answer_type(value_type: _Dynamic) -> _Dynamic:
    """Return the pydantic type of the JSON that a value of a type is written as.

    Raises:
        InvalidDataError: factmem cannot store such values.
    """
    if (scalar := scalar_of(value_type)) is not None:
        return _scalar_answer(scalar)
    origin: _Dynamic = typing.get_origin(value_type)
    args: tuple[_Dynamic, ...] = typing.get_args(value_type)
    if origin is Annotated:
        return answer_type(args[0])
    if origin is typing.Literal:
        return _one_of(args, {})
    if origin in (typing.Union, types.UnionType):
        return typing.Union[tuple(answer_type(arg) for arg in args)]  # noqa: UP007 - the options are made at run time
    if origin is tuple and args[1:] != (...,):
        return tuple[tuple(answer_type(arg) for arg in args)]  # type: ignore[misc]
    if origin in (list, tuple, set, frozenset, Sequence):
        return list[answer_type(args[0])]  # type: ignore[misc]
    if origin in (dict, Mapping):
        return dict[str, answer_type(args[1])]  # type: ignore[misc]
    return _class(value_type)


def _class(cls: _Dynamic) -> _Dynamic:
    if not isinstance(cls, type):
        raise InvalidDataError(f"{cls!r} cannot be the type of a value: factmem cannot write it as JSON")
    if issubclass(cls, enum.Enum):
        return _one_of([member.value for member in cls], {member.name: member.value for member in cls})
    if cls is list:
        return list[Any]
    if cls is dict:
        return dict[str, Any]
    if attrs.has(cls):
        fields = [(item.name, item.default is attrs.NOTHING) for item in attrs.fields(cls) if item.init]
    elif dataclasses.is_dataclass(cls):
        fields = [(item.name, _is_required(item)) for item in dataclasses.fields(cls) if item.init]
    else:
        raise InvalidDataError(f"{cls.__name__} cannot be the type of a value: make it an attrs class")
    return _record(cls, fields)


def _is_required(item: dataclasses.Field[Any]) -> bool:
    return item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING


def _record(cls: type[Any], fields: Sequence[tuple[str, bool]]) -> type[_Record]:
    """Make the model of a class. Its fields have names that pydantic allows, and the class's own in the JSON."""
    hints = typing.get_type_hints(cls, include_extras=True)
    made: dict[str, _Dynamic] = {}
    for number, (name, required) in enumerate(fields):
        wanted = answer_type(hints.get(name, object))
        if required:
            made[f"field_{number}"] = (wanted, Field(alias=name))
        else:
            made[f"field_{number}"] = (wanted | None if wanted is not None else None, Field(default=None, alias=name))
    model = create_model(cls.__name__, __base__=_Record, **made)
    model.names = {f"field_{number}": name for number, (name, _) in enumerate(fields)}
    model.optional = frozenset(f"field_{number}" for number, (_, required) in enumerate(fields) if not required)
    return model


def _one_of(members: Sequence[Any], names: Mapping[str, Any]) -> _Dynamic:
    """Make the type of an enumeration: its values, also in another case, or the names of its members."""
    told = {_spelled(name): member for name, member in names.items()}
    told |= {_spelled(member): member for member in members}

    def member_of(data: object) -> object:
        for member in members:
            if type(member) is type(data) and member == data:
                return member
        if isinstance(data, str | int | float) and _spelled(data) in told:
            return told[_spelled(data)]
        raise ValueError("it is none of the values that are allowed")

    schema: dict[str, Any] = {"enum": list(members)}
    if explained := [f"{member!r} is {name}" for name, member in names.items() if _spelled(name) != _spelled(member)]:
        schema["description"] = ", ".join(explained)
    if all(isinstance(member, str) for member in members):
        schema["type"] = "string"
    return Annotated[Any, BeforeValidator(member_of), WithJsonSchema(schema)]


def _spelled(member: object) -> str:
    return str(member).strip().casefold().replace("_", " ").replace("-", " ")


def read_value(data: Json, value_type: _Dynamic) -> Any:
    """Read a value that a model answered, leniently where nothing is lost, then by the strict codec.

    Raises:
        InvalidDataError: it is not of the type.
    """
    if value_type is str:
        return decode_value(_as_text(data), str)
    adapter: TypeAdapter[Any] = TypeAdapter(answer_type(value_type))
    try:
        read = adapter.validate_python(data)
    except ValidationError:
        read = _read_from_text(data, adapter)
    written = adapter.dump_python(read)
    check_json(written)
    return decode_value(written, value_type)


def _read_from_text(data: Json, adapter: TypeAdapter[Any]) -> Any:
    """Read an object or a list that was answered as the text of its JSON."""
    try:
        return adapter.validate_json(data) if isinstance(data, str) else adapter.validate_python(data)
    except ValidationError as error:
        what = error.errors(include_input=False, include_url=False)[0]["type"]
        raise InvalidDataError(f"the answer is not of the concept's type: {what}") from None


def _as_text(data: Json) -> Json:
    """Write a number as it stands; a list or an object is no text."""
    return json.dumps(data) if is_number(data) else data
