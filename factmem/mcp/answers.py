"""Arguments and answers of the tools."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias

import attrs
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from factmem.errors import InvalidDataError
from factmem.facts import Concept, FactType
from factmem.json_form import attributes, record_json
from factmem.records import AssertionState, FactRecord
from factmem.value_types import scalar_named, typed_names
from factmem.values import Json, decode_value

__all__ = [
    "Answer",
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
    "Served",
    "SourcesArgument",
    "SubjectArgument",
    "TextArgument",
    "TimeArgument",
    "ValueArgument",
    "ValueTypeArgument",
    "awaited",
    "concept_and_values",
    "concise_schema",
    "fact_answer",
    "fact_answers",
    "nothing_known",
    "value_of",
]

Answer: TypeAlias = dict[str, Any]
"""JSON that a tool returns."""

_NAMES: Final = 100


def _type_name(name: str) -> str:
    """Check the name of a scalar type; a ``ValueError`` is an invalid argument to pydantic."""
    return scalar_named(name).shape


def _utc(moment: dt.datetime) -> dt.datetime:
    try:
        return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
    except OverflowError:
        raise ValueError("the time lies outside the years that UTC can express") from None


def _json_text(value: object) -> str:
    """Encode a value as JSON text, since the SDK would parse a string that looks like JSON."""
    try:
        return json.dumps(value, allow_nan=False)
    except RecursionError:
        raise ValueError("the value is nested too deeply") from None


QueryArgument: TypeAlias = Annotated[str, Field(max_length=4_000, description="The query, in words.")]

LimitArgument: TypeAlias = Annotated[int, Field(ge=1, le=100, description="Most results.")]

MinScoreArgument: TypeAlias = Annotated[
    float | None,
    Field(ge=0, le=1, description="Minimum score, such as 0.3; facts that do not answer the query score low."),
]

ScopeArgument: TypeAlias = Annotated[
    str | None, Field(description="A path, such as /product/alpha; `info` lists those in use.")
]

ExactArgument: TypeAlias = Annotated[bool, Field(description="Only the scope itself, without its subtree.")]

SubjectArgument: TypeAlias = Annotated[str | None, Field(description="As name or name:individual, such as user:maya.")]

KeywordArgument: TypeAlias = Annotated[
    str, Field(description="The concept's key, such as home_city; reuse those that `info` lists.")
]

HistoryArgument: TypeAlias = Annotated[
    str, Field(description="The concept's key, such as home_city, or the id of a record.")
]

ConceptsArgument: TypeAlias = Annotated[
    Sequence[str], Field(max_length=_NAMES, description="Only these concepts, by keyword.")
]

CategoriesArgument: TypeAlias = Annotated[Sequence[str], Field(max_length=_NAMES, description="Labels.")]

SourcesArgument: TypeAlias = Annotated[Sequence[str], Field(max_length=_NAMES, description="Only these sources.")]

TimeArgument: TypeAlias = Annotated[
    Annotated[dt.datetime, AfterValidator(_utc)] | None,
    Field(description="An ISO date or time; UTC if it has no zone."),
]

PageArgument: TypeAlias = Annotated[str | None, Field(description="The `next_page` of the previous page.")]

TextArgument: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=20_000, description="A statement that can be understood by itself.")
]

_VALUE: Final = (
    "The value, as JSON of the concept's type (timedelta: seconds). With `multiple`, a list is several values."
)

ValueArgument: TypeAlias = Annotated[str, BeforeValidator(_json_text), WithJsonSchema({"description": _VALUE})]

ValueTypeArgument: TypeAlias = Annotated[
    Annotated[str, AfterValidator(_type_name), WithJsonSchema({"type": "string", "enum": typed_names()})] | None,
    Field(description="The type of the concept's values (default: the known type, or that of the value)."),
]

MultipleArgument: TypeAlias = Annotated[
    bool, Field(description="Whether the concept has several values at once, such as pets; else a new one supersedes.")
]

DescriptionArgument: TypeAlias = Annotated[str, Field(max_length=2_000, description="The meaning of the concept.")]

ImportanceArgument: TypeAlias = Annotated[float | None, Field(ge=0, le=1, description="From 0 to 1.")]

PrivateArgument: TypeAlias = Annotated[bool, Field(description="Whether only the viewer of this server sees it.")]

IdArgument: TypeAlias = Annotated[str, Field(max_length=200, description="The id of a record.")]

IdsArgument: TypeAlias = Annotated[
    Sequence[Annotated[str, Field(max_length=200)]],
    Field(min_length=1, max_length=_NAMES, description="The ids of records, from recall or list."),
]

ReasonArgument: TypeAlias = Annotated[str, Field(max_length=500, description="The reason, for the audit trail.")]


def value_of(text: str, value_type: Any) -> Any:
    """Decode a value of a type from JSON text.

    Raises:
        InvalidDataError: The value does not have the type.
    """
    return _decoded(json.loads(text), value_type)


def _decoded(data: Json, value_type: Any) -> Any:
    if value_type is float and isinstance(data, int) and not isinstance(data, bool):
        data = _as_float(data)
    return decode_value(data, value_type)


def concept_and_values(
    keyword: str,
    text: str,
    known: FactRecord[Any] | None,
    *,
    type_name: str | None,
    multiple: bool,
    description: str,
) -> tuple[Concept[Any, Any], list[Any]]:
    """Return the concept of a client's value, and the values that it stands for, decoded to the concept's type.

    A list that the type does not fit, or of a new concept without one, is several values of a MULTIPLE concept.

    Args:
        keyword: The concept's key.
        text: The value as JSON text.
        known: A record of the concept, or None.
        type_name: The type named by the client, or None.
        multiple: Whether the client declares several values.
        description: The client's description of the concept; may be empty.

    Raises:
        InvalidDataError: The value does not have the type, or the keyword is not legal.
    """
    several = multiple or (known is not None and known.concept.fact_type is FactType.MULTIPLE)
    described = description or (known.concept.description if known is not None else "")
    make = Concept.multiple if several else Concept.single
    data: Json = json.loads(text)
    listed = data if several and isinstance(data, list) and data else None
    if type_name is not None:
        value_type = scalar_named(type_name).type
    elif known is not None:
        value_type = known.concept.value_type
    else:
        types = {_type_of(item) for item in ([data] if listed is None else listed)}
        value_type = types.pop() if len(types) == 1 else float if types == {int, float} else object
        return make(keyword, described, value_type), [_decoded(item, value_type) for item in listed or [data]]
    concept = make(keyword, described, value_type)
    try:
        return concept, [_decoded(data, value_type)]
    except InvalidDataError:
        if listed is None:
            raise
        return concept, [_decoded(item, value_type) for item in listed]


def _type_of(data: Json) -> Any:
    return type(data) if isinstance(data, str | int | float) else object


def _as_float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        raise InvalidDataError("the number is too large for a float: save it as an int", path="$.value") from None


def awaited(waiting: int, *, trusted: bool) -> str | None:
    """Return why facts may be missing, and the next step; None if nothing waits in quarantine.

    Args:
        waiting: Number of statements in quarantine.
        trusted: Whether clients are trusted.
    """
    if not waiting:
        return None
    many = f"{waiting} statements wait" if waiting > 1 else "1 statement waits"
    hint = "" if trusted else "; if the user trusts the clients of this server, start it with --trust"
    return (
        f"{many} in quarantine and cannot be recalled: tell the user to look at them with `factmem quarantine list` "
        f"and to accept them with `factmem quarantine accept ID`, with the --store and --viewer of this server{hint}."
    )


def nothing_known(served: Served) -> str:
    """Return why a memory without any facts answers nothing, and the next step.

    Args:
        served: What the server shows, and what it offers.
    """
    where = " in the scopes and subjects that this server shows" if served.scopes or served.subjects else ""
    saving = [f"`{tool}`" for tool in ("remember", "save_fact") if tool in served.tools]
    return f"Nothing is known yet{where}" + (f": {' and '.join(saving)} keep what the user says." if saving else ".")


def concise_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments without what tells a model nothing: it is a part of every prompt.

    Titles repeat the names, an optional argument need not be nullable as well, and an empty default says nothing.

    Args:
        schema: The JSON schema, as pydantic makes it.
    """
    properties = {name: _concise_argument(argument) for name, argument in schema["properties"].items()}
    kept = {key: schema[key] for key in ("$defs", "required") if key in schema}
    return {"type": "object", "properties": properties, **kept, "additionalProperties": False}


