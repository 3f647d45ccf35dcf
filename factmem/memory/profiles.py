"""Profiles: classes whose fields are concepts, filled with known facts."""

from __future__ import annotations

import collections.abc
import datetime as dt
import functools
import operator
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs

from factmem.errors import FactMemError, IncompleteProfileError, InvalidDataError
from factmem.facts import Concept, Fact, MultipleConcept, SingleConcept

__all__ = ["Gathering", "PartialProfile", "ProfileField", "ProfileSchema", "concepts_of"]

ProfileT = TypeVar("ProfileT")

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
    """

    attribute: str
    argument: str
    concept: Concept[Any, Any]
    gather: Gathering | None
    optional: bool
    has_default: bool

    @property
    def required(self) -> bool:
        """Whether the field must be known to make an instance."""
        return not (self.has_default or self.optional or self.gather)

    def read(self, fact: Fact[Any]) -> Any:
        """Return the field's value from a fact."""
        return self.gather(fact.values) if self.gather else fact.values[0]

    def facts(self, profile: object, timestamp: dt.datetime) -> list[Fact[Any]]:
        """Return the fact of an instance's field; none for None and for an empty collection."""
        value = getattr(profile, self.attribute)
        if value is None or (self.gather is not None and not value):
            return []
        values = list(value) if self.gather else [value]
        return [self.concept.fact(values, timestamp=timestamp)]


@attrs.frozen(kw_only=True)
class PartialProfile(Generic[ProfileT]):
    """The known part of a profile.

    Attributes:
        profile: Filled instance; None if a required field is unknown.
        known: Known values, by field.
        missing: Required fields that are unknown.
    """

    profile: ProfileT | None
    known: Mapping[str, Any]
    missing: tuple[str, ...]


@attrs.frozen
class ProfileSchema(Generic[ProfileT]):
    """Schema of a profile, from an attrs class or a pydantic model. Made with `ProfileSchema.of`.

    Each field is a concept: its name is the keyword, its description is read from pydantic's
    ``Field(description=…)`` or in ``attrs.field(metadata={"description": …})``. ``list[X]``, ``set[X]``,
    ``frozenset[X]`` and ``tuple[X, ...]`` are MULTIPLE concepts of X, anything else is SINGLE; None in a
    union says that the field may be unknown.

    An unknown field takes the class's default; without one, None if that is legal; a
    collection is empty then. Any other field is *required*.

    Attributes:
        profile: Class of the profile.
        fields: Fields of the class, in order.
    """

    profile: type[ProfileT]
    fields: tuple[ProfileField, ...]

    @classmethod
    def of(cls, profile: type[ProfileT]) -> ProfileSchema[ProfileT]:
        """Return the schema of a class.

        Raises:
            InvalidDataError: It is neither an attrs class nor a pydantic model, or a field's type cannot be stored.
        """
        return cls(profile, tuple(_fields_of(profile)))

    @property
    def concepts(self) -> tuple[Concept[Any, Any], ...]:
        """The concepts of the fields, in order."""
        return tuple(field.concept for field in self.fields)

    def partial(self, facts: Mapping[str, Fact[Any]]) -> PartialProfile[ProfileT]:
        """Return the known fields, and an instance if all required ones are known.

        Args:
            facts: Facts by keyword.

        Raises:
            InvalidDataError: The class does not accept the values.
        """
        known = {
            field.attribute: field.read(facts[field.concept.keyword])
            for field in self.fields
            if field.concept.keyword in facts
        }
        missing = tuple(field.attribute for field in self.fields if field.required and field.attribute not in known)
        return PartialProfile(profile=None if missing else self._made(known), known=known, missing=missing)

    def filled(self, facts: Mapping[str, Fact[Any]]) -> ProfileT:
        """Return an instance filled with the known values.

        Args:
            facts: Facts by keyword.

        Raises:
            IncompleteProfileError: A required field is unknown.
            InvalidDataError: The class does not accept the values.
        """
        found = self.partial(facts)
        if found.profile is None:
            raise IncompleteProfileError(self.profile.__name__, found.missing)
        return found.profile

    def facts(self, profile: ProfileT, timestamp: dt.datetime) -> list[Fact[Any]]:
        """Return the facts of an instance, one per field; none for None and for empty collections."""
        return [fact for field in self.fields for fact in field.facts(profile, timestamp)]

    def _made(self, known: Mapping[str, Any]) -> ProfileT:
        arguments = {}
        for field in self.fields:
            if field.attribute in known:
                arguments[field.argument] = known[field.attribute]
            elif not field.has_default:
                arguments[field.argument] = None if field.optional or field.gather is None else field.gather(())
        try:
            return self.profile(**arguments)
        except FactMemError:
            raise
        except Exception as error:  # validators of the class raise any error, with the value in its text
            raise InvalidDataError(
                f"{self.profile.__name__} does not accept what is known: {type(error).__name__}{_where(error)}"
            ) from None


