"""Response models: the answers that a language model may give, and how they are read.

The types of values stand for the JSON that `factmem.values` writes, so that a valid answer passes through factmem's own
strict codec. They are lenient where nothing is lost: ``"120"`` is an int, ``Good`` the member ``good``. The
descriptions of fields are part of the prompt, apart from those of a detector's answer, which its instructions explain.

This module imports pydantic, which loads slowly. Import it in a thread, when a model is asked.
"""

from __future__ import annotations

import enum
import functools
import json
import re
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    create_model,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from factmem.abc.detector import DropReason
from factmem.class_fields import ClassField, stored_fields
from factmem.detection.extractions import Described, Extraction, Forgotten, Said, Sentence, Targeted
from factmem.detection.tasks import LISTS, DetectionTask, Vocabulary
from factmem.errors import InvalidDataError
from factmem.facts import Concept, FactType
from factmem.llm.answering import MOST_ITEMS, Flaw, ModelAnswer, ValidItems, each, in_shape, listed
from factmem.shapes import bare_type, is_union
from factmem.value_types import Scalar, is_number, scalar_of
from factmem.values import Json, check_json

# Types that are made at run time, unknown to type checkers.
_Dynamic: TypeAlias = Any


def strict_schema(schema: dict[str, Any]) -> None:
    """Require every field in a model's JSON schema, as endpoints with constrained answers expect.

    A field that is marked as ``optional`` is not required. Reading stays lenient: a missing field takes its default.
    """
    fields = schema.get("properties", {})
    schema["required"] = [name for name, field in fields.items() if not field.pop("optional", False)]
    for field in fields.values():
        field.pop("default", None)
    schema["additionalProperties"] = False


class AnswerPart(BaseModel):
    """Part of an answer. Unknown keys are dropped, numbers stand for texts, and the schema requires every field."""

    model_config: ClassVar[ConfigDict] = ConfigDict(coerce_numbers_to_str=True, json_schema_extra=strict_schema)


class _Record(AnswerPart):
    """An object of a class. It is written with the names of the class, without fields left to its defaults."""

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


_NUMBER: Final = re.compile(
    r"[^\w.,+\-−]{,9}(?:(?P<whole>\d{1,3}(?:(?P<mark>[,.\s])\d{3})(?:(?P=mark)\d{3})*|\d+)|(?P<part>\d+[.,]\d{1,2}))(?:[^\w%]\D*)?"
)
"""A number with a unit behind it or a sign before it, and no second number."""


def _number_with_unit(data: object, *, whole: bool = False) -> object:
    """Read ``"80 seats"`` as ``"80"``. Other texts, and those that may say another number, stay as they are."""
    found = _NUMBER.fullmatch(data) if isinstance(data, str) and len(data) <= _LONGEST_NUMBER else None
    if found is None or (found["mark"] and not whole):
        return data
    return re.sub(r"[,.\s]", "", found["whole"]) if found["whole"] else found["part"].replace(",", ".")


def _decimal_text(data: object) -> object:
    return str(data) if is_number(data) else _number_with_unit(data)


def _scalar_answer(scalar: Scalar) -> _Dynamic:
    """Return the pydantic type of the JSON that a scalar is written as."""
    described: dict[str, Any] = {} if scalar.is_native else {"description": scalar.words}
    if scalar.json_type is object:
        return Any
    if scalar.json_type in (int, float):
        limits: dict[str, Any] = {"allow_inf_nan": False} if scalar.json_type is float else {}
        number: _Dynamic = Annotated[scalar.json_type, BeforeValidator(_no_bool), Field(**limits, **described)]
        if not scalar.is_native:
            return number  # a duration, whose unit tells how long it is
        return Annotated[number, BeforeValidator(functools.partial(_number_with_unit, whole=scalar.type is int))]
    if scalar.is_native:
        return None if scalar.type is type(None) else scalar.type
    schema_format = {} if scalar.schema_format is None else {"format": scalar.schema_format}
    text: _Dynamic = Annotated[str, WithJsonSchema({"type": "string", **schema_format, **described})]
    return Annotated[text, BeforeValidator(_decimal_text)] if scalar.reads_numbers else text


