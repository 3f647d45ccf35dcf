"""A question analyst that asks for everything, in every scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from factmem.abc.consolidator import Known
from factmem.abc.question_analyst import Complexity, Gap, QuestionAnalysis, QuestionRequest, SubQuestion
from factmem.recall import DeepSettings
from tests.walls.worlds import SCOPES


@attrs.define
class GreedyAnalyst:
    """An analyst that proposes every scope and every concept in use, and always reports a gap.

    Attributes:
        shown: the requests and facts it was shown.
        settings: settings that always call the analyst.
    """

    shown: list[object] = attrs.field(factory=list)
    settings: DeepSettings = attrs.field(
        factory=lambda: DeepSettings(confidence_threshold_high=1.0, confidence_threshold_low=1.0), init=False
    )

    async def analyse_question(self, question: str, request: QuestionRequest) -> QuestionAnalysis:
        self.shown.append(request)
        return QuestionAnalysis(
            questions=tuple(SubQuestion("the red cat", keyword=keyword) for keyword in request.keywords_in_use),
            scopes=(*request.scopes_in_use, "/", *map(str, SCOPES)),
            complexity=Complexity.COMPLEX,
        )

    async def find_gaps(self, question: str, known: Sequence[Known], *, asked: Sequence[str] = ()) -> Sequence[Gap]:
        self.shown += [(item.text, item.said_at) for item in known]
        return [Gap(missing="the home", question="home"), Gap(missing="the pets", question="pets")]


GREEDY_ANALYST: Final = GreedyAnalyst()
"""The analyst of every caller, whose record is cleared before each question."""
