"""Response models of a consolidator. Imported when a question is asked, since pydantic loads slowly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from pydantic import BaseModel, Field

from factmem.abc.consolidator import Action, Verdict, Verdicts
from factmem.llm.answering import ModelAnswer, ValidItems, each


class KnownAnswer(BaseModel):
    """The action for one known record."""

    number: int = Field(description="the number of the known record")
    action: Action
    text: str | None = Field(default=None, description="for update: the whole new text")
    reason: str | None = Field(default=None, description="why, in a few words")


if TYPE_CHECKING:
    _KnownAnswers: TypeAlias = list[KnownAnswer]
else:
    _KnownAnswers = each(KnownAnswer)


class ConsolidationAnswer(ModelAnswer):
    """The actions that a new statement calls for."""

    known: _KnownAnswers = Field(default_factory=list, description="one item for each known record")
    insert: bool = Field(default=True, description="whether the new statement becomes a record of its own")


def verdicts_from(answer: ConsolidationAnswer, numbers: Sequence[int]) -> Verdicts:
    """Return an answer as verdicts.

    A number that was not shown is ignored, as are an invalid item and a number with contradictory actions. An update
    without a text is a keep. In all cases but the first the new statement is inserted, since nothing else may come to
    state it.

    Args:
        answer: the model's answer.
        numbers: the index in the novelty of each number in the question.
    """
    verdicts: dict[int, Verdict] = {}
    contradicted: set[int] = set()
    insert = answer.insert or (isinstance(answer.known, ValidItems) and bool(answer.known.dropped))
    for item in answer.known:
        if not 0 <= item.number < len(numbers):
            continue
        number = numbers[item.number]
        verdict = Verdict(action=item.action, text=item.text, reason=item.reason)
        if verdict.action is Action.UPDATE and not (item.text and item.text.strip()):
            verdict, insert = Verdict(action=Action.KEEP, reason=item.reason), True
        first = verdicts.setdefault(number, verdict)
        if (first.action, first.text) != (verdict.action, verdict.text):
            contradicted.add(number)
    known = {number: verdict for number, verdict in verdicts.items() if number not in contradicted}
    return Verdicts(insert=insert or bool(contradicted), known=known)
