"""Models of agent frameworks, taken as they are: those of LangChain, pydantic-ai and the OpenAI Agents SDK.

Each is asked by its framework's own structured output, with the settings, keys and retries that it has there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

import anyio
import attrs
from anyio import to_thread

from factmem.abc import Prompt
from factmem.abc.model import LanguageModel
from factmem.errors import InvalidDataError, ModelAwayError
from factmem.event_loops import ProgramLoops, away, running_asyncio_loop
from factmem.llm.asking import meter, usage_of
from factmem.llm.messages import instructions_of, messages_of
from factmem.llm.request import (
    Ending,
    ExchangeLimits,
    ModelExchange,
    Reply,
    described_schema,
    ending_named,
    failure_of,
    hush,
    name_of,
)
from factmem.validators import check_whole

if TYPE_CHECKING:
    from agents import AgentOutputSchemaBase
    from pydantic import BaseModel
    from pydantic_ai.messages import ModelResponse

AnswerT = TypeVar("AnswerT", bound="BaseModel")

_LONGEST_FAULT: Final = 2_000
"""Maximum length of the faults of an answer in the next question, in characters."""


class _ChatModel(Protocol):
    """A chat model of LangChain."""

    @property
    def with_structured_output(self) -> Callable[..., Any]: ...


class _RequestModel(Protocol):
    """A ``Model`` of pydantic-ai."""

    @property
    def prepare_request(self) -> Callable[..., Any]: ...


class _ResponseModel(Protocol):
    """A ``Model`` of the OpenAI Agents SDK."""

    @property
    def get_response(self) -> Callable[..., Any]: ...


ForeignModel = _ChatModel | _RequestModel | _ResponseModel
"""A chat model of LangChain, or a ``Model`` of pydantic-ai or of the OpenAI Agents SDK."""


def as_language_model(given: LanguageModel | ForeignModel | str | None) -> LanguageModel | None:
    """Return the language model that an argument ``model=`` stands for; None and unknown objects as they are.

    Args:
        given: A language model, the address of one (see `language_model`), a chat model of LangChain, a ``Model`` of
            pydantic-ai or of the OpenAI Agents SDK, or None.

    Raises:
        InvalidDataError: See `language_model`.
        MissingPackageError: See `language_model`.
    """
    if isinstance(given, str):
        from factmem.llm.instructor_model import language_model

        return language_model(given)
    if given is None or isinstance(given, LanguageModel):
        return given
    if _preparer_of(given) is None:
        return cast("LanguageModel", given)  # which the caller checks
    return HostModel(given)


@attrs.frozen(kw_only=True)
class _Question:
    """One request, in no framework's form.

    Attributes:
        name: Name of the answer, legal as that of a tool.
        schema: Its JSON schema.
        instructions: The instructions.
        spelled_out: The instructions with the schema, for a model without structured output.
        turns: Messages of the user and of the assistant, in turn.
    """

    name: str
    schema: dict[str, Any]
    instructions: str
    spelled_out: str
    turns: tuple[dict[str, str], ...]

    def after(self, said: str | None, fault: str) -> _Question:
        """Return the question for another answer, after an invalid one."""
        wrong = [{"role": "assistant", "content": said}] if said and said.strip() else []
        again = f"The answer is not valid:\n{fault[:_LONGEST_FAULT]}\nAnswer again, with all of it."
        return attrs.evolve(self, turns=(*self.turns, *wrong, {"role": "user", "content": again}))


class HostModel:
    """A model of LangChain, pydantic-ai or the OpenAI Agents SDK, as a language model. See `LanguageModel`.

    ``Memory(model=…)`` makes one of such an object; make it yourself to set limits. The model's own settings stand:
    temperature, length, keys, and how its client repeats requests that failed, which are counted as one. What it is
    asked appears in no stream of an agent that runs.

    A memory in an event loop of the program asks in that loop. The memory of an agent has a thread of its own, and asks
    in the loop of the agent's runs, to which the connections of the model's client belong. If that loop has ended, or
    waits for the memory, words wait for the next run. Models of LangChain are called in a thread for agents that run
    without an event loop, in a `BlockingMemory`, and on trio. No run waits for a question, and questions inherit no
    callbacks, limits and traces of a run. A request that found no answer is sent once more, since the framework's
    client may have kept connections of an event loop that has ended.

    No error holds text of a question or an answer, and log records of the frameworks and of their clients during a
    question are dropped.

    Args:
        model: The framework's model.
        timeout: Seconds for one question, with all its requests.
        tries: Maximum number of answers to a question; each after the first is requested with the faults of the one
            before.
        max_chars: See `LanguageModel.max_chars`.

    Raises:
        InvalidDataError: It is not such a model, or a number is out of its range.

    Example:
        >>> memory = Memory("facts.db", model=ChatOpenAI(model="gpt-5-mini"))
        >>> memory = Memory("facts.db", model=HostModel(OpenAIChatModel("gpt-5-mini"), timeout=120.0))
    """

    def __init__(self, model: ForeignModel, *, timeout: float = 60.0, tries: int = 3, max_chars: int = 24_000) -> None:
        prepare = _preparer_of(model)
        if prepare is None:
            raise InvalidDataError(
                "expected a chat model of LangChain, or a Model of pydantic-ai or of the OpenAI Agents SDK",
                path="$.model",
            )
        self._model, self._prepare = model, prepare
        self._limits = ExchangeLimits(timeout=timeout, tries=tries, retries=1, pause=0.0, longest_wait=30.0)
        self._max_chars = check_whole(max_chars, "max_chars", least=1)

    def __repr__(self) -> str:
        return f"HostModel({type(self._model).__name__})"

    @property
    def max_chars(self) -> int:
        """See `LanguageModel.max_chars`."""
        return self._max_chars

    async def ask(self, prompt: Prompt, answer: type[AnswerT]) -> AnswerT:
        """See `LanguageModel.ask`."""
        exchange = ModelExchange(answer, self._limits)
        hush()
        with anyio.move_on_after(self._limits.timeout) as scope, exchange.running():
            await self._exchange(exchange, _question(prompt, answer))
        exchange.too_slow = scope.cancelled_caught
        if exchange.too_slow and (loops := ProgramLoops.here()) is not None and loops.missed:
            raise away()
        if exchange.found is None:
            unanswered = f"{self!r} did not answer ({{}}): does it answer when an agent of its framework asks it?"
            raise failure_of(exchange, unanswered=unanswered)
        return exchange.found

    async def _exchange(self, exchange: ModelExchange[Any], question: _Question) -> None:
        """Send the question until there is a valid answer. Errors are kept in the exchange and not raised."""
        while True:
            reply: Reply | None = None
            try:
                exchange.begin_request()
                request = self._prepare(self._model, question)
                reply = request.read(await _sent(request, exchange.context()))
                exchange.hear(reply)
                exchange.read(reply.said or "")
                return
            except ModelAwayError:
                raise
            except Exception as error:  # a fault of the answer, or whatever the framework and its client bring up
                if reply is None:
                    meter(usage=usage_of(getattr(error, "completion", None)))  # openai's, for an answer cut off
                else:
                    question = question.after(reply.said, str(error))
                if not exchange.goes_on_after(_innermost(error)):
                    return
            await anyio.sleep(exchange.pause)


def _question(prompt: Prompt, answer: type[BaseModel]) -> _Question:
    name = name_of(answer)
    _, *turns = messages_of(prompt, prompt.instructions)
    return _Question(
        name=name,
        schema=described_schema(name, answer.model_json_schema()),
        instructions=prompt.instructions,
        spelled_out=instructions_of(prompt, answer, show_schema=True),
        turns=tuple(turns),
    )


def _innermost(error: Exception) -> Exception:
    """Return the last error of a group, as models with a fallback raise it."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[-1]
    return error


