"""Memory in agents of pydantic-ai.

Memory can be installed into any agent (`pydantic_ai.Agent`, a `WrapperAgent`). ``install`` returns a wrapper, whose
``run``, ``run_sync``, ``run_stream`` and ``iter`` load known facts and save each successful run; the agent itself
stays unchanged. Alternatively, pass the capability to the agent's constructor. Durable agents require this, since
they take no capability at run time. The capability can also add the tools:

    agent = Agent(model, capabilities=[MemoryCapability(memory, tools=True)])

The identity of a run comes from the attributes (or keys) ``user_id`` and ``session_id`` of its ``deps``; a run without
a ``session_id`` belongs to pydantic-ai's own ``conversation_id``. The argument ``identity`` of `MemoryCapability` is a
function that reads the identity elsewhere. ``with memory.run(...)`` takes precedence over both:

    memory = AgentMemory(AgentMemoryConfig(store="facts.db", agent_name="planner"))
    agent = install(memory, into=Agent(model))
    await agent.run("Where do I live?", deps=Visitor(user_id="alice"))

The memory block goes into requests only, before the user's prompt: neither into the instructions nor into the history
of a result. Realtime sessions make no such requests; the capability saves them, but loads nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from factmem.abc.detector import MEMORY_ROLE, Message
from factmem.agent.chat_history import MEMORY_NAME, said, spoken, with_block
from factmem.agent.config import RunIdentity
from factmem.agent.plugin import AgentMemory, HostIntegration
from factmem.agent.rendering import MemoryBlock
from factmem.agent.run import MemoryRun
from factmem.error_hints import kind_of
from factmem.errors import CapabilityError, MissingPackageError
from factmem.media.parts import MediaParts, media_of

with MissingPackageError.if_missing("pydantic-ai-slim", extra="pydantic-ai"):
    from pydantic_ai.agent import AbstractAgent, AgentRun, WrapperAgent
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        BinaryContent,
        CachePoint,
        FilePart,
        ModelMessage,
        ModelRequest,
        ModelRequestPart,
        ModelResponse,
        ModelResponsePart,
        NativeToolReturnPart,
        SpeechPart,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserContent,
        UserPromptPart,
    )
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import AgentDepsT, RunContext
    from pydantic_ai.toolsets import FunctionToolset
    from typing_extensions import TypeVar

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext

OutputT = TypeVar("OutputT", default=str)


class PydanticAIFormat:
    """Histories of pydantic-ai. Memory blocks are marked by a key in their request's ``metadata``."""

    def messages(self, native: ModelMessage) -> Sequence[Message]:
        """See `HistoryFormat.messages`. Incomplete responses convert to no messages."""
        if isinstance(native, ModelResponse):
            parts = native.parts if native.state == "complete" else ()
            return [message for part in parts for message in _said_by_model(part, native)]
        user = _speaker_of_prompts(native)
        return [message for part in native.parts for message in _said_to_model(part, user)]

    def calls(self, native: ModelMessage) -> bool:
        """See `HistoryFormat.calls`."""
        return isinstance(native, ModelResponse) and any(isinstance(part, ToolCallPart) for part in native.parts)

    def memory(self, block: MemoryBlock) -> ModelMessage:
        """See `HistoryFormat.memory`."""
        return ModelRequest(parts=[UserPromptPart(block.text)], metadata={MEMORY_NAME: True})

    def summary(self, text: str) -> ModelMessage:
        """See `HistoryFormat.summary`."""
        return ModelResponse(parts=[TextPart(text)])


_FORMAT: Final = PydanticAIFormat()


def _of_context(context: RunContext[Any]) -> RunIdentity:
    return RunIdentity.named_by(context.deps, host=context).or_else(RunIdentity(session_id=context.conversation_id))


