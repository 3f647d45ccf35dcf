"""Google's Agent Development Kit: memory for an app or a runner, a memory service, and histories of events.

Memory can be installed into an `App` or a `Runner`; the result is a copy with an additional `FactMemPlugin`. A
`Runner` without a memory service also gets one, with the minimum score of `Loading` if that is set. The identity of a
run is the user and the id of its session. If the configuration names no agent, feature or product, facts are saved in
``/product/<app_name>``.

    app = install(AgentMemory, into=App(name="fair", root_agent=agent), store="facts.db")
    runner = Runner(app=app, session_service=InMemorySessionService())

Memory tools for the model come from `memory_tools`, or from ADK itself: `load_memory` and `preload_memory` query the
runner's memory service. In ``run_live``, ADK passes no requests to plugins: conversations are saved, but nothing is
loaded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

import anyio
import attrs

from factmem.agent import AgentMemory, HostIntegration, MemoryBlock, MemoryRun, spoken, with_block
from factmem.agent.run import MemoryTools
from factmem.errors import CapabilityError, InvalidDataError, MissingPackageError
from factmem.integrations.adk.events import ContentFormat, EventFormat, MemoryContent, run_of
from factmem.integrations.adk.service import MIN_SCORE, FactMemMemoryService, memory_service, register_memory_service

try:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.apps import App
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.runners import Runner
    from google.adk.sessions import Session
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.function_tool import FunctionTool
    from google.adk.tools.tool_context import ToolContext
except ModuleNotFoundError as _missing:
    raise MissingPackageError("google-adk", extra="adk") from _missing

__all__ = [
    "ContentFormat",
    "EventFormat",
    "FactMemMemoryService",
    "FactMemPlugin",
    "MemoryContent",
    "genai",
    "integration",
    "memory_service",
    "memory_tools",
    "register_memory_service",
]

_KEY: Final = "factmem"
_in_tool: ContextVar[bool] = ContextVar("factmem_adk_in_tool", default=False)


@attrs.define
class _Loaded:
    """The memory block of an invocation, loaded by its first request."""

    lock: anyio.Lock = attrs.Factory(anyio.Lock)
    block: MemoryBlock | None = None

    async def load(self, run: MemoryRun, session: Session) -> MemoryBlock:
        async with self.lock:
            if self.block is None:
                self.block = await run.load(spoken(EventFormat(), session.events))
            return self.block


class FactMemPlugin(BasePlugin):
    """Plugin that loads known facts into the requests of an app's agents, and submits each invocation's new events.

    An agent that runs as a tool (`AgentTool`) loads facts too, but its conversation is not saved, since a model speaks
    there as the user. With `FailurePolicy.RAISE`, an error ends the run; ADK wraps it in a RuntimeError.

    Args:
        memory: The memory.
        name: Name of the plugin in the app.
    """

    def __init__(self, memory: AgentMemory, *, name: str = "factmem") -> None:
        super().__init__(name=name)
        self.memory: Final = memory

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Add the memory block before the user's last message in a request."""
        loaded: _Loaded = callback_context.custom_metadata.setdefault(_KEY, _Loaded())
        session = callback_context.session
        run = run_of(self.memory, session)
        run.hear(spoken(EventFormat(), session.events))
        block = await loaded.load(run, session)
        llm_request.contents = with_block(ContentFormat(), llm_request.contents, block)
        return None

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Mark the context of the tool call, so that runs within it are not saved."""
        _in_tool.set(True)
        return None

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Submit the session's new events."""
        if self.memory.config.saving.after_run and not _in_tool.get():
            session = invocation_context.session
            await run_of(self.memory, session).save(spoken(EventFormat(), session.events))


def memory_tools(memory: AgentMemory) -> list[BaseTool]:
    """Return `recall_memory`, `save_memory` and `forget_memory` for ``LlmAgent(tools=…)``.

    Args:
        memory: The memory; the tools see the facts that are visible to the user of the run.
    """

    def tools(context: ToolContext) -> MemoryTools:
        run = run_of(memory, context.session)
        run.hear(spoken(EventFormat(), context.session.events))
        return run.tools

    async def recall_memory(query: str, tool_context: ToolContext, limit: int = 5) -> str:
        return await tools(tool_context).recall_memory(query, limit)

    async def save_memory(text: str, tool_context: ToolContext) -> str:
        return await tools(tool_context).save_memory(text)

    async def forget_memory(memory_ids: list[str], tool_context: ToolContext, reason: str = "") -> str:
        return await tools(tool_context).forget_memory(memory_ids, reason)

    made: list[Callable[..., Any]] = [recall_memory, save_memory, forget_memory]
    for tool in made:
        tool.__doc__ = getattr(MemoryTools, tool.__name__).__doc__
    return [FunctionTool(tool) for tool in made]


def _installed(memory: AgentMemory, host: Any) -> App | Runner:
    match host:
        case App():
            return _with_plugin(host, FactMemPlugin(memory))
        case Runner():
            return _with_runner(host, memory)
        case _:
            raise CapabilityError(
                f"memory cannot be installed into a {type(host).__name__}: put the agent into an App, and install it "
                "into that"
            )


def _with_plugin(app: App, plugin: FactMemPlugin) -> App:
    if any(isinstance(other, FactMemPlugin) for other in app.plugins):
        raise InvalidDataError("this app has a memory already")
    return app.model_copy(update={"plugins": [*app.plugins, plugin]})


def _with_runner(runner: Runner, memory: AgentMemory) -> Runner:
    plugin = FactMemPlugin(memory)
    other = copy.copy(runner)
    other.app = _with_plugin(runner.app, plugin)
    other.plugin_manager = copy.copy(runner.plugin_manager)
    other.plugin_manager.plugins = [*runner.plugin_manager.plugins, plugin]
    least = memory.config.loading.min_score or MIN_SCORE
    other.memory_service = runner.memory_service or FactMemMemoryService(memory, min_score=least)
    return other


integration: Final = HostIntegration(install=_installed, history=EventFormat())
genai: Final = HostIntegration(history=ContentFormat())
