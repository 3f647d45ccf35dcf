"""Memory in agents of LangChain: a middleware, and the messages of ``langchain_core``.

Memory can be installed into ``create_agent``, and into similar factories with a ``middleware`` parameter:

    make_agent = install(AgentMemory, into=create_agent, store="facts.db", agent_name="planner")
    agent = make_agent("openai:gpt-5.5", tools=[...])
    await agent.ainvoke({"messages": "Where do I live?"}, context={"user_id": "alice", "session_id": "monday"})

This adds a `FactMemMiddleware` as the last, and so innermost, middleware of the agent. For another order, or for the
tools of ``tools=True`` that let the model recall, save and forget, pass the middleware yourself.

The identity of a run comes from ``user_id`` and ``session_id`` (or ``thread_id``) of the run's context, a mapping or an
object, or else from the run's config; see `factmem.agent.nodes.GraphRun`. `AgentMemory.run` takes precedence over
both. A server should put its authenticated user into the context, and not leave the config to its clients.

Facts are loaded at the start of a run, and go into requests only. They never enter the messages of the agent's state
or a checkpoint, so a thread that continues later gets the facts known then. After a successful run, its messages are
submitted. ``invoke`` and ``stream`` require a memory with its own thread, which every address and provider gets;
``ainvoke`` and ``astream`` also accept an open `Memory`.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, NotRequired, TypeVar, cast

from factmem.abc.detector import MEMORY_ROLE, Message
from factmem.agent.chat_history import MEMORY_NAME, said, spoken, with_block
from factmem.agent.plugin import AgentMemory, HostIntegration
from factmem.agent.rendering import MemoryBlock
from factmem.agent.run import TOOL_NAMES, MemoryRun, MemoryTools
from factmem.error_hints import kind_of
from factmem.errors import CapabilityError, InvalidDataError, MissingPackageError
from factmem.integrations.langgraph import identity_here
from factmem.media.parts import MediaParts, media_in

with MissingPackageError.if_missing("langchain", extra="langchain"):
    from langchain.agents.middleware.types import (
        AgentMiddleware,
        AgentState,
        ModelRequest,
        ModelResponse,
        PrivateStateAttr,
    )
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        ChatMessage,
        FunctionMessage,
        HumanMessage,
        RemoveMessage,
        ToolMessage,
    )
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_core.tools.base import create_schema_from_function
    from langgraph.channels import UntrackedValue
    from langgraph.runtime import Runtime

FactoryT = TypeVar("FactoryT", bound=Callable[..., Any])

_MARK: Final = "factmem"
_MINTED: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class LangChainFormat:
    """Histories of ``langchain_core`` messages. Memory blocks are marked in ``additional_kwargs``.

    Only ids that the program gave to messages of the user are kept, since LangGraph generates a new id for each
    message without one, each time a history is passed in. Other messages are identified by their content. Messages
    that a middleware of LangChain wrote in the user's name, such as summaries, count as instructions and are not
    processed.
    """

    def messages(self, native: BaseMessage) -> Sequence[Message]:
        """See `HistoryFormat.messages`."""
        if isinstance(native, RemoveMessage):
            return ()
        parts = media_in(native.content) if isinstance(native.content, list) else MediaParts()
        role = _role(native)
        id = native.id if role == "user" and native.id and not _MINTED.fullmatch(native.id) else None
        return said(str(native.text), role, parts, name=native.name, id=id)

    def calls(self, native: BaseMessage) -> bool:
        """See `HistoryFormat.calls`."""
        return isinstance(native, AIMessage) and bool(native.tool_calls)

    def memory(self, block: MemoryBlock) -> BaseMessage:
        """See `HistoryFormat.memory`."""
        return HumanMessage(block.text, id=MEMORY_NAME, additional_kwargs={_MARK: MEMORY_ROLE})

    def summary(self, text: str) -> BaseMessage:
        """See `HistoryFormat.summary`."""
        return AIMessage(text)


def _role(native: BaseMessage) -> str:
    match native:
        case HumanMessage():
            marks = native.additional_kwargs
            if marks.get(_MARK) == MEMORY_ROLE or native.name == MEMORY_NAME:
                return MEMORY_ROLE
            return "system" if marks.get("lc_source") else "user"
        case AIMessage():
            return "assistant"
        case ToolMessage() | FunctionMessage():
            return "tool"
        case ChatMessage():
            return native.role
        case _:
            return native.type


_FORMAT: Final = LangChainFormat()


class _Loaded:
    """The memory block of one run, hidden from streamed, logged and traced states."""

    __slots__ = ("block",)

    def __init__(self, block: MemoryBlock) -> None:
        self.block = block

    def __repr__(self) -> str:
        return "<memory>"


class MemoryState(AgentState[Any]):
    """The private state of `FactMemMiddleware`; it is neither input nor output nor checkpointed."""

    factmem_loaded: NotRequired[Annotated[_Loaded, UntrackedValue, PrivateStateAttr]]


class FactMemMiddleware(AgentMiddleware[MemoryState, Any, Any]):
    """Middleware that loads known facts into an agent's requests, and submits its conversations.

    See `factmem.integrations.langchain`.

    Args:
        memory: The memory.
        tools: Whether the model gets the tools ``recall_memory``, ``save_memory`` and ``forget_memory``.
    """

    state_schema = MemoryState

    def __init__(self, memory: AgentMemory, *, tools: bool = False) -> None:
        self.memory: Final = memory
        self.tools = memory_tools(memory) if tools else []

    def before_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Load the memory block of the run."""
        return {"factmem_loaded": _Loaded(self._run(runtime, state).load_blocking(_spoken(state)))}

    async def abefore_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Load the memory block of the run."""
        return {"factmem_loaded": _Loaded(await self._run(runtime, state).load(_spoken(state)))}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Add the memory block to this request."""
        state = cast("MemoryState", request.state)
        block = self._run(request.runtime, state).load_blocking(_spoken(state), known=_loaded(state))
        return handler(_with_block(request, block))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Add the memory block to this request."""
        state = cast("MemoryState", request.state)
        block = await self._run(request.runtime, state).load(_spoken(state), known=_loaded(state))
        return await handler(_with_block(request, block))

    def after_agent(self, state: MemoryState, runtime: Runtime[Any]) -> None:
        """Submit the conversation after a successful run."""
        self._run(runtime, state).finish_blocking(_spoken(state))

    async def aafter_agent(self, state: MemoryState, runtime: Runtime[Any]) -> None:
        """Submit the conversation after a successful run."""
        await self._run(runtime, state).finish(_spoken(state))

    def _run(self, runtime: Runtime[Any], state: MemoryState) -> MemoryRun:
        return self.memory.for_run(identity_here(state, runtime))


def _loaded(state: MemoryState) -> MemoryBlock | None:
    """Return the block that `before_agent` loaded; None in a resumed run, which skips it."""
    known = state.get("factmem_loaded")
    return known.block if known else None


def _spoken(state: MemoryState) -> list[Message]:
    return spoken(_FORMAT, state["messages"])


def _with_block(request: ModelRequest[Any], block: MemoryBlock) -> ModelRequest[Any]:
    messages: list[Any] = with_block(_FORMAT, request.messages, block)
    return request.override(messages=messages)


def memory_tools(memory: AgentMemory) -> list[BaseTool]:
    """Return the tools ``recall_memory``, ``save_memory`` and ``forget_memory``.

    Any agent of LangChain or LangGraph accepts them. Each call uses the identity of the current run.

    Args:
        memory: The memory.
    """
    return [_tool(memory, name) for name in TOOL_NAMES]


def _tool(memory: AgentMemory, name: str) -> BaseTool:
    method: Callable[..., Awaitable[str]] = getattr(MemoryTools, name)
    schema = create_schema_from_function(name, method, parse_docstring=True)

    async def call(**arguments: Any) -> str:
        return await method(memory.for_run(identity_here()).tools, **arguments)

    def call_blocking(**arguments: Any) -> str:
        run, policy = memory.for_run(identity_here()), memory.config.loading.on_failure
        return run.use_blocking(
            lambda run: method(run.tools, **arguments), f"{name} failed", policy, "The memory cannot be used now."
        )

    return StructuredTool(
        name=name, description=schema.__doc__ or name, args_schema=schema, func=call_blocking, coroutine=call
    )


def install_into_factory(
    memory: AgentMemory, factory: FactoryT, make: Callable[[AgentMemory], FactMemMiddleware] = FactMemMiddleware
) -> FactoryT:
    """Return a factory of agents with memory.

    Args:
        memory: The memory.
        factory: ``create_agent``, or another factory with a ``middleware`` parameter.
        make: Function that returns the middleware to add.

    Raises:
        CapabilityError: The factory takes no middleware.
    """
    if not callable(factory) or "middleware" not in inspect.signature(factory).parameters:
        raise CapabilityError(
            f"memory cannot be installed into {kind_of(factory)}: install it into create_agent, and make the "
            "agent with what that returns; or give FactMemMiddleware to the agent"
        )

    @functools.wraps(factory)
    def made(*arguments: Any, middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (), **settings: Any) -> Any:
        if any(isinstance(one, FactMemMiddleware) for one in middleware):
            raise InvalidDataError("this agent has a memory already: install one, or give it a FactMemMiddleware")
        return factory(*arguments, middleware=[*middleware, make(memory)], **settings)

    return cast("FactoryT", made)


integration: Final = HostIntegration(install=install_into_factory, history=_FORMAT)
