"""One question to an endpoint, from its first request to its answer or its error.

No error holds text of the question or the answer.
"""

from __future__ import annotations

import copy
import email.utils
import enum
import functools
import json
import logging
import math
import random
import re
import time
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, assert_never, cast

import anyio
import attrs

from factmem.errors import BudgetSpentError, ModelAnswerError, ModelError, ModelRefusedError, ModelUnavailableError
from factmem.llm.asking import Usage, meter, meter_request
from factmem.llm.messages import NoJSONError, compacted, json_in
from factmem.validators import count, positive, seconds, weight

if TYPE_CHECKING:
    from pydantic import BaseModel

AnswerT = TypeVar("AnswerT", bound="BaseModel")

_FORMAT_WORDS: Final = ("response_format", "json_schema", "json_object", "tool_choice", "tools", "grammar")
_OWN_CODES: Final = frozenset({"content_filter", "context_length_exceeded", "model_not_found", "insufficient_quota"})
_PASSING: Final = frozenset({408, 409, 425, 429})


LONGEST_ANSWER: Final = 1_000_000
"""Maximum length of an answer that is read, in characters: far more than any text that a model is shown holds."""


class Ending(enum.Enum):
    """Reason why an answer ended, if that settles the question."""

    REFUSED = "refused"
    FILTERED = "filtered"
    CUT_OFF = "cut off"
    TOO_LONG = "too long"


_ENDINGS: Final = {
    "content_filter": Ending.FILTERED,
    "length": Ending.CUT_OFF,
    "max_output_tokens": Ending.CUT_OFF,
    "max_tokens": Ending.CUT_OFF,
    "model_context_window_exceeded": Ending.CUT_OFF,
    "prohibited_content": Ending.FILTERED,
    "refusal": Ending.REFUSED,
    "safety": Ending.FILTERED,
}
_ERRORS: Final = {
    "ContentFilterError": Ending.FILTERED,  # pydantic-ai
    "ContentFilterFinishReasonError": Ending.FILTERED,  # openai, where it parses
    "LengthFinishReasonError": Ending.CUT_OFF,
    "ModelRefusalError": Ending.REFUSED,  # the Agents SDK
    "OpenAIRefusalError": Ending.REFUSED,  # langchain-openai
    "OutputTokenLimitExceeded": Ending.CUT_OFF,  # pydantic-ai
}


def ending_of(response: Any) -> Ending | None:
    """Return the reason why a response of OpenAI's, Anthropic's or Google's shape is not an answer; None otherwise."""
    choice = _first(response, "choices") or _first(response, "candidates") or response
    if getattr(getattr(choice, "message", None), "refusal", None):
        return Ending.REFUSED
    reason = getattr(choice, "finish_reason", None) or getattr(choice, "stop_reason", None)
    return ending_named(getattr(reason, "name", reason))


def ending_named(reason: object) -> Ending | None:
    """Return the ending by a provider's name for the reason; None for a name of an answer that came to its end."""
    return _ENDINGS.get(str(reason).lower())


def _ending_of_error(error: BaseException) -> Ending | None:
    """Return the ending that a client raised as an error; None for an error of another kind."""
    if _code(error) == "content_filter":
        return Ending.FILTERED
    return next((_ERRORS[cls.__name__] for cls in type(error).__mro__ if cls.__name__ in _ERRORS), None)


def status_of_error_in(response: Any) -> int | None:
    """Return the HTTP status of an error that came as a successful response, as gateways send it; None for no error.

    OpenRouter documents this form: the error in place of the answer, or of one that had begun.
    """
    error = getattr(response, "error", None) or getattr(_first(response, "choices"), "error", None)
    if not error:
        return None
    code = error.get("code") if isinstance(error, Mapping) else getattr(error, "code", None)
    return code if isinstance(code, int) and 400 <= code < 600 else 502


def text_of(response: Any) -> str | None:
    """Return the text of a chat completion: its tool calls, else its content; None for other shapes.

    Several calls give several documents, of which `json_in` chooses none.
    """
    message = getattr(_first(response, "choices"), "message", None)
    calls = getattr(message, "tool_calls", None)
    said = [_arguments(call) for call in calls] if isinstance(calls, list) else []
    content = getattr(message, "content", None)
    return "\n".join(said) if said else content if isinstance(content, str) else None


def _arguments(call: Any) -> str:
    arguments = getattr(getattr(call, "function", None), "arguments", None)
    return arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)


