"""Asking a consolidator, and believing no more of its answer than is lawful."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import anyio
import attrs

from factmem.abc import Action, Consolidator, Novelty, Verdict, Verdicts
from factmem.consolidation.questions import Question
from factmem.errors import InvalidDataError, ModelAnswerError, ModelError
from factmem.values import check_text

__all__ = ["LONGEST_REASON", "ask_all", "lawful"]

LONGEST_REASON: Final = 300
"""How much of a model's reason is kept, in characters."""

_SLACK: Final = 200
"""By how much an updated text may be longer than the two that it unites, in characters."""


async def ask_all(
    consolidator: Consolidator, questions: Mapping[int, Question], concurrency: int
) -> dict[int, Verdicts | ModelError]:
    """Ask some questions at a time; return what was answered to each, or why not."""
    answers: dict[int, Verdicts | ModelError] = {}
    limiter = anyio.CapacityLimiter(concurrency)

    async def ask(number: int, novelty: Novelty) -> None:
        async with limiter:
            answers[number] = await _asked(consolidator, novelty)

    async with anyio.create_task_group() as tasks:
        for number, question in questions.items():
            tasks.start_soon(ask, number, question.novelty)
    return answers


async def _asked(consolidator: Consolidator, novelty: Novelty) -> Verdicts | ModelError:
    """Whatever goes wrong here costs the comparison, and must not cost the fact."""
    try:
        answer: object = await consolidator.decide(novelty)
    except ModelError as error:
        return error
    except Exception as error:  # somebody else's code
        return ModelAnswerError(f"the consolidator failed with {type(error).__name__}")
    if not isinstance(answer, Verdicts) or not isinstance(answer.known, Mapping):
        return ModelAnswerError(f"the consolidator answered {type(answer).__name__} instead of verdicts")
    return answer


def lawful(answer: Verdicts, novelty: Novelty) -> Verdicts:
    """Return what of an answer can be followed.

    A number that names nothing shown is passed over. An update without a text, with one that says nothing
    or that no store can carry, or with one that is much longer than what was known and what is new
    together, is a keep; since what is new would have stood there, it is inserted then. A reason is cut to
    `LONGEST_REASON`.
    """
    shown = range(len(novelty.known))
    known = {
        number: _lawful(verdict, len(novelty.text) + len(novelty.known[number].text) + _SLACK)
        for number, verdict in answer.known.items()
        if type(number) is int and number in shown and isinstance(verdict, Verdict)
    }
    spoiled = any(
        answer.known[number].action is Action.UPDATE and verdict.action is Action.KEEP
        for number, verdict in known.items()
    )
    return Verdicts(insert=spoiled or answer.insert is not False, known=known)


def _lawful(verdict: Verdict, longest: int) -> Verdict:
    reason = _storable(verdict.reason)
    short = attrs.evolve(verdict, text=None, reason=reason[:LONGEST_REASON] if reason else None)
    match verdict.action:
        case Action.UPDATE:
            text = (_storable(verdict.text) or "").strip()
            if any(char.isalnum() for char in text) and len(text) <= longest:
                return attrs.evolve(short, text=text)
            return attrs.evolve(short, action=Action.KEEP)
        case Action.DELETE:
            return short
        case _:
            return attrs.evolve(short, action=Action.KEEP)


def _storable(text: object) -> str | None:
    if not isinstance(text, str):
        return None
    try:
        check_text(text, path="$")
    except InvalidDataError:
        return None
    return text
