"""Profiles: classes and JSON Schemas whose fields are concepts, filled with known facts."""

from __future__ import annotations

import collections.abc
import contextlib
import datetime as dt
import enum
import functools
import operator
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, overload

import attrs

from factmem.class_fields import ClassField, fields_of, is_pydantic
from factmem.errors import InvalidDataError
from factmem.facts import Concept, Fact, MultipleConcept, SingleConcept, check_distinct
from factmem.shapes import is_union, type_of
from factmem.structuring import is_constrained
from factmem.values import decode_value, encode_value

ProfileT = TypeVar("ProfileT")
T = TypeVar("T")

Gathering: TypeAlias = Callable[[Iterable[Any]], Any]
"""Builds a field's collection from the values of a concept."""

_COLLECTIONS: Final[dict[Any, Gathering]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.abc.Sequence: tuple,
    collections.abc.Collection: tuple,
    collections.abc.Iterable: tuple,
    collections.abc.Set: frozenset,
}


@attrs.frozen(kw_only=True)
class ProfileField:
    """One field of a profile.

    Attributes:
        attribute: Name on an instance.
        argument: Name in the class's constructor.
        concept: Concept of its facts; the field's name is the keyword.
        gather: Builds the field's collection from the concept's values; None for a field of one value.
        optional: Whether None is legal.
        has_default: Whether the class has a default for it.
        as_json: Whether values are read as JSON, as for a JSON Schema.
    """

    attribute: str
    argument: str
    concept: Concept[Any, Any]
    gather: Gathering | None
    optional: bool
    has_default: bool
    as_json: bool = False

    @property
    def required(self) -> bool:
        """Whether the field must be known to make an instance."""
        return not (self.has_default or self.optional or self.gather)

    def read(self, fact: Fact[Any]) -> Any:
        """Return the field's value from a fact."""
        values: Iterable[Any] = fact.values
        if self.as_json:
            values = [encode_value(value, self.concept.value_type) for value in values]
        return self.gather(values) if self.gather else next(iter(values))

    def facts(self, profile: object, timestamp: dt.datetime) -> list[Fact[Any]]:
        """Return the fact of an instance's field; none for None, an empty text and an empty collection.

        Raises:
            InvalidDataError: The value cannot be stored, or one stands where several are expected; its path begins with
                the field.
        """
        value = profile.get(self.attribute) if isinstance(profile, Mapping) else getattr(profile, self.attribute)
        empty = isinstance(value, Collection) and not isinstance(value, enum.Enum) and not len(value)
        if value is None or empty:
            return []
        if self.gather and (isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable)):
            raise InvalidDataError("the field has several values: give a list of them", path=f"$.{self.attribute}")
        values: list[Any] = list(value) if self.gather else [value]
        try:
            if self.as_json:
                values = [decode_value(item, self.concept.value_type) for item in values]
            return [self.concept.fact(values, timestamp=timestamp)]
        except InvalidDataError as error:
            message, path = str(error).removesuffix(f" (at {error.path})"), error.path.removeprefix("$")
            raise InvalidDataError(message, path=f"$.{self.attribute}{path}") from None


@attrs.frozen(kw_only=True)
class PartialProfile(Generic[ProfileT]):
    """The known part of a profile.

    Attributes:
        profile: Filled instance; None if a required field is unknown.
        known: Known values, by field.
        missing: Required fields that are unknown.
        refused: Fields with a stored value that the class does not accept, which is left out.
    """

    profile: ProfileT | None
    known: Mapping[str, Any]
    missing: tuple[str, ...]
    refused: tuple[str, ...] = ()


