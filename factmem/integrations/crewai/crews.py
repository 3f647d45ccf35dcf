"""Memory in crews of CrewAI: the memory block in the prompts of tasks, and saving after a kickoff."""

# pyright: reportMissingImports=false

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, Self

from pydantic import PrivateAttr

from factmem.abc import Message
from factmem.agent import AgentMemory, MemoryBlock, RunIdentity, SavingTime
from factmem.errors import FactMemError, InvalidDataError, MissingPackageError
from factmem.integrations.crewai.storage import FactMemStorage, run_of, working_for

try:
    from crewai.crew import Crew
    from crewai.crews.crew_output import CrewOutput
    from crewai.hooks.dispatch import HookAborted
    from crewai.memory.types import MemoryMatch, MemoryRecord
    from crewai.memory.unified_memory import Memory
except ModuleNotFoundError as _missing:
    raise MissingPackageError("crewai", extra="crewai") from _missing

__all__ = ["CrewMemory", "LoadingAbortedError", "answered", "crew_with"]

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
    """The memory of a crew or an agent with factmem installed: the same memory block as in other frameworks.

    It is read-only to CrewAI; conversations are submitted to factmem's detection instead. Listing, scopes and
    forgetting are those of `FactMemStorage`.
    """

    read_only: bool = True
    _agent_memory: AgentMemory = PrivateAttr()

    @classmethod
    def over(cls, memory: AgentMemory) -> Self:
        """Return a memory of CrewAI's over an agent's memory."""
        storage = FactMemStorage(memory)
        made = cls(storage=storage, embedder=storage.embed)
        made._agent_memory = memory
        return made

    @property
    def agent_memory(self) -> AgentMemory:
        """The agent's memory."""
        return self._agent_memory

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


def crew_with(memory: AgentMemory, host: Crew) -> Crew:
    """Return a copy of a crew with memory.

    Raises:
        InvalidDataError: The crew has a memory.
    """
    if host.memory:
        raise InvalidDataError("this crew has a memory already: leave its memory= out, or give that a FactMemStorage")
    crew_memory = CrewMemory.over(memory)
    crew = host.model_copy(
        update={
            "memory": crew_memory,
            "before_kickoff_callbacks": [*host.before_kickoff_callbacks, _identified],
            "after_kickoff_callbacks": [*host.after_kickoff_callbacks, _saver(memory)],
        }
    )
    crew._memory = crew_memory
    return crew


def _identified(inputs: dict[str, Any] | None) -> dict[str, Any] | None:
    """Set the identity of the kickoff. Keep empty inputs None, since CrewAI fills in task texts if there are inputs."""
    working_for.set(RunIdentity.named_by(inputs or {}, host={"inputs": inputs or {}}))
    return inputs or None


def _saver(memory: AgentMemory) -> Callable[[CrewOutput], CrewOutput]:
    def save(output: CrewOutput) -> CrewOutput:
        """Submit the conversation after a successful kickoff."""
        kickoff = uuid.uuid4().hex
        messages = [
            message
            for number, task in enumerate(output.tasks_output)
            for message in answered(
                task.description, task.messages, task.raw, agent=task.agent, id=f"{kickoff}-{number}"
            )
        ]
        try:
            if memory.config.saving.when is SavingTime.AFTER_RUN:
                run_of(memory).save_blocking(messages)
        finally:
            working_for.set(RunIdentity())  # later runs in this context have no identity until they set one
        return output

    return save


def answered(
    said: str, messages: Sequence[Mapping[str, Any]], answer: str, *, agent: str, id: str
) -> Iterator[Message]:
    """Yield the messages of one request to an agent: what was said, tool results, and the answer.

    Args:
        said: The request.
        messages: CrewAI's messages of the run, which hold the results of tools.
        answer: The agent's answer.
        agent: The role of the agent.
        id: Prefix of the messages' ids.
    """
    if said.strip():
        yield Message(content=said, id=f"{id}-said")
    for number, (tool, result) in enumerate(_results(messages)):
        if result.strip() and tool not in _OWN_TOOLS:
            yield Message(content=result, role="tool", name=tool, id=f"{id}-tool-{number}")
    if answer.strip():
        yield Message(content=answer, role="assistant", name=agent, id=f"{id}-result")


def _results(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield tool names and results, from tool messages or from the agent's text."""
    for message in messages:
        content = message.get("content")
        if not isinstance(content, str):
            continue
        if message.get("role") == "tool":
            yield str(message.get("name") or "tool"), content
        elif message.get("role") == "assistant" and (observed := _OBSERVED.search(content)):
            yield observed["tool"], observed["answer"]
