"""A question analyst that would like to know everything, wherever it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from factmem.abc import Complexity, Gap, Known, QuestionAnalysis, QuestionRequest, SubQuestion
from factmem.recall import DeepSettings
from tests.walls.worlds import SCOPES

__all__ = ["CURIOUS", "Curious"]


@attrs.define
class Curious:
    """Proposes every scope that there is and every concept in use, and finds that something is missing.

    Attributes:
        heard: what it was told.
        settings: with which it is always asked.
    """

    heard: list[object] = attrs.field(factory=list)
    settings: DeepSettings = attrs.field(
        factory=lambda: DeepSettings(confidence_threshold_high=1.0, confidence_threshold_low=1.0), init=False
    )

    async def analyse_question(self, question: str, request: QuestionRequest) -> QuestionAnalysis:
        self.heard.append(request)
        return QuestionAnalysis(
            questions=tuple(SubQuestion("the red cat", keyword=keyword) for keyword in request.keywords_in_use),
            scopes=(*request.scopes_in_use, "/", *map(str, SCOPES)),
            complexity=Complexity.COMPLEX,
        )

    async def find_gaps(self, question: str, known: Sequence[Known], *, asked: Sequence[str] = ()) -> Sequence[Gap]:
        self.heard += [(item.text, item.said_at) for item in known]
        return [Gap(missing="the home", question="home"), Gap(missing="the pets", question="pets")]


CURIOUS: Final = Curious()
"""The one of every seat: what it heard is forgotten before each question."""
