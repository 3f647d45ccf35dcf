"""Memory in agents of CrewAI: kickoffs of their own, and tasks in crews without memory."""

# pyright: reportMissingImports=false

from __future__ import annotations

import functools
import uuid
from collections.abc import Coroutine, Sequence
from typing import Any

from factmem.abc import Message
from factmem.agent import AgentMemory, DictFormat, SavingTime, spoken
from factmem.errors import InvalidDataError, MissingPackageError
from factmem.integrations.crewai.crews import CrewMemory, answered
from factmem.integrations.crewai.storage import run_of

try:
    from crewai.agent import Agent
    from crewai.lite_agent_output import LiteAgentOutput
    from crewai.task import Task
except ModuleNotFoundError as _missing:
    raise MissingPackageError("crewai", extra="crewai") from _missing

__all__ = ["agent_with"]


def agent_with(memory: AgentMemory, host: Agent) -> Agent:
    """Return a copy of an agent with memory.

    Raises:
        InvalidDataError: The agent has a memory.
    """
    if host.memory:
        raise InvalidDataError("this agent has a memory already: leave its memory= out, or give that a FactMemStorage")
    agent = host.model_copy(update={"memory": CrewMemory.over(memory), "agent_executor": None})
    # CrewAI has no hook after a kickoff: what is saved is added to the methods that every program calls.
    kind: Any = type(host)
    object.__setattr__(agent, "__class__", _remembering(kind))
    return agent


@functools.cache
def _remembering(cls: Any) -> Any:
    """Return a subclass of a class of agents that submits what was said after each run."""

    class RememberingAgent(cls):
        def kickoff(self, messages: Any, *args: Any, **options: Any) -> LiteAgentOutput | Coroutine[Any, Any, Any]:
            output = super().kickoff(messages, *args, **options)
            if isinstance(output, LiteAgentOutput):  # else, in an event loop, kickoff_async was called
                _save(self, _conversation(messages, output))
            return output

        async def kickoff_async(self, messages: Any, *args: Any, **options: Any) -> LiteAgentOutput:
            output = await super().kickoff_async(messages, *args, **options)
            await _asave(self, _conversation(messages, output))
            return output

        def execute_task(self, task: Task, *args: Any, **options: Any) -> Any:
            result = super().execute_task(task, *args, **options)
            if not _is_saved_by_crew(self):
                _save(self, _of_task(self, task, result))
            return result

        async def aexecute_task(self, task: Task, *args: Any, **options: Any) -> Any:
            result = await super().aexecute_task(task, *args, **options)
            if not _is_saved_by_crew(self):
                await _asave(self, _of_task(self, task, result))
            return result

        def copy(self) -> Any:
            """Return a copy with the same memory; CrewAI itself copies by value, which an open store cannot be."""
            copied = super(RememberingAgent, self.model_copy(update={"memory": None})).copy()
            copied.memory = self.memory
            return copied

    RememberingAgent.__name__, RememberingAgent.__qualname__ = cls.__name__, cls.__qualname__
    return RememberingAgent


def _save(agent: Agent, messages: Sequence[Message]) -> None:
    memory = agent.memory.agent_memory
    if memory.config.saving.when is SavingTime.AFTER_RUN:
        run_of(memory).save_blocking(messages)


async def _asave(agent: Agent, messages: Sequence[Message]) -> None:
    memory = agent.memory.agent_memory
    if memory.config.saving.when is SavingTime.AFTER_RUN:
        await run_of(memory).save(messages)


def _is_saved_by_crew(agent: Agent) -> bool:
    return isinstance(getattr(agent.crew, "_memory", None), CrewMemory)


def _of_task(agent: Agent, task: Task, result: Any) -> list[Message]:
    id = uuid.uuid4().hex
    return [*answered(task.description, agent.last_messages, str(result), agent=agent.role, id=id)]


def _conversation(messages: Any, output: LiteAgentOutput) -> list[Message]:
    """Return the messages of a kickoff: a text is a conversation of its own, and a list may be continued."""
    said = messages if isinstance(messages, str) else ""
    id = uuid.uuid4().hex
    found = [*answered(said, output.messages, output.raw, agent=output.agent_role, id=id)]
    if isinstance(messages, str):
        return found
    tools, answer = [it for it in found if it.role == "tool"], {"role": "assistant", "content": output.raw}
    format = DictFormat()
    return [*spoken(format, messages), *tools, *spoken(format, [*messages, answer])[-1:]]
