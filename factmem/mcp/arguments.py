"""What the tools take: typed, described and bounded, so that clients get a schema of it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from factmem.errors import InvalidDataError
from factmem.facts import Concept, FactType
from factmem.records import FactRecord
from factmem.scalars import scalar_named, typed_names
from factmem.values import Json, decode_value

__all__ = [
    "CategoriesArgument",
    "ConceptsArgument",
    "DescriptionArgument",
    "ExactArgument",
    "HistoryArgument",
    "IdArgument",
    "IdsArgument",
    "ImportanceArgument",
    "KeywordArgument",
    "LimitArgument",
    "MinScoreArgument",
    "MultipleArgument",
    "PageArgument",
    "PrivateArgument",
    "QueryArgument",
    "ReasonArgument",
    "ScopeArgument",
    "SourcesArgument",
    "SubjectArgument",
    "TextArgument",
    "TimeArgument",
    "ValueArgument",
    "ValueTypeArgument",
    "concept_and_value",
    "value_of",
]

_NAMES: Final = 100


def _type_name(name: str) -> str:
    """Refuse a name that is no scalar type's, as a ``ValueError``, which pydantic takes for an invalid argument."""
    return scalar_named(name).shape


def _utc(moment: dt.datetime) -> dt.datetime:
    try:
        return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
    except OverflowError:
        raise ValueError("the time lies outside the years that UTC can express") from None


def _json_text(value: object) -> str:
    """Keep a value as JSON text: the SDK would take a text that looks like JSON for the JSON that it looks like."""
    try:
        return json.dumps(value, allow_nan=False)
    except RecursionError:
        raise ValueError("the value is nested too deeply") from None


QueryArgument: TypeAlias = Annotated[str, Field(max_length=4_000, description="What to look for, in words.")]
LimitArgument: TypeAlias = Annotated[int, Field(ge=1, le=100, description="How many at the most.")]
MinScoreArgument: TypeAlias = Annotated[
    float | None,
    Field(ge=0, le=1, description="Leave out what scores less, such as 0.3; what nothing answers scores low."),
]
ScopeArgument: TypeAlias = Annotated[
    str | None, Field(description="A path such as /product/alpha; `info` lists the scopes in use.")
]
ExactArgument: TypeAlias = Annotated[bool, Field(description="That very scope, without what lies below it.")]
SubjectArgument: TypeAlias = Annotated[
    str | None, Field(description="About whom: name or name:individual, such as user or user:maya.")
]
KeywordArgument: TypeAlias = Annotated[
    str, Field(description="The concept's key, such as home_city; `info` lists the ones in use. Reuse them.")
]
HistoryArgument: TypeAlias = Annotated[
    str, Field(description="The concept's key, such as home_city, or the id of a record.")
]
ConceptsArgument: TypeAlias = Annotated[
    Sequence[str], Field(max_length=_NAMES, description="Only facts of these concepts, by their keywords.")
]
CategoriesArgument: TypeAlias = Annotated[Sequence[str], Field(max_length=_NAMES, description="Labels.")]
SourcesArgument: TypeAlias = Annotated[
    Sequence[str], Field(max_length=_NAMES, description="Only what came from one of these sources.")
]
TimeArgument: TypeAlias = Annotated[
    Annotated[dt.datetime, AfterValidator(_utc)] | None,
    Field(description="An ISO date or time, such as 2026-05-01 or 2026-05-01T09:30:00+02:00; UTC if it has no zone."),
]
PageArgument: TypeAlias = Annotated[str | None, Field(description="The `next_page` of the page before.")]
TextArgument: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=20_000, description="A statement that can be understood by itself.")
]
ValueArgument: TypeAlias = Annotated[
    str, BeforeValidator(_json_text), WithJsonSchema({"description": "The value, as JSON of the concept's type."})
]
ValueTypeArgument: TypeAlias = Annotated[
    Annotated[str, AfterValidator(_type_name), WithJsonSchema({"type": "string", "enum": typed_names()})] | None,
    Field(description="The type of the concept's values; left out, as it is known already, or as the value is."),
]
MultipleArgument: TypeAlias = Annotated[
    bool, Field(description="One of several values that are true at once, such as a pet; else a new one supersedes.")
]
DescriptionArgument: TypeAlias = Annotated[str, Field(max_length=2_000, description="What the concept means.")]
ImportanceArgument: TypeAlias = Annotated[float | None, Field(ge=0, le=1, description="From 0 to 1.")]
PrivateArgument: TypeAlias = Annotated[bool, Field(description="For the viewer of this server alone.")]
IdArgument: TypeAlias = Annotated[str, Field(max_length=200, description="The id of a record.")]
IdsArgument: TypeAlias = Annotated[
    Sequence[Annotated[str, Field(max_length=200)]],
    Field(min_length=1, max_length=_NAMES, description="The ids of records, as recall and list show them."),
]
ReasonArgument: TypeAlias = Annotated[str, Field(max_length=500, description="Why, for the audit trail.")]


def value_of(text: str, value_type: Any) -> Any:
    """Read a value of a type from JSON text.

    Raises:
        InvalidDataError: it is none.
    """
    data: Json = json.loads(text)
    if value_type is float and isinstance(data, int) and not isinstance(data, bool):
        data = _as_float(data)
    return decode_value(data, value_type)


def concept_and_value(
    keyword: str,
    text: str,
    known: FactRecord[Any] | None,
    *,
    type_name: str | None,
    multiple: bool,
    description: str,
) -> tuple[Concept[Any, Any], Any]:
    """Return the concept that a client's value is to be kept under, and the value as that concept's type.

    Args:
        keyword: the concept's key.
        text: the value as JSON text.
        known: a record of that concept, if there is one.
        type_name: the type that the client names, if it does.
        multiple: whether the client says that it has several values.
        description: what the client says it means.

    Raises:
        InvalidDataError: the value is not of the type, or the keyword is not legal.
    """
    if type_name is not None:
        value_type = scalar_named(type_name).type
    else:
        value_type = known.concept.value_type if known is not None else _type_of(json.loads(text))
    several = multiple or (known is not None and known.concept.fact_type is FactType.MULTIPLE)
    described = description or (known.concept.description if known is not None else "")
    make = Concept.multiple if several else Concept.single
    return make(keyword, described, value_type), value_of(text, value_type)


def _type_of(data: Json) -> Any:
    return type(data) if isinstance(data, str | int | float) else object


def _as_float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        raise InvalidDataError("the number is too large for a float: save it as an int", path="$.value") from None
