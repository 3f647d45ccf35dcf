"""Memory for LangGraph: graph nodes and a ``BaseStore``.

Memory is not installed into a graph, because the graph's own nodes decide the order of steps. Use one of these:

- The nodes `load_from_memory`, `load_all_facts_from_memory`, `save_to_memory` and
  `save_to_memory_auto_detect_facts` of `factmem.agent`. Add them to a ``StateGraph`` as they are. The user and the
  session are read from ``user_id`` and ``thread_id`` (or ``session_id``) in ``configurable``. For states whose
  messages are reduced by ``add_messages``, such as ``MessagesState``, pass ``state=ADDED_MESSAGES``; it reads the
  run's context as well:

    builder.add_node("load", load_all_facts_from_memory(memory, state=ADDED_MESSAGES))

- `FactMemStore`, for ``compile(store=...)``, ``create_agent(store=...)`` and the tools of langmem:

    with FactMemStore("sqlite-vec:facts.db") as store:
        store.put(("memories", "alice"), "drink", {"likes": "green tea"}, ttl=60 * 24)
        store.search(("memories",), query="what to drink?")

An agent of ``create_agent`` gets its memory from `factmem.integrations.langchain`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from factmem.agent import AgentMemory, HostIntegration, RunIdentity, StateAccess
from factmem.errors import CapabilityError, MissingPackageError
from factmem.integrations.langgraph.store import FactMemStore

try:
    from langchain_core.messages import RemoveMessage
    from langchain_core.runnables import ensure_config
    from langgraph.graph.message import REMOVE_ALL_MESSAGES
    from langgraph.runtime import Runtime, get_runtime
except ModuleNotFoundError as _missing:
    raise MissingPackageError("langgraph", extra="langgraph") from _missing

__all__ = ["ADDED_MESSAGES", "FactMemStore", "identity_here", "identity_of", "integration"]


def identity_of(context: object, config: Mapping[str, Any] | None = None) -> RunIdentity:
    """Return the identity of a run of LangGraph or LangChain.

    Args:
        context: The run's context: a mapping, an object, or None.
        config: The run's config (default: the config of the current runnable).

    Raises:
        InvalidNameError: An id is not legal.
    """
    configurable = (ensure_config() if config is None else config).get("configurable") or {}

    def named(*names: str) -> str | None:
        found = (_of(source, name) for source in (context, configurable) for name in names)
        return next((str(value) for value in found if value is not None), None)

    return RunIdentity(user_id=named("user_id"), session_id=named("session_id", "thread_id"))


def _of(source: object, name: str) -> object:
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def identity_here() -> RunIdentity:
    """Return the identity of the current run; empty outside of a run."""
    try:
        runtime: Runtime[Any] | None = get_runtime()
    except RuntimeError:
        runtime = None
    return identity_of(None if runtime is None else runtime.context)


def _replacing(history: list[Any]) -> Mapping[str, Any]:
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *history]}


def _identity_of_state(state: object) -> RunIdentity:
    return identity_here()


ADDED_MESSAGES: Final = StateAccess[Any](update=_replacing, identity=_identity_of_state)
"""Access to states whose ``messages`` are reduced by ``add_messages``.

The list of messages is replaced as a whole, so that outdated memory blocks disappear. Identities are read as in
`identity_of`.
"""


def _not_installed(memory: AgentMemory, graph: Any) -> NoReturn:
    raise CapabilityError(
        f"memory is not put into a {type(graph).__name__}: add nodes such as load_all_facts_from_memory(memory) to a "
        "graph, and make an agent of create_agent with what install(memory, into=create_agent) returns"
    )


integration: Final = HostIntegration(install=_not_installed)
