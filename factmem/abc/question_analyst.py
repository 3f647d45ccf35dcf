"""Contract of question analysts: analyse a question, and find gaps in the known facts."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import attrs

from factmem.abc.consolidator import Known


class Complexity(enum.Enum):
    """Complexity of an answer: SIMPLE needs one fact, COMPLEX a combination of several."""

    SIMPLE = "simple"
    COMPLEX = "complex"


@attrs.frozen(kw_only=True)
class QuestionRequest:
    """Context for the analysis of a question.

    Attributes:
        now: Reference time of expressions such as "last week", in UTC.
        scopes_in_use: Paths of candidate scopes, such as ``/product/alpha``.
        keywords_in_use: Keywords of candidate concepts.
        max_questions: Maximum number of simpler questions.
    """

    now: dt.datetime
    scopes_in_use: tuple[str, ...] = ()
    keywords_in_use: tuple[str, ...] = ()
    max_questions: int = 3


@attrs.frozen
class SubQuestion:
    """A simpler question, part of another one.

    Attributes:
        text: Question, understandable by itself.
        keyword: Keyword of the concept in use that answers the question, if any.
    """

    text: str
    keyword: str | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(kw_only=True)
class QuestionAnalysis:
    """Analysis of a question: hints that add to a search and hide nothing.

    The caller validates the hints, and ignores a scope or keyword that was not offered.

    Attributes:
        questions: Simpler questions that make up the question.
        scopes: Paths of the scopes that the question is probably about.
        since: Start of the requested period, aware.
        until: End of the requested period, aware.
        complexity: Complexity of the answer.
    """

    questions: tuple[SubQuestion, ...] = ()
    scopes: tuple[str, ...] = ()
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    complexity: Complexity = Complexity.SIMPLE


@attrs.frozen(kw_only=True)
class Gap:
    """Missing information that an answer needs.

    Attributes:
        missing: Missing information.
        question: Query to find it.
    """

    missing: str
    question: str


@runtime_checkable
class QuestionAnalyst(Protocol):
    """Analyses questions, and finds gaps in the known facts."""

    async def analyse_question(self, question: str, request: QuestionRequest) -> QuestionAnalysis:
        """Return the analysis of a question, with one call of a model.

        Raises:
            ModelError: The model failed.
        """
        ...

    async def find_gaps(self, question: str, known: Sequence[Known], *, asked: Sequence[str] = ()) -> Sequence[Gap]:
        """Return the missing information for an answer, with one call of a model; empty if nothing is missing.

        Args:
            question: Question to answer.
            known: Records found, best first.
            asked: Earlier queries without a result, not to be repeated.

        Raises:
            ModelError: The model failed.
        """
        ...
