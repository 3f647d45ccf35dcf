"""Nodes for strategy graphs: they load and save, and pass on what they were given.

They are plain async functions, and there is no graph engine behind them: add them to a LangGraph
``StateGraph`` or to a pydantic-graph ``GraphBuilder`` as they are, or await them yourself.

- In LangGraph a node is called with the state and returns an update of it: ``{"messages": [...]}`` with
  what is known, or ``{}``. Whom it works for is read from the run's config: ``user_id`` and ``thread_id``
  (or ``session_id``) among ``configurable``.
- In pydantic-graph a node is called with a ``StepContext``, changes its state in place and returns its
  inputs. Whom it works for is read from the attributes ``user_id`` and ``session_id`` of its deps.

Where the messages of a state are, and who the user is, may be said otherwise: see `StateAccess`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import attrs

from factmem.abc import DetectionRequest
from factmem.agent.config import RunIdentity
from factmem.agent.plugin import AgentMemory
from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.memory.checks import listed
from factmem.scopes import MemoryScope, ScopeKind
from factmem.subjects import MemorySubject

__all__ = [
    "Node",
    "SaveScope",
    "StateAccess",
    "load_all_facts_from_memory",
    "load_from_memory",
    "save_to_memory",
    "save_to_memory_auto_detect_facts",
]


StateT = TypeVar("StateT")

SaveScope: TypeAlias = "MemoryScope | ScopeKind | str"
"""A scope that a node saves in: itself, the agent's own of a kind, or by its path."""