def _status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error; None if there was no response."""
    for name in ("status_code", "code", "status"):
        if isinstance(status := getattr(error, name, None), int) and not isinstance(status, bool):
            return status
    return None


def is_passing(error: BaseException) -> bool:
    """Return whether the same request may succeed a little later."""
    if _code(error) in _OWN_CODES:
        return False
    status = _status_of(error)
    if status is None:
        ended = isinstance(error, RuntimeError) and "event loop" in str(error).lower()  # that of a kept connection
        return ended or "Connection" in type(error).__name__ or "Timeout" in type(error).__name__
    return status in _PASSING or status >= 500


def _wants_other_mode(error: BaseException) -> bool:
    """Return whether the endpoint may accept the question in another mode."""
    match _status_of(error):
        case 400 | 415 | 422 | 501:
            return _code(error) not in _OWN_CODES
        case 500:
            return any(word in str(error).lower() for word in _FORMAT_WORDS)
        case _:
            return False


def pause_asked(error: BaseException, *, now: float) -> float | None:
    """Return the seconds of an error's ``Retry-After``; None if it has none.

    Args:
        error: the client's error.
        now: the time, in seconds since the epoch, for a ``Retry-After`` that is a date.
    """
    headers = getattr(getattr(error, "response", None), "headers", None)
    asked = headers.get("retry-after") if isinstance(headers, Mapping) else None
    if not isinstance(asked, str):
        return None
    try:
        seconds = float(asked)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(asked).timestamp() - now
        except ValueError:
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _code(error: BaseException) -> str | None:
    code = getattr(error, "code", None)
    if not isinstance(code, str) and isinstance(body := getattr(error, "body", None), Mapping):
        code = body.get("code")  # of an error that wraps the client's
    return code if isinstance(code, str) else None


def _first(thing: Any, name: str) -> Any:
    several = getattr(thing, name, None)
    return several[0] if isinstance(several, list | tuple) and several else None


_LONGEST_PAUSE: Final = 8.0
_current: ContextVar[ModelExchange[Any] | None] = ContextVar("factmem_llm_exchange", default=None)


def current_exchange() -> ModelExchange[Any] | None:
    """Return the exchange of the running task, if there is one."""
    return _current.get()


@attrs.frozen(kw_only=True)
class ExchangeLimits:
    """Limits of one question.

    Attributes:
        timeout: seconds for all of it.
        tries: maximum number of answers.
        retries: maximum number of repeated requests that got no answer.
        pause: seconds before the first repetition; doubled each time, up to 8, with jitter.
        longest_wait: maximum ``Retry-After`` that is waited for, in seconds.

    Raises:
        InvalidDataError: a number is out of its range.
    """

    timeout: float = attrs.field(validator=seconds)
    tries: int = attrs.field(validator=positive)
    retries: int = attrs.field(validator=count)
    pause: float = attrs.field(validator=weight)
    longest_wait: float = attrs.field(validator=weight)


@attrs.frozen(kw_only=True)
class Reply:
    """A response, in no client's form.

    Attributes:
        said: its text; None if the client knows better where it is.
        ending: the reason why it is not an answer; None if it is one.
        usage: its costs.
        status: the HTTP status of the error that it reports; see `status_of_error_in`.
    """

    said: str | None = attrs.field(repr=False)
    ending: Ending | None
    usage: Usage
    status: int | None = None


class _ReportedError(Exception):
    """The error in a successful response."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"the response reports an error: {status_code}")
        self.status_code = status_code


