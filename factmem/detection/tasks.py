"""The task of a detector: what to look for in a conversation, under which names."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from factmem.abc import EXPLICIT_INSTRUCTIONS, DetectionExample, DetectionRequest, Topic
from factmem.errors import InvalidDataError
from factmem.facts import STATEMENT, Concept
from factmem.patterns import lazy_pattern
from factmem.subjects import MemorySubject

__all__ = ["LONGEST_KEYWORD", "DetectionTask", "Vocabulary", "keyword_of", "task_of"]

LONGEST_KEYWORD: Final = 80
"""The longest keyword that a model may make up, in characters; longer ones are sentences."""
_LONGEST_DESCRIPTION: Final = 300
_HUMP: Final = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])")


def keyword_of(text: str) -> str:
    """Return the snake_case keyword that a text makes, in any script; blank if it makes none.

    ``Favourite drink``, ``favouriteDrink`` and ``favourite-drink`` make ``favourite_drink``.
    """
    humps = _HUMP.sub(" ", unicodedata.normalize("NFKC", text))
    folded = unicodedata.normalize("NFC", humps.casefold())
    # Letters, their marks (which Devanagari vowels are), and digits make words; all else parts them.
    words = "".join(char if unicodedata.category(char)[0] in "LMN" else " " for char in folded).split()
    return "_".join(words)


def _key(keyword: str) -> str:
    return keyword_of(keyword).replace("_", "") or keyword


@attrs.define
class Vocabulary:
    """The concepts that an open search takes up: those in use first, then those it makes up as it goes.

    What comes first stands: a keyword keeps its fact type, description and value type.
    """

    _exact: dict[str, Concept[Any, Any]] = attrs.field(factory=dict, init=False)
    _alike: dict[str, Concept[Any, Any]] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, concepts: Iterable[Concept[Any, Any]]) -> Vocabulary:
        """Return the vocabulary of some concepts, of which an earlier one stands."""
        vocabulary = cls()
        for concept in (STATEMENT, *concepts):
            vocabulary._add(concept)
        return vocabulary

    def _add(self, concept: Concept[Any, Any]) -> None:
        self._exact.setdefault(concept.keyword, concept)
        self._alike.setdefault(_key(concept.keyword), concept)

    def find(self, keyword: str) -> Concept[Any, Any] | None:
        """Return the concept of a keyword, whatever its case and separators, or None."""
        return self._exact.get(keyword) or self._alike.get(_key(keyword))

    def take_up(self, keyword: str, description: str, *, multiple: bool) -> Concept[Any, Any] | None:
        """Return the concept of a keyword; a new one takes text. None if it makes no legal keyword."""
        if (known := self.find(keyword)) is not None:
            return known
        made = keyword_of(keyword)
        if not made or len(made) > LONGEST_KEYWORD:
            return None
        kind = Concept.multiple if multiple else Concept.single
        told = " ".join(description.split())[:_LONGEST_DESCRIPTION] or made.replace("_", " ")
        try:
            concept = kind(made, told)
        except InvalidDataError:
            return None
        self._add(concept)
        return concept


_FIELD: Final = lazy_pattern(r"[a-zA-Z0-9_.-]{1,64}")
"""What every endpoint takes for the name of a field."""
_TAKEN: Final = frozenset({"facts", "memories", "remember", "forget"})


@attrs.frozen(kw_only=True)
class DetectionTask:
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


def task_of(request: DetectionRequest, *, instructions: bool = True) -> DetectionTask:
    """Work out what a model is asked.

    Args:
        request: what is looked for.
        instructions: whether those who speak may ask to remember and to forget; else that is not looked for.
    """
    asks = EXPLICIT_INSTRUCTIONS.label in {topic.label for topic in request.topics}
    asked = {concept.keyword for concept in request.concepts} | {STATEMENT.keyword}
    return DetectionTask(
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
