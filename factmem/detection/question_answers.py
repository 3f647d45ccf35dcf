"""The pydantic models of a question analyst's answers. Imported when one is asked, for pydantic is slow to load."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from factmem.abc import Complexity, Gap, QuestionAnalysis, QuestionRequest, SubQuestion
from factmem.detection.candidates import says_nothing
from factmem.detection.value_models import AnswerPart
from factmem.llm.answering import ModelAnswer, each

__all__ = ["GapAnswer", "GapsAnswer", "QuestionAnswer", "SubQuestionAnswer", "analysis_from", "gaps_from"]

_DATE: Final = re.compile(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?")


def _as_text(data: object) -> object:
    return {"text": data} if isinstance(data, str) else data


def _complexity(data: object) -> object:
    return "complex" if isinstance(data, str) and "complex" in data.casefold() else "simple"


class SubQuestionAnswer(AnswerPart):
    """A simpler question."""

    text: str = Field(description="one thing that is asked, understood by itself")
    keyword: str | None = Field(default=None, description="the one of keywords_in_use that answers it, or null")


if TYPE_CHECKING:
    _SubQuestions: TypeAlias = list[SubQuestionAnswer]
    _Texts: TypeAlias = list[str]
else:
    _SubQuestions = each(Annotated[SubQuestionAnswer, BeforeValidator(_as_text)])
    _Texts = each(str)


class QuestionAnswer(AnswerPart, ModelAnswer):
    """What a question asks for."""

    questions: _SubQuestions = Field(default_factory=list, description="the simpler questions that it is made of")
    scopes: _Texts = Field(default_factory=list, description="those of scopes_in_use that it is about")
    since: str | None = Field(default=None, description="the first day that it asks about, as YYYY-MM-DD, or null")
    until: str | None = Field(default=None, description="the last day that it asks about, as YYYY-MM-DD, or null")
    complexity: Annotated[Literal["simple", "complex"], BeforeValidator(_complexity)] = Field(
        default="simple", description="complex if several facts have to be put together"
    )


class GapAnswer(AnswerPart):
    """Something that is missing."""

    missing: str = Field(description="what is not known and needed, in a few words")
    question: str = Field(description="a new question that would find it")


if TYPE_CHECKING:
    _Gaps: TypeAlias = list[GapAnswer]
else:
    _Gaps = each(GapAnswer)


class GapsAnswer(AnswerPart, ModelAnswer):
    """What is missing to answer a question."""

    gaps: _Gaps = Field(default_factory=list, description="one item for each thing that is missing; none if nothing is")


def analysis_from(answer: QuestionAnswer, request: QuestionRequest) -> QuestionAnalysis:
    """Read an analysis: of its scopes and keywords those that were offered, of its times those that are some."""
    offered = set(request.keywords_in_use)
    questions = (
        SubQuestion(" ".join(item.text.split()), keyword=item.keyword if item.keyword in offered else None)
        for item in answer.questions
        if not says_nothing(item.text)
    )
    since, until = _moment(answer.since), _moment(answer.until, last=True)
    if since is not None and until is not None and since >= until:
        since, until = None, None
    return QuestionAnalysis(
        questions=tuple({item.text.casefold(): item for item in questions}.values())[: request.most_questions],
        scopes=_offered(answer.scopes, request.scopes_in_use),
        since=since,
        until=until,
        complexity=Complexity(answer.complexity),
    )


def gaps_from(answer: GapsAnswer) -> list[Gap]:
    """Read what is missing; what models say instead of nothing is left out."""
    return [
        Gap(missing=" ".join(item.missing.split()), question=" ".join(item.question.split()))
        for item in answer.gaps
        if not says_nothing(item.missing) and not says_nothing(item.question)
    ]


def _offered(paths: Iterable[str], offered: Sequence[str]) -> tuple[str, ...]:
    spelled = (f"/{path.strip().strip('/')}" for path in paths)
    return tuple(dict.fromkeys(path for path in spelled if path in offered))


def _moment(text: str | None, *, last: bool = False) -> dt.datetime | None:
    """Read a day, a month, a year or a time, UTC if it names no zone; of the last one, the end."""
    text = (text or "").strip()
    try:
        if (found := _DATE.fullmatch(text)) is None:
            moment = dt.datetime.fromisoformat(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
        year, month, day = (int(part) if part else None for part in found.groups())
        assert year is not None
        start = dt.datetime(year, month or 1, day or 1, tzinfo=dt.UTC)
        if not last:
            return start
        if day is not None:
            return start + dt.timedelta(days=1)
        return start.replace(year=year + (month in (None, 12)), month=1 if month is None else month % 12 + 1)
    except (ValueError, OverflowError):
        return None
