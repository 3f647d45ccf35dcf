"""Nodes of strategy graphs that load and save.

Nodes are plain async functions, independent of any graph engine. Add them to a LangGraph ``StateGraph`` or to a
pydantic-graph ``GraphBuilder``, or await them directly.

- In LangGraph, a node takes the state and returns an update: ``{"messages": [...]}`` with the memory block, or ``{}``.
  The identity comes from the run's config; see `GraphRun`, in which `AgentMemoryConfig.user_id` finds the user.
- In pydantic-graph, a node takes a ``StepContext``, changes its state in place and returns its inputs. The identity
  comes from the attributes ``user_id`` and ``session_id`` of its deps; `AgentMemoryConfig.user_id` finds the user in
  the ``StepContext``.

`StateAccess` sets other places for the messages and the identity.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, cast

import attrs

from factmem.abc import DetectionRequest
from factmem.agent.config import NOBODY, FailurePolicy, RunIdentity, named_in
from factmem.agent.plugin import AgentMemory
from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.scopes import MemoryScope, ScopeKind
from factmem.subjects import MemorySubject
from factmem.validators import one_or_more

StateT = TypeVar("StateT")

SaveScope: TypeAlias = "MemoryScope | ScopeKind | str"
"""A scope to save in: a scope, the kind of one of the agent's scopes, or a path."""


@attrs.frozen(kw_only=True)
class GraphRun:
    """A run of LangGraph or LangChain, in which `AgentMemoryConfig.user_id` finds the user.

    Without it, the user is the first of ``user_id`` of the context, ``langgraph_auth_user_id`` of ``configurable``
    (which LangGraph's server sets for a user who signed in), and ``user_id`` of ``configurable`` and of ``metadata``.

    Attributes:
        context: The run's context: a mapping, an object, or None.
        config: The run's config.
        state: The state, for a node of a graph and the middleware of an agent; None for tools.
    """

    context: Any = None
    config: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    state: Any = attrs.field(default=None, repr=False)

    @property
    def configurable(self) -> Mapping[str, Any]:
        """``configurable`` in the config."""
        return self.config.get("configurable") or {}

    @property
    def metadata(self) -> Mapping[str, Any]:
        """``metadata`` in the config."""
        return self.config.get("metadata") or {}

    @property
    def identity(self) -> RunIdentity:
        """The identity of the run.

        Raises:
            InvalidNameError: An id is not legal.
        """
        configured = self.configurable
        users = (
            named_in(self.context, "user_id"),
            configured.get("langgraph_auth_user_id"),
            configured.get("user_id"),
            self.metadata.get("user_id"),
        )
        sessions = (
            named_in(source, name) for source in (self.context, configured) for name in ("session_id", "thread_id")
        )
        return RunIdentity.named_by({"user_id": _first(users), "session_id": _first(sessions)}, host=self)


def _first(found: Iterable[object]) -> object:
    return next((id for id in found if id is not None), None)


class Node(Protocol):
    """A node of a graph: a function of the state, in LangGraph also of the config, that returns the graph's next input.

    The parameters have no names, because each library names the state differently. So type checkers accept a node in
    all libraries.
    """

    __name__: str

    @property
    def blocking(self) -> Callable[..., Any]:
        """The same node as a plain function, for a graph that runs without an event loop.

        The function raises `CapabilityError` if the program opened the memory in an event loop.
        """
        ...

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Load or save, and return the graph's next input."""
        ...


def _messages_in(state: Any) -> Sequence[Any]:
    messages = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", None)
    if messages is None:
        raise InvalidDataError("the state has no messages: say where they are with StateAccess(messages=...)")
    found: Sequence[Any] = messages
    return found


@attrs.frozen(kw_only=True)
class StateAccess(Generic[StateT]):
    """Access of nodes to the state of a graph, as functions that a type checker can check.

    Attributes:
        messages: Function that returns the history in a state (default: its ``messages``).
        update: Function that returns the state update for a history (default: ``{"messages": history}``, for a plain
            field). LangGraph's ``add_messages`` also accepts this, but appends the new block and keeps outdated blocks;
            for that reducer, use `factmem.integrations.langgraph.ADDED_MESSAGES`.
        identity: Function that returns the identity in a state, which takes precedence over the graph's config or deps.
    """

    messages: Callable[[StateT], Sequence[Any]] = _messages_in
    update: Callable[[list[Any]], Mapping[str, Any]] = lambda history: {"messages": history}
    identity: Callable[[StateT], RunIdentity] = lambda state: NOBODY