def concepts_of(profile: type[Any] | ProfileSchema[Any]) -> tuple[Concept[Any, Any], ...]:
    """Return the concepts of the fields of a profile, in order; see `ProfileSchema`.

    Raises:
        InvalidDataError: See `ProfileSchema.of`.
    """
    return (profile if isinstance(profile, ProfileSchema) else ProfileSchema.of(profile)).concepts


def _fields_of(profile: Any) -> Iterable[ProfileField]:
    if isinstance(profile, type) and attrs.has(profile):
        return _attrs_fields(profile)
    if _is_pydantic(profile):
        return _pydantic_fields(profile)
    name = getattr(profile, "__name__", type(profile).__name__)
    raise InvalidDataError(f"{name} cannot be a profile: make it an attrs class or a pydantic model")


def _where(error: Exception) -> str:
    """Return the fields of a pydantic error. Field names may be shown, values may not."""
    listed: Any = getattr(error, "errors", None)
    if not isinstance(listed, types.MethodType | types.BuiltinMethodType):
        return ""
    places = [".".join(map(str, item["loc"])) for item in listed() if item.get("loc")]
    return f" in {', '.join(dict.fromkeys(places))}" if places else ""


def _attrs_fields(profile: type[Any]) -> Iterable[ProfileField]:
    hints = _hints(profile)
    for field in attrs.fields(profile):
        if field.init and field.alias is not None:
            yield _field(
                field.name,
                argument=field.alias,
                keyword=field.alias,
                description=field.metadata.get("description"),
                annotation=hints.get(field.name, object),
                has_default=field.default is not attrs.NOTHING,
            )


def _hints(profile: type[Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(profile, include_extras=True)
    except (NameError, TypeError, SyntaxError, AttributeError):
        raise InvalidDataError(
            f"{profile.__name__} cannot be a profile: an annotation of it names nothing that can be found"
        ) from None


def _is_pydantic(profile: object) -> bool:
    """Return whether a class is a pydantic model. If it is one, pydantic is imported already."""
    pydantic: Any = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(profile, type) and issubclass(profile, pydantic.BaseModel)


def _pydantic_fields(profile: Any) -> Iterable[ProfileField]:
    try:
        profile.model_rebuild()
    except NameError as error:
        raise InvalidDataError(f"{profile.__name__} cannot be a profile: {error.name} cannot be found") from None
    for name, field in profile.model_fields.items():
        alias = field.validation_alias or field.alias
        yield _field(
            name,
            argument=alias if isinstance(alias, str) else name,
            keyword=name,
            description=field.description,
            annotation=field.annotation,
            has_default=not field.is_required(),
        )


def _field(
    attribute: str, *, argument: str, keyword: str, description: str | None, annotation: Any, has_default: bool
) -> ProfileField:
    value_type, gather, optional = _taken_apart(annotation)
    kind = SingleConcept if gather is None else MultipleConcept
    return ProfileField(
        attribute=attribute,
        argument=argument,
        concept=kind(keyword, description or keyword.replace("_", " "), value_type=value_type),
        gather=gather,
        optional=optional,
        has_default=has_default,
    )


def _taken_apart(annotation: Any) -> tuple[Any, Gathering | None, bool]:
    """Return the type of one value, the builder of a collection if there may be several, and whether None is legal."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _taken_apart(args[0])
    if origin in (typing.Union, types.UnionType):
        others = [arg for arg in args if arg is not type(None)]
        if len(others) == len(args):
            return annotation, None, False
        value_type, gather, _ = _taken_apart(functools.reduce(operator.or_, others))
        return value_type, gather, True
    if origin is tuple and args[1:] == (...,):
        return args[0], tuple, False
    if (gather := _COLLECTIONS.get(origin or annotation)) is not None:
        return (args[0] if args else object), gather, False
    return annotation, None, False
