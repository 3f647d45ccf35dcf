"""Memory in agents of pydantic-ai.

It can be put into any agent (`pydantic_ai.Agent`, a `WrapperAgent`): ``install`` returns one that wraps it, whose
``run``, ``run_sync``, ``run_stream`` and ``iter`` know what is known and learn from each run that ended well; the
agent that was given stays as it was. Or name the capability where the agent is made, which durable agents need
(they take no capability at run time), and which can bring the tools as well::

    agent = Agent(model, capabilities=[MemoryCapability(memory, tools=True)])

Whom a run works for is read from the attributes (or keys) ``user_id`` and ``session_id`` of its ``deps``; a run
without a ``session_id`` belongs to the conversation that pydantic-ai's own ``conversation_id`` names. `identity`
takes a function that reads it elsewhere, and ``with memory.run(...)`` goes before both::

    memory = AgentMemory(AgentMemoryConfig(store="sqlite-vec:facts.db", agent_name="planner"))
    agent = install(memory, into=Agent(model))
    await agent.run("Where do I live?", deps=Visitor(user_id="alice"))

What is known goes into requests alone, beside the user's prompt: neither into the instructions nor into the
history that a result returns. Realtime sessions make no such requests: the capability learns from them, and tells
nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from factmem.abc import MEMORY_ROLE, Message
from factmem.agent import (
    MEMORY_NAME,
    AgentMemory,
    HostIntegration,
    MemoryBlock,
    MemoryRun,
    RunIdentity,
    SavingTime,
    spoken,
    with_block,
)
from factmem.errors import CapabilityError, MissingPackageError

try:
    from pydantic_ai.agent import AbstractAgent, AgentRun, WrapperAgent
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
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
except ModuleNotFoundError as _missing:
    raise MissingPackageError("pydantic-ai-slim", extra="pydantic-ai") from _missing

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext

__all__ = ["AgentWithMemory", "MemoryCapability", "PydanticAIFormat", "integration"]

OutputT = TypeVar("OutputT", default=str)


class PydanticAIFormat:
    """Histories of pydantic-ai. What memory put in has a key of its own in its request's ``metadata``."""

    def messages(self, native: ModelMessage) -> Sequence[Message]:
        """See `HistoryFormat.messages`. An answer that was broken off says nothing."""
        if isinstance(native, ModelResponse):
            parts = native.parts if native.state == "complete" else ()
            said = [_said_by_model(part, native) for part in parts]
        else:
            user = _speaker_of_prompts(native)
            said = [_said_to_model(part, user) for part in native.parts]
        return [message for message in said if message is not None and (message.content.strip() or message.not_text)]

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
    return RunIdentity.named_by(context.deps).or_else(RunIdentity(session_id=context.conversation_id))


