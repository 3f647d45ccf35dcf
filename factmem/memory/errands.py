"""What words that were handed over wait for, as it is kept beside them until a model has read them."""

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
from factmem.facts import Concept, FactType, MultipleConcept, SingleConcept
from factmem.records import MetadataMerge
from factmem.structuring import explain_structure_error, in_detail
from factmem.validators import instance_of
from factmem.values import Json, type_of

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = ["STREAM", "Errand", "ErrandKind", "Trigger", "errand_from", "errand_json"]

STREAM: Final = "stream:"
"""What the ids of errands begin with that belong to a stream of events."""


class ErrandKind(enum.Enum):
    """What is to be done with words.

    DETECT: find facts in what was said. KEEP: the words are memories themselves; see what they are about
    and what they change. CONSOLIDATE: facts that are ready; see what they change.
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
    """When the events of a stream are read. Whatever comes first; with nothing given, at once.

    Attributes:
        count: as soon as so many wait.
        idle: as soon as none has come for so long.
        interval: as soon as the first that waits has waited for so long.
        overlap: number of earlier events that a model is shown as context of those that it reads.

    Raises:
        InvalidDataError: one of them is of another type, negative, or longer than a hundred years.
    """

    count: int | None = attrs.field(default=None, validator=[instance_of(int, NoneType), _not_negative])
    idle: dt.timedelta | None = attrs.field(default=None, validator=_TIME)
    interval: dt.timedelta | None = attrs.field(default=None, validator=_TIME)
    overlap: int = attrs.field(default=0, validator=[instance_of(int), _not_negative])

    @property
    def immediate(self) -> bool:
        """Whether events are read at once."""
        return self.count is None and self.idle is None and self.interval is None


@attrs.frozen(kw_only=True)
class Errand:
    """What words that were handed over wait for.

    Attributes:
        id: words with the same one are read together.
        kind: what is to be done.
        consolidate: whether to compare what is found with what is known.
        infer: what the caller left to be found out of ``scope``, ``categories`` and ``importance``.
        request: what to look for, if facts are to be found.
        merge: what becomes of the metadata of a record that is updated.
        trigger: when to read it, if it belongs to a stream.
        treatment: use that is made of the very words that it lies beside; None leaves that to whoever reads them.
    """

    id: str
    kind: ErrandKind
    consolidate: bool = True
    infer: tuple[str, ...] = ()
    request: DetectionRequest = attrs.field(factory=DetectionRequest)
    merge: MetadataMerge = MetadataMerge.MERGE
    trigger: Trigger | None = None
    treatment: Treatment | None = None

    @property
    def streamed(self) -> bool:
        """Whether it belongs to a stream of events."""
        return self.id.startswith(STREAM)


def errand_json(errand: Errand) -> Mapping[str, Json]:
    """Write an errand as JSON. What is in use is left out: it is looked up when the words are read."""
    lasting = attrs.evolve(errand, request=attrs.evolve(errand.request, in_use=()))
    written: Mapping[str, Json] = _converter(detailed=False).unstructure(lasting)
    return written


def errand_from(document: Mapping[str, Any], concepts: Mapping[str, Concept[Any, Any]]) -> Errand:
    """Read an errand from JSON.

    Args:
        document: what `errand_json` wrote.
        concepts: the declared concepts by keyword; others are read by their shape.

    Raises:
        CodecError: it is malformed, for example because another program wrote it.
    """
    try:
        errand = _converter(detailed=False).structure(document, Errand)
    except Exception as error:  # validators raise factmem's own, and cattrs whatever it meets
        detailed = in_detail(error, document, lambda: _converter(detailed=True).structure(document, Errand))
        path, reason = explain_structure_error(detailed)
        raise CodecError(f"the errand is malformed: {reason}", path=path) from None
    declared = tuple(concepts.get(concept.keyword, concept) for concept in errand.request.concepts)
    return attrs.evolve(errand, request=attrs.evolve(errand.request, concepts=declared))


def _written_concept(concept: Concept[Any, Any]) -> dict[str, Any]:
    return {
        "keyword": concept.keyword,
        "description": concept.description,
        "fact_type": concept.fact_type.value,
        "shape": concept.shape,
    }


def _read_concept(document: Any, _: Any) -> Concept[Any, Any]:
    match document:
        case {"keyword": str() as keyword, "description": str() as description, "fact_type": kind, "shape": shape}:
            made = SingleConcept if FactType(kind) is FactType.SINGLE else MultipleConcept
            return made(keyword, description, value_type=type_of(shape))
        case _:
            raise CodecError("expected a concept")


def _is_concept(cls: Any) -> bool:
    plain = typing.get_origin(cls) or cls
    return isinstance(plain, type) and issubclass(plain, Concept)


@functools.cache
def _converter(*, detailed: bool) -> Converter:
    from cattrs.gen import make_dict_unstructure_fn
    from cattrs.preconf.json import make_converter

    conv = make_converter(detailed_validation=detailed, forbid_extra_keys=True, omit_if_default=True)
    conv.register_unstructure_hook_func(_is_concept, _written_concept)
    conv.register_structure_hook_func(_is_concept, _read_concept)
    conv.register_unstructure_hook(dt.timedelta, dt.timedelta.total_seconds)
    longest = _LONGEST.total_seconds()  # earlier versions let through what is longer
    conv.register_structure_hook(dt.timedelta, lambda seconds, _: dt.timedelta(seconds=min(seconds, longest)))
    conv.register_unstructure_hook(Errand, make_dict_unstructure_fn(Errand, conv, _cattrs_omit_if_default=True))
    return conv