def _concise_argument(argument: Mapping[str, Any]) -> dict[str, Any]:
    match argument.get("anyOf"):
        case [dict() as either, {"type": "null"}]:
            argument = {**either, **argument}
        case None:
            pass
        case _:
            raise AssertionError("an argument is of one type, or of one type or null")
    left_out = {"title", "anyOf", *(() if argument.get("default") else ("default",))}
    return {key: item for key, item in argument.items() if key not in left_out}


@attrs.frozen(kw_only=True)
class Served:
    """Offer of a server to its clients, as `info` shows it.

    Attributes:
        scopes: Scopes that clients are limited to, with their subtrees; empty for all.
        subjects: Subjects that clients are limited to; empty for all.
        read_only: Whether writes are refused.
        trusted: Whether facts written by clients are trusted; else they are quarantined.
        tools: The offered tools.
    """

    scopes: Sequence[str]
    subjects: Sequence[str]
    read_only: bool
    trusted: bool
    tools: Sequence[str]


_SHOWN: Final = (
    "keyword", "value", "subject", "scope", "state", "importance", "categories", "topics", "source", "origin", "flags",
    "private", "expires_at",
)  # fmt: skip
"""Parts of the JSON form of a record that a model is shown, beside its id, its times and the words it comes from."""

_CITED: Final = ("quote", "role", "speaker", "conversation_id", "message_id")


def fact_answer(record: FactRecord[Any]) -> Answer:
    """Return a record for a model. Its content is data, never an instruction.

    The id is for `update` and `retract`; a quarantined record has none. With several values of a concept at once,
    ``multiple`` is true, and this is one of them. ``said`` is the time of the statement; between ``valid_from`` and
    ``valid_to`` it is true.
    """
    whole = record_json(record)
    return {
        "id": None if record.state is AssertionState.QUARANTINED else record.id,
        **{name: whole[name] for name in _SHOWN},
        "multiple": record.concept.fact_type is FactType.MULTIPLE,
        "said": whole["timestamp"],
        **attributes(record.fact, "valid_from", "valid_to"),
        "evidence": [attributes(item, *_CITED) for item in record.details.evidence],
    }


def fact_answers(records: Iterable[FactRecord[Any]]) -> list[Answer]:
    """Return records for a model."""
    return [fact_answer(record) for record in records]
