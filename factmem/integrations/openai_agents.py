"""Memory in agents of the OpenAI Agents SDK (the module ``agents``).

Memory can be installed into an `agents.Agent`. ``install`` returns a copy with hooks, whose handoffs lead to copies
with hooks too. The agent itself and its model stay unchanged, and existing hooks are still called. The identity of a
run comes from the attributes (or keys) ``user_id`` and ``session_id`` of the run's context; ``with memory.run(...)``
takes precedence:

    memory = AgentMemory(AgentMemoryConfig(store="facts.db", agent_name="planner"))
    agent = install(memory, into=Agent("Planner", tools=[*memory_tools(memory)]))
    await Runner.run(agent, "Where do I live?", context=Visitor(user_id="alice"))

For single runs, `MemoryHooks` (``hooks=``) does the same for every agent of a run, and `memory_filter`
(``RunConfig(call_model_input_filter=...)``) only loads. `MemorySession` saves the items of a session.

The memory block goes into requests only, before the user's last message. If OpenAI's server keeps the conversation
(``conversation_id``, ``previous_response_id``), it keeps each request as it was sent, with its memory block. An agent
that runs as a tool loads facts, but its conversation is not saved, since a model wrote its input. The SDK calls hooks
before it checks an output with guardrails. The answer of an agent with output guardrails is therefore saved with the
next run, whose history shows that it passed.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs

from factmem.agent.chat_history import spoken
from factmem.agent.config import RunIdentity
from factmem.agent.plugin import AgentMemory, HostIntegration
from factmem.agent.rendering import MemoryBlock
from factmem.agent.run import MemoryRun, MemoryTools
from factmem.error_hints import kind_of
from factmem.errors import CapabilityError, MissingPackageError
from factmem.integrations.openai import RequestFormat

with MissingPackageError.if_missing("openai-agents", extra="openai-agents"):
    from agents import Agent, AgentHooks, Handoff, RunHooks, Tool, function_tool
    from agents.items import ModelResponse, TResponseInputItem
    from agents.memory import Session, SessionSettings
    from agents.run import CallModelData, ModelInputData
    from agents.run_context import AgentHookContext, RunContextWrapper
    from agents.tool_context import ToolContext

_FORMAT: Final = RequestFormat()


@attrs.define
class _UnderWay:
    """State of a run in progress."""

    run: MemoryRun
    saves: bool
    block: MemoryBlock | None = None
    asked: list[Any] = attrs.field(factory=list)
    answered: list[Any] = attrs.field(factory=list)


class _Listener:
    """Observer of runs: loads facts into their requests, and saves the successful ones."""

    def __init__(self, memory: AgentMemory) -> None:
        self._memory = memory
        self._under_way: dict[int, _UnderWay] = {}

    async def asks(self, context: RunContextWrapper[Any], items: list[TResponseInputItem]) -> None:
        """Handle a request to a model: add the memory block to its items."""
        under_way = self._of(context)
        history: list[Any] = [*items]
        under_way.block = await under_way.run.load(spoken(_FORMAT, history), known=under_way.block)
        under_way.asked, under_way.answered = history, []
        items[:] = _FORMAT.with_block(history, under_way.block)

    def hears(self, context: RunContextWrapper[Any], response: ModelResponse) -> None:
        self._of(context).answered = [*response.to_input_items()]

    async def ends(self, context: RunContextWrapper[Any], agent: Agent[Any]) -> None:
        """Handle the end of a run: submit its conversation."""
        under_way = self._under_way.pop(id(context.usage), None)
        if under_way is None or not under_way.saves:
            return
        answered = [] if agent.output_guardrails else under_way.answered
        await under_way.run.finish(spoken(_FORMAT, [*under_way.asked, *answered]))

    def _of(self, context: RunContextWrapper[Any]) -> _UnderWay:
        """Return the run of a context. All contexts of a run share one usage object, which identifies the run."""
        key = id(context.usage)
        if key not in self._under_way:
            self._under_way[key] = _UnderWay(
                self._memory.for_run(RunIdentity.named_by(context.context, host=context)),
                not isinstance(context, ToolContext),
            )
            weakref.finalize(context.usage, self._under_way.pop, key, None)
        return self._under_way[key]


class MemoryHooks(RunHooks[Any]):
    """Hooks that give memory to every agent of a run; they may be shared by runs.

    Args:
        memory: The memory.
    """

    def __init__(self, memory: AgentMemory) -> None:
        self._listener: Final = _Listener(memory)

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        """Add the memory block to the request."""
        await self._listener.asks(context, input_items)

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        """Record the answer."""
        self._listener.hears(context, response)

    async def on_agent_end(self, context: AgentHookContext[Any], agent: Agent[Any], output: Any) -> None:
        """Submit the conversation."""
        await self._listener.ends(context, agent)


class _HooksOfAgent(AgentHooks[Any]):
    """The hooks of an agent with memory installed, which also call the agent's own hooks."""

    def __init__(self, listener: _Listener, own: AgentHooks[Any]) -> None:
        self._listener = listener
        self._own = own
        for unchanged in ("on_start", "on_handoff", "on_tool_start", "on_tool_end"):
            setattr(self, unchanged, getattr(own, unchanged))

    async def on_end(self, context: AgentHookContext[Any], agent: Agent[Any], output: Any) -> None:
        await self._own.on_end(context, agent, output)
        await self._listener.ends(context, agent)

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        await self._listener.asks(context, input_items)
        await self._own.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        self._listener.hears(context, response)
        await self._own.on_llm_end(context, agent, response)