@attrs.frozen(kw_only=True)
class _Request:
    """A request in a framework's form.

    Attributes:
        send: Sends it, and returns the framework's response.
        send_blocking: The same without an event loop; None if the framework needs one.
        read: Returns the reply in a response.
    """

    send: Callable[[], Coroutine[Any, Any, Any]]
    send_blocking: Callable[[], Any] | None = None
    read: Callable[[Any], Reply]


async def _sent(request: _Request, context: Context) -> Any:
    """Send a request in the event loop or the thread that its client belongs to, and return the response."""
    asyncio_loop, loops = running_asyncio_loop(), ProgramLoops.here()
    blocking = asyncio_loop is None if loops is None else loops.blocking
    if request.send_blocking is not None and blocking:
        return await to_thread.run_sync(context.run, request.send_blocking, abandon_on_cancel=True)
    if loops is not None and loops.known:
        return await loops.call(request.send, context)
    if asyncio_loop is not None:
        return await asyncio_loop.create_task(request.send(), context=context)
    return await request.send()


_Preparer = Callable[[Any, _Question], _Request]


def _preparer_of(model: object) -> _Preparer | None:
    """Return the function that makes requests for a model of its framework; None for other objects."""
    for home in (cls.__module__ for cls in type(model).__mro__):
        match home.split("."):
            case ["langchain_core", *_] if hasattr(model, "with_structured_output"):
                return _for_langchain
            case ["pydantic_ai", "models", *_]:
                return _for_pydantic_ai
            case ["agents", "models", "interface"]:
                return _for_agents_sdk
    return None


def _for_langchain(model: Any, question: _Question) -> _Request:
    if getattr(model, "callbacks", None):  # they are for what the program asks
        model = model.model_copy(update={"callbacks": None})
    try:
        asked, instructions = _structured(model, question.schema), question.instructions
    except NotImplementedError:
        asked, instructions = model, question.spelled_out
    messages = [{"role": "system", "content": instructions}, *question.turns]
    config = {"callbacks": [], "tags": ["nostream"], "run_name": "factmem"}
    return _Request(
        send=lambda: asked.ainvoke(messages, config),
        send_blocking=lambda: asked.invoke(messages, config),
        read=lambda result: _said_by_langchain(result["raw"] if isinstance(result, dict) else result),
    )


