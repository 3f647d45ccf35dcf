"""Memory for OpenAI's client, in agent loops without a framework.

Memory can be installed into a client (`AsyncOpenAI`, `OpenAI`, Azure's). ``install`` returns a copy of the same type
over the same connections, which loads known facts into chat completions and responses, and saves their answers,
whether they are created, parsed or streamed. The client itself and the caller's messages stay unchanged:

    memory = AgentMemory(AgentMemoryConfig(store="facts.db", agent_name="planner"))
    client = install(memory, into=AsyncOpenAI())
    with memory.run(user_id="alice", session_id="monday"):
        await client.chat.completions.create(model=..., messages=messages)

Without ``memory.run``, the identity comes from the request: ``user_id`` and ``session_id`` in its ``metadata``, or else
``safety_identifier`` or ``user``, and its ``conversation``.

The memory block goes into the request, before the user's last message. If OpenAI's server keeps the conversation
(``conversation``, ``previous_response_id``), it keeps each request as it was sent, with its memory block.

A finished answer is submitted with the messages of its request. If it was truncated, or its stream was closed early,
these messages are submitted without it; a failed request is not submitted. A chat completion that calls tools is
submitted with the final answer. Streams behind ``with_raw_response`` or ``with_streaming_response`` get a memory block,
but their answers are not captured. The messages of a ``.stream()`` that is left early are submitted with the next
request.

The program defines its own tools; `factmem.agent.run.MemoryRun.tools` implements recall_memory, save_memory and
forget_memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import anyio
import attrs

from factmem.abc.detector import MEMORY_ROLE, Message
from factmem.agent.chat_history import DictFormat, spoken, with_block
from factmem.agent.config import RunIdentity
from factmem.agent.plugin import AgentMemory, HostIntegration
from factmem.agent.rendering import MemoryBlock
from factmem.agent.run import MemoryRun
from factmem.error_hints import kind_of
from factmem.errors import CapabilityError, FactMemError, MissingPackageError
from factmem.memory.facade import Memory

with MissingPackageError.if_missing("openai", extra="all"):
    from openai import AsyncOpenAI, AsyncStream, OpenAI, Stream

_Items: TypeAlias = "list[Any]"


class _BlockMessage(dict[str, Any]):
    """A message with a memory block, marked by its class only; for the API it is a plain message."""


class RequestFormat(DictFormat):
    """The content of requests to OpenAI's APIs: messages of chat completions, or items of responses.

    Ids are ignored, since a program may resend an answer with or without its id, and some servers use one placeholder
    as the id of all messages.
    """

    def messages(self, native: Any) -> Sequence[Message]:
        """See `HistoryFormat.messages`."""
        messages = super().messages(native)
        if isinstance(native, _BlockMessage):
            return [attrs.evolve(message, role=MEMORY_ROLE) for message in messages]
        return [attrs.evolve(message, id=None) for message in messages]

    def memory(self, block: MemoryBlock) -> dict[str, Any]:
        """See `HistoryFormat.memory`. The APIs reject unknown keys, so the class marks the message."""
        return _BlockMessage(role="user", content=block.text)

    def with_block(self, items: Sequence[Any], block: MemoryBlock) -> list[Any]:
        """Return the items of a request with a memory block before the user's last message.

        Without a message of the user, no block is added: the server then keeps the conversation, with a block in it.

        Args:
            items: The items of the request.
            block: The memory block.
        """
        of_user = any(message.role == "user" for item in items for message in self.messages(item))
        return with_block(self, items, block if of_user else MemoryBlock())


_FORMAT: Final = RequestFormat()
_PLACES: Final = {"/chat/completions": "messages", "/responses": "input"}
"""Paths of the requests that get a memory block, and the field that holds their items."""


@attrs.frozen
class _Turn:
    """A request that gets a memory block, and is submitted with its answer."""

    run: MemoryRun
    place: str
    items: _Items

    @property
    def history(self) -> list[Message]:
        return spoken(_FORMAT, self.items)

    def with_block(self, options: Any, block: MemoryBlock) -> Any:
        """Return the options of the request with the memory block in it."""
        options = options.model_copy()
        options.json_data = {**options.json_data, self.place: _FORMAT.with_block(self.items, block)}
        return options

    def to_save(self, answer: _Items | None) -> list[Message] | None:
        """Return the messages to submit, with the answer if it is finished; None if there is nothing to submit yet."""
        answer = answer or []
        if self.place == "messages" and any(_FORMAT.calls(item) for item in answer):
            return None
        return spoken(_FORMAT, [*self.items, *answer])


def _turn(memory: AgentMemory, options: Any) -> _Turn | None:
    """Return the turn of a request; None for other kinds of requests."""
    body, place = options.json_data, _PLACES.get(options.url)
    if options.method.lower() != "post" or place is None or not isinstance(body, Mapping):
        return None
    match body.get(place):
        case str() as text:
            items: _Items = [{"role": "user", "content": text}]
        case [*items]:
            pass
        case _:
            return None
    return _Turn(memory.for_run(_identity(body)), place, items)


def _identity(body: Mapping[str, Any]) -> RunIdentity:
    conversation = body.get("conversation")
    if isinstance(conversation, Mapping):
        conversation = conversation.get("id")
    user = body.get("safety_identifier") or body.get("user")
    named = RunIdentity.named_by(body.get("metadata"), host=body)
    return named.or_else(RunIdentity.named_by({"user_id": user or None, "session_id": conversation}))


def _answer(result: Any, place: str) -> _Items | None:
    """Return the answer in a result; None if it is not finished, or not read yet."""
    # with_raw_response returns the raw response, which is read to its end unless it is streamed.
    if hasattr(result, "http_response") and hasattr(result, "parse") and not getattr(result, "_stream", True):
        result = result.parse()
    if place == "input":
        finished = getattr(result, "status", None) == "completed"
        return [item.model_dump(warnings=False) for item in result.output] if finished else None
    match getattr(result, "choices", None):
        case [choice] if choice.finish_reason not in _CUT_SHORT:
            return [choice.message.model_dump(warnings=False)]
        case _:
            return None


_CUT_SHORT: Final = frozenset({"length", "content_filter"})


@attrs.define
class _Hearing:
    """Accumulator of a streamed answer."""

    turn: _Turn
    answer: _Items | None = None
    over: bool = False
    _texts: list[str] = attrs.field(factory=list, init=False)
    _calls: bool = attrs.field(default=False, init=False)
    _one: bool = attrs.field(default=True, init=False)

    def hear(self, event: Any) -> None:
        if self.turn.place == "input":
            if getattr(event, "type", None) == "response.completed":
                self.answer = _answer(event.response, "input")
            return
        for choice in getattr(event, "choices", None) or ():
            self._one = self._one and choice.index == 0
            self._texts.append(getattr(choice.delta, "content", None) or "")
            self._calls = self._calls or bool(getattr(choice.delta, "tool_calls", None))
            if choice.finish_reason and choice.finish_reason not in _CUT_SHORT:
                self.answer = [{"role": "assistant", "content": "".join(self._texts), "tool_calls": self._calls}]

    def end(self) -> list[Message] | None:
        """Return the messages to submit on the first call, and None on later calls."""
        if self.over:
            return None
        self.over = True
        return self.turn.to_save(self.answer if self._one else None)


def _going_on(ended: BaseException) -> contextlib.AbstractContextManager[object]:
    """Return the context of submitting a stream's answer: what ended the stream early goes on, even if that fails."""
    whole = isinstance(ended, StopIteration | StopAsyncIteration)
    return contextlib.nullcontext() if whole else contextlib.suppress(FactMemError)


