"""Memory for LangGraph: graph nodes and a ``BaseStore``.

Memory is not installed into a graph, because the graph's own nodes decide the order of steps. Use one of these:

- `with_facts_from_memory`, around the node that calls a model: facts are in the model's request, and never in the state
  or a checkpoint:

    builder.add_node("model", with_facts_from_memory(memory, call_model))

- The nodes `load_from_memory`, `load_all_facts_from_memory`, `save_to_memory` and
  `save_to_memory_auto_detect_facts` of `factmem.agent`. Add them to a ``StateGraph`` as they are. The user and the
  session are read from the run's config; see `factmem.agent.GraphRun`. For states whose
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

from typing import Any, Final, NoReturn

from factmem.agent import AgentMemory, HostIntegration
from factmem.errors import CapabilityError
from factmem.integrations.langgraph.nodes import (
    ADDED_MESSAGES,
    identity_here,
    identity_of,
    runnable,
    with_facts_from_memory,
)
from factmem.integrations.langgraph.store import FactMemStore, NamespaceError

__all__ = [
    "ADDED_MESSAGES",
    "FactMemStore",
    "NamespaceError",
    "identity_here",
    "identity_of",
    "integration",
    "runnable",
    "with_facts_from_memory",
]


def _not_installed(memory: AgentMemory, graph: Any) -> NoReturn:
    raise CapabilityError(
        f"memory cannot be installed into a {type(graph).__name__}: add nodes such as "
        "load_all_facts_from_memory(memory) to a graph, and make an agent of create_agent with what "
        "install(memory, into=create_agent) returns"
    )


integration: Final = HostIntegration(install=_not_installed)
