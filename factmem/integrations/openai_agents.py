"""Memory in agents of the OpenAI Agents SDK (the module ``agents``).

It can be put into an `agents.Agent`: ``install`` returns a copy with hooks, and so do the agents that it hands off to;
what was given, and the model, stay as they are, and hooks that were set are called as before. Whom a run works for
is read from the attributes (or keys) ``user_id`` and ``session_id`` of the run's context; ``with memory.run(...)`` goes
before it::

    memory = AgentMemory(AgentMemoryConfig(store="sqlite-vec:facts.db", agent_name="planner"))
    agent = install(memory, into=Agent("Planner", tools=[*memory_tools(memory)]))
    await Runner.run(agent, "Where do I live?", context=Visitor(user_id="alice"))

For single runs there are `MemoryHooks` (``hooks=``), which do the same for every agent of a run, and `memory_filter`
(``RunConfig(call_model_input_filter=...)``), which only tells; `MemorySession` learns from what a session keeps.

What is known goes into requests alone, before the user's last message. Where OpenAI's server keeps the conversation
(``conversation_id``, ``previous_response_id``) it keeps each request as it was sent, with what was known then. An agent
that runs as a tool is told what is known, but its input was written by a model, and is not learnt from. The SDK
calls hooks before it checks an output with guardrails; an answer that has yet to pass some is learnt from
with the next run, whose history shows that it passed.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs

from factmem.agent import (
    AgentMemory,
    HostIntegration,
    MemoryBlock,
    MemoryRun,
    MemoryTools,
    RunIdentity,
    SavingTime,
    spoken,
)
from factmem.errors import CapabilityError, MissingPackageError
from factmem.integrations.openai import RequestFormat

try:
    from agents import Agent, AgentHooks, Handoff, RunHooks, Tool, function_tool
    from agents.items import ModelResponse, TResponseInputItem
    from agents.memory import Session, SessionSettings
    from agents.run import CallModelData, ModelInputData
    from agents.run_context import AgentHookContext, RunContextWrapper
    from agents.tool_context import ToolContext
except ModuleNotFoundError as _missing:
    raise MissingPackageError("openai-agents", extra="openai-agents") from _missing

__all__ = ["MemoryHooks", "MemorySession", "integration", "memory_filter", "memory_tools"]


_FORMAT: Final = RequestFormat()


@attrs.define
class _UnderWay:
    """A run that has not ended yet."""

    run: MemoryRun
    learnt_from: bool
    block: MemoryBlock | None = None
    asked: list[Any] = attrs.field(factory=list)
    answered: list[Any] = attrs.field(factory=list)


class _Listener:
    """Hears the runs of agents: tells each what is known, and hands over what was said when it ends well."""

    def __init__(self, memory: AgentMemory) -> None:
        self._memory = memory
        self._under_way: dict[int, _UnderWay] = {}

    async def asks(self, context: RunContextWrapper[Any], items: list[TResponseInputItem]) -> None:
        """A model is about to be asked: put what is known into the items of this request, and into no others."""
        under_way = self._of(context)
        history: list[Any] = [*items]
        if under_way.block is None:
            under_way.block = await under_way.run.load(spoken(_FORMAT, history))
        under_way.asked, under_way.answered = history, []
        items[:] = _FORMAT.telling(history, under_way.block)

    def hears(self, context: RunContextWrapper[Any], response: ModelResponse) -> None:
        """A model has answered."""
        self._of(context).answered = [*response.to_input_items()]

    async def ends(self, context: RunContextWrapper[Any], agent: Agent[Any]) -> None:
        """A run has its output."""
        under_way = self._under_way.pop(id(context.usage), None)
        if under_way is None or not under_way.learnt_from:
            return
        answered = [] if agent.output_guardrails else under_way.answered
        await under_way.run.save(spoken(_FORMAT, [*under_way.asked, *answered]))

    def _of(self, context: RunContextWrapper[Any]) -> _UnderWay:
        """The run that a context is of: every context of a run counts into the same usage, and no other run does."""
        key = id(context.usage)
        if key not in self._under_way:
            self._under_way[key] = _UnderWay(
                self._memory.for_run(RunIdentity.named_by(context.context)),
                self._memory.config.saving.when is SavingTime.AFTER_RUN and not isinstance(context, ToolContext),
            )
            weakref.finalize(context.usage, self._under_way.pop, key, None)
        return self._under_way[key]


class MemoryHooks(RunHooks[Any]):
    """Hooks of one run, or of many, that give memory to every agent in it.

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
        """Put what is known into the request."""
        await self._listener.asks(context, input_items)

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        """Note the answer."""
        self._listener.hears(context, response)

    async def on_agent_end(self, context: AgentHookContext[Any], agent: Agent[Any], output: Any) -> None:
        """Hand over what was said."""
        await self._listener.ends(context, agent)


