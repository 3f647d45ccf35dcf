"""Jobs: instructions for reading submitted words, stored beside the words until a model has read them."""

from __future__ import annotations

import datetime as dt
import enum
import functools
import typing
from collections.abc import Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import attrs

from factmem.abc import DetectionRequest
from factmem.details import Treatment
from factmem.errors import CodecError, InvalidDataError
from factmem.facts import Concept, Fact, FactType, MultipleConcept, MultipleFacts, SingleConcept, SingleFact
from factmem.records import MetadataMerge
from factmem.structuring import explain_structure_error, in_detail
from factmem.validators import instance_of
from factmem.values import Json, decode_value, encode_value, type_of

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = ["STREAM", "Job", "JobKind", "Trigger", "job_from", "job_json"]

STREAM: Final = "stream:"
"""Prefix of the ids of jobs that belong to a stream of events."""


class JobKind(enum.Enum):
    """Kind of job.

    DETECT: find facts in what was said. KEEP: the words are memories themselves; analyse them, and compare them with
    known records. CONSOLIDATE: facts that are ready; compare them with known records.
    """

    DETECT = "detect"
    KEEP = "keep"
    CONSOLIDATE = "consolidate"


def _not_negative(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and (isinstance(value, bool) or value < type(value)(0)):
        raise InvalidDataError(f"{attribute.name} must not be negative", path=f"$.{attribute.name}")


def _not_endless(instance: object, attribute: attrs.Attribute[Any], value: dt.timedelta | None) -> None:
    if value is not None and value > _LONGEST:
        raise InvalidDataError(
            f"{attribute.name} must not be longer than a hundred years: leave it out to wait for something else",
            path=f"$.{attribute.name}",
        )


_LONGEST: Final = dt.timedelta(days=36_525)
_TIME: Final = (instance_of(dt.timedelta, NoneType), _not_negative, _not_endless)


@attrs.frozen(kw_only=True)
class Trigger:
    """Condition for reading the events of a stream: the first one that holds; at once without any.

    Attributes:
        count: Number of waiting events.
        idle: Time without a new event.
        interval: Time since the first waiting event.
        overlap: Number of earlier events that a model is shown as context of those that it reads; less than ``count``.

    Raises:
        InvalidDataError: An argument is of another type, negative, or longer than a hundred years; or the overlap is
            not less than the count.
    """

    count: int | None = attrs.field(default=None, validator=[instance_of(int, NoneType), _not_negative])
    idle: dt.timedelta | None = attrs.field(default=None, validator=_TIME)
    interval: dt.timedelta | None = attrs.field(default=None, validator=_TIME)
    overlap: int = attrs.field(default=0, validator=[instance_of(int), _not_negative])

    def __attrs_post_init__(self) -> None:
        if self.overlap and self.count is not None and self.overlap >= self.count:
            raise InvalidDataError(
                f"overlap={self.overlap} must be less than count={self.count}: lower the overlap, or raise the count",
                path="$.overlap",
            )

    @property
    def immediate(self) -> bool:
        """Whether events are read at once."""
        return self.count is None and self.idle is None and self.interval is None


@attrs.frozen(kw_only=True)
class Job:
    """Instructions for reading submitted words.

    Attributes:
        id: Words with the same id are read together.
        kind: Kind of job.
        consolidate: Compare findings with known records.
        infer: Details to infer, of ``scope``, ``categories`` and ``importance``.
        request: Facts to look for.
        merge: Treatment of the metadata of a record that is updated.
        trigger: Condition for reading, of a stream.
        treatment: Treatment of the words that it is stored with; by the reader's policy if None.
    """

    id: str
    kind: JobKind
    consolidate: bool = True
    infer: tuple[str, ...] = ()
    request: DetectionRequest = attrs.field(factory=DetectionRequest)
    merge: MetadataMerge = MetadataMerge.MERGE
    trigger: Trigger | None = None
    treatment: Treatment | None = None

    @property
    def streamed(self) -> bool:
        """Whether the job belongs to a stream of events."""
        return self.id.startswith(STREAM)


def job_json(job: Job) -> Mapping[str, Json]:
    """Return a job as JSON. Concepts in use are left out: they are looked up when the words are read."""
    lasting = attrs.evolve(job, request=attrs.evolve(job.request, in_use=()))
    written: Mapping[str, Json] = _converter(detailed=False).unstructure(lasting)
    return written


def job_from(document: Mapping[str, Any], concepts: Mapping[str, Concept[Any, Any]]) -> Job:
    """Return a job from JSON.

    Args:
        document: The JSON that `job_json` returned.
        concepts: The declared concepts by keyword; others are read by their shape.

    Raises:
        CodecError: It is malformed, for example because another program wrote it.
    """
    try:
        job = _converter(detailed=False).structure(document, Job)
    except Exception as error:  # validators raise errors of factmem, and cattrs any error
        detailed = in_detail(error, document, lambda: _converter(detailed=True).structure(document, Job))
        path, reason = explain_structure_error(detailed)
        raise CodecError(f"the job is malformed: {reason}", path=path) from None
    declared = tuple(concepts.get(concept.keyword, concept) for concept in job.request.concepts)
    return attrs.evolve(job, request=attrs.evolve(job.request, concepts=declared))


def _written_concept(concept: Concept[Any, Any]) -> dict[str, Any]:
    return {
        "keyword": concept.keyword,
        "description": concept.description,
        "fact_type": concept.fact_type.value,
        "shape": concept.shape,
        "examples": [[said, encode_value(value, concept.value_type)] for said, value in concept.examples],
    }


def _read_concept(document: Any, _: Any) -> Concept[Any, Any]:
    match document:
        case {"keyword": str() as keyword, "description": str() as description, "fact_type": kind, "shape": shape}:
            made = SingleConcept if FactType(kind) is FactType.SINGLE else MultipleConcept
            typ = type_of(shape)
            examples = [(said, decode_value(value, typ)) for said, value in document.get("examples", ())]
            return made(keyword, description, value_type=typ, examples=examples)
        case _:
            raise CodecError("expected a concept")


def _written_fact(fact: Fact[Any]) -> dict[str, Any]:
    return {
        "concept": _written_concept(fact.concept),
        "values": [encode_value(value, fact.concept.value_type) for value in fact.values],
        "timestamp": fact.timestamp.isoformat(),
    }


def _read_fact(document: Any, _: Any) -> Fact[Any]:
    match document:
        case {"concept": concept, "values": list() as written, "timestamp": str() as timestamp}:
            of = _read_concept(concept, None)
            values = [decode_value(value, of.value_type) for value in written]
            fact: Fact[Any] = of.fact(values, timestamp=dt.datetime.fromisoformat(timestamp))
            return fact
        case _:
            raise CodecError("expected a fact")


_FACTS: Final = frozenset({SingleFact, MultipleFacts})


def _is_fact(cls: Any) -> bool:
    options = typing.get_args(cls) if typing.get_origin(cls) is typing.Union else (cls,)
    return all((typing.get_origin(option) or option) in _FACTS for option in options)


def _is_concept(cls: Any) -> bool:
    plain = typing.get_origin(cls) or cls
    return isinstance(plain, type) and issubclass(plain, Concept)


def _with_lawful_overlap(document: Any) -> Any:
    """Return a trigger with an overlap that its count allows; earlier versions accepted longer ones."""
    match document:
        case {"count": int() as count, "overlap": int() as overlap}:
            return {**document, "overlap": min(overlap, max(count - 1, 0))}
        case _:
            return document


@functools.cache
def _converter(*, detailed: bool) -> Converter:
    from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn
    from cattrs.preconf.json import make_converter

    conv = make_converter(detailed_validation=detailed, forbid_extra_keys=True, omit_if_default=True)
    conv.register_unstructure_hook_func(_is_concept, _written_concept)
    conv.register_structure_hook_func(_is_concept, _read_concept)
    conv.register_unstructure_hook_func(_is_fact, _written_fact)
    conv.register_structure_hook_func(_is_fact, _read_fact)
    conv.register_unstructure_hook(dt.timedelta, dt.timedelta.total_seconds)
    longest = _LONGEST.total_seconds()  # earlier versions accepted longer ones
    conv.register_structure_hook(dt.timedelta, lambda seconds, _: dt.timedelta(seconds=min(seconds, longest)))
    trigger = make_dict_structure_fn(Trigger, conv)
    conv.register_structure_hook(Trigger, lambda document, _: trigger(_with_lawful_overlap(document), Trigger))
    conv.register_unstructure_hook(Job, make_dict_unstructure_fn(Job, conv, _cattrs_omit_if_default=True))
    return conv