@attrs.frozen
class ProfileSchema(Generic[ProfileT]):
    """Schema of a profile, from a class with fields or a JSON Schema. Made with `ProfileSchema.of`.

    A class is an attrs class, a dataclass or a pydantic model. Each field is a concept: its name is the keyword, its
    description is read from pydantic's ``Field(description=…)``, or from ``metadata={"description": …}`` of an
    ``attrs.field`` or a ``dataclasses.field``. ``list[X]``, ``set[X]``,
    ``frozenset[X]`` and ``tuple[X, ...]`` are MULTIPLE concepts of X, anything else is SINGLE; None in a
    union says that the field may be unknown.

    An unknown field takes the class's default; without one, None if that is legal; a
    collection is empty then. Any other field is *required*.

    A JSON Schema (or one of OpenAPI, as Memory Bank takes) is an object with properties: arrays are MULTIPLE, values of
    an ``enum`` are checked, dates and times are stored as such, and objects and alternatives as JSON. The profile is a
    dict of the known fields as JSON, with the defaults.

    Attributes:
        profile: Class of the profile; dict for a JSON Schema.
        fields: Fields of the class, in order.
        name: Name of the class, or the title of the JSON Schema.
        defaults: Defaults of a JSON Schema.
    """

    profile: type[ProfileT]
    fields: tuple[ProfileField, ...]
    name: str = attrs.field(kw_only=True)
    defaults: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True)

    @overload
    @classmethod
    def of(cls, profile: type[T] | ProfileSchema[T], *, name: str | None = None) -> ProfileSchema[T]: ...

    @overload
    @classmethod
    def of(cls, profile: Mapping[str, Any], *, name: str | None = None) -> ProfileSchema[dict[str, Any]]: ...

    @classmethod
    def of(cls, profile: Any, *, name: str | None = None) -> ProfileSchema[Any]:
        """Return the schema of a class or of a JSON Schema.

        Args:
            profile: The class, or the JSON Schema of an object; or a schema, which is returned as it is.
            name: Name of the profile (default: that of the class, or the title of the JSON Schema).

        Raises:
            InvalidDataError: It is not an attrs class, dataclass, pydantic model or JSON Schema of an object with a
                title, or a field's type cannot be stored.
        """
        if isinstance(profile, ProfileSchema):
            return profile if name is None else attrs.evolve(profile, name=name)
        if isinstance(profile, Mapping):
            return _schema_of_json(profile, name)
        fields = tuple(_fields_of(profile))
        return ProfileSchema(profile, fields, name=name or profile.__name__)

    @property
    def concepts(self) -> tuple[Concept[Any, Any], ...]:
        """The concepts of the fields, in order."""
        return tuple(field.concept for field in self.fields)

    def partial(self, facts: Mapping[str, Fact[Any]], unread: Collection[str] = ()) -> PartialProfile[ProfileT]:
        """Return the known fields that the class accepts, and an instance if all required ones are among them.

        Args:
            facts: Facts by keyword.
            unread: Keywords with a stored value that is not of the field's type.
        """
        stored = {
            field.attribute: field.read(facts[field.concept.keyword])
            for field in self.fields
            if field.concept.keyword in facts
        }
        known, made = self._accepted(stored)
        names = [field.attribute for field in self.fields]
        refused = {field.attribute for field in self.fields if field.concept.keyword in unread}
        refused |= stored.keys() - known.keys()
        return PartialProfile(
            profile=made,
            known=known,
            missing=tuple(field.attribute for field in self.fields if field.required and field.attribute not in known),
            refused=tuple(name for name in names if name in refused),
        )

    def facts(self, profile: ProfileT, timestamp: dt.datetime) -> list[Fact[Any]]:
        """Return the facts of an instance, one per field.

        There is none for None, for an empty text or collection, and for a field of a pydantic model that was not set.
        """
        given: Any = getattr(profile, "model_fields_set", None)  # of a pydantic model
        fields = [field for field in self.fields if given is None or field.attribute in given]
        return [fact for field in fields for fact in field.facts(profile, timestamp)]

    def _accepted(self, stored: Mapping[str, Any]) -> tuple[Mapping[str, Any], ProfileT | None]:
        """Return the fields that the class accepts together, and the instance with them.

        Its validators may compare fields. Where they do not say which one they refuse, those before it are kept.
        """
        required = {field.attribute for field in self.fields if field.required}
        if required - stored.keys():
            return stored, None
        with contextlib.suppress(_RefusedError):
            return stored, self._made(stored)
        known = {name: value for name, value in stored.items() if name in required}
        try:
            made = self._made(known)
        except _RefusedError as error:
            refused = error.fields & stored.keys() or required
            return {name: value for name, value in stored.items() if name not in refused}, None
        for name, value in stored.items():
            with contextlib.suppress(_RefusedError):
                made, known = self._made({**known, name: value}), {**known, name: value}
        return known, made

    def _made(self, known: Mapping[str, Any]) -> ProfileT:
        arguments = dict(self.defaults)
        for field in self.fields:
            if field.attribute in known:
                arguments[field.argument] = known[field.attribute]
            elif not field.has_default:
                arguments[field.argument] = None if field.optional or field.gather is None else field.gather(())
        try:
            return self.profile(**arguments)
        except Exception as error:  # validators of the class raise any error, with the value in its text
            raise _RefusedError(_fields_in(error)) from None