class _HooksOfAgent(AgentHooks[Any]):
    """The hooks of an agent that memory was put into, around those that it had."""

    def __init__(self, listener: _Listener, own: AgentHooks[Any]) -> None:
        self._listener = listener
        self._own = own

    async def on_start(self, context: AgentHookContext[Any], agent: Agent[Any]) -> None:
        await self._own.on_start(context, agent)

    async def on_end(self, context: AgentHookContext[Any], agent: Agent[Any], output: Any) -> None:
        await self._own.on_end(context, agent, output)
        await self._listener.ends(context, agent)

    async def on_handoff(self, context: RunContextWrapper[Any], agent: Agent[Any], source: Agent[Any]) -> None:
        await self._own.on_handoff(context, agent, source)

    async def on_tool_start(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool) -> None:
        await self._own.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: Any) -> None:
        await self._own.on_tool_end(context, agent, tool, result)

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
    """Make a filter for ``RunConfig.call_model_input_filter`` that puts what is known into each request.

    Args:
        memory: The memory.
    """

    async def tell(data: CallModelData[Any]) -> ModelInputData:
        items: list[Any] = [*data.model_data.input]
        block = await memory.for_run(RunIdentity.named_by(data.context)).load(spoken(_FORMAT, items))
        return ModelInputData(input=_FORMAT.telling(items, block), instructions=data.model_data.instructions)

    return tell


def memory_tools(memory: AgentMemory) -> list[Tool]:
    """Make the tools recall_memory, save_memory and forget_memory, each of which works for the user of its run.

    Args:
        memory: The memory.
    """

    def of(context: RunContextWrapper[Any]) -> MemoryTools:
        return memory.for_run(RunIdentity.named_by(context.context)).tools

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
    """A session that facts are learnt from, around one that keeps the items.

    The items themselves stay in a session of the SDK (``SQLiteSession`` or any other): a transcript is a list, where
    the same words may stand twice and the last ones may be taken back, while facts are a set with a history of its
    own; as facts the items would turn up in what agents are told. Whatever is added is on disk there first,
    and is then handed over, even if the run fails later; what is taken back is not forgotten by factmem.

    Agents that memory was installed into, and whose context names the same user and session, learn nothing twice.

    Args:
        session: Keeps the items; its id is the conversation's.
        memory: Learns from them.
        user_id: Whose session it is.

    Attributes:
        session_id: The id of the conversation.
        session_settings: The settings of the session that keeps the items.
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
            limit: How many; what the session's settings say if None.
        """
        return await self.session.get_items(limit)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Keep items, and hand over what they say.

        Raises:
            FactMemError: They are kept, but could not be handed over, and the policy is `FailurePolicy.RAISE`.
        """
        await self.session.add_items(items)
        if self.memory.config.saving.when is SavingTime.AFTER_RUN:
            identity = RunIdentity(user_id=self.user_id, session_id=self.session_id)
            history: list[Any] = [*await self.session.get_items()]
            await self.memory.for_run(identity).save(spoken(_FORMAT, history))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take back the last item, and return it; None if there is none."""
        return await self.session.pop_item()

    async def clear_session(self) -> None:
        """Take back all items."""
        await self.session.clear_session()


class _Installation:
    """Puts memory into an agent and into those that it hands off to, each once, however they refer to each other."""

    def __init__(self, listener: _Listener) -> None:
        self._listener = listener
        self._made: dict[int, tuple[Agent[Any], Agent[Any]]] = {}

    def of(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the copy of an agent that has memory."""
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
            known = self if id(agent) in self._made else _Installation(self._listener)  # one that was made just now
            return known.of(agent)

        made.on_invoke_handoff = to_one_with_memory
        # A run that is resumed later finds its agents again by these references.
        if target._agent_ref is not None and isinstance(agent := target._agent_ref(), Agent):
            made._agent_ref = weakref.ref(self.of(agent))
        return made


def _install(memory: AgentMemory, into: Any) -> Any:
    if not isinstance(into, Agent):
        raise CapabilityError(f"memory is put into an Agent of the OpenAI Agents SDK, not into a {type(into).__name__}")
    return _Installation(_Listener(memory)).of(into)


integration: Final = HostIntegration(install=_install)
"""The integration of the OpenAI Agents SDK; its items are dicts, which need no format of their own."""