def answer_type(value_type: _Dynamic) -> _Dynamic:
    """Return the pydantic type of the JSON of a type's values.

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
    if is_union(value_type):
        return typing.Union[tuple(answer_type(arg) for arg in args)]  # noqa: UP007 - the options are made at run time
    if origin is tuple and args[1:] != (...,):
        return tuple[tuple(answer_type(arg) for arg in args)]  # type: ignore[misc]
    if origin in (list, tuple, set, frozenset, Sequence):
        return _short(list[answer_type(args[0])])  # type: ignore[misc]
    if origin in (dict, Mapping):
        return _short(dict[str, answer_type(args[1])])  # type: ignore[misc]
    return _class(value_type)


def _short(several: _Dynamic) -> _Dynamic:
    """Return the type of a list or an object that is refused, unread, if it has more than `MOST_ITEMS` items."""

    def refuse(data: object) -> object:
        if isinstance(data, list | tuple | dict) and len(data) > MOST_ITEMS:
            raise ValueError("it has too many items")
        return data

    return Annotated[several, BeforeValidator(refuse)]


def _class(cls: _Dynamic) -> _Dynamic:
    if not isinstance(cls, type):
        raise InvalidDataError(f"{cls!r} cannot be the type of a value: factmem cannot write it as JSON")
    if issubclass(cls, enum.Enum):
        return _one_of([member.value for member in cls], {member.name: member.value for member in cls})
    if cls is list:
        return list[Any]
    if cls is dict:
        return dict[str, Any]
    return _record(cls, stored_fields(cls))


def _record(cls: type[Any], fields: Sequence[ClassField]) -> type[_Record]:
    """Return the model of a class. Its fields have names that pydantic allows, and the class's own names in JSON."""
    made: dict[str, _Dynamic] = {}
    for number, field in enumerate(fields):
        wanted = answer_type(field.annotation)
        if field.required:
            made[f"field_{number}"] = (wanted, Field(alias=field.name))
        else:
            optional = wanted | None if wanted is not None else None
            made[f"field_{number}"] = (optional, Field(default=None, alias=field.name))
    model = create_model(cls.__name__, __base__=_Record, **made)
    model.names = {f"field_{number}": field.name for number, field in enumerate(fields)}
    model.optional = frozenset(f"field_{number}" for number, field in enumerate(fields) if not field.required)
    return model


def _one_of(members: Sequence[Any], names: Mapping[str, Any]) -> _Dynamic:
    """Return the type of an enumeration: its values in any case, or the names of its members."""
    spelled = {_spelled(name): member for name, member in names.items()}
    spelled |= {_spelled(member): member for member in members}

    def member_of(data: object) -> object:
        for member in members:
            if type(member) is type(data) and member == data:
                return member
        if isinstance(data, str | int | float) and _spelled(data) in spelled:
            return spelled[_spelled(data)]
        raise ValueError("it is not one of the allowed values")

    schema: dict[str, Any] = {"enum": list(members)}
    if explained := [f"{member!r} is {name}" for name, member in names.items() if _spelled(name) != _spelled(member)]:
        schema["description"] = ", ".join(explained)
    if all(isinstance(member, str) for member in members):
        schema["type"] = "string"
    return Annotated[Any, BeforeValidator(member_of), WithJsonSchema(schema)]


def _spelled(member: object) -> str:
    return str(member).strip().casefold().replace("_", " ").replace("-", " ")


def read_json(data: Json, value_type: _Dynamic) -> Json:
    """Return the JSON of a value that a model answered, read leniently where nothing is lost.

    It lacks the fields that the model left out, and is still to be read by the strict codec.

    Raises:
        InvalidDataError: it is not of the type.
    """
    if bare_type(value_type) is str:
        return json.dumps(data) if is_number(data) else data  # a list or an object is not a text
    adapter: TypeAdapter[Any] = TypeAdapter(answer_type(value_type))
    try:
        read = adapter.validate_python(data)
    except ValidationError:
        read = _read_from_text(data, adapter)
    written: Json = adapter.dump_python(read)
    check_json(written)
    return written