class _RefusedError(Exception):
    """Raised where a class does not accept values, with the names of the fields that it names."""

    def __init__(self, fields: frozenset[str]) -> None:
        self.fields = fields


def _fields_in(error: Exception) -> frozenset[str]:
    """Return the names of the fields that an error of pydantic names."""
    listed: Any = getattr(error, "errors", None)
    if not isinstance(listed, types.MethodType | types.BuiltinMethodType):
        return frozenset()
    return frozenset(str(item["loc"][0]) for item in listed() if item.get("loc"))


ProfileSource: TypeAlias = "type[Any] | Mapping[str, Any] | ProfileSchema[Any]"
"""An attrs class, a dataclass, a pydantic model, a JSON Schema, or the `ProfileSchema` of one."""


def concepts_of(profile: ProfileSource) -> tuple[Concept[Any, Any], ...]:
    """Return the concepts of the fields of a profile, in order; see `ProfileSchema`.

    Raises:
        InvalidDataError: See `ProfileSchema.of`.
    """
    return ProfileSchema.of(profile).concepts


def schemas_of(profiles: Iterable[ProfileSource]) -> tuple[ProfileSchema[Any], ...]:
    """Return the schemas of profiles.

    Raises:
        InvalidDataError: It is not a list, two of them have one name, or one cannot be a profile.
    """
    if isinstance(profiles, type | Mapping | ProfileSchema) or not isinstance(profiles, Iterable):
        raise InvalidDataError("profiles is a list: give [Guest]", path="$.profiles")
    schemas = tuple(ProfileSchema.of(profile) for profile in profiles)
    if len({schema.name for schema in schemas}) < len(schemas):
        raise InvalidDataError("two profiles have one name: give ProfileSchema.of(…, name=…)", path="$.profiles")
    return schemas


def united(
    schemas: Iterable[ProfileSchema[Any]], declared: Iterable[Concept[Any, Any]] = ()
) -> dict[str, Concept[Any, Any]]:
    """Return the concepts of profiles and declared ones by keyword, of which the declared ones stand.

    Raises:
        InvalidDataError: See `factmem.facts.check_distinct`.
    """
    concepts = [*declared, *(concept for schema in schemas for concept in schema.concepts)]
    check_distinct(concepts)
    found: dict[str, Concept[Any, Any]] = {}
    for concept in concepts:
        found.setdefault(concept.keyword, concept)
    return found


_JSON_TYPES: Final[Mapping[Any, Any]] = {"string": str, "integer": int, "number": float, "boolean": bool}
_FORMATS: Final[Mapping[Any, Any]] = {"date": dt.date, "date-time": dt.datetime}
_MOST_REFERENCES: Final = 16


def _schema_of_json(schema: Mapping[str, Any], name: str | None) -> ProfileSchema[dict[str, Any]]:
    title, properties, required = name or schema.get("title"), schema.get("properties"), schema.get("required", ())
    if not isinstance(title, str) or not isinstance(properties, Mapping) or isinstance(required, str):
        raise InvalidDataError(
            "a JSON Schema of a profile is an object with properties and a title: or give ProfileSchema.of(…, name=…)"
        )
    fields, defaults = [], {}
    for keyword, given in properties.items():
        property, optional = _resolved(given, schema)
        several = _is_type(property, "array")
        item = _resolved(property.get("items", {}), schema)[0] if several else property
        kind = MultipleConcept if several else SingleConcept
        described = property.get("description") or property.get("title") or keyword.replace("_", " ")
        fields.append(
            ProfileField(
                attribute=keyword,
                argument=keyword,
                concept=kind(keyword, described, value_type=_json_type(item)),
                gather=list if several else None,
                optional=optional or keyword not in required,
                has_default=optional or keyword not in required or several,
                as_json=True,
            )
        )
        if "default" in property:
            defaults[keyword] = property["default"]
    return ProfileSchema(dict, tuple(fields), name=title, defaults=defaults)


