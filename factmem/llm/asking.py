"""Asking a language model: observed, metered, and several questions at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import attrs

from factmem.abc import Prompt
from factmem.abc.model import LanguageModel
from factmem.abc.observer import Operation
from factmem.errors import BudgetSpentError
from factmem.observing import current_call, nested
from factmem.validators import positive

if TYPE_CHECKING:
    from pydantic import BaseModel

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
        BudgetSpentError: a running count has spent its budget.
        ModelError: see `LanguageModel.ask`.
    """
    async with in_turn():
        with nested(Operation.ASK, records_in=1) as call:
            meter(questions=1)
            with metered() as own:
                found = await model.ask(prompt, answer)
            if not own.requests:  # a model that is not of this package counts none
                meter(requests=1)
            call.record_result(1)
            return found


async def ask_all(
    model: LanguageModel, questions: Sequence[tuple[Prompt, type[AnswerT]]], concurrency: int
) -> list[AnswerT]:
    """Ask a model several questions, each with its response model, and return the answers in their order.

    The first failure cancels the other questions and is raised. There is no partial result.

    Raises:
        ModelError: see `LanguageModel.ask`.
    """
    return await bounded_gather([partial(ask, model, prompt, answer) for prompt, answer in questions], concurrency)


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


@attrs.frozen(kw_only=True)
class Usage:
    """Report of a model on one answer; None for what it does not tell.

    Attributes:
        model: the model's name.
        input_tokens: tokens sent, with those from a cache.
        cached_tokens: tokens sent that the provider had in its cache.
        output_tokens: tokens answered.
    """

    model: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


def usage_of(response: Any) -> Usage:
    """Return the report in a response of OpenAI's, Anthropic's, Google's or a host framework's shape.

    It is empty for other shapes.

    Args:
        response: an object, or its JSON.
    """
    usage = _field(response, "usage", "usage_metadata", "usageMetadata")
    details = _field(usage, "prompt_tokens_details", "input_tokens_details", "input_token_details")
    # Anthropic counts what is read from the cache, and what is written to it, beside the other tokens sent.
    beside = sum(_number(usage, name) or 0 for name in ("cache_read_input_tokens", "cache_creation_input_tokens"))
    sent = _number(usage, "prompt_tokens", "input_tokens", "prompt_token_count", "promptTokenCount")
    cached = _number(details, "cached_tokens", "cache_read")
    if cached is None:
        names = (
            "cache_read_input_tokens",
            "cache_read_tokens",
            "cached_content_token_count",
            "cachedContentTokenCount",
        )
        cached = _number(usage, *names)
    model = _field(response, "model")
    return Usage(
        model=model if isinstance(model, str) else None,
        input_tokens=None if sent is None else sent + beside,
        cached_tokens=cached,
        output_tokens=_number(
            usage, "completion_tokens", "output_tokens", "candidates_token_count", "candidatesTokenCount"
        ),
    )


def _field(holder: Any, *names: str) -> Any:
    """Return the first field with one of the names; None if there is none."""
    fields = (holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None) for name in names)
    return next((found for found in fields if found is not None), None)


def _number(usage: Any, *names: str) -> int | None:
    found = (_field(usage, name) for name in names)
    return next((number for number in found if isinstance(number, int)), None)


_OPTIONAL: Final = attrs.validators.optional(positive)


@attrs.frozen(kw_only=True)
class Budget:
    """Limit of what a memory's language model may cost while the memory is open; see `Background.budget`.

    No request is sent once it is spent, so that only the tokens of the last one may exceed it. With a limit of tokens,
    whose number only an answer gives, questions are asked one at a time. A submission whose reading is cut short waits
    as a whole, and is asked about from the start.

    Attributes:
        requests: Number of requests to the model; None for no limit.
        tokens: Number of tokens sent and answered, as far as the provider reports them; None for no limit.

    Raises:
        InvalidDataError: A number is not positive.
    """

    requests: int | None = attrs.field(default=None, validator=_OPTIONAL)
    tokens: int | None = attrs.field(default=None, validator=_OPTIONAL)

    def is_spent(self, spent: Spent) -> bool:
        """Return whether nothing is left."""
        return (self.requests is not None and spent.requests >= self.requests) or (
            self.tokens is not None and spent.tokens >= self.tokens
        )


@attrs.define
class Spent:
    """Counts of what was spent.

    Attributes:
        budget: limit of these counts; None for no limit.
        questions: questions asked, each with all its tries.
        requests: requests sent for them.
        input_tokens: tokens sent, as far as the endpoints report them.
        cached_tokens: tokens among them that a provider had in its cache.
        output_tokens: tokens answered, as far as the endpoints report them.
    """

    budget: Budget | None = attrs.field(default=None, kw_only=True)
    _turn: anyio.Lock = attrs.field(factory=anyio.Lock, init=False, repr=False, eq=False)
    questions: int = attrs.field(default=0, init=False)
    requests: int = attrs.field(default=0, init=False)
    input_tokens: int = attrs.field(default=0, init=False)
    cached_tokens: int = attrs.field(default=0, init=False)
    output_tokens: int = attrs.field(default=0, init=False)

    @property
    def tokens(self) -> int:
        """All tokens, as far as the endpoints report them."""
        return self.input_tokens + self.output_tokens

    def check(self) -> None:
        """Refuse a further request once the budget is spent.

        Raises:
            BudgetSpentError: it is.
        """
        if self.budget is not None and self.budget.is_spent(self):
            raise BudgetSpentError("the budget for the language model is spent: resume with another one")

    @asynccontextmanager
    async def in_turn(self) -> AsyncIterator[None]:
        """Wait for the question before to end if the budget is one of tokens, which only its answer tells."""
        if self.budget is None or self.budget.tokens is None:
            yield
            return
        async with self._turn:
            yield


_meters: Final[ContextVar[tuple[Spent, ...]]] = ContextVar("factmem_llm_meters", default=())


@contextmanager
def metered(into: Spent | None = None) -> Iterator[Spent]:
    """Count what is spent within the block, and by the tasks started in it.

    Args:
        into: counts to add to; new ones if None.
    """
    spent = Spent() if into is None else into
    token = _meters.set((*_meters.get(), spent))
    try:
        yield spent
    finally:
        _meters.reset(token)


@asynccontextmanager
async def in_turn() -> AsyncIterator[None]:
    """Wait until a question may be asked within the budgets of the running counts.

    Raises:
        BudgetSpentError: one of them is spent.
    """
    async with AsyncExitStack() as turns:
        for spent in _meters.get():
            await turns.enter_async_context(spent.in_turn())
            spent.check()
        yield


def meter_request() -> None:
    """Count a request that is about to be sent. Clients call it before each of their requests.

    Raises:
        BudgetSpentError: a running count has spent its budget.
    """
    for spent in _meters.get():
        spent.check()
    meter(requests=1)


_UNKNOWN: Final = Usage()


def meter(*, questions: int = 0, requests: int = 0, usage: Usage = _UNKNOWN) -> None:
    """Add to every running count, and to the current operation.

    Args:
        questions: number of questions asked.
        requests: number of requests sent.
        usage: report on an answer.
    """
    current_call().record_usage(requests=requests or None, **attrs.asdict(usage))
    for spent in _meters.get():
        spent.questions += questions
        spent.requests += requests
        spent.input_tokens += usage.input_tokens or 0
        spent.cached_tokens += usage.cached_tokens or 0
        spent.output_tokens += usage.output_tokens or 0
