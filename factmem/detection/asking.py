"""Asking a model several questions at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import anyio

from factmem.abc import LanguageModel, Prompt
from factmem.llm import ask as put

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["ask_all"]

AnswerT = TypeVar("AnswerT", bound="BaseModel")


async def ask_all(
    model: LanguageModel, questions: Sequence[tuple[Prompt, type[AnswerT]]], concurrency: int
) -> list[AnswerT]:
    """Return the answers to questions, in their order.

    The first failure stops the questions under way and is raised: there is no partial result.

    Args:
        model: who is asked.
        questions: what is asked, each with the model of its answer.
        concurrency: how many questions may be under way at once.

    Raises:
        ModelError: the model failed.
    """
    answers: dict[int, AnswerT] = {}
    failures: list[Exception] = []
    limiter = anyio.CapacityLimiter(concurrency)

    async def ask(number: int, prompt: Prompt, answer: type[AnswerT]) -> None:
        async with limiter:
            try:
                answers[number] = await put(model, prompt, answer)
            except Exception as error:  # it is raised below, without the group that the tasks would make of it
                failures.append(error)
                tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for number, (prompt, answer) in enumerate(questions):
            tasks.start_soon(ask, number, prompt, answer)
    if failures:
        raise failures[0]
    return [answers[number] for number in range(len(questions))]