class Node(Protocol):
    """A node: it is called with a state, by LangGraph also with its config, and returns what the graph goes on with.

    Each library has its own name for the state, so that this has none: a type checker lets it into all of them.
    """

    __name__: str

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Load or save, and pass on."""
        ...


def _messages_in(state: Any) -> Sequence[Any]:
    messages = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", None)
    if messages is None:
        raise InvalidDataError("the state has no messages: say where they are with StateAccess(messages=...)")
    found: Sequence[Any] = messages
    return found


def _nobody(state: Any) -> RunIdentity:
    return RunIdentity()


@attrs.frozen(kw_only=True)
class StateAccess(Generic[StateT]):
    """Access of nodes to the state of a graph, as functions that a type checker can check.

    Attributes:
        messages: Returns the history in a state; by default its ``messages``.
        update: Returns the update that a LangGraph node makes of a history; by default
            ``{"messages": history}``, for a plain field. LangGraph's ``add_messages`` takes it too, but puts what
            is new at the end and leaves in what is not known any more: where messages are reduced so, use
            `factmem.integrations.langgraph.ADDED_MESSAGES`.
        identity: Says by its state whom a run works for; goes before what the graph's config or deps say.
    """

    messages: Callable[[StateT], Sequence[Any]] = _messages_in
    update: Callable[[list[Any]], Mapping[str, Any]] = lambda history: {"messages": history}
    identity: Callable[[StateT], RunIdentity] = _nobody


_PLAIN: Final = StateAccess[Any]()


def load_from_memory(
    memory: AgentMemory,
    concepts: Iterable[Concept[Any, Any] | str],
    *,
    subjects: Iterable[MemorySubject] | None = None,
    scopes: Iterable[MemoryScope | ScopeKind | str] | None = None,
    state: StateAccess[Any] = _PLAIN,
) -> Node:
    """Make a node that tells the agent what is known of some concepts; see `AgentMemory.load_facts_to_agent`.

    Args:
        memory: The memory.
        concepts: Which concepts, or keywords.
        subjects: About whom; the user and the agent's subjects if None.
        scopes: Where, as scopes, kinds or paths; in all scopes that the agent takes part in if None.
        state: Where the state has its messages.

    Raises:
        InvalidDataError: One of these is of another type, or the agent takes no part in a scope.
    """
    wanted = listed("concepts", concepts, Concept, str)
    about, places = _subjects(subjects), _scopes(memory, scopes)

    async def loaded(history: Sequence[Any], identity: RunIdentity) -> list[Any]:
        return await memory.load_facts_to_agent(history, wanted, subjects=about, scopes=places, identity=identity)

    return _node("load_from_memory", loaded, state)


def load_all_facts_from_memory(
    memory: AgentMemory,
    *,
    subjects: Iterable[MemorySubject] | None = None,
    scopes: Iterable[MemoryScope | ScopeKind | str] | None = None,
    state: StateAccess[Any] = _PLAIN,
) -> Node:
    """Make a node that tells the agent what is known; see `AgentMemory.load_all_facts_to_agent`.

    Args:
        memory: The memory.
        subjects: About whom.
        scopes: Where; see `load_from_memory`.
        state: Where the state has its messages.

    Raises:
        InvalidDataError: One of these is of another type, or the agent takes no part in a scope.
    """
    about, places = _subjects(subjects), _scopes(memory, scopes)

    async def loaded(history: Sequence[Any], identity: RunIdentity) -> list[Any]:
        return await memory.load_all_facts_to_agent(history, subjects=about, scopes=places, identity=identity)

    return _node("load_all_facts_from_memory", loaded, state)


def save_to_memory(
    memory: AgentMemory,
    concepts: Iterable[Concept[Any, Any]],
    *,
    subjects: Iterable[MemorySubject] = (MemorySubject.EVERYTHING,),
    scope: SaveScope | Iterable[SaveScope] | None = None,
    wait: bool = False,
    state: StateAccess[Any] = _PLAIN,
) -> Node:
    """Make a node that hands the history over to be searched for facts of some concepts, and no others.

    Args:
        memory: The memory.
        concepts: Which concepts.
        subjects: Whom the facts may be about; the user if nobody is named.
        scope: Where to keep them, as a scope, a kind or a path, or several of these; where `Saving.scope` says if
            None. In several the history is read once for each.
        wait: Pass on only when the history is read, so that the next node finds what was learnt.
        state: Where the state has its messages.

    Raises:
        InvalidDataError: One of these is of another type, or the agent takes no part in a scope.
    """
    request = DetectionRequest(subjects=subjects, concepts=concepts)
    return _saving("save_to_memory", memory, request, scope, state, wait=wait)


def save_to_memory_auto_detect_facts(
    memory: AgentMemory,
    *,
    subjects: Iterable[MemorySubject] = (MemorySubject.EVERYTHING,),
    scope: SaveScope | Iterable[SaveScope] | None = None,
    wait: bool = False,
    state: StateAccess[Any] = _PLAIN,
) -> Node:
    """Make a node that hands the history over to be searched for facts of any concept.

    Those of the agent's own concepts are looked for first, with their types.

    Args:
        memory: The memory.
        subjects: Whom the facts may be about; the user if nobody is named.
        scope: Where to keep them, as a scope, a kind or a path, or several of these; where `Saving.scope` says if
            None. In several the history is read once for each.
        wait: Pass on only when the history is read, so that the next node finds what was learnt.
        state: Where the state has its messages.

    Raises:
        InvalidDataError: One of these is of another type, or the agent takes no part in a scope.
    """
    request = DetectionRequest(subjects=subjects, concepts=memory.config.concepts, open=True)
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
    one = scope is None or isinstance(scope, MemoryScope | ScopeKind | str)
    places = (None,) if scope is None else _scopes(memory, [scope] if one else scope)
    if not places:
        raise InvalidDataError("there is no scope to save in: name one, or leave scope out", path="$.scope")

    async def saved(history: Sequence[Any], identity: RunIdentity) -> None:
        handed_over = [
            await memory.save_facts_from_history(history, looking_for=request, scope=place, identity=identity)
            for place in places
        ]
        for handle in handed_over if wait else ():
            if handle is not None:
                await handle.wait()

    return _node(name, saved, state)


def _node(name: str, work: _Work, access: StateAccess[Any]) -> Node:
    async def node(state: Any, config: Any = None) -> Any:
        inner = state.state if _is_step(state) else state
        found = access.identity(inner).or_else(_identity(state, config))
        history = await work(access.messages(inner), found)
        if _is_step(state):
            if history is not None:
                _replace(inner, access.update(history))
            return state.inputs
        return {} if history is None else access.update(history)

    node.__name__ = node.__qualname__ = name
    # LangGraph hands its config in where the parameter has its own annotation, or none.
    del node.__annotations__["config"]
    return node


def _is_step(state: Any) -> bool:
    """Whether a graph's library has handed in a step of a run, which has a state, deps and inputs."""
    return all(hasattr(state, name) for name in ("state", "deps", "inputs"))


def _identity(state: Any, config: Any) -> RunIdentity:
    if _is_step(state):
        deps = state.deps
        return _identified(getattr(deps, "user_id", None), getattr(deps, "session_id", None))
    said = config.get("configurable") or {} if isinstance(config, Mapping) else {}
    return _identified(said.get("user_id"), said.get("session_id", said.get("thread_id")))


def _identified(user_id: object, session_id: object) -> RunIdentity:
    """Ids are texts, whatever a program counts its users and threads with."""
    return RunIdentity(
        user_id=None if user_id is None else str(user_id), session_id=None if session_id is None else str(session_id)
    )


def _replace(state: Any, update: Mapping[str, Any]) -> None:
    for name, value in update.items():
        if isinstance(state, MutableMapping):
            state[name] = value
        else:
            setattr(state, name, value)


def _subjects(subjects: Iterable[MemorySubject] | None) -> tuple[MemorySubject, ...] | None:
    return None if subjects is None else listed("subjects", subjects, MemorySubject)


def _scopes(memory: AgentMemory, scopes: Any) -> Any:
    """Return scopes that the agent takes part in."""
    if scopes is None:
        return None
    given = listed("scopes", scopes, MemoryScope, ScopeKind, str)
    return tuple(dict.fromkeys(map(memory.config.scope_of, given)))
