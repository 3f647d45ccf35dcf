"""Helpers for the tests of model calls: a question, its answer, and every text that an error shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, Field

from factmem.abc import Prompt
from factmem.abc.model import WorkedExample
from factmem.llm import InstructorModel

CANARY = "canary-5f1e"
"""Text that is in every question and answer, and must be in no error and no log."""


class Trip(BaseModel):
    """A trip that somebody plans."""

    city: str
    seats: int = Field(ge=1, le=9)
    notes: list[str] = []


RIGHT: dict[str, Any] = {"city": CANARY, "seats": 4}

PROMPT = Prompt(
    instructions="Tell the trip.",
    content=f"<conversation>Four of us go to {CANARY}.</conversation>",
    examples=(WorkedExample(content="Two go to Rome.", answer='{"city":"Rome","seats":2}'),),
)


def asked_of(base_url: str, **options: Any) -> InstructorModel:
    """Return a model with tight limits: two answers, one retry, no pause; time enough for a busy machine."""
    limits: dict[str, Any] = {"timeout": 60.0, "tries": 2, "retries": 1, "pause": 0.0, "api_key": "key"}
    return InstructorModel("loopback", base_url=base_url, **{**limits, **options})


def shown_by(error: BaseException | None) -> Iterator[str]:
    """Return every text that an error shows, including its causes and contexts."""
    while error is not None:
        yield from (str(error), repr(error), repr(error.args), repr(vars(error)))
        yield from shown_by(error.__cause__)
        error = error.__context__
