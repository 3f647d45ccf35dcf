"""Memory in flows of CrewAI: recalling, remembering, and lessons from human feedback."""

# pyright: reportMissingImports=false

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any, Final, Literal

from pydantic import PrivateAttr

from factmem.agent import AgentMemory, Lessons, MemoryBlock
from factmem.errors import CapabilityError, FactMemError, InvalidDataError, MissingPackageError
from factmem.integrations.crewai.crews import CrewMemory, LoadingAbortedError
from factmem.integrations.crewai.storage import run_of
from factmem.memory import Memory as OpenMemory

try:
    from crewai.flow.flow import Flow
    from crewai.memory.types import MemoryMatch, MemoryRecord
    from crewai.memory.unified_memory import Memory
    from crewai.memory.utils import sanitize_scope_name
except ModuleNotFoundError as _missing:
    raise MissingPackageError("crewai", extra="crewai") from _missing

__all__ = ["FlowMemory", "flow_with"]

_REVIEW: Final = re.compile(r"human feedback lessons for (?P<task>[^:]+): (?P<output>.*)", re.DOTALL)
"""The query with which CrewAI looks for lessons before a person reviews an output."""


def flow_with(memory: AgentMemory, host: Flow) -> Flow:
    """Put a memory into a flow, and return the same flow.

    Raises:
        InvalidDataError: The flow has a memory, other than the one that CrewAI makes by itself.
    """
    if host.memory is not None and not _is_default(host):
        raise InvalidDataError("this flow has a memory already: leave its memory= out, or give that a FactMemStorage")
    host.memory = FlowMemory.of(memory, host)
    return host


def _is_default(flow: Flow) -> bool:
    path = f"/flow/{sanitize_scope_name(flow._definition.name)}"
    return type(flow.memory) is Memory and flow.memory.root_scope == path


class FlowMemory(CrewMemory):
    """The memory of a flow with factmem installed.

    ``recall`` returns the memory block as one match, as in a crew. What ``remember`` is given is kept as it is, as the
    assistant's, without a question to a model. Lessons of ``@human_feedback(learn=True)`` are those of
    `factmem.agent.Lessons`: recalled by the method whose output is reviewed, and each kept as the words of the person.
    """

    read_only: bool = False
    _flow: weakref.ref[Flow] = PrivateAttr()
    _lessons: dict[str, Lessons] = PrivateAttr()

    @classmethod
    def of(cls, memory: AgentMemory, flow: Flow) -> FlowMemory:
        """Return the memory of a flow over an agent's memory."""
        made = cls.over(memory)
        feedback = [method.human_feedback for method in flow._definition.methods.values()]
        sources = {item.learn_source for item in feedback if item is not None and item.learn}
        made._flow = weakref.ref(flow)
        made._lessons = {source: Lessons(memory, source=source) for source in sources}
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
        """Return the memory block as one match; the lessons for a review; with a scope, CrewAI's records.

        Raises:
            LoadingAbortedError: Nothing could be loaded, and the policy is `FailurePolicy.RAISE`.
        """
        if source in self._lessons and (asked := _REVIEW.fullmatch(query)):
            block = self._lessons_for(source, asked["task"], asked["output"])
            records = [MemoryRecord(id=it.id, content=str(it.value), source=source) for it in block.records]
            return [MemoryMatch(record=record, score=1.0, match_reasons=["factmem"]) for record in records]
        return super().recall(query, scope, categories, limit, depth, source, include_private)

    def remember(
        self,
        content: str,
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        importance: float | None = None,
        source: str | None = None,
        private: bool = False,
        agent_role: str | None = None,
        root_scope: str | None = None,
    ) -> MemoryRecord:
        """Save a text as it is, and return its record. Paths are those of `FactMemStorage`."""
        record = MemoryRecord(
            content=content,
            scope="/".join(filter(None, ((root_scope or "").rstrip("/"), (scope or "").lstrip("/")))) or "/",
            categories=categories or [],
            metadata=metadata or {},
            importance=self.default_importance if importance is None else importance,
            source=source,
            private=private,
        )
        self._storage.save([record])
        return record

    def remember_many(
        self,
        contents: list[str],
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        importance: float | None = None,
        source: str | None = None,
        private: bool = False,
        agent_role: str | None = None,
        root_scope: str | None = None,
    ) -> list[MemoryRecord]:
        """Save texts as they are, or learn the lessons of the flow's last human feedback; see `Memory.remember_many`.

        Everything is saved when this returns.
        """
        if source in self._lessons and (feedback := self._feedback()) is not None:
            given = str(feedback.output), feedback.feedback
            self._lessons[source].learn_blocking(feedback.method_name, *given, taught=contents)
            return []
        keep = partial(self.remember, scope=scope, categories=categories, metadata=metadata, importance=importance)
        return [keep(text, source=source, private=private, root_scope=root_scope) for text in contents]

    def extract_memories(self, content: str) -> list[str]:
        """Return the atomic statements of a text, by the memory's model; without one, the text itself."""
        if not content.strip():
            return []

        async def extracted(memory: OpenMemory) -> Iterable[str]:
            return await memory.inbox.extract(content)

        try:
            return [*run_of(self.agent_memory).held.use_blocking(extracted)]
        except CapabilityError:
            return [content]

    def _lessons_for(self, source: str | None, task: str, output: str) -> MemoryBlock:
        try:
            return self._lessons[source or ""].recall_blocking(task, output)
        except FactMemError as error:
            raise LoadingAbortedError(f"lessons could not be loaded: {type(error).__name__}") from error

    def _feedback(self) -> Any:
        flow = self._flow()
        return None if flow is None else flow.last_human_feedback