@attrs.define(eq=False, repr=False)
class ModelExchange(Generic[AnswerT]):
    """One question. It receives every response and every error, enforces the limits and keeps the answer.

    Attributes:
        instructions: the system message, which no client may extend.
        found: the answer, once there is one.
        error: the last error, until there is an answer.
        ending: the reason why the last answer ended, if that settles the question.
        answers: number of answers.
        failures: number of requests that failed for a reason that may pass.
        too_slow: whether the time limit was exceeded.
    """

    answer: type[AnswerT]
    limits: ExchangeLimits
    instructions: str = ""
    found: AnswerT | None = None
    error: Exception | None = None
    ending: Ending | None = None
    answers: int = 0
    failures: int = 0
    too_slow: bool = False
    _heard: bool = False
    _reported: _ReportedError | None = None
    _said: str | None = None
    _pause: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make this the exchange of the running task."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def begin_request(self) -> None:
        """Count a request that is about to be sent.

        Raises:
            BudgetSpentError: no further one may be.
        """
        self._reported = None
        try:
            meter_request()
        except BudgetSpentError as error:
            self.error = error
            raise

    def context(self) -> Context:
        """Return context variables in which this is the exchange, and which hold nothing else."""
        context = Context()
        context.run(_current.set, self)
        return context

    def hear(self, reply: Reply) -> None:
        """Receive a response, before it is parsed."""
        self._reported = None if reply.status is None else _ReportedError(reply.status)
        if self._reported is not None:
            return
        self.answers += 1
        self._heard = True
        self._said = reply.said
        self.ending = Ending.TOO_LONG if len(reply.said or "") > LONGEST_ANSWER else reply.ending
        meter(usage=reply.usage)

    def read(self, said: str) -> AnswerT:
        """Return the answer in a text, and keep it.

        Args:
            said: the client's view of the answer. If the response is a chat completion, its whole text counts
                instead, since a client may take an inner object of a truncated document.

        Raises:
            ValueError: there is no valid answer. Clients respond to this type by asking again, with the error's text.
        """
        if self._reported is not None:
            raise self._reported
        if self.ending is not None:
            raise ValueError("the answer did not come to its end")
        try:
            document = json_in(said if self._said is None else self._said)
        except NoJSONError as error:
            raise json.JSONDecodeError(str(error), "", 0) from None
        last_try = self.answers >= self.limits.tries
        found = self.answer.model_validate_json(json.dumps(document), context={"last_try": last_try})
        self.found = found
        return found

    def goes_on_after(self, error: Exception) -> bool:
        """Return whether to send another request after an error, by the client or by `read`; see `pause`."""
        self.error = error = self._reported or error
        if self._heard:
            self._heard, self._pause = False, 0.0
            return self.ending is None and isinstance(error, ValueError) and self.answers < self.limits.tries
        if not is_passing(error) or self.is_misunderstood():
            return False
        self.failures += 1
        if self.failures > self.limits.retries:
            return False
        asked = pause_asked(error, now=time.time())
        self._pause = self._growing_pause() if asked is None else asked
        seconds_left = anyio.current_effective_deadline() - anyio.current_time()
        return asked is None or asked <= min(self.limits.longest_wait, seconds_left)

    @property
    def pause(self) -> float:
        """The seconds to wait before the next request: none after an invalid answer."""
        return self._pause

    def is_misunderstood(self) -> bool:
        """Return whether the endpoint refused the mode of the request, so that another may work."""
        return self.answers == 0 and self.error is not None and _wants_other_mode(self.error)

    def is_refused_over(self, option: str) -> bool:
        """Return whether the endpoint refused the request, and named an option."""
        refusal = self.error if self.answers == 0 else None
        return refusal is not None and _status_of(refusal) in {400, 422} and option in str(refusal).lower()

    def _growing_pause(self) -> float:
        grown: float = self.limits.pause * 2.0 ** (self.failures - 1)
        return min(grown, _LONGEST_PAUSE) * random.uniform(0.75, 1.0)


@functools.lru_cache(maxsize=128)
def reader_of(answer: type[AnswerT]) -> type[AnswerT]:
    """Return a model with the schema of another that reads through the current exchange.

    Its name is legal as a tool's name at every endpoint.
    """
    from instructor import openai_schema

    body = {"__doc__": answer.__doc__, "__module__": __name__, "__qualname__": answer.__qualname__}
    made = types.new_class(name_of(answer), (_Reader, answer), exec_body=lambda space: space.update(body))
    return cast("type[AnswerT]", openai_schema(cast("Any", made)))  # else it would be made at every request


def name_of(answer: type[BaseModel]) -> str:
    """Return the name of a model, in letters that are legal in a tool's name at every endpoint."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", answer.__name__)[:64]


def described_schema(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON schema, compact, with the title and the description that clients insist on."""
    return {"title": name, "description": "Answer", **compacted(schema)}


class _Reader:
    """Replacement of the methods with which clients describe a model, and build it from a text."""

    _described: ClassVar[dict[str, Any] | None] = None

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
        if cls._described is None:
            described: Any = super()
            cls._described = described_schema(cls.__name__, described.model_json_schema(*args, **options))
        return copy.deepcopy(cls._described)  # clients write into it

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> BaseModel:
        return _read(json_data if isinstance(json_data, str) else bytes(json_data).decode(errors="replace"))

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> BaseModel:
        return _read(json.dumps(obj, default=str))


def _read(said: str) -> BaseModel:
    exchange = _current.get()
    assert exchange is not None, "a reader reads within an exchange"
    found: BaseModel = exchange.read(said)
    return found.model_copy()  # clients hang the whole response on what they are given