def _structured(model: Any, schema: dict[str, Any]) -> Any:
    """Return a model that answers by a schema; rather without its parser, whose threads delay the end of a process."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableBinding, RunnableSequence

    found = model.with_structured_output(schema)
    if isinstance(found, RunnableSequence) and isinstance(found.first, BaseChatModel | RunnableBinding):
        return found.first
    return model.with_structured_output(schema, include_raw=True)


def _said_by_langchain(message: Any) -> Reply:
    metadata = getattr(message, "response_metadata", {})
    calls = [json.dumps(call["args"]) for call in getattr(message, "tool_calls", ())]
    calls += [call["args"] or "" for call in getattr(message, "invalid_tool_calls", ())]
    reasons = [metadata.get(name) for name in ("finish_reason", "stop_reason", "done_reason")]
    reasons.append((metadata.get("incomplete_details") or {}).get("reason"))
    return Reply(
        said="\n".join(calls) or (message if isinstance(message, str) else str(message.text)),
        ending=Ending.REFUSED if _is_refusal(message) else _ending_among(reasons),
        usage=attrs.evolve(usage_of(message), model=metadata.get("model_name") or metadata.get("model")),
    )


def _is_refusal(message: Any) -> bool:
    content = getattr(message, "content", None)
    blocks = content if isinstance(content, list) else ()
    return bool(getattr(message, "additional_kwargs", {}).get("refusal")) or any(
        isinstance(block, dict) and block.get("type") == "refusal" for block in blocks
    )


def _for_pydantic_ai(model: Any, question: _Question) -> _Request:
    from pydantic_ai import ToolDefinition
    from pydantic_ai.direct import model_request
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    tool = ToolDefinition(name=question.name, parameters_json_schema=question.schema, kind="output")
    messages: list[ModelMessage] = [
        ModelRequest.user_text_prompt(turn["content"], instructions=question.instructions)
        if turn["role"] == "user"
        else ModelResponse(parts=[TextPart(turn["content"])])
        for turn in question.turns
    ]
    wanted = ModelRequestParameters(
        output_mode="auto",  # the way that is known to be best for the model
        output_object=OutputObjectDefinition(json_schema=question.schema, name=question.name),
        output_tools=[tool],
    )
    return _Request(
        send=lambda: model_request(model, messages, model_request_parameters=wanted), read=_said_by_pydantic_ai
    )


def _said_by_pydantic_ai(response: ModelResponse) -> Reply:
    calls = [part.args_as_json_str() for part in response.parts if part.part_kind == "tool-call"]
    refused = "refusal" in (response.provider_details or {})
    return Reply(
        said="\n".join(calls) or "".join(part.content for part in response.parts if part.part_kind == "text"),
        ending=Ending.REFUSED if refused else _ending_among([response.finish_reason]),
        usage=attrs.evolve(usage_of(response), model=response.model_name),
    )


def _for_agents_sdk(model: Any, question: _Question) -> _Request:
    from agents import ModelSettings, ModelTracing

    schema = _output_schema(question)
    return _Request(
        send=lambda: model.get_response(
            question.instructions,
            list(question.turns),
            ModelSettings(),
            [],
            schema,
            [],
            ModelTracing.DISABLED,
            previous_response_id=None,
            conversation_id=None,
            prompt=None,
        ),
        read=lambda response: _said_by_agents_sdk(model, response),
    )


def _said_by_agents_sdk(model: Any, response: Any) -> Reply:
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    cut_off = any(getattr(item, "status", None) == "incomplete" for item in response.output)
    name = getattr(model, "model", None)
    ending = Ending.REFUSED if any(part.type == "refusal" for part in parts) else Ending.CUT_OFF if cut_off else None
    return Reply(
        said="".join(part.text for part in parts if part.type == "output_text"),
        ending=ending,
        usage=attrs.evolve(usage_of(response), model=name if isinstance(name, str) else None),
    )


def _output_schema(question: _Question) -> AgentOutputSchemaBase:
    from agents import AgentOutputSchemaBase

    class Wanted(AgentOutputSchemaBase):
        def is_plain_text(self) -> bool:
            return False

        def name(self) -> str:
            return question.name

        def json_schema(self) -> dict[str, Any]:
            return question.schema

        def is_strict_json_schema(self) -> bool:
            return False  # fields may be left out

        def validate_json(self, json_str: str) -> Any:
            return json_str  # which is read by the exchange

    return Wanted()


def _ending_among(reasons: Iterable[object]) -> Ending | None:
    endings = (ending_named(reason) for reason in reasons if reason is not None)
    return next((ending for ending in endings if ending is not None), None)