class _HeardAsyncStream(AsyncStream[Any]):
    """A stream whose answer is captured while the program reads it."""

    def __init__(self, stream: AsyncStream[Any], turn: _Turn) -> None:
        self.response = stream.response
        self._stream = stream
        self._hearing = _Hearing(turn)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            event = await anext(self._stream)
        except BaseException as ended:
            with _going_on(ended):
                await self._end()
            raise
        self._hearing.hear(event)
        return event

    async def close(self) -> None:
        await self._stream.close()
        await self._end()

    async def _end(self) -> None:
        with anyio.CancelScope(shield=True):  # an abandoned stream often means that the task was cancelled
            if (history := self._hearing.end()) is not None:
                await self._hearing.turn.run.finish(history)


class _HeardStream(Stream[Any]):
    """The synchronous counterpart of `_HeardAsyncStream`."""

    def __init__(self, stream: Stream[Any], turn: _Turn) -> None:
        self.response = stream.response
        self._stream = stream
        self._hearing = _Hearing(turn)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            event = next(self._stream)
        except BaseException as ended:
            with _going_on(ended):
                self._end()
            raise
        self._hearing.hear(event)
        return event

    def close(self) -> None:
        self._stream.close()
        self._end()

    def _end(self) -> None:
        if (history := self._hearing.end()) is not None:
            self._hearing.turn.run.finish_blocking(history)


class _AsyncClient(AsyncOpenAI):
    """A client with memory; all requests of all resources pass through `request`."""

    _factmem: AgentMemory

    async def request(self, cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        turn = _turn(self._factmem, options)
        if turn is None:
            return await super().request(cast_to, options, *args, **kwargs)
        if block := await turn.run.load(turn.history):
            options = turn.with_block(options, block)
        result: Any = await super().request(cast_to, options, *args, **kwargs)
        if isinstance(result, AsyncStream):
            return _HeardAsyncStream(result, turn)
        if (history := turn.to_save(_answer(result, turn.place))) is not None:
            await turn.run.finish(history)
        return result


class _Client(OpenAI):
    """The synchronous counterpart of `_AsyncClient`."""

    _factmem: AgentMemory

    def request(self, cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        turn = _turn(self._factmem, options)
        if turn is None:
            return super().request(cast_to, options, *args, **kwargs)
        if block := turn.run.load_blocking(turn.history):
            options = turn.with_block(options, block)
        result: Any = super().request(cast_to, options, *args, **kwargs)
        if isinstance(result, Stream):
            return _HeardStream(result, turn)
        if (history := turn.to_save(_answer(result, turn.place))) is not None:
            turn.run.finish_blocking(history)
        return result


def _install(memory: AgentMemory, into: Any) -> Any:
    if isinstance(into, AsyncOpenAI):
        return _with_memory(memory, into, _AsyncClient)
    if not isinstance(into, OpenAI):
        raise CapabilityError(f"memory is installed into a client of openai, not into {kind_of(into)}")
    if isinstance(memory.config.store, Memory):
        raise CapabilityError(
            "a client without an event loop cannot use an open Memory, which lives in one: give AgentMemory an "
            "address, a provider or a function that makes the Memory"
        )
    return _with_memory(memory, into, _Client)


def _with_memory(memory: AgentMemory, client: Any, remembering: type) -> Any:
    """Return a copy of a client, of a subclass of its class, so that copies of the copy have the memory too."""
    kind = type(client)
    copied = client.copy()
    copied.__class__ = type(kind.__name__, (remembering, kind), {"__module__": kind.__module__, "_factmem": memory})
    return copied


integration: Final = HostIntegration(install=_install, history=DictFormat())
"""The integration of OpenAI's client."""