class MemoryCapability(AbstractCapability[AgentDepsT]):
    """Capability that loads known facts into an agent's requests, and saves its successful runs.

    Facts are loaded once, at the first request of a run; all requests of the run get the same memory block.

    Args:
        memory: The memory.
        tools: Whether the model gets the tools ``recall_memory``, ``save_memory`` and ``forget_memory``.
        identity: Function of a run's context that returns its identity (default: from its deps).
    """

    id: str | None = "factmem"
    """An agent has one memory: a capability given for a run takes precedence over the agent's own."""

    def __init__(
        self,
        memory: AgentMemory,
        *,
        tools: bool = False,
        identity: Callable[[RunContext[Any]], RunIdentity] | None = None,
    ) -> None:
        self.memory: Final = memory
        self.tools: Final = tools
        self.identity: Final = identity or _of_context
        self._run: MemoryRun | None = None
        self._block: MemoryBlock | None = None

    @classmethod
    def combine(cls, capabilities: Sequence[AbstractCapability[AgentDepsT]]) -> AbstractCapability[AgentDepsT]:
        """Return the last capability."""
        return capabilities[-1]

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> AbstractCapability[AgentDepsT]:
        """Return the capability of one run, bound to its identity."""
        bound = MemoryCapability[AgentDepsT](self.memory, tools=self.tools, identity=self.identity)
        bound.id, bound.description, bound.defer_loading = self.id, self.description, self.defer_loading
        bound._run = self.memory.for_run(self.identity(ctx))
        return bound

    def get_toolset(self) -> FunctionToolset[AgentDepsT] | None:
        """Return the tools of the run; None if ``tools`` is False."""
        if not self.tools:
            return None
        tools = (self._run or self.memory.for_run()).tools
        return FunctionToolset([tools.recall_memory, tools.save_memory, tools.forget_memory])

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Add the memory block to the request, before the user's prompt."""
        if self._run is not None:
            self._block = await self._run.load(spoken(_FORMAT, request_context.messages), known=self._block)
        block = self._block or MemoryBlock()
        messages = _with_separate_prompt(request_context.messages) if block else request_context.messages
        request_context.messages = with_block(_FORMAT, messages, block)
        return request_context

    async def after_run(self, ctx: RunContext[AgentDepsT], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Submit the conversation, if saving is set to `SavingTime.AFTER_RUN`."""
        if self._run is not None:
            await self._run.finish(spoken(_FORMAT, result.all_messages()))
        return result


class AgentWithMemory(WrapperAgent[AgentDepsT, OutputT]):
    """An agent with memory that wraps another agent, which stays unchanged.

    It runs like the wrapped agent; all other attributes, such as ``agent.tool``, are those of the wrapped agent.

    Args:
        wrapped: The agent.
        capability: The memory.
    """

    def __init__(self, wrapped: AbstractAgent[AgentDepsT, OutputT], capability: MemoryCapability[AgentDepsT]) -> None:
        super().__init__(wrapped)
        self.capability: Final = capability

    def __getattr__(self, name: str) -> Any:
        if name == "wrapped":
            raise AttributeError(name)
        return getattr(self.wrapped, name)

    if not TYPE_CHECKING:  # type checkers use the signature of the framework

        @asynccontextmanager
        async def iter(
            self, *prompt: Any, capabilities: Sequence[Any] | None = None, **options: Any
        ) -> AsyncGenerator[AgentRun[AgentDepsT, Any]]:
            """Run the agent with its memory; all other run methods call this one."""
            with_memory = [self.capability, *(capabilities or ())]
            async with self.wrapped.iter(*prompt, capabilities=with_memory, **options) as run:
                yield run


def _install(memory: AgentMemory, into: Any) -> Any:
    if not isinstance(into, AbstractAgent):
        raise CapabilityError(f"memory is installed into an agent of pydantic-ai, not into {kind_of(into)}")
    return AgentWithMemory(into, MemoryCapability(memory))


def _speaker_of_prompts(request: ModelRequest) -> str:
    """Return the role of a request's prompts; prompts beside tool results may come from the tools."""
    if MEMORY_NAME in (request.metadata or {}):
        return MEMORY_ROLE
    return "tool" if any(isinstance(part, ToolReturnPart) for part in request.parts) else "user"


def _said_by_model(part: ModelResponsePart, response: ModelResponse) -> tuple[Message, ...]:
    match part:
        case TextPart():
            return said(part.content, "assistant", timestamp=response.timestamp)
        case NativeToolReturnPart():
            return said(part.model_response_str(), "tool", timestamp=part.timestamp)
        case SpeechPart():
            return said(part.transcript or "", "assistant", _speech(part), timestamp=response.timestamp)
        case FilePart(content=file):
            return said("", "assistant", _media([file]), timestamp=response.timestamp)
        case _:
            return ()


def _said_to_model(part: ModelRequestPart, user: str) -> tuple[Message, ...]:
    match part:
        case UserPromptPart():
            parts = _media([] if isinstance(part.content, str) else part.content)
            return said(_text(part.content), user, parts, timestamp=part.timestamp)
        case SpeechPart():
            return said(part.transcript or "", user, _speech(part))
        case SystemPromptPart():
            return said(part.content, "system", timestamp=part.timestamp)
        case ToolReturnPart():
            return said(part.model_response_str(), "tool", timestamp=part.timestamp)
        case _:
            return ()


def _speech(part: SpeechPart) -> MediaParts:
    return MediaParts(not_text=int(part.transcript is None))


def _text(content: str | Sequence[UserContent]) -> str:
    """Return the text of a prompt, without pictures and files."""
    if isinstance(content, str):
        return content
    texts = (item if isinstance(item, str) else getattr(item, "content", None) for item in content)
    return "\n".join(text for text in texts if isinstance(text, str))


def _media(content: Sequence[UserContent]) -> MediaParts:
    """Return the pictures and files in a prompt."""
    others = (
        item
        for item in content
        if not isinstance(item, str | CachePoint) and not isinstance(getattr(item, "content", None), str)
    )
    return media_of((item.data, item.media_type) if isinstance(item, BinaryContent) else None for item in others)


def _with_separate_prompt(history: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Split requests that start with system prompts, so that a memory block fits between these and the user's."""
    separate: list[ModelMessage] = []
    for message in history:
        place = 0
        if isinstance(message, ModelRequest):
            kinds = [isinstance(part, SystemPromptPart) for part in message.parts]
            place = kinds.index(False) if False in kinds else 0
        if place and isinstance(message, ModelRequest):
            separate += [replace(message, parts=message.parts[:place]), replace(message, parts=message.parts[place:])]
        else:
            separate.append(message)
    return separate


integration: Final = HostIntegration(install=_install, history=_FORMAT)
"""The integration of pydantic-ai."""
