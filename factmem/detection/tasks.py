"""Tasks of a detector: what a model looks for in a conversation, and under which keywords."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from factmem.abc import DetectionExample, DetectionRequest
from factmem.abc.topics import EXPLICIT_INSTRUCTIONS, Topic
from factmem.errors import InvalidDataError
from factmem.facts import STATEMENT, Concept
from factmem.legal_names import folded_keyword
from factmem.patterns import lazy_pattern
from factmem.subjects import MemorySubject

LONGEST_KEYWORD: Final = 80
"""Maximum length of a keyword made by a model, in characters; longer ones are sentences."""
_LONGEST_DESCRIPTION: Final = 300
_HUMP: Final = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])")


def keyword_of(text: str) -> str:
    """Return a text as a snake_case keyword, in any script; blank if nothing is left of it.

    ``Favourite drink``, ``favouriteDrink`` and ``favourite-drink`` all give ``favourite_drink``.
    """
    folded = unicodedata.normalize("NFC", _HUMP.sub(" ", unicodedata.normalize("NFKC", text)).casefold())
    # Letters, their marks (which Devanagari vowels are), and digits make words; all else parts them.
    words = "".join(char if unicodedata.category(char)[0] in "LMN" else " " for char in folded).split()
    return "_".join(words)


def _key(keyword: str) -> str:
    """Return a keyword folded further than `folded_keyword`: models change punctuation and the form of letters too."""
    return folded_keyword(keyword_of(keyword)) or keyword


@attrs.define
class Vocabulary:
    """Concepts that an open search may use: those in use first, then those made on the way.

    The first concept of a keyword stands, with its fact type, description and value type.
    """

    _exact: dict[str, Concept[Any, Any]] = attrs.field(factory=dict, init=False)
    _alike: dict[str, Concept[Any, Any]] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, concepts: Iterable[Concept[Any, Any]]) -> Vocabulary:
        """Return a vocabulary of concepts; of two with one keyword, the first stands."""
        vocabulary = cls()
        for concept in (STATEMENT, *concepts):
            vocabulary._add(concept)
        return vocabulary

    def _add(self, concept: Concept[Any, Any]) -> None:
        self._exact.setdefault(concept.keyword, concept)
        self._alike.setdefault(_key(concept.keyword), concept)

    def find(self, keyword: str) -> Concept[Any, Any] | None:
        """Return the concept of a keyword, regardless of case and separators, or None."""
        return self._exact.get(keyword) or self._alike.get(_key(keyword))

    def take_up(self, keyword: str, description: str, *, multiple: bool) -> Concept[Any, Any] | None:
        """Return the concept of a keyword. A new one has text values. None if the keyword is not legal."""
        if (known := self.find(keyword)) is not None:
            return known
        made = keyword_of(keyword)
        if not made or len(made) > LONGEST_KEYWORD:
            return None
        kind = Concept.multiple if multiple else Concept.single
        described = " ".join(description.split())[:_LONGEST_DESCRIPTION] or made.replace("_", " ")
        try:
            concept = kind(made, described)
        except InvalidDataError:
            return None
        self._add(concept)
        return concept


_FIELD: Final = lazy_pattern(r"[a-zA-Z0-9_.-]{1,64}")
"""Field names that every endpoint accepts."""
LISTS: Final = frozenset({"facts", "memories", "remember", "forget"})
"""Lists of an answer beside those of the requested concepts."""


def _items(mapping: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(mapping.items())


@attrs.frozen(kw_only=True)
class DetectionTask:
    """The search of a model in a conversation, worked out from a request.

    Attributes:
        subjects: subjects that facts may be about, by the name that the model uses.
        fields: requested concepts, by the field of the answer that holds their facts.
        open: whether other facts are requested as well.
        in_use: concepts in use that an open search is shown.
        known: all concepts whose type is settled.
        topics: topics of requested memories.
        instructions: whether to look for "remember that" and "forget that".
        ends: whether to look for what is over, or is to be forgotten.
        examples: the request's own examples for the topics.
    """

    subjects: Mapping[str, MemorySubject] = attrs.field(eq=_items)
    fields: Mapping[str, Concept[Any, Any]] = attrs.field(eq=_items)
    open: bool
    in_use: tuple[Concept[Any, Any], ...]
    known: tuple[Concept[Any, Any], ...]
    topics: tuple[Topic, ...]
    instructions: bool
    ends: bool
    examples: tuple[DetectionExample, ...]

    @property
    def several_subjects(self) -> bool:
        """Whether the model must name the subject of a fact."""
        return len(self.subjects) > 1


def task_of(request: DetectionRequest, *, instructions: bool = True) -> DetectionTask:
    """Return the task of a request.

    Args:
        request: the request.
        instructions: whether the speakers may ask to remember and to forget, and say what is over.
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
        ends=instructions and bool(asks or request.concepts or request.searches_openly),
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
        legal = _FIELD.fullmatch(concept.keyword) and concept.keyword not in LISTS
        fields[concept.keyword if legal else f"concept_{number}"] = concept
    return fields
