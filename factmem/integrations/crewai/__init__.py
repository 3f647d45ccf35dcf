"""CrewAI: memory for a crew, and a storage for CrewAI's own `Memory`.

CrewAI's pinned dependencies require a separate environment.

Memory can be installed into a `Crew` without a memory of its own; the result is a copy that shares its agents and
tasks. The memory block goes into each task's prompt, in the place of CrewAI's memories. After a successful kickoff,
each task is submitted: its description as the user's words, its result as the agent's. The identity of a run comes
from the kickoff's inputs ``user_id`` and ``session_id``, or from ``memory.run(user_id=…)``.

    crew = install(AgentMemory, into=Crew(agents=[clerk], tasks=[task]), store="sqlite-vec:facts.db")
    crew.kickoff(inputs={"user_id": "alice", "question": "Where do I live?"})

CrewAI gives the agents of a crew with memory its tool "Search memory", which finds the same facts. For CrewAI's own
analysis, with its model and its tool for saving, use `FactMemStorage`: ``Memory(storage=FactMemStorage(…))`` for one
crew, or `set_default_storage` for all crews.

CrewAI's ``akickoff`` blocks its event loop while it queries a memory; ``kickoff_async`` does not.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

from pydantic import PrivateAttr

from factmem.abc import Message
from factmem.agent import AgentMemory, HostIntegration, MemoryBlock, RunIdentity, SavingTime
from factmem.errors import CapabilityError, FactMemError, InvalidDataError, MissingPackageError
from factmem.integrations.crewai.storage import OWNER, FactMemStorage, VectorSizeError, run_of, working_for
from factmem.memory import Memory as OpenMemory

try:
    from crewai.crew import Crew
    from crewai.crews.crew_output import CrewOutput
    from crewai.hooks.dispatch import HookAborted
    from crewai.memory.storage.factory import set_memory_storage_factory
    from crewai.memory.types import MemoryMatch, MemoryRecord
    from crewai.memory.unified_memory import Memory
    from crewai.tasks.task_output import TaskOutput
except ModuleNotFoundError as _missing:
    raise MissingPackageError("crewai", extra="crewai") from _missing

__all__ = [
    "OWNER",
    "CrewMemory",
    "FactMemStorage",
    "LoadingAbortedError",
    "VectorSizeError",
    "integration",
    "set_default_storage",
]

_SPECS: Final = frozenset({"factmem", "lancedb"})
_OWN_TOOLS: Final = frozenset({"search_memory", "save_to_memory"})
_OBSERVED: Final = re.compile(r"Action:\s*(?P<tool>[^\n]*?)\s*\n.*?\nObservation:\s?(?P<answer>.*)", re.DOTALL)


class LoadingAbortedError(HookAborted, FactMemError):
    """Raised when loading fails and the policy is `FailurePolicy.RAISE`; CrewAI propagates only this kind of error."""


class _Block(MemoryMatch):
    """The memory block as one match, which is rendered unchanged."""

    def format(self) -> str:
        """Return the block."""
        return self.record.content


class CrewMemory(Memory):
    """The memory of a crew with factmem installed, which loads the same memory block as in other frameworks.

    It is read-only to CrewAI; conversations are submitted to factmem's detection instead. Listing, scopes and
    forgetting are those of `FactMemStorage`.
    """

    read_only: bool = True
    _agent_memory: AgentMemory = PrivateAttr()

    @classmethod
    def over(cls, memory: AgentMemory) -> CrewMemory:
        """Return the memory of a crew over an agent's memory."""
        storage = FactMemStorage(memory)
        made = cls(storage=storage, embedder=storage.embed)
        made._agent_memory = memory
        return made

    def recall(
        self,
        query: str,
        scope: str | None = None,
        categories: list[str] | None = None,
        limit: int = 10,
        depth: Literal["shallow", "deep"] = "deep",
        source: str | None = None,
        include_private: bool = False,
    ) -> list[MemoryMatch]:
        """Return the memory block as one match; with a scope, categories or a source, CrewAI's records instead.

        Raises:
            LoadingAbortedError: Nothing could be loaded, and the policy is `FailurePolicy.RAISE`.
        """
        if scope is not None or categories or source is not None:
            return super().recall(query, scope, categories, limit, "shallow", source, include_private)
        try:
            block = run_of(self._agent_memory).load_blocking([Message(content=query)])
        except FactMemError as error:
            raise LoadingAbortedError(f"memory could not be loaded: {type(error).__name__}") from error
        return [_match(block)] if block else []

    def extract_memories(self, content: str) -> list[str]:
        """Return no memories, since factmem's detector processes the conversation."""
        return []


