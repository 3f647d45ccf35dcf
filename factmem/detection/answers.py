"""The pydantic model of the answer to a question, and the reading of such an answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    PrivateAttr,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from factmem.abc import DropReason
from factmem.detection.findings import Described, Finding, Forgotten, Said, Sentence, Targeted
from factmem.detection.question import Question
from factmem.detection.value_models import AnswerPart, answer_type
from factmem.facts import Concept, FactType
from factmem.llm.answering import Flaw, Kept, ModelAnswer, each, in_shape, listed

__all__ = ["answer_model", "dropped_in", "findings_in"]

# What is made here at run time, no type checker can know.
_Dynamic: TypeAlias = Any

_FEWEST_OF_ONE: Final = 2
_FACTS_PER_CHANGE: Final = 8
"""What there is one of at a time changes once in so many facts at most."""
_LONGEST_TOLD: Final = 500
"""Up to this length, a limit is told in the schema: engines that enforce it refuse large ones."""


def _number(data: object) -> object:
    """Read ``"[3]"`` and ``"message 3"`` as 3, and what is no number as none."""
    if isinstance(data, str):
        found = re.search(r"\d{1,9}", data)
        return int(found[0]) if found else None
    return data if isinstance(data, int) and not isinstance(data, bool) else None


def _or_blank(data: object) -> object:
    return "" if data is None else data


_Text: TypeAlias = Annotated[str, BeforeValidator(_or_blank)]


class _Cited(AnswerPart):
    """Something found, with where. An object with none of its keys is no finding."""

    @model_validator(mode="before")
    @classmethod
    def _read_shape(cls, data: Any) -> Any:
        return in_shape(data, cls) if isinstance(data, Mapping) else data

    quote: _Text = Field(default="", description="the exact words of the message that say it, copied")
    message: Annotated[int | None, BeforeValidator(_number), WithJsonSchema({"type": "integer"})] = Field(
        default=None, description="the number of that message"
    )


class _Described(AnswerPart):
    keyword: _Text = Field(default="", description="a short snake_case name for what it is; one in use, if one fits")
    description: _Text = Field(default="", description="what the keyword stands for, whatever its value")
    kind: Annotated[_Text, WithJsonSchema({"type": "string", "enum": ["single", "multiple"]})] = Field(
        default="single", description="single: there is one at a time; multiple: there may be many at once"
    )
    value: Annotated[Any, WithJsonSchema({"type": "string"})] = Field(default=None, description="the value alone")


class _Forgotten(AnswerPart):
    what: _Text = Field(default="", description="what to forget, in a full sentence")
    keyword: str | None = Field(default=None, description="the keyword it is about, if it is one of those known")
    value: Annotated[Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]})] = Field(
        default=None, description="the one value of that keyword to forget; null for all of them"
    )


class _Memory(AnswerPart):
    memory: _Text = Field(default="", description="what to remember, in one full sentence that needs no context")


class _Findings(AnswerPart, ModelAnswer):
    """An answer to a question.

    Findings under keys that were not asked for are counted. Where there are no others, and the keys are none that
    another question asks for, the answer is refused.
    """

    tolerated_keys: ClassVar[frozenset[str]] = frozenset({"facts", "memories", "remember", "forget"})

    _stray: int = PrivateAttr(default=0)

    @model_validator(mode="wrap")
    @classmethod
    def _count_stray_findings(cls, data: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        found = read(data)
        if isinstance(data, BaseModel) or not data:
            return found
        keys = {field.alias or name for name, field in cls.model_fields.items()}
        answered = in_shape(data, cls, tolerated=cls.tolerated_keys)
        stray = {key: len(_citations(items)) for key, items in answered.items() if key not in keys}
        if not any(items for _, items in found) and any(stray[key] for key in stray.keys() - cls.tolerated_keys):
            raise PydanticCustomError(
                "stray_findings", "expected findings under the keys {keys} only", {"keys": ", ".join(sorted(keys))}
            )
        found._stray = sum(stray.values())
        return found


def _citations(items: object) -> list[Mapping[str, Any]]:
    """Return what has a quote of some JSON, as every finding has."""
    several = items if isinstance(items, list) else [items]
    return [item for item in several if isinstance(item, Mapping) and "quote" in item]


def answer_model(question: Question, *, most: int = 100, longest: int = 10_000) -> type[BaseModel]:
    """Build the model of the answer: a list for each concept asked for, and for what else is looked for.

    Args:
        question: what is looked for.
        most: how many items a list is to have at most; of a SINGLE concept, fewer. The schema says so, since small
            models repeat themselves without end where it is enforced; an answer with more is read all the same.
        longest: how many characters a quote is to have at most, and a text that is a concept's value; likewise.
    """
    told: dict[str, JsonValue] = {"maxLength": longest} if longest <= _LONGEST_TOLD else {}
    cited = _cited(question, told)
    fields: dict[str, _Dynamic] = {}
    for number, (name, concept) in enumerate(question.fields.items()):
        item = create_model(f"Found{number + 1}", __base__=cited, **_value_fields(concept, told))
        items = most if concept.fact_type is FactType.MULTIPLE else _FEWEST_OF_ONE + most // _FACTS_PER_CHANGE
        fields[f"concept_{number}"] = _list_of(item, name, concept.description or concept.keyword, items)
    if question.open:
        fields["facts"] = _list_of(_item("Fact", cited, _Described), "facts", "other facts about the subjects", most)
    if question.topics:
        memory = create_model("Memory", __base__=(_Memory, cited), topics=_labels(question))
        fields["memories"] = _list_of(memory, "memories", "what to remember of the topics", most)
    if question.instructions:
        remember = _item("Remember", cited, _Memory)
        fields["remember"] = _list_of(remember, "remember", "what the user asks in so many words to remember", most)
        forget = _item("Forget", cited, _Forgotten)
        fields["forget"] = _list_of(forget, "forget", "what the user asks in so many words to forget", most)
    return create_model("Findings", __base__=_Findings, **fields)


def _item(name: str, cited: type[_Cited], what: type[AnswerPart]) -> type[BaseModel]:
    return create_model(name, __base__=(what, cited))  # the fields of the last base come first


def _cited(question: Question, told: dict[str, JsonValue]) -> type[_Cited]:
    described = Field(default="", description=_Cited.model_fields["quote"].description, json_schema_extra=told)
    quote: _Dynamic = (_Text, described)
    if not question.several_subjects:
        return create_model("Cited", __base__=_Cited, quote=quote)
    schema = {"type": "string", "enum": list(question.subjects)}
    about: _Dynamic = (Annotated[str | None, WithJsonSchema(schema)], Field(default=None, description="about whom"))
    return create_model("CitedAbout", __base__=_Cited, quote=quote, about=about)


def _value_fields(concept: Concept[Any, Any], told: dict[str, JsonValue]) -> dict[str, _Dynamic]:
    value: _Dynamic = answer_type(concept.value_type)
    if value is str:
        value = Annotated[str, Field(json_schema_extra=told)]
    if concept.fact_type is FactType.SINGLE:
        return {"value": (value, Field(description=concept.description or concept.keyword))}
    return {"values": (each(value, needs_one=True), Field(description="the values that are said there"))}


def _labels(question: Question) -> _Dynamic:
    schema = {"type": "array", "items": {"type": "string", "enum": [topic.label for topic in question.topics]}}
    labels = Annotated[list[str], BeforeValidator(listed), WithJsonSchema(schema)]
    return (labels, Field(default_factory=list, description="the topics that it belongs to"))


def _list_of(item: _Dynamic, name: str, description: str, most: int) -> _Dynamic:
    told: dict[str, JsonValue] = {"maxItems": most}
    return (each(item), Field(default_factory=list, alias=name, description=description, json_schema_extra=told))


def findings_in(answer: BaseModel, question: Question) -> Iterator[Finding]:
    """Yield what an answer to a question says was found."""
    items: _Dynamic
    for number, concept in enumerate(question.fields.values()):
        items = getattr(answer, f"concept_{number}")
        yield from (_finding(item, Targeted(concept, _values(item, concept))) for item in items)
    for item in getattr(answer, "facts", ()):
        yield _finding(item, _described(item))
    for item in getattr(answer, "memories", ()):
        yield _finding(item, Sentence(item.memory, tuple(item.topics)))
    for item in getattr(answer, "remember", ()):
        yield _finding(item, Sentence(item.memory, instruction=True))
    for item in getattr(answer, "forget", ()):
        yield _finding(item, Forgotten(text=item.what, keyword=item.keyword, value=item.value))


def dropped_in(answer: BaseModel) -> Counter[DropReason]:
    """Count what an answer holds and `findings_in` does not yield, by why it was left out."""
    dropped: Counter[DropReason] = Counter()
    for _, items in answer:
        if isinstance(items, Kept):
            dropped.update(_reason(flaws) for flaws in items.dropped)
            values = (getattr(item, "values", None) for item in items)
            dropped[DropReason.INVALID_VALUE] += sum(len(of.dropped) for of in values if isinstance(of, Kept))
    dropped[DropReason.UNKNOWN_CONCEPT] += getattr(answer, "_stray", 0)
    return +dropped


def _reason(flaws: tuple[Flaw, ...]) -> DropReason:
    of_values = all(flaw.where[:1] in (("value",), ("values",)) for flaw in flaws)
    return DropReason.INVALID_VALUE if of_values else DropReason.MALFORMED


def _finding(item: _Dynamic, said: Said) -> Finding:
    return Finding(quote=item.quote, message=item.message, about=getattr(item, "about", None), said=said)


def _values(item: _Dynamic, concept: Concept[Any, Any]) -> tuple[Any, ...]:
    written = item.model_dump()
    return (written["value"],) if concept.fact_type is FactType.SINGLE else tuple(written["values"])


def _described(item: _Dynamic) -> Described:
    return Described(
        keyword=item.keyword,
        description=item.description,
        multiple=item.kind.strip().casefold().startswith("multi"),
        value=item.value,
    )