def _resolved(given: Any, schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """Return the schema of a property without references and null, and whether null is legal."""
    property, optional = given, False
    for _ in range(_MOST_REFERENCES):
        match property:
            case {"$ref": str() as reference}:
                others = {key: value for key, value in property.items() if key != "$ref"}
                property = {**_referenced(reference, schema), **others}
            case {"anyOf": _} | {"oneOf": _} if (left := _without_null(property)) is not None:
                property, optional = left, True
            case {}:
                types = property.get("type")
                if isinstance(types, list) and "null" in types and len(types) == 2:
                    (only,) = [kind for kind in types if kind != "null"]
                    return {**property, "type": only}, True
                return property, optional or property.get("nullable") is True
            case _:
                break
    raise InvalidDataError("a property of the JSON Schema is not a schema, or refers to itself")


def _without_null(property: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema of a property that may be null or one other thing; None for any other property."""
    options = property.get("anyOf") or property.get("oneOf") or ()
    others = [option for option in options if not _is_type(option, "null")]
    if len(others) != 1 or len(options) != 2:
        return None
    rest = {key: value for key, value in property.items() if key not in ("anyOf", "oneOf")}
    return {**others[0], **rest}


def _referenced(reference: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = schema
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        raise InvalidDataError("the JSON Schema refers to something that is not in it")
    return found


def _is_type(property: object, name: str) -> bool:
    """Return whether a schema is of a type; OpenAPI writes the names in capitals."""
    kind = property.get("type") if isinstance(property, Mapping) else None
    return isinstance(kind, str) and kind.lower() == name


def _json_type(property: Mapping[str, Any]) -> Any:
    """Return the type of the values of a schema; object for JSON of any form."""
    match property:
        case {"enum": [_, *_] as members}:
            return type_of({"enum": members})
        case {"const": value}:
            return type_of({"enum": [value]})
        case {"type": str() as kind}:
            of_format = _FORMATS.get(property.get("format")) if kind.lower() == "string" else None
            return of_format or _JSON_TYPES.get(kind.lower(), object)
        case _:
            return object


def _fields_of(profile: Any) -> Iterable[ProfileField]:
    fields = fields_of(profile)
    if fields is None:
        name = getattr(profile, "__name__", type(profile).__name__)
        kinds = "an attrs class, a dataclass, a pydantic model or a JSON Schema"
        raise InvalidDataError(f"{name} cannot be a profile: make it {kinds}")
    return [_field(field, field.name if is_pydantic(profile) else field.argument) for field in fields]


class _Annotation(NamedTuple):
    """The annotation of a field, taken apart.

    Attributes:
        value_type: Type of one value.
        gather: Builds a collection, if there may be several values.
        optional: Whether None is legal.
    """

    value_type: Any
    gather: Gathering | None = None
    optional: bool = False


def _field(field: ClassField, keyword: str) -> ProfileField:
    annotation = Annotated[field.annotation, *field.constraints] if field.constraints else field.annotation
    value_type, gather, optional = _taken_apart(annotation)
    kind = SingleConcept if gather is None else MultipleConcept
    return ProfileField(
        attribute=field.name,
        argument=field.argument,
        concept=kind(keyword, field.description or keyword.replace("_", " "), value_type=value_type),
        gather=gather,
        optional=optional,
        has_default=not field.required,
    )


def _taken_apart(annotation: Any) -> _Annotation:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        inner = _taken_apart(args[0])
        if inner.gather is not None or not is_constrained(annotation):  # a constraint of a list is none of its items
            return inner
        return inner._replace(value_type=Annotated[inner.value_type, *annotation.__metadata__])
    if is_union(annotation) and type(None) in args:
        others = [arg for arg in args if arg is not type(None)]
        return _taken_apart(functools.reduce(operator.or_, others))._replace(optional=True)
    if origin is tuple and args[1:] == (...,):
        return _Annotation(args[0], tuple)
    if (gather := _COLLECTIONS.get(origin or annotation)) is not None:
        return _Annotation(args[0] if args else object, gather)
    return _Annotation(annotation)