def _match(block: MemoryBlock) -> MemoryMatch:
    ids = ",".join(record.id for record in block.records)
    return _Block(record=MemoryRecord(id=ids, content=block.text), score=1.0, match_reasons=["factmem"])


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


def _installed(memory: AgentMemory, host: Any) -> Crew:
    if not isinstance(host, Crew):
        raise CapabilityError(
            f"memory cannot be put into a {type(host).__name__}: put it into the Crew, or give FactMemStorage to "
            "CrewAI's Memory"
        )
    if host.memory:
        raise InvalidDataError("this crew has a memory already: leave its memory= out, or give that a FactMemStorage")
    if isinstance(memory.config.store, OpenMemory):
        raise CapabilityError(
            "a crew runs outside of the event loop that an open Memory lives in: give AgentMemory an address, a "
            "provider or a function that makes the Memory"
        )
    crew = host.model_copy(
        update={
            "memory": (crew_memory := CrewMemory.over(memory)),
            "before_kickoff_callbacks": [*host.before_kickoff_callbacks, _identified],
            "after_kickoff_callbacks": [*host.after_kickoff_callbacks, _saver(memory)],
        }
    )
    crew._memory = crew_memory
    return crew


def _identified(inputs: dict[str, Any] | None) -> dict[str, Any] | None:
    """Set the identity of the kickoff. Keep empty inputs None, since CrewAI fills in task texts if there are inputs."""
    working_for.set(RunIdentity.named_by(inputs or {}))
    return inputs or None


def _saver(memory: AgentMemory) -> Callable[[CrewOutput], CrewOutput]:
    def save(output: CrewOutput) -> CrewOutput:
        """Submit the conversation after a successful kickoff."""
        kickoff = uuid.uuid4().hex
        messages = [it for number, task in enumerate(output.tasks_output) for it in _said(task, f"{kickoff}-{number}")]
        try:
            if memory.config.saving.when is SavingTime.AFTER_RUN:
                run_of(memory).save_blocking(messages)
        finally:
            working_for.set(RunIdentity())  # later runs in this context have no identity until they set one
        return output

    return save


def _said(task: TaskOutput, id: str) -> Iterator[Message]:
    """Yield the messages of a task: its description, tool results and output."""
    if task.description.strip():
        yield Message(content=task.description, id=f"{id}-said")
    for number, (tool, answer) in enumerate(_answers(task)):
        if answer.strip() and tool not in _OWN_TOOLS:
            yield Message(content=answer, role="tool", name=tool, id=f"{id}-tool-{number}")
    if task.raw.strip():
        yield Message(content=task.raw, role="assistant", name=task.agent, id=f"{id}-result")


def _answers(task: TaskOutput) -> Iterator[tuple[str, str]]:
    """Yield tool names and results, from tool messages or from the agent's text."""
    for message in task.messages:
        content = message.get("content")
        if not isinstance(content, str):
            continue
        if message.get("role") == "tool":
            yield str(message.get("name") or "tool"), content
        elif message.get("role") == "assistant" and (observed := _OBSERVED.search(content)):
            yield observed["tool"], observed["answer"]


integration: Final = HostIntegration(install=_installed)