def _read_from_text(data: Json, adapter: TypeAdapter[Any]) -> Any:
    """Read an object or a list that was answered as the text of its JSON."""
    try:
        return adapter.validate_json(data) if isinstance(data, str) else adapter.validate_python(data)
    except ValidationError as error:
        what = error.errors(include_input=False, include_url=False)[0]["type"]
        raise InvalidDataError(f"the answer is not of the concept's type: {what}") from None


_LONGEST_NUMBER: Final = 80
"""Maximum length of a text that is read as a number, in characters."""
_MOST_LISTED: Final = 16
"""Maximum number of items of a list, in the schema. Small models repeat themselves endlessly where none is enforced.

Limits are the same for every text, so that schemas are: providers and engines keep a schema that they have seen.
"""
_MOST_CHANGES: Final = 4
"""Maximum number of items of a SINGLE concept, in the schema."""
_LONGEST_QUOTE: Final = 200
"""Maximum length of a quote, in the schema: the beginning of a longer one proves as much."""
_LONGEST_VALUE: Final = 500
"""Maximum length of a text value, in the schema; engines that enforce limits refuse larger ones."""
_LONGEST_SENTENCE: Final = 200
"""Maximum length of a memory, of a description and of an open search's value, in the schema."""


def _number(data: object) -> object:
    """Read ``"[3]"`` and ``"message 3"`` as 3, and a text without a number as None."""
    if isinstance(data, str):
        found = re.search(r"\d{1,9}", data)
        return int(found[0]) if found else None
    return data if isinstance(data, int) and not isinstance(data, bool) else None


_Text: TypeAlias = Annotated[str, BeforeValidator(lambda data: "" if data is None else data)]


class _Cited(AnswerPart):
    """A finding with its citation. An object with none of the keys is not a finding."""

    @model_validator(mode="before")
    @classmethod
    def _read_shape(cls, data: Any) -> Any:
        return in_shape(data, cls) if isinstance(data, Mapping) else data

    quote: _Text = Field(default="", json_schema_extra={"maxLength": _LONGEST_QUOTE})
    message: Annotated[int | None, BeforeValidator(_number), WithJsonSchema({"type": "integer"})] = None


_OPTIONAL: Final[dict[str, Any]] = {"optional": True}
"""Marks a field that an answer may leave out; see `strict_schema`."""
_ANY_TEXT: Final[dict[str, Any]] = {"type": "string"}
_TEXT: Final[dict[str, Any]] = {"type": "string", "maxLength": _LONGEST_SENTENCE}


class _Described(AnswerPart):
    keyword: _Text = ""
    kind: Annotated[_Text, WithJsonSchema({"type": "string", "enum": ["single", "multiple"]})] = "single"
    value: Annotated[Any, WithJsonSchema(_TEXT)] = None
    description: _Text = Field(default="", json_schema_extra=_OPTIONAL)


class _Forgotten(AnswerPart):
    what: _Text = Field(default="", json_schema_extra=_OPTIONAL)
    keyword: Annotated[str | None, WithJsonSchema(_ANY_TEXT)] = Field(default=None, json_schema_extra=_OPTIONAL)
    value: Annotated[Any, WithJsonSchema(_ANY_TEXT)] = Field(default=None, json_schema_extra=_OPTIONAL)


class _Memory(AnswerPart):
    memory: Annotated[_Text, WithJsonSchema(_TEXT)] = ""


