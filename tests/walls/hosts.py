"""The paths of the adapters that read memory themselves. The others use a `MemoryRun` or its tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from factmem.agent.plugin import AgentMemory
from tests.walls.agents import agent_over, of_run
from tests.walls.ways import Asked, Door, Neither, Reads, Shows, Way, Writes, each
from tests.walls.worlds import Plant
from tests.walls.writing import MARK

_TWIN: Final = "is the same without an event loop; CapabilityError with an open Memory"


def _memory(asked: Asked) -> AgentMemory:
    return agent_over(asked.memory)


def _user(asked: Asked) -> str:
    return asked.caller.viewer or "nobody"


def of_user(plant: Plant, asked: Asked) -> bool:
    """Return whether a plant is about the user of an ADK service, which always has one, or about everything."""
    return plant.subject.key in (("user", _user(asked)), ("everything", None))


async def _searched(asked: Asked) -> object:
    from factmem.integrations.adk import FactMemMemoryService

    service = FactMemMemoryService(_memory(asked), top_k=100)
    whose: dict[str, Any] = {"app_name": "a", "user_id": _user(asked)}
    queries = ("green door", asked.query, " ")
    return [await service.search_memory(**whose, query=query) for query in queries]


async def _deleted(asked: Asked) -> object:
    from factmem.integrations.adk import FactMemMemoryService

    service = FactMemMemoryService(_memory(asked))
    whose: dict[str, Any] = {"app_name": "a", "user_id": _user(asked)}
    return await each(asked.ids, lambda name: service.delete_memory(**whose, memory_id=name))


MEMORY_SERVICE: Final[Mapping[str, Door]] = {
    "search_memory": Reads([Way(_searched, only=of_user)]),
    "delete_memory": Writes([Way(_deleted, Shows.NOTHING)]),
    "add_memory": Neither("writes, and returns nothing"),
    "add_session_to_memory": Neither("writes, and returns nothing"),
    "add_events_to_memory": Neither("writes, and returns nothing"),
}


async def _of_store(asked: Asked, ops: Sequence[Any]) -> object:
    from factmem.integrations.langgraph import FactMemStore

    # Records of other sources are not items of a store. So that its paths have content, all are treated as items.
    store = FactMemStore(_memory(asked), root="/product/a")
    return await store.abatch(ops)


async def _batch(asked: Asked) -> object:
    from langgraph.store.base import GetOp, ListNamespacesOp, SearchOp

    ops = [
        SearchOp(namespace_prefix=(), query=asked.query, limit=50),
        SearchOp(namespace_prefix=(), limit=50),
        SearchOp(namespace_prefix=("x",), filter={"note": {"$ne": MARK}}, limit=50),
        ListNamespacesOp(limit=50),
        *(GetOp(namespace=("x",), key=plant.concept.keyword) for plant in asked.some),
    ]
    return await _of_store(asked, ops)


LANGGRAPH_STORE: Final[Mapping[str, Door]] = {
    "abatch": Reads([Way(_batch, Shows.NOTHING)]),
    "batch": Neither(_TWIN),
    "close": Neither("closes it"),
    "aclose": Neither("closes it"),
    "supports_ttl": Neither("is a constant"),
    "sweep_ttl": Neither("is a count, of the store's own items"),
    "asweep_ttl": Neither("is a count, of the store's own items"),
}
"""Items are distinguished by their source: a store shows no record of any other source."""


async def _as_files(asked: Asked, how: str) -> object:
    from factmem.integrations.deepagents import FactMemBackend

    memory = _memory(asked)
    backend = FactMemBackend(memory)
    with memory.run(asked.caller.viewer):
        match how:
            case "als":
                return [await backend.als(path) for path in ("/", "/product", "/product/ab")]
            case "aread":
                return [
                    await backend.aread(path) for path in ("/AGENTS.md", "/product/a/user.md", "/product/ab/user.md")
                ]
            case "agrep":
                return [await backend.agrep("the"), await backend.agrep("q", "/product/ab")]
            case "aglob":
                return await backend.aglob("**/*.md")
            case "adownload_files":
                return await backend.adownload_files(
                    ["/AGENTS.md", "/product/ab/user.md", "/cross-product/everything.md"]
                )
            case "aedit":
                return await backend.aedit("/AGENTS.md", "the", MARK, replace_all=True)
            case "awrite":
                return await backend.awrite("/product/ab/user.md", f"- {MARK}")
            case _:
                return await backend.aupload_files([("/AGENTS.md", f"- {MARK}".encode())])


def _file_way(how: str, shows: Shows = Shows.NOW) -> Way:
    return Way(lambda asked: _as_files(asked, how), shows, only=of_run)


BACKEND: Final[Mapping[str, Door]] = {
    **{how: Reads([_file_way(how)]) for how in ("als", "aread", "agrep", "aglob", "adownload_files")},
    **{how: Writes([_file_way(how, Shows.KEPT)]) for how in ("awrite", "aedit", "aupload_files")},
    **{
        how: Neither(_TWIN) for how in ("ls", "read", "grep", "glob", "download_files", "write", "edit", "upload_files")
    },
}

_RUN: Final = "tells what MemoryRun.load returns, and submits what MemoryRun.save takes; tested with its host"
_FORMAT: Final = "turns messages of its host into ours, and reads nothing stored"
_STORAGE: Final = "asks views of a MemoryRun; needs an environment with CrewAI, and is tested there"

ASKS_A_RUN: Final[Mapping[str, str]] = {
    "factmem.integrations.adk.FactMemPlugin": _RUN,
    "factmem.integrations.adk.ContentFormat": _FORMAT,
    "factmem.integrations.adk.EventFormat": _FORMAT,
    "factmem.integrations.deepagents.AgentsMdMiddleware": "tells what stands in files that people wrote",
    "factmem.integrations.deepagents.DeepAgentMemoryMiddleware": _RUN,
    "factmem.integrations.langchain.FactMemMiddleware": _RUN,
    "factmem.integrations.langchain.LangChainFormat": _FORMAT,
    "factmem.integrations.openai.RequestFormat": _FORMAT,
    "factmem.integrations.openai_agents.MemoryHooks": _RUN,
    "factmem.integrations.openai_agents.MemorySession": _RUN,
    "factmem.integrations.pydantic_ai.AgentWithMemory": _RUN,
    "factmem.integrations.pydantic_ai.MemoryCapability": _RUN,
    "factmem.integrations.pydantic_ai.PydanticAIFormat": _FORMAT,
    "factmem.integrations.crewai.CrewMemory": _STORAGE,
    "factmem.integrations.crewai.storage.FactMemStorage": _STORAGE,
}
"""Classes of the adapters with methods of their own that do not read memory themselves."""
