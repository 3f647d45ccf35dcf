"""Memory for LangGraph: graph nodes and a ``BaseStore``.

Memory is not installed into a graph, because the graph's own nodes decide the order of steps. Use one of these:

- `with_facts_from_memory`, around the node that calls a model: facts are in the model's request, and never in the state
  or a checkpoint:

    builder.add_node("model", with_facts_from_memory(memory, call_model))

- The nodes `load_from_memory`, `load_all_facts_from_memory`, `save_to_memory` and
  `save_to_memory_auto_detect_facts` of `factmem.agent`. Add them to a ``StateGraph`` as they are. The user and the
  session are read from the run's config; see `factmem.agent.nodes.GraphRun`. For states whose
  messages are reduced by ``add_messages``, such as ``MessagesState``, pass ``state=ADDED_MESSAGES``; it reads the
  run's context as well:

    builder.add_node("load", load_all_facts_from_memory(memory, state=ADDED_MESSAGES))

  They are async; `runnable` makes nodes of them that work in both ways. What a load node adds is a part of the state.

- `FactMemStore`, for ``compile(store=...)``, ``create_agent(store=...)`` and the tools of langmem:

    with FactMemStore("facts.db") as store:
        store.put(("memories", "alice"), "drink", {"likes": "green tea"}, ttl=60 * 24)
        store.search(("memories",), query="what to drink?")

An agent of ``create_agent`` gets its memory from `factmem.integrations.langchain`.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar, cast

from factmem.agent.config import RunIdentity
from factmem.agent.nodes import GraphRun, Node, StateAccess, loader
from factmem.agent.plugin import AgentMemory, HostIntegration
from factmem.error_hints import kind_of
from factmem.errors import CapabilityError, InvalidDataError, MissingPackageError
from factmem.event_loops import is_async
from factmem.facts import Concept
from factmem.integrations.langgraph.store import FactMemStore
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

with MissingPackageError.if_missing("langgraph", extra="langgraph"):
    from langchain_core.messages import RemoveMessage
    from langchain_core.runnables import RunnableLambda, ensure_config
    from langgraph.graph.message import REMOVE_ALL_MESSAGES
    from langgraph.runtime import Runtime, get_runtime
    from langgraph.types import Command

__all__ = ["ADDED_MESSAGES", "FactMemStore", "identity_here", "integration", "runnable", "with_facts_from_memory"]


_NodeT = TypeVar("_NodeT", bound=Callable[..., Any])


def identity_here(state: Any = None, runtime: Runtime[Any] | None = None) -> RunIdentity:
    """Return the identity of the current run, empty outside of a run; see `factmem.agent.nodes.GraphRun`.

    Args:
        state: The state.
        runtime: The runtime of the run (default: that of the current one, if there is any).

    Raises:
        InvalidNameError: An id is not legal.
    """
    if runtime is None:
        with contextlib.suppress(RuntimeError):
            runtime = get_runtime()
    config: Any = ensure_config()
    return GraphRun(context=None if runtime is None else runtime.context, config=config, state=state).identity


def _replacing(history: list[Any]) -> Mapping[str, Any]:
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *history]}


ADDED_MESSAGES: Final = StateAccess[Any](update=_replacing, identity=identity_here)
"""Access to states whose ``messages`` are reduced by ``add_messages``.