def memory_filter(memory: AgentMemory) -> Callable[[CallModelData[Any]], Awaitable[ModelInputData]]:
    """Return a filter for ``RunConfig.call_model_input_filter`` that adds a memory block to each request.

    Args:
        memory: The memory.
    """

    async def add_block(data: CallModelData[Any]) -> ModelInputData:
        items: list[Any] = [*data.model_data.input]
        block = await memory.for_run(RunIdentity.named_by(data.context, host=data)).load(spoken(_FORMAT, items))
        return ModelInputData(input=_FORMAT.with_block(items, block), instructions=data.model_data.instructions)

    return add_block


def memory_tools(memory: AgentMemory) -> list[Tool]:
    """Return the tools recall_memory, save_memory and forget_memory, which act for the user of the calling run.

    Args:
        memory: The memory.
    """

    def of(context: RunContextWrapper[Any]) -> MemoryTools:
        return memory.for_run(RunIdentity.named_by(context.context, host=context)).tools

    async def recall_memory(context: RunContextWrapper[Any], query: str, limit: int = 5) -> str:
        return await of(context).recall_memory(query, limit)

    async def save_memory(context: RunContextWrapper[Any], text: str) -> str:
        return await of(context).save_memory(text)

    async def forget_memory(context: RunContextWrapper[Any], memory_ids: list[str], reason: str = "") -> str:
        return await of(context).forget_memory(memory_ids, reason)

    for tool in (recall_memory, save_memory, forget_memory):
        tool.__doc__ = getattr(MemoryTools, tool.__name__).__doc__
    return [function_tool(recall_memory), function_tool(save_memory), function_tool(forget_memory)]


class MemorySession:
    """A session whose items are saved to memory, around a session that stores the items.

    The items stay in a session of the SDK (``SQLiteSession`` or any other). A transcript is a list, which may repeat
    an item and drop the last one, while facts are a set with a history; and items stored as facts would appear in
    memory blocks. Added items are stored in the session first, and then submitted, even if the run fails later. Items
    removed from the session are not forgotten by factmem.

    Agents with memory installed, whose context names the same user and session, do not submit them twice.

    Args:
        session: Session that stores the items; its id is the id of the conversation.
        memory: The memory.
        user_id: User of the session.

    Attributes:
        session_id: Id of the conversation.
        session_settings: Settings of the session that stores the items.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(self, session: Session, memory: AgentMemory, *, user_id: str | None = None) -> None:
        self.session: Final = session
        self.memory: Final = memory
        self.user_id: Final = user_id
        self.session_id, self.session_settings = session.session_id, session.session_settings

    def __getattr__(self, name: str) -> Any:
        if name == "session":
            raise AttributeError(name)
        return getattr(self.session, name)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest items, oldest first.

        Args:
            limit: Maximum number of items (default: that of the session's settings).
        """
        return await self.session.get_items(limit)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items, and submit them.

        Raises:
            FactMemError: The items are stored, but the submission failed, and the policy is `FailurePolicy.RAISE`.
        """
        await self.session.add_items(items)
        if not self.memory.config.saving.after_run:
            return
        identity = RunIdentity(user_id=self.user_id, session_id=self.session_id)
        history: list[Any] = [*await self.session.get_items()]
        await self.memory.for_run(identity).finish(spoken(_FORMAT, history))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item, and return it; None if there is none."""
        return await self.session.pop_item()

    async def clear_session(self) -> None:
        """Remove all items."""
        await self.session.clear_session()


class _Installation:
    """Installs memory into an agent and its handoff targets, each once, even if they refer to each other."""

    def __init__(self, listener: _Listener) -> None:
        self._listener = listener
        self._made: dict[int, tuple[Agent[Any], Agent[Any]]] = {}

    def of(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the copy of an agent with memory."""
        if id(agent) not in self._made:
            hooks = _HooksOfAgent(self._listener, agent.hooks or AgentHooks[Any]())
            self._made[id(agent)] = agent, (made := agent.clone(hooks=hooks))
            self._made[id(made)] = made, made
            made.handoffs = [self._handed_off(target) for target in agent.handoffs]
        return self._made[id(agent)][1]

    def _handed_off(self, target: Agent[Any] | Handoff[Any, Any]) -> Agent[Any] | Handoff[Any, Any]:
        if isinstance(target, Agent):
            return self.of(target)
        made, invoke = copy.copy(target), target.on_invoke_handoff

        async def to_one_with_memory(context: RunContextWrapper[Any], arguments: str) -> Any:
            agent = await invoke(context, arguments)
            known = self if id(agent) in self._made else _Installation(self._listener)  # created by the handoff
            return known.of(agent)

        made.on_invoke_handoff = to_one_with_memory
        # A resumed run finds its agents by these references.
        if target._agent_ref is not None and isinstance(agent := target._agent_ref(), Agent):
            made._agent_ref = weakref.ref(self.of(agent))
        return made


def _install(memory: AgentMemory, into: Any) -> Any:
    if not isinstance(into, Agent):
        raise CapabilityError(f"memory is installed into an Agent of the OpenAI Agents SDK, not into {kind_of(into)}")
    return _Installation(_Listener(memory)).of(into)


integration: Final = HostIntegration(install=_install)
"""The integration of the OpenAI Agents SDK; its items are dicts, which need no separate format."""