class MemoryCapability(AbstractCapability[AgentDepsT]):
    """Tells an agent what is known, and learns from its runs that ended well.

    What is known is loaded at the first request of a run, and each request of that run is told the same.

    Args:
        memory: The memory.
        tools: Whether the model is given recall_memory, save_memory and forget_memory.
        identity: Says by a run's context whom it works for; by default its deps do.
    """

    id: str | None = "factmem"
    """An agent has one memory: one that is given for a run goes before the agent's own."""

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
        """Return the one that was named last."""
        return capabilities[-1]

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> AbstractCapability[AgentDepsT]:
        """Return the capability of one run, which is bound to whom that works for."""
        bound = MemoryCapability[AgentDepsT](self.memory, tools=self.tools, identity=self.identity)
        bound.id, bound.description, bound.defer_loading = self.id, self.description, self.defer_loading
        bound._run = self.memory.for_run(self.identity(ctx))
        return bound

    def get_toolset(self) -> FunctionToolset[AgentDepsT] | None:
        """Return the tools of the run, if they were asked for."""
        if not self.tools:
            return None
        tools = (self._run or self.memory.for_run()).tools
        return FunctionToolset([tools.recall_memory, tools.save_memory, tools.forget_memory])

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Put what is known into the request, before the user's prompt, and into nothing else."""
        if self._run is not None and self._block is None:
            self._block = await self._run.load(spoken(_FORMAT, request_context.messages))
        block = self._block or MemoryBlock()
        history = _with_prompt_apart(request_context.messages) if block else request_context.messages
        request_context.messages = with_block(_FORMAT, history, block)
        return request_context

    async def after_run(self, ctx: RunContext[AgentDepsT], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Hand over what was said, if that is to be done after each run."""
        if self._run is not None and self.memory.config.saving.when is SavingTime.AFTER_RUN:
            await self._run.save(spoken(_FORMAT, result.all_messages()))
        return result


class AgentWithMemory(WrapperAgent[AgentDepsT, OutputT]):
    """An agent with a memory around one without, which stays as it was.

    It runs like the other one; what it does not have itself, such as ``agent.tool``, is the other one's.

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

    if not TYPE_CHECKING:  # to a type checker, and so to whoever calls it, the signature is that of the framework

        @asynccontextmanager
        async def iter(
            self, *prompt: Any, capabilities: Sequence[Any] | None = None, **options: Any
        ) -> AsyncGenerator[AgentRun[AgentDepsT, Any]]:
            """Run the agent with its memory; every other way to run it comes through here."""
            with_memory = [self.capability, *(capabilities or ())]
            async with self.wrapped.iter(*prompt, capabilities=with_memory, **options) as run:
                yield run


def _install(memory: AgentMemory, into: Any) -> Any:
    if not isinstance(into, AbstractAgent):
        raise CapabilityError(f"memory is put into an agent of pydantic-ai, not into a {type(into).__name__}")
    return AgentWithMemory(into, MemoryCapability(memory))


def _speaker_of_prompts(request: ModelRequest) -> str:
    """Return the speaker of a request's prompts; prompts beside tool results may be words of the tools."""
    if MEMORY_NAME in (request.metadata or {}):
        return MEMORY_ROLE
    return "tool" if any(isinstance(part, ToolReturnPart) for part in request.parts) else "user"


def _said_by_model(part: ModelResponsePart, response: ModelResponse) -> Message | None:
    match part:
        case TextPart():
            return Message(content=part.content, role="assistant", timestamp=response.timestamp)
        case NativeToolReturnPart():
            return Message(content=part.model_response_str(), role="tool", timestamp=part.timestamp)
        case SpeechPart(transcript=str(transcript)):
            return Message(content=transcript, role="assistant", timestamp=response.timestamp)
        case FilePart() | SpeechPart():
            return Message(content="", role="assistant", timestamp=response.timestamp, not_text=1)
        case _:
            return None


def _said_to_model(part: ModelRequestPart, user: str) -> Message | None:
    match part:
        case UserPromptPart():
            return Message(
                content=_text(part.content), role=user, timestamp=part.timestamp, not_text=_not_text(part.content)
            )
        case SpeechPart(transcript=str(transcript)):
            return Message(content=transcript, role=user)
        case SpeechPart():
            return Message(content="", role=user, not_text=1)
        case SystemPromptPart():
            return Message(content=part.content, role="system", timestamp=part.timestamp)
        case ToolReturnPart():
            return Message(content=part.model_response_str(), role="tool", timestamp=part.timestamp)
        case _:
            return None


def _text(content: str | Sequence[UserContent]) -> str:
    """The text of a prompt: all of it, or what it has beside pictures and files."""
    if isinstance(content, str):
        return content
    texts = (item if isinstance(item, str) else getattr(item, "content", None) for item in content)
    return "\n".join(text for text in texts if isinstance(text, str))


def _not_text(content: str | Sequence[UserContent]) -> int:
    """Return the number of pictures and files in a prompt."""
    if isinstance(content, str):
        return 0
    return sum(
        not isinstance(item, str | CachePoint) and not isinstance(getattr(item, "content", None), str)
        for item in content
    )


def _with_prompt_apart(history: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Take the user's prompt out of requests that the system prompt begins, which is to stay at the beginning."""
    apart: list[ModelMessage] = []
    for message in history:
        place = 0
        if isinstance(message, ModelRequest):
            kinds = [isinstance(part, SystemPromptPart) for part in message.parts]
            place = kinds.index(False) if False in kinds else 0
        if place and isinstance(message, ModelRequest):
            apart += [replace(message, parts=message.parts[:place]), replace(message, parts=message.parts[place:])]
        else:
            apart.append(message)
    return apart


integration: Final = HostIntegration(install=_install, history=_FORMAT)
"""The integration of pydantic-ai."""
