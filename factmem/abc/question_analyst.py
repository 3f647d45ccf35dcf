"""The contract of those who take a question apart, and say what its answer still lacks."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import attrs

from factmem.abc.consolidator import Known

__all__ = ["Complexity", "Gap", "QuestionAnalysis", "QuestionAnalyst", "QuestionRequest", "SubQuestion"]


class Complexity(enum.Enum):
    """The complexity of an answer: SIMPLE needs one fact, COMPLEX a combination of several."""

    SIMPLE = "simple"
    COMPLEX = "complex"


@attrs.frozen(kw_only=True)
class QuestionRequest:
    """The context for the analysis of a question.

    Attributes:
        now: what "last week" counts from, in UTC.
        scopes_in_use: paths of the scopes that it may be about, such as ``/product/alpha``.
        keywords_in_use: keywords of the concepts that it may be about.
        most_questions: how many simpler questions are wanted at the most.
    """

    now: dt.datetime
    scopes_in_use: tuple[str, ...] = ()
    keywords_in_use: tuple[str, ...] = ()
    most_questions: int = 3


@attrs.frozen
class SubQuestion:
    """A simpler question that another one is made of.

    Attributes:
        text: what is asked, understood by itself.
        keyword: the concept that answers it, if one of those in use does.
    """

    text: str
    keyword: str | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(kw_only=True)
class QuestionAnalysis:
    """The analysis of a question. All of it are hints, which add to the search and hide nothing.

    The caller checks them: a scope or keyword that was not offered is ignored.

    Attributes:
        questions: simpler ones that it is made of.
        scopes: paths of the scopes that it is probably about.
        since: of what time on it asks, aware.
        until: up to what time it asks, aware.
        complexity: how much its answer takes.
    """

    questions: tuple[SubQuestion, ...] = ()
    scopes: tuple[str, ...] = ()
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    complexity: Complexity = Complexity.SIMPLE


@attrs.frozen(kw_only=True)
class Gap:
    """Something that an answer needs and that is not known yet.

    Attributes:
        missing: what that is.
        question: what to look for to find it.
    """

    missing: str
    question: str


@runtime_checkable
class QuestionAnalyst(Protocol):
    """Takes questions apart, and says what is missing."""

    async def analyse_question(self, question: str, request: QuestionRequest) -> QuestionAnalysis:
        """Return what a question asks for, in one call of a model.

        Raises:
            ModelError: the model failed.
        """
        ...

    async def find_gaps(self, question: str, known: Sequence[Known], *, asked: Sequence[str] = ()) -> Sequence[Gap]:
        """Return what is missing to answer a question, in one call of a model; nothing if it can be answered.

        Args:
            question: what is to be answered.
            known: what was found, best first.
            asked: what was looked for already, in vain: asking it again finds nothing else.

        Raises:
            ModelError: the model failed.
        """
        ...
