"""What a model is asked about a conversation, worked out from a request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from factmem.abc import EXPLICIT_INSTRUCTIONS, DetectionExample, DetectionRequest, Topic
from factmem.detection.keywords import Vocabulary
from factmem.facts import STATEMENT, Concept
from factmem.subjects import MemorySubject

__all__ = ["Question", "question_of"]

_FIELD: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""What every endpoint takes for the name of a field."""
_TAKEN: Final = frozenset({"facts", "memories", "remember", "forget"})


@attrs.frozen(kw_only=True)
class Question:
    """What a model is asked.

    Attributes:
        subjects: whom facts may be about, by what the model calls them.
        fields: the concepts asked for, by the field of the answer that holds their facts.
        open: whether other facts are asked for as well.
        in_use: the concepts in use that an open search is shown.
        known: all concepts whose type is settled.
        topics: what memories are asked for.
        instructions: whether "remember that" and "forget that" are looked for.
        examples: the request's own examples for the topics.
    """

    subjects: Mapping[str, MemorySubject]
    fields: Mapping[str, Concept[Any, Any]]
    open: bool
    in_use: tuple[Concept[Any, Any], ...]
    known: tuple[Concept[Any, Any], ...]
    topics: tuple[Topic, ...]
    instructions: bool
    examples: tuple[DetectionExample, ...]

    @property
    def several_subjects(self) -> bool:
        """Whether the model has to say whom a fact is about."""
        return len(self.subjects) > 1

    @property
    def asks_something(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self.fields or self.open or self.topics or self.instructions)

    def vocabulary(self) -> Vocabulary:
        """Return a fresh vocabulary of what is known."""
        return Vocabulary.of(self.known)


def question_of(request: DetectionRequest, *, instructions: bool = True) -> Question:
    """Work out what a model is asked.

    Args:
        request: what is looked for.
        instructions: whether those who speak may ask to remember and to forget; else that is not looked for.
    """
    asks = EXPLICIT_INSTRUCTIONS.label in {topic.label for topic in request.topics}
    asked = {concept.keyword for concept in request.concepts} | {STATEMENT.keyword}
    return Question(
        subjects=_labelled(request.subjects),
        fields=_fields(request.concepts),
        open=request.searches_openly,
        in_use=tuple(concept for concept in request.in_use if concept.keyword not in asked),
        known=(*request.concepts, *request.in_use),
        topics=tuple(topic for topic in request.topics if topic.label != EXPLICIT_INSTRUCTIONS.label),
        instructions=instructions and (asks or request.searches_openly),
        examples=request.examples,
    )


def _labelled(subjects: Sequence[MemorySubject]) -> dict[str, MemorySubject]:
    labelled: dict[str, MemorySubject] = {}
    for subject in {subject.key: subject for subject in subjects}.values():
        label = str(subject)
        labelled[label if label not in labelled else f"{label} ({len(labelled) + 1})"] = subject
    return labelled


def _fields(concepts: Iterable[Concept[Any, Any]]) -> dict[str, Concept[Any, Any]]:
    fields: dict[str, Concept[Any, Any]] = {}
    for number, concept in enumerate(concepts, 1):
        legal = _FIELD.fullmatch(concept.keyword) and concept.keyword not in _TAKEN
        fields[concept.keyword if legal else f"concept_{number}"] = concept
    return fields