_PLAIN: Final = StateAccess[Any]()


def load_from_memory(
    memory: AgentMemory,
    concepts: Concept[Any, Any] | Iterable[Concept[Any, Any] | str],
    *,
    subjects: MemorySubject | Iterable[MemorySubject] | None = None,
    scopes: MemoryScope | ScopeKind | Iterable[SaveScope] | None = None,
    state: StateAccess[Any] = _PLAIN,
) -> Node:
    """Return a node that loads the known facts of some concepts; see `AgentMemory.load_facts_to_agent`.

    The concepts become concepts of the agent, so nodes with an open search find them with their types.

    Args:
        memory: The memory.
        concepts: A concept or its keyword, or several; an empty list loads nothing.
        subjects: A subject of the facts, or several (default: the user and the agent's subjects).
        scopes: A scope of the facts, or several, as scopes, kinds or paths (default: all scopes of the agent).
        state: Access to the state.

    Raises:
        InvalidDataError: An argument has the wrong type, or a scope is not one of the agent's.
    """
    loads = loader(memory, concepts, subjects, scopes)
    return _node("load_from_memory", memory, loads, state, memory.config.loading.on_failure)


def load_all_facts_from_memory(
    memory: AgentMemory,
    *,
    subjects: MemorySubject | Iterable[MemorySubject] | None = None,
    scopes: MemoryScope | ScopeKind | Iterable[SaveScope] | None = None,
    state: StateAccess[Any] = _PLAIN,
) -> Node:
    """Return a node that loads the known facts of all concepts; see `AgentMemory.load_all_facts_to_agent`.

    Args:
        memory: The memory.
        subjects: Subjects of the facts; see `load_from_memory`.
        scopes: Scopes of the facts; see `load_from_memory`.
        state: Access to the state.

    Raises:
        InvalidDataError: An argument has the wrong type, or a scope is not one of the agent's.
    """
    loads = loader(memory, None, subjects, scopes)
    return _node("load_all_facts_from_memory", memory, loads, state, memory.config.loading.on_failure)


def loader(
    memory: AgentMemory,
    concepts: Concept[Any, Any] | Iterable[Concept[Any, Any] | str] | None,
    subjects: MemorySubject | Iterable[MemorySubject] | None,
    scopes: MemoryScope | ScopeKind | Iterable[SaveScope] | None,
) -> Callable[[Sequence[Any], RunIdentity], Awaitable[list[Any]]]:
    """Return a function that adds known facts to a history; its arguments are those of `load_from_memory`."""
    wanted = None if concepts is None else one_or_more("concepts", concepts, Concept, str)
    memory.declare(wanted or ())
    about = None if subjects is None else one_or_more("subjects", subjects, MemorySubject)
    places = _scopes(memory, scopes)

    async def loaded(history: Sequence[Any], identity: RunIdentity) -> list[Any]:
        return await memory.load_facts_to_agent(history, wanted, subjects=about, scopes=places, identity=identity)

    return loaded


def save_to_memory(
    memory: AgentMemory,
    concepts: Concept[Any, Any] | Iterable[Concept[Any, Any]],
    *,
    subjects: MemorySubject | Iterable[MemorySubject] = MemorySubject.EVERYTHING,
    scope: SaveScope | Iterable[SaveScope] | None = None,
    wait: bool = False,
    state: StateAccess[Any] = _PLAIN,
) -> Node:
    """Return a node that submits the history for the detection of facts of these concepts only.

    Args:
        memory: The memory.
        concepts: A concept or several.
        subjects: A possible subject of the facts, or several (default: the user). One without an individual is the
            same for all users; see `AgentMemoryConfig.subjects`.
        scope: Scope of the facts, as a scope, a kind or a path, or several of these (default: `Saving.scope`). The
            history is processed once per scope.
        wait: Whether to wait until the history is processed, so that the next node finds its facts.
        state: Access to the state.

    Raises:
        InvalidDataError: An argument has the wrong type, there is no concept, or a scope is not one of the agent's.
    """
    request = DetectionRequest(subjects=subjects, concepts=concepts)
    if not request.concepts:  # a request without any looks for everything
        raise InvalidDataError("there is no concept to look for: name one, or leave the node out", path="$.concepts")
    return _saving("save_to_memory", memory, request, scope, state, wait=wait)


