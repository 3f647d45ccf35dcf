"""CrewAI: memory for a crew, an agent or a flow, and a storage for CrewAI's own `Memory`.

CrewAI's pinned dependencies require a separate environment. `install` takes

- a `Crew` without a memory of its own, and returns a copy that shares its agents and tasks. The memory block goes into
  each task's prompt, in the place of CrewAI's memories. After a successful kickoff, each task is submitted: its
  description as the user's words, its result as the agent's;
- an `Agent`, and returns a copy that remembers its kickoffs, and its tasks in a crew that has no memory of factmem's;
- a `Flow`, and returns the same flow, since CrewAI binds a flow's methods to it. Its ``recall`` gives the memory block,
  its ``remember`` keeps a text as the assistant's, and ``@human_feedback(learn=True)`` learns `factmem.agent.Lessons`.

    crew = install(AgentMemory, into=Crew(agents=[clerk], tasks=[task]), store="facts.db")
    crew.kickoff(inputs={"user_id": "alice", "question": "Where do I live?"})

The identity of a run comes from the inputs ``user_id`` and ``session_id`` of a crew's kickoff, or from
``memory.run(user_id=…)``.

CrewAI gives the agents of a crew with memory its tool "Search memory", which finds the same facts. For CrewAI's own
analysis, with its model and its tool for saving, use `FactMemStorage`: ``Memory(storage=FactMemStorage(…))`` for one
crew, or `set_default_storage` for all crews.

CrewAI's ``akickoff`` blocks its event loop while it queries a memory; a crew's ``kickoff_async`` does not.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any, Final

from factmem.agent.plugin import AgentMemory, HostIntegration
from factmem.error_hints import kind_of
from factmem.errors import CapabilityError, MissingPackageError
from factmem.integrations.crewai.memories import agent_with, crew_with, flow_with
from factmem.integrations.crewai.storage import FactMemStorage
from factmem.memory.facade import Memory as OpenMemory

with MissingPackageError.if_missing("crewai", extra="crewai"):
    from crewai.agent import Agent
    from crewai.crew import Crew
    from crewai.flow.flow import Flow
    from crewai.memory.storage.factory import set_memory_storage_factory

__all__ = ["FactMemStorage", "integration", "set_default_storage"]

_SPECS: Final = frozenset({"factmem", "lancedb"})


def set_default_storage(memory: AgentMemory | None) -> None:
    """Use factmem as the storage of every new CrewAI ``Memory()`` that names no other.

    Args:
        memory: The memory; None to restore CrewAI's default.
    """
    if memory is None:
        set_memory_storage_factory(None)
        return
    storage = FactMemStorage(memory)
    set_memory_storage_factory(lambda spec: storage if spec in _SPECS else None)


def _installed(memory: AgentMemory, host: Any) -> Any:
    if isinstance(memory.config.store, OpenMemory):
        raise CapabilityError(
            "CrewAI runs outside of the event loop that an open Memory lives in: give AgentMemory an address, a "
            "provider or a function that makes the Memory"
        )
    match host:
        case Crew():
            return crew_with(memory, host)
        case Agent():
            return agent_with(memory, host)
        case Flow():
            return flow_with(memory, host)
        case _:
            raise CapabilityError(
                f"memory cannot be installed into {kind_of(host)}: install it into the Crew, the Agent or the "
                "Flow, or give FactMemStorage to CrewAI's Memory"
            )


integration: Final = HostIntegration(install=_installed)