The list of messages is replaced as a whole, so that outdated memory blocks disappear. Identities are read as in
`identity_here`.
"""


def runnable(node: Node) -> RunnableLambda[Any, Any]:
    """Return a node for graphs that run in both ways, by ``invoke`` and by ``ainvoke``.

    ``invoke`` needs a memory with a thread of its own, which every address and provider gets; for an open `Memory` it
    raises `CapabilityError`.

        builder.add_node("save", runnable(save_to_memory_auto_detect_facts(memory, state=ADDED_MESSAGES)))

    Args:
        node: A node of `factmem.agent`.
    """
    return RunnableLambda(node.blocking, node, name=node.__name__)


def with_facts_from_memory(
    memory: AgentMemory,
    node: _NodeT,
    *,
    concepts: Concept[Any, Any] | Iterable[Concept[Any, Any] | str] | None = None,
    subjects: MemorySubject | Iterable[MemorySubject] | None = None,
    scopes: MemoryScope | Iterable[MemoryScope | str] | None = None,
    state: StateAccess[Any] = ADDED_MESSAGES,
) -> _NodeT:
    """Return a model's node that is given what is known with the messages, and nothing of it is in the graph's state.

    So neither the state nor a checkpoint holds facts, where forgetting could not reach them. The memory block of
    `load_all_facts_from_memory`, on the other hand, becomes a part of the state.

        builder.add_node("model", with_facts_from_memory(memory, call_model))

    Args:
        memory: The memory.
        node: A function, sync or async, that sends the messages of its state to a model. A sync one needs a memory with
            a thread of its own; see `runnable`.
        concepts: A concept, or several of them or of their keywords (default: all).
        subjects: A subject of the facts, or several (default: the user and the agent's subjects).
        scopes: A scope of the facts, or several (default: all scopes of the agent).
        state: Access to the state.

    Raises:
        InvalidDataError: An argument has the wrong type, or a scope is not one of the agent's.
    """
    loads = loader(memory, concepts, subjects, scopes)

    def who(given: Any) -> RunIdentity:
        return state.identity(given).or_else(identity_here(given))

    if not callable(node):
        raise InvalidDataError(f"a node is a function of the state, not {kind_of(node)}", path="$.node")
    named = functools.wraps(node)  # by the node's signature, LangGraph passes config, runtime, store and writer
    if is_async(node):

        async def awaited(given: Any, *args: Any, **kwargs: Any) -> Any:
            history = await loads(state.messages(given), who(given))
            update = await node(_shown(given, state, history), *args, **kwargs)
            return _without_block(update, state.messages(given), history)

        return cast("_NodeT", named(awaited))

    def called(given: Any, *args: Any, **kwargs: Any) -> Any:
        identity, said = who(given), [*state.messages(given)]
        run, policy = memory.for_run(identity), memory.config.loading.on_failure
        history = run.use_blocking(lambda _: loads(said, identity), "nothing could be loaded", policy, said)
        update = node(_shown(given, state, history), *args, **kwargs)
        return _without_block(update, state.messages(given), history)

    return cast("_NodeT", named(called))


def _shown(given: Any, access: StateAccess[Any], history: list[Any]) -> Any:
    """Return a copy of a state with another history."""
    wanted = access.update(history).items()
    update = {name: _kept(value, lambda it: not isinstance(it, RemoveMessage)) for name, value in wanted}
    if isinstance(given, Mapping):
        return {**given, **update}
    shown = copy.copy(given)
    for name, value in update.items():
        object.__setattr__(shown, name, value)  # the copy is ours, also of a state that is frozen
    return shown


def _kept(value: Any, keep: Callable[[Any], bool]) -> Any:
    return list(filter(keep, value)) if isinstance(value, list) else value


def _without_block(update: Any, before: Sequence[Any], history: Sequence[Any]) -> Any:
    """Return a node's update without the memory block, which a node that returns the whole history would keep."""
    kept = {id(message) for message in before}
    blocks = {id(message) for message in history if id(message) not in kept}
    match update:
        case Command(update=inner):
            return dataclasses.replace(update, update=_without_block(inner, before, history))
        case Mapping():
            return {name: _kept(value, lambda message: id(message) not in blocks) for name, value in update.items()}
        case _:
            return update


def _not_installed(memory: AgentMemory, graph: Any) -> NoReturn:
    raise CapabilityError(
        f"memory cannot be installed into {kind_of(graph)}: add nodes such as "
        "load_all_facts_from_memory(memory) to a graph, and make an agent of create_agent with what "
        "install(memory, into=create_agent) returns"
    )


integration: Final = HostIntegration(install=_not_installed)
