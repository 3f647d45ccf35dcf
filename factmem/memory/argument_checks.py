"""Constructor arguments of a memory: checks, so that wrong ones fail early, and the parts that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote

import attrs

from factmem.abc import Consolidator, Detector, MemoryObserver, Verifier
from factmem.abc.analyst import Analyst
from factmem.abc.clock import Clock
from factmem.abc.media import MediaReader
from factmem.abc.model import LanguageModel
from factmem.abc.provider import AgentMemoryProvider
from factmem.abc.question_analyst import QuestionAnalyst
from factmem.detection import OriginPolicy
from factmem.detection.redaction import redact
from factmem.detection.verbatim import VerbatimDetector
from factmem.error_hints import kind_of
from factmem.errors import InvalidDataError
from factmem.memory.context import Policies
from factmem.providers.registry import default_store, open_provider
from factmem.validators import check_instance, listed

if TYPE_CHECKING:
    from factmem.llm.host_models import ForeignModel

_VERBS: Final = ("save", "load", "load_all", "load_by_description")

_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "embedder": ("identity", "embed"),
    "model": ("ask",),
    "detector": ("detect",),
    "analyst": ("analyse", "extract"),
    "verifier": ("verify",),
    "consolidator": ("decide",),
    "question_analyst": ("analyse_question", "find_gaps"),
    "reranker": ("rerank",),
    "media_reader": ("takes", "read_medium"),
}
"""Required methods of each part."""

_WRAPPERS: Final = {"embedder": "factmem.recall.CallableEmbedder"}
"""Classes that make a part of a function."""


def check_store(store: object) -> None:
    """Raise `InvalidDataError` unless a store is an address, a path, or has the four verbs of a provider."""
    if not isinstance(store, str | Path) and not _has(store, _VERBS):
        raise InvalidDataError(
            f"a store is an address such as 'sqlite-vec:facts.db', a path, or a provider, not {kind_of(store)}",
            path="$.store",
        )


def as_provider(store: str | Path | AgentMemoryProvider | None, clock: Clock) -> AgentMemoryProvider:
    """Return a provider as it is, or open a store: an address, a path of an SQLite file, or the user's own for None.

    Raises:
        InvalidDataError: It is something else.
        UnknownProviderError: The address names no installed provider.
    """
    match store:
        case None:
            return open_provider(default_store(), clock=clock)
        case Path():
            return open_provider(f"sqlite-vec:{quote(str(store))}", clock=clock)
        case str():
            return open_provider(store, clock=clock)
        case _:
            check_store(store)
            return store


def check_parts(**parts: object) -> None:
    """Raise `InvalidDataError` unless each part of a memory is None or has its required methods.

    Args:
        parts: Parts by name.
    """
    for name, part in parts.items():
        if part is None or _has(part, _PARTS[name]):
            continue
        methods = " and ".join(f"{method}()" for method in _PARTS[name])
        wrapped = f"wrap it in {_WRAPPERS[name]}, " if callable(part) and name in _WRAPPERS else ""
        raise InvalidDataError(
            f"{name} takes an object with {methods}, not {kind_of(part)}: give one, {wrapped}or leave it out",
            path=f"$.{name}",
        )


def observers_in(observers: Iterable[MemoryObserver]) -> tuple[MemoryObserver, ...]:
    """Return observers as a tuple.

    Raises:
        InvalidDataError: It is not a list, or one of them cannot be called.
    """
    items = listed("observers", observers, object)
    if not all(map(callable, items)):
        raise InvalidDataError("observers takes a list of functions of one event", path="$.observers")
    return items


def _has(thing: object, methods: Iterable[str]) -> bool:
    return not isinstance(thing, type) and all(callable(getattr(thing, method, None)) for method in methods)


def policies_for(detector: Detector | None, policies: Policies) -> Policies:
    """Return the policies with the origins that a detector was made with.

    Raises:
        InvalidDataError: They are of another type, or both have origins.
    """
    check_instance(policies, "policies", Policies)
    if detector is None:
        return policies
    from factmem.detection import InstructorDetector

    own = detector.origins if isinstance(detector, InstructorDetector) else policies.origins
    if policies.origins not in (own, OriginPolicy()):
        raise InvalidDataError(
            "the detector has an OriginPolicy of its own: give origins to it, or to the policies, not to both",
            path="$.policies.origins",
        )
    return attrs.evolve(policies, origins=own)


def as_model(given: LanguageModel | ForeignModel | str | None) -> LanguageModel | None:
    """Return the language model that an argument ``model=`` stands for; see `as_language_model`."""
    if given is None:
        return None
    from factmem.llm.host_models import as_language_model

    return as_language_model(given)


def as_verifier(
    given: Verifier | LanguageModel | ForeignModel | str | Literal[False] | None,
) -> Verifier | Literal[False] | None:
    """Return the verifier that an argument ``verifier=`` stands for.

    Raises:
        InvalidDataError: It is neither a verifier nor a model.
    """
    if given is None or given is False or isinstance(given, Verifier):
        return given
    from factmem.detection.verifier import ModelVerifier

    model = as_model(given)
    if not isinstance(model, LanguageModel):
        raise InvalidDataError("verifier takes an object with verify(), a model, or False for none", path="$.verifier")
    return ModelVerifier(model)


def as_media_reader(given: MediaReader | str | None) -> MediaReader | None:
    """Return the media reader that an argument ``media_reader=`` stands for."""
    if not isinstance(given, str):
        return given
    from factmem.llm.media_models import media_reader

    return media_reader(given)


@attrs.frozen
class ModelParts:
    """The parts of a memory that ask a model."""

    detector: Detector
    analyst: Analyst | None = None
    verifier: Verifier | None = None
    consolidator: Consolidator | None = None
    question_analyst: QuestionAnalyst | None = None

    @classmethod
    def of(cls, model: LanguageModel | None, origins: OriginPolicy, clock: Clock) -> ModelParts:
        """Return the parts of a model; they are imported for a memory that has one."""
        if model is None:
            return cls(VerbatimDetector(clock=clock))
        from factmem.consolidation.model_consolidator import InstructorConsolidator
        from factmem.detection import InstructorDetector
        from factmem.detection.model_analyst import InstructorAnalyst, InstructorQuestionAnalyst
        from factmem.detection.verifier import ModelVerifier

        return cls(
            InstructorDetector(model, clock=clock, origins=origins),
            InstructorAnalyst(model),
            ModelVerifier(model),
            InstructorConsolidator(model, redact=lambda text: redact(text).text),
            InstructorQuestionAnalyst(model),
        )
