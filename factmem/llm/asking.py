"""Asking a language model: observed, metered, and several questions at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import attrs

from factmem.abc import LanguageModel, Operation, Prompt
from factmem.observing import current_call, nested

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["Spent", "ask", "ask_all", "bounded_gather", "meter", "metered"]

AnswerT = TypeVar("AnswerT", bound="BaseModel")
T = TypeVar("T")


async def ask(model: LanguageModel, prompt: Prompt, answer: type[AnswerT]) -> AnswerT:
    """Ask a model one question.

    All questions of factmem go through here, so that observers are notified and tokens are counted.

    Args:
        model: the language model.
        prompt: the question.
        answer: the response model.

    Raises:
        ModelError: see `LanguageModel.ask`.
    """
    with nested(Operation.ASK, records_in=1) as call:
        meter(questions=1)
        found = await model.ask(prompt, answer)
        call.gave(1)
        return found


async def ask_all(
    model: LanguageModel, questions: Sequence[tuple[Prompt, type[AnswerT]]], concurrency: int
) -> list[AnswerT]:
    """Ask a model several questions, each with its response model, and return the answers in their order.

    The first failure cancels the other questions and is raised. There is no partial result.

    Raises:
        ModelError: see `LanguageModel.ask`.
    """

    def call(prompt: Prompt, answer: type[AnswerT]) -> Callable[[], Awaitable[AnswerT]]:
        return lambda: ask(model, prompt, answer)

    return await bounded_gather([call(prompt, answer) for prompt, answer in questions], concurrency)


async def bounded_gather(calls: Sequence[Callable[[], Awaitable[T]]], concurrency: int) -> list[T]:
    """Run async functions, at most ``concurrency`` at a time, and return their results in order.

    The first failure cancels the others and is raised as it is, without an exception group.
    """
    results: dict[int, T] = {}
    failures: list[Exception] = []
    limiter = anyio.CapacityLimiter(concurrency)

    async def run(number: int, call: Callable[[], Awaitable[T]]) -> None:
        async with limiter:
            try:
                results[number] = await call()
            except Exception as error:
                failures.append(error)
                tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for number, call in enumerate(calls):
            tasks.start_soon(run, number, call)
    if failures:
        raise failures[0]
    return [results[number] for number in range(len(calls))]


@attrs.define
class Spent:
    """Counts of what was spent.

    Attributes:
        questions: questions asked, each with all its tries.
        input_tokens: tokens sent, as far as the endpoints report them.
        output_tokens: tokens answered, as far as the endpoints report them.
    """

    questions: int = attrs.field(default=0, init=False)
    input_tokens: int = attrs.field(default=0, init=False)
    output_tokens: int = attrs.field(default=0, init=False)

    @property
    def tokens(self) -> int:
        """All tokens, as far as the endpoints report them."""
        return self.input_tokens + self.output_tokens


_meters: Final[ContextVar[tuple[Spent, ...]]] = ContextVar("factmem_llm_meters", default=())


@contextmanager
def metered() -> Iterator[Spent]:
    """Count the questions asked within the block, and by the tasks started in it."""
    spent = Spent()
    token = _meters.set((*_meters.get(), spent))
    try:
        yield spent
    finally:
        _meters.reset(token)


def meter(*, questions: int = 0, response: Any = None) -> None:
    """Add to every running count, and note the tokens in the current operation.

    Args:
        questions: number of questions asked.
        response: a response of OpenAI's shape or of Anthropic's; any other reports no tokens.
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
