"""Counting what language models are asked, by whoever has it done, and what that takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import attrs

from factmem.observing import current_call

__all__ = ["Spent", "meter", "metered"]


@attrs.define
class Spent:
    """What was spent so far.

    Attributes:
        questions: how many questions were asked, each with all its tries.
        input_tokens: what was sent, as far as the endpoints told.
        output_tokens: what was answered, as far as they told.
    """

    questions: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        """All tokens, as far as the endpoints told."""
        return self.input_tokens + self.output_tokens


_meters: Final[ContextVar[tuple[Spent, ...]]] = ContextVar("factmem_llm_meters", default=())


@contextmanager
def metered() -> Iterator[Spent]:
    """Count what is asked within the block, and by the tasks that are started in it."""
    spent = Spent()
    token = _meters.set((*_meters.get(), spent))
    try:
        yield spent
    finally:
        _meters.reset(token)


def meter(*, questions: int = 0, response: Any = None) -> None:
    """Count something for everybody who counts, and tell the operation under way of it.

    Args:
        questions: how many questions are asked.
        response: what came back, of OpenAI's shape or of Anthropic's; any other tells no tokens.
    """
    usage = getattr(response, "usage", None)
    sent = _number(usage, "prompt_tokens", "input_tokens")
    answered = _number(usage, "completion_tokens", "output_tokens")
    current_call().asked(model=getattr(response, "model", None), input_tokens=sent, output_tokens=answered)
    for spent in _meters.get():
        spent.questions += questions
        spent.input_tokens += sent or 0
        spent.output_tokens += answered or 0


def _number(usage: Any, *names: str) -> int | None:
    found = (getattr(usage, name, None) for name in names)
    return next((number for number in found if isinstance(number, int)), None)
