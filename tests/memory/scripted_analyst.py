"""Helpers for the tests of deep recall: a question analyst with scripted answers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import anyio.lowlevel
import attrs

from factmem import InMemoryProvider, Memory, RecallMatch
from factmem.abc.consolidator import Known
from factmem.abc.question_analyst import Gap, QuestionAnalysis, QuestionAnalyst, QuestionRequest, SubQuestion
from factmem.recall import DeepSettings
from factmem.recall.results import DeepRecall
from factmem.testing import FakeClock, HashEmbedder

NOW: Final = dt.datetime(2026, 11, 21, 15, 30, tzinfo=dt.UTC)
ALWAYS: Final = DeepSettings(confidence_threshold_high=1.0, confidence_threshold_low=0.5)
"""Settings that always analyse the question, and look for gaps as they do with many records."""

Meanwhile: TypeAlias = "Callable[[], Awaitable[object]]"


@attrs.define
class ScriptedAnalyst:
    """A question analyst with scripted answers that records its questions.

    Attributes:
        analysis: its answer to every question, or the error it raises.
        gaps: its successive answers about missing details; nothing after the last.
        meanwhile: a function that is called before each answer.
        requests: the request of each question.
        shown: the known facts it was shown.
        asked: the questions it was shown as asked.
    """

    analysis: Any = attrs.field(factory=QuestionAnalysis)
    gaps: list[Any] = attrs.field(factory=list)
    meanwhile: Meanwhile = anyio.lowlevel.checkpoint
    requests: list[QuestionRequest] = attrs.field(factory=list)
    shown: list[list[str]] = attrs.field(factory=list)
    asked: list[tuple[str, ...]] = attrs.field(factory=list)

    async def analyse_question(self, question: str, request: QuestionRequest) -> QuestionAnalysis:
        self.requests.append(request)
        await self.meanwhile()
        found: QuestionAnalysis = _given(self.analysis)
        return found

    async def find_gaps(self, question: str, known: Sequence[Known], *, asked: Sequence[str] = ()) -> Sequence[Gap]:
        self.shown.append([item.text for item in known])
        self.asked.append(tuple(asked))
        await self.meanwhile()
        return _given(self.gaps.pop(0)) if self.gaps else ()


def _given(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


def parts(*questions: str, **more: Any) -> QuestionAnalysis:
    """Return an analysis that splits a question into these parts."""
    return QuestionAnalysis(questions=tuple(map(SubQuestion, questions)), **more)


def remembering(analyst: QuestionAnalyst | None = None, **options: Any) -> Memory:
    """A memory in this process with a fixed clock."""
    clock = FakeClock(NOW)
    given: dict[str, Any] = {
        "store": InMemoryProvider(clock=clock),
        "embedder": HashEmbedder(),
        "deep": ALWAYS,
        "clock": clock,
    }
    return Memory(question_analyst=analyst, **(given | options))


def values(matches: Sequence[RecallMatch]) -> list[Any]:
    """Return the values found, best first."""
    return [match.record.value for match in matches]


async def deeply(memory: Memory, question: str, **options: Any) -> DeepRecall:
    """Return the report of a deep recall."""
    matches = await memory.recall(question, depth="deep", **options)
    assert matches.deep is not None
    return matches.deep