def failure_of(exchange: ModelExchange[Any], *, unanswered: str) -> ModelError:
    """Return the error of an exchange without an answer.

    Args:
        exchange: the exchange.
        unanswered: message for an error of no known kind, with ``{}`` for the name of its class.
    """
    error = exchange.error
    if isinstance(error, BudgetSpentError):
        return error
    if exchange.too_slow:
        return _too_slow(exchange)
    ending = exchange.ending or (None if error is None else _ending_of_error(error))
    if ending is not None:
        return _ended(ending)
    if error is not None and _status_of(error) is not None:
        return _refused_request(exchange, _status_of(error) or 0)
    if error is not None and is_passing(error) and "Timeout" in type(error).__name__:
        return _too_slow(exchange)
    if error is not None and is_passing(error):
        return ModelUnavailableError(
            f"the language model cannot be reached ({_tried(exchange)}): is its server running, is its address right?"
        )
    if exchange.answers:
        return ModelAnswerError(
            f"the language model gave no valid {exchange.answer.__name__} in {exchange.answers} answer(s)"
            f"{_flaws(exchange)}: ask a larger model, set another mode=, or allow more tries="
        )
    return ModelAnswerError(unanswered.format(type(error).__name__))


_MOST_FLAWS: Final = 3
_QUOTING: Final = ("value_error", "assertion_error")
"""Errors whose texts may quote the value."""


def _flaws(exchange: ModelExchange[Any]) -> str:
    """Return which fields of the last answer were wrong, and what was expected of them; never what was answered."""
    from pydantic import ValidationError

    error = exchange.error
    if isinstance(error, NoJSONError | json.JSONDecodeError):
        return " (no JSON document)"
    if not isinstance(error, ValidationError):
        return ""
    wrong = error.errors(include_input=False, include_url=False, include_context=False)[:_MOST_FLAWS]
    names = json.dumps(exchange.answer.model_json_schema())
    said = []
    for item in wrong:
        # A key of the answer's own making may be a value.
        where = ".".join(str(part) for part in item["loc"] if isinstance(part, int) or f'"{part}"' in names)
        said.append(f"{where or 'answer'}: {item['type'] if item['type'] in _QUOTING else item['msg']}")
    return f" ({'; '.join(said)})"


def _too_slow(exchange: ModelExchange[Any]) -> ModelError:
    return ModelUnavailableError(
        f"the language model did not answer within {exchange.limits.timeout:g} s: try later or raise timeout="
    )


def _ended(ending: Ending) -> ModelError:
    match ending:
        case Ending.REFUSED:
            return ModelRefusedError("the language model refused to answer")
        case Ending.FILTERED:
            return ModelRefusedError("the question or the answer was stopped by the endpoint's content filter")
        case Ending.CUT_OFF:
            return ModelAnswerError(
                "the answer was cut off at the model's length limit: ask about less at once (max_chars=) "
                "or allow longer answers (max_tokens=)"
            )
        case Ending.TOO_LONG:
            return ModelAnswerError(
                f"the answer is longer than {LONGEST_ANSWER:,} characters: ask another model, or about less at once "
                "(max_chars=)"
            )
        case _:
            assert_never(ending)


def _refused_request(exchange: ModelExchange[Any], status: int) -> ModelError:
    match status:
        case 401 | 403:
            step = "it does not accept the API key: set the key's environment variable or pass api_key="
        case 404:
            step = "it knows no such model or address: look at the model's name and address"
        case 402 | 429:
            step = f"overloaded or out of quota ({_tried(exchange)}): try later or look at the account's limits"
        case 400 | 413 | 422:
            step = "it does not take the question: set another mode=, lower max_chars or look at the model's name"
        case _:
            step = f"it failed ({_tried(exchange)}): try later"
    return ModelUnavailableError(f"the language model's endpoint answered HTTP {status}: {step}")


def _tried(exchange: ModelExchange[Any]) -> str:
    return f"{exchange.failures} request(s) failed"


_TALKATIVE: Final = ("anthropic", "instructor", "langchain", "openai", "pydantic_ai")  # and what begins so


class _WithinQuestions(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return current_exchange() is None


_FILTER: Final = _WithinQuestions()


def hush() -> None:
    """Drop the log records of the clients during our questions, at any level, and no others.

    instructor logs rejected answers, whole, as errors; openai logs requests at DEBUG. Their loggers appear one by one
    as their modules are imported, so that this is called before each question.
    """
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and name.startswith(_TALKATIVE):
            logger.addFilter(_FILTER)
