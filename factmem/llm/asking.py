"""Asking a language model, so that whoever observes is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from factmem.abc import LanguageModel, Operation, Prompt
from factmem.llm.metering import meter
from factmem.observing import nested

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["ask"]

AnswerT = TypeVar("AnswerT", bound="BaseModel")


async def ask(model: LanguageModel, prompt: Prompt, answer: type[AnswerT]) -> AnswerT:
    """Ask a model one question. All that factmem asks goes this way.

    Args:
        model: whom.
        prompt: what.
        answer: the kind of the answer.

    Raises:
        ModelError: see `LanguageModel.ask`.
    """
    with nested(Operation.ASK, records_in=1) as call:
        meter(questions=1)
        found = await model.ask(prompt, answer)
        call.gave(1)
        return found