def save_to_memory_auto_detect_facts(
    memory: AgentMemory,
    *,
    subjects: MemorySubject | Iterable[MemorySubject] = MemorySubject.EVERYTHING,
    scope: SaveScope | Iterable[SaveScope] | None = None,
    wait: bool = False,
    state: StateAccess[Any] = _PLAIN,
) -> Node:
    """Return a node that submits the history for the detection of facts of any concept.

    The agent's own concepts and those of its load nodes are looked for first, with their types.

    Args:
        memory: The memory.
        subjects: A possible subject of the facts, or several (default: the user). One without an individual is the
            same for all users; see `AgentMemoryConfig.subjects`.
        scope: Scope of the facts; see `save_to_memory`.
        wait: Whether to wait until the history is processed; see `save_to_memory`.
        state: Access to the state.

    Raises:
        InvalidDataError: An argument has the wrong type, or a scope is not one of the agent's.
    """
    request = DetectionRequest(subjects=subjects, open=True)
    return _saving("save_to_memory_auto_detect_facts", memory, request, scope, state, wait=wait)


_Work: TypeAlias = "Callable[[Sequence[Any], RunIdentity], Awaitable[list[Any] | None]]"


def _saving(
    name: str,
    memory: AgentMemory,
    request: DetectionRequest,
    scope: SaveScope | Iterable[SaveScope] | None,
    state: StateAccess[Any],
    *,
    wait: bool,
) -> Node:
    places = (None,) if scope is None else _scopes(memory, [scope] if isinstance(scope, str) else scope)
    if not places:
        raise InvalidDataError("there is no scope to save in: name one, or leave scope out", path="$.scope")

    async def saved(history: Sequence[Any], identity: RunIdentity) -> None:
        submissions = [
            await memory.save_facts_from_history(history, looking_for=request, scope=place, identity=identity)
            for place in places
        ]
        for submission in submissions if wait else ():
            if submission is not None:
                await submission.wait()

    return _node(name, memory, saved, state, memory.config.saving.on_failure)


def _node(name: str, memory: AgentMemory, work: _Work, access: StateAccess[Any], policy: FailurePolicy) -> Node:
    async def node(state: Any, config: Any = None) -> Any:
        return _passed_on(access, state, await work(*_said(access, state, config)))

    def blocking(state: Any, config: Any = None) -> Any:
        history, identity = _said(access, state, config)
        run = memory.for_run(identity)
        loaded = run.use_blocking(lambda _: work(history, identity), f"{name} failed", policy, None)
        return _passed_on(access, state, loaded)

    for function in (node, blocking):
        function.__name__ = function.__qualname__ = name
        # LangGraph passes its config only if the parameter has LangGraph's own annotation, or none.
        del function.__annotations__["config"]
    setattr(node, "blocking", blocking)  # noqa: B010 - type checkers know no attributes of functions
    return cast("Node", node)


def _said(access: StateAccess[Any], state: Any, config: Any) -> tuple[Sequence[Any], RunIdentity]:
    """Return the history in a state, and the identity of the run."""
    inner = state.state if _is_step(state) else state
    return access.messages(inner), access.identity(inner).or_else(_identity(state, config))


def _passed_on(access: StateAccess[Any], state: Any, history: list[Any] | None) -> Any:
    """Return what a node passes on: an update of the state, or the inputs of a step, whose state is changed."""
    if not _is_step(state):
        return {} if history is None else access.update(history)
    if history is not None:
        _replace(state.state, access.update(history))
    return state.inputs


def _is_step(state: Any) -> bool:
    """Return whether a state is pydantic-graph's ``StepContext``, which has a state, deps and inputs."""
    return all(hasattr(state, name) for name in ("state", "deps", "inputs"))


def _identity(state: Any, config: Any) -> RunIdentity:
    if _is_step(state):
        return RunIdentity.named_by(state.deps, host=state)
    return GraphRun(state=state, config=config if isinstance(config, Mapping) else {}).identity


def _replace(state: Any, update: Mapping[str, Any]) -> None:
    for name, value in update.items():
        if isinstance(state, MutableMapping):
            state[name] = value
        else:
            setattr(state, name, value)


def _scopes(memory: AgentMemory, scopes: Any) -> Any:
    """Resolve scopes, kinds and paths to scopes of the agent."""
    if scopes is None:
        return None
    given = one_or_more("scopes", scopes, MemoryScope, ScopeKind, str)
    return tuple(dict.fromkeys(map(memory.config.scope_of, given)))