class _Findings(AnswerPart, ModelAnswer):
    """An answer to a task.

    Findings under unexpected keys are counted. If there are no others, and the keys belong to no other task, the answer
    is refused.
    """

    tolerated_keys: ClassVar[frozenset[str]] = LISTS
    may_lose_all: ClassVar[bool] = True

    _stray: int = PrivateAttr(default=0)

    @model_validator(mode="wrap")
    @classmethod
    def _count_stray_findings(cls, data: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        found = read(data)
        if isinstance(data, BaseModel) or not data:
            return found
        keys = {field.alias or name for name, field in cls.model_fields.items()}
        answered = in_shape(data, cls, tolerated=LISTS)
        stray = {key: len(_citations(items)) for key, items in answered.items() if key not in keys}
        if not any(items for _, items in found) and any(stray[key] for key in stray.keys() - LISTS):
            raise PydanticCustomError(
                "stray_findings", "expected findings under the keys {keys} only", {"keys": ", ".join(sorted(keys))}
            )
        found._stray = sum(stray.values())
        return found


def _citations(items: object) -> list[Mapping[str, Any]]:
    """Return the objects with a quote, which every finding has."""
    return [item for item in listed(items) if isinstance(item, Mapping) and "quote" in item]


@functools.lru_cache(maxsize=64)
def answer_model(task: DetectionTask, *, most: int = 100, limit: int | None = None) -> type[BaseModel]:
    """Return the response model of a task: a list for each requested concept, and for whatever else it looks for.

    Its schema depends on the task and the limit alone.

    Args:
        task: the task.
        most: number of items of each list that are read, whatever endpoints enforce; the others are counted as
            `DropReason.TOO_MANY`.
        limit: maximum length of every list, in the schema; None for the usual ones.
    """
    cited = _cited(task)
    fields: dict[str, _Dynamic] = {}
    for number, (name, concept) in enumerate(task.fields.items()):
        item = create_model(f"Found{number + 1}", __base__=cited, **_value_fields(concept))
        several = concept.fact_type is FactType.MULTIPLE
        mend = functools.partial(_findings_in, fits=_fits(concept), several=several)
        listed = limit or (_MOST_LISTED if several else _MOST_CHANGES)
        fields[f"concept_{number}"] = _list_of(item, name, most, listed, mend)
    if task.open:
        mend = functools.partial(_facts_in, vocabulary=Vocabulary.of(task.known))
        fields["facts"] = _list_of(_item("Fact", cited, _Described), "facts", most, limit, mend)
    if task.topics:
        memory = create_model("Memory", __base__=(_Memory, cited), topics=_labels(task))
        fields["memories"] = _list_of(memory, "memories", most, limit)
    if task.instructions:
        fields["remember"] = _list_of(_item("Remember", cited, _Memory), "remember", most, limit)
    if task.ends:
        fields["forget"] = _list_of(_item("Forget", cited, _Forgotten), "forget", most, limit)
    return create_model("Findings", __base__=_Findings, **fields)


def _item(name: str, cited: type[_Cited], what: type[AnswerPart]) -> type[BaseModel]:
    return create_model(name, __base__=(what, cited))  # the fields of the last base come first


def _cited(task: DetectionTask) -> type[_Cited]:
    if not task.several_subjects:
        return _Cited
    schema = {"type": "string", "enum": list(task.subjects)}
    about: _Dynamic = (Annotated[str | None, WithJsonSchema(schema)], None)
    return create_model("CitedAbout", __base__=_Cited, about=about)


def _value_fields(concept: Concept[Any, Any]) -> dict[str, _Dynamic]:
    value: _Dynamic = answer_type(concept.value_type)
    if value is str:
        value = Annotated[str, Field(json_schema_extra={"maxLength": _LONGEST_VALUE})]
    if concept.fact_type is FactType.SINGLE:
        return {"value": (value, ...)}
    return {"values": (each(value, needs_one=True), ...)}


def _labels(task: DetectionTask) -> _Dynamic:
    schema = {"type": "array", "items": {"type": "string", "enum": [topic.label for topic in task.topics]}}
    labels = Annotated[list[str], BeforeValidator(listed), WithJsonSchema(schema)]
    return (labels, Field(default_factory=list))


_Mend: TypeAlias = Callable[[Any], Iterator[object]]
"""Returns the findings that an item of a list stands for."""


def _list_of(item: _Dynamic, name: str, most: int, limit: int | None, mend: _Mend | None = None) -> _Dynamic:
    several = each(item, most=most)
    if mend is not None:
        mended = BeforeValidator(lambda data: [finding for item in listed(data) for finding in mend(item)])
        several = Annotated[several, mended]
    return (several, Field(default_factory=list, alias=name, json_schema_extra={"maxItems": limit or _MOST_LISTED}))


def _fits(concept: Concept[Any, Any] | None) -> Callable[[object], bool]:
    """Return a test of whether data is a value of a concept; of a new one, whose values are texts, if it is None."""
    adapter = functools.cache(lambda: TypeAdapter(answer_type(str if concept is None else concept.value_type)))

    def fits(data: object) -> bool:
        try:
            adapter().validate_python(data)
        except ValidationError:
            return False
        return True

    return fits


def _findings_in(item: Any, *, fits: Callable[[object], bool], several: bool) -> Iterator[object]:
    """Yield the findings of a concept that an item stands for: ``value`` and ``values`` stand for each other.

    A plain value, and one without a quote, quotes itself.

    Args:
        item: the item.
        fits: whether data is a value of the concept.
        several: whether a finding has ``values``.
    """
    expected, other = ("values", "value") if several else ("value", "values")
    if isinstance(item, str | int | float):
        item = {expected: item}
    keys = [key for key in (expected, other) if isinstance(item, Mapping) and item.get(key) is not None]
    if not keys:
        yield item
        return
    key, said = keys[0], item[keys[0]]
    is_one = not isinstance(said, list) or ((key == "value" or not any(map(fits, said))) and fits(said))
    values = [said] if is_one else said
    rest = {name: part for name, part in item.items() if name not in (expected, other)}
    if not rest.get("quote") and len(values) == 1 and isinstance(values[0], str | int | float):
        rest["quote"] = values[0] if isinstance(values[0], str) else json.dumps(values[0])
    if several:
        yield {**rest, "values": values}
    else:
        yield from ({**rest, "value": value} for value in values)


def _facts_in(item: Any, *, vocabulary: Vocabulary) -> Iterator[object]:
    """Yield the facts of an open search that an item stands for: one for each value."""
    if isinstance(item, Mapping) and ("values" in item or isinstance(item.get("value"), list)):
        known = vocabulary.find(item["keyword"]) if isinstance(item.get("keyword"), str) else None
        return _findings_in(item, fits=_fits(known), several=False)
    return iter((item,))


def is_full(answer: BaseModel) -> bool:
    """Return whether a list of an answer to a task ends at a limit of the schema, with as many different findings.

    An endpoint that enforces the limit may have left something out. A model that repeats itself has not.
    """
    extras = {name: field.json_schema_extra for name, field in type(answer).model_fields.items()}
    limits = {name: extra.get("maxItems") for name, extra in extras.items() if isinstance(extra, dict)}
    return any(
        len(items) in (_MOST_LISTED, limit := limits[name])
        and len({_identity(item, changes=limit == _MOST_CHANGES) for item in items}) == len(items)
        for name, items in answer
    )


def _identity(item: BaseModel, *, changes: bool) -> str:
    """Return what tells a finding from another: its quote alone if it is one of the changes of a value."""
    return item.model_dump_json(include={"quote"} if changes else None, exclude={"message"})


def extractions_in(answer: BaseModel, task: DetectionTask) -> Iterator[Extraction]:
    """Yield the extractions in an answer."""
    for number, concept in enumerate(task.fields.values()):
        items: _Dynamic = getattr(answer, f"concept_{number}")
        yield from (_finding(item, Targeted(concept, _values(item, concept))) for item in items)
    for name, said in _SAID.items():
        yield from (_finding(item, said(item)) for item in getattr(answer, name, ()))


def _described(item: _Dynamic) -> Described:
    multiple = item.kind.strip().casefold().startswith("multi")
    return Described(keyword=item.keyword, description=item.description, multiple=multiple, value=item.value)


_SAID: Final[Mapping[str, Callable[[_Dynamic], Said]]] = {
    "facts": _described,
    "memories": lambda item: Sentence(item.memory, tuple(item.topics)),
    "remember": lambda item: Sentence(item.memory, instruction=True),
    "forget": lambda item: Forgotten(text=item.what, keyword=item.keyword, value=item.value),
}
"""Contents of the items of an answer's lists beside those of the requested concepts."""


def dropped_in(answer: BaseModel) -> Counter[DropReason]:
    """Count the items of an answer that `extractions_in` does not yield, by reason."""
    dropped: Counter[DropReason] = Counter()
    for _, items in answer:
        if isinstance(items, ValidItems):
            dropped.update(_reason(flaws) for flaws in items.dropped)
            dropped[DropReason.TOO_MANY] += items.excess
            values = [of for item in items if isinstance(of := getattr(item, "values", None), ValidItems)]
            dropped[DropReason.INVALID_VALUE] += sum(len(of.dropped) for of in values)
            dropped[DropReason.TOO_MANY] += sum(of.excess for of in values)
    dropped[DropReason.UNKNOWN_CONCEPT] += getattr(answer, "_stray", 0)
    return +dropped


def _reason(flaws: tuple[Flaw, ...]) -> DropReason:
    of_values = all(flaw.where[:1] in (("value",), ("values",)) for flaw in flaws)
    return DropReason.INVALID_VALUE if of_values else DropReason.MALFORMED


def _finding(item: _Dynamic, said: Said) -> Extraction:
    return Extraction(quote=item.quote, message=item.message, about=getattr(item, "about", None), said=said)


def _values(item: _Dynamic, concept: Concept[Any, Any]) -> tuple[Any, ...]:
    written = item.model_dump()
    return (written["value"],) if concept.fact_type is FactType.SINGLE else tuple(written["values"])


def described_model(name: str, fields: Mapping[str, Mapping[str, Any]], most: int | None) -> type[BaseModel]:
    """Return the response model of an answer that is described in data; see ``prompts.toml``.

    Args:
        name: the name of the answer.
        fields: its fields, by their names.
        most: maximum number of items of its lists, in the schema; None for no limit.
    """
    described = {field: _described_field(name, of, most) for field, of in fields.items()}
    return create_model(name, __base__=(AnswerPart, ModelAnswer), **described)


def _described_field(name: str, of: Mapping[str, Any], most: int | None) -> _Dynamic:
    limit: dict[str, JsonValue] = {} if most is None else {"maxItems": most}
    match of:
        case {"one_of": members}:
            return (_one_of_or_last(members), Field(default=members[-1], description=of["text"]))
        case {"text": about}:
            return (str, Field(description=about))
        case {"optional": about}:
            return (str | None, Field(default=None, description=about))
        case {"number": about}:
            return (int, Field(description=about))
        case {"share": about}:
            return (float, Field(ge=0, le=1, description=about))
        case {"labels": about}:
            return (each(str), Field(default_factory=list, description=about, json_schema_extra=limit))
        case _:
            fields = {field: _described_field(name, part, None) for field, part in of["each"].items()}
            item = create_model(f"{name}Item", __base__=AnswerPart, **fields)
            first = next(iter(fields))
            read = BeforeValidator(lambda data: {first: data} if isinstance(data, str) else data)
            return (each(Annotated[item, read]), Field(default_factory=list, description=of["about"]))


def _one_of_or_last(members: Sequence[str]) -> _Dynamic:
    """Return the type of a plain choice; anything else is the last one. True and false stand for yes and no."""

    def read(data: object) -> str:
        given = ("no", "yes")[data] if isinstance(data, bool) else str(data).strip(" .!").casefold()
        return given if given in members else members[-1]

    schema: dict[str, Any] = {"type": "string", "enum": list(members)}
    return Annotated[str, BeforeValidator(read), WithJsonSchema(schema)]
