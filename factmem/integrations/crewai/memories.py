"""Memory in crews, agents and flows of CrewAI.

A crew's block is in the prompts of its tasks, and its tasks are saved after a kickoff. An agent saves kickoffs of its
own, and tasks in crews without memory. A flow recalls, remembers, and learns lessons from human feedback.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import functools
import re
import uuid
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, Self

from pydantic import PrivateAttr

from factmem.abc.detector import Message
from factmem.agent import Lessons
from factmem.agent.chat_history import DictFormat, spoken
from factmem.agent.config import NOBODY, RunIdentity
from factmem.agent.plugin import AgentMemory
from factmem.errors import CapabilityError, FactMemError, InvalidDataError, MissingPackageError
from factmem.integrations.crewai.storage import FactMemStorage, run_of, working_for
from factmem.memory.facade import Memory as OpenMemory

with MissingPackageError.if_missing("crewai", extra="crewai"):
    from crewai.agent import Agent
    from crewai.crew import Crew
    from crewai.crews.crew_output import CrewOutput
    from crewai.flow.flow import Flow
    from crewai.hooks.dispatch import HookAborted
    from crewai.lite_agent_output import LiteAgentOutput
    from crewai.memory.types import MemoryMatch, MemoryRecord
    from crewai.memory.unified_memory import Memory
    from crewai.memory.utils import sanitize_scope_name
    from crewai.task import Task

_OWN_TOOLS: Final = frozenset({"search_memory", "save_to_memory"})
_OBSERVED: Final = re.compile(r"Action:\s*(?P<tool>[^\n]*?)\s*\n.*?\nObservation:\s?(?P<answer>.*)", re.DOTALL)
_REVIEW: Final = re.compile(r"human feedback lessons for (?P<task>[^:]+): (?P<output>.*)", re.DOTALL)
"""The query with which CrewAI looks for lessons before a person reviews an output."""


class LoadingAbortedError(HookAborted, FactMemError):
    """Raised when loading fails and the policy is `FailurePolicy.RAISE`; CrewAI propagates only this kind of error."""


class _Block(MemoryMatch):
    """The memory block as one match, which is rendered unchanged."""

    def format(self) -> str:
        return self.record.content


class CrewMemory(Memory):
    """The memory of a crew or an agent with factmem installed: the same memory block as in other frameworks.

    It is read-only to CrewAI; conversations are submitted to factmem's detection instead. Listing, scopes and
    forgetting are those of `FactMemStorage`.
    """

    read_only: bool = True
    _agent_memory: AgentMemory = PrivateAttr()
    _lessons: dict[str, Lessons] = PrivateAttr(default_factory=dict)

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

        The lessons for a review are the matches of the query with which a flow looks for them.

        Raises:
            LoadingAbortedError: Nothing could be loaded, and the policy is `FailurePolicy.RAISE`.
        """
        lessons, review = self._lessons.get(source or ""), _REVIEW.fullmatch(query)
        if not (lessons and review) and (scope is not None or categories or source is not None):
            return super().recall(query, scope, categories, limit, "shallow", source, include_private)
        try:
            if lessons and review:
                return [
                    _match(it.id, str(it.value), source) for it in lessons.recall_blocking(*review.groups()).records
                ]
            block = run_of(self._agent_memory).load_blocking([Message(content=query)])
        except FactMemError as error:
            raise LoadingAbortedError(f"memory could not be loaded: {type(error).__name__}") from error
        return [_match(",".join(it.id for it in block.records), block.text, kind=_Block)] if block else []

    def extract_memories(self, content: str) -> list[str]:
        """Return no memories, since factmem's detector processes the conversation."""
        return []


def _match(id: str, content: str, source: str | None = None, *, kind: type[MemoryMatch] = MemoryMatch) -> MemoryMatch:
    record = MemoryRecord(id=id, content=content, source=source)
    return kind(record=record, score=1.0, match_reasons=["factmem"])


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
            for message in _answered(
                task.description, task.messages, task.raw, agent=task.agent, id=f"{kickoff}-{number}"
            )
        ]
        try:
            run_of(memory).finish_blocking(messages)
        finally:
            working_for.set(NOBODY)  # later runs in this context have no identity until they set one
        return output

    return save


def _answered(
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
                run_of(self.memory.agent_memory).finish_blocking(_conversation(messages, output))
            return output

        async def kickoff_async(self, messages: Any, *args: Any, **options: Any) -> LiteAgentOutput:
            output = await super().kickoff_async(messages, *args, **options)
            await run_of(self.memory.agent_memory).finish(_conversation(messages, output))
            return output

        def execute_task(self, task: Task, *args: Any, **options: Any) -> Any:
            result = super().execute_task(task, *args, **options)
            if not _is_saved_by_crew(self):
                run_of(self.memory.agent_memory).finish_blocking(_of_task(self, task, result))
            return result

        async def aexecute_task(self, task: Task, *args: Any, **options: Any) -> Any:
            result = await super().aexecute_task(task, *args, **options)
            if not _is_saved_by_crew(self):
                await run_of(self.memory.agent_memory).finish(_of_task(self, task, result))
            return result

        def copy(self) -> Any:
            """Return a copy with the same memory; CrewAI itself copies by value, which an open store cannot be."""
            copied = super(RememberingAgent, self.model_copy(update={"memory": None})).copy()
            copied.memory = self.memory
            return copied

    RememberingAgent.__name__, RememberingAgent.__qualname__ = cls.__name__, cls.__qualname__
    return RememberingAgent


def _is_saved_by_crew(agent: Agent) -> bool:
    return isinstance(getattr(agent.crew, "_memory", None), CrewMemory)


def _of_task(agent: Agent, task: Task, result: Any) -> list[Message]:
    id = uuid.uuid4().hex
    return [*_answered(task.description, agent.last_messages, str(result), agent=agent.role, id=id)]


def _conversation(messages: Any, output: LiteAgentOutput) -> list[Message]:
    """Return the messages of a kickoff: a text is a conversation of its own, and a list may be continued."""
    said = messages if isinstance(messages, str) else ""
    id = uuid.uuid4().hex
    found = [*_answered(said, output.messages, output.raw, agent=output.agent_role, id=id)]
    if isinstance(messages, str):
        return found
    tools, answer = [it for it in found if it.role == "tool"], {"role": "assistant", "content": output.raw}
    format = DictFormat()
    return [*spoken(format, messages), *tools, *spoken(format, [*messages, answer])[-1:]]


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

    @classmethod
    def of(cls, memory: AgentMemory, flow: Flow) -> FlowMemory:
        """Return the memory of a flow over an agent's memory."""
        made = cls.over(memory)
        feedback = [method.human_feedback for method in flow._definition.methods.values()]
        sources = {item.learn_source for item in feedback if item is not None and item.learn}
        made._flow = weakref.ref(flow)
        made._lessons = {source: Lessons(memory, source=source) for source in sources}
        return made

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

    def _feedback(self) -> Any:
        flow = self._flow()
        return None if flow is None else flow.last_human_feedback
