"""The peers to measure."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

import attrs
from peers.environments import REQUIREMENTS

__all__ = ["FACTMEM", "FIELD", "Contestant"]


@attrs.frozen
class Contestant:
    """A peer to measure.

    Attributes:
        title: its title in tables.
        adapter: its module in ``adapters``.
        requirements: its file in ``requirements``; None if this environment has it.
        package: its package in this environment.
        measures: ``speed``, ``quality`` or both.
    """

    title: str
    adapter: str
    requirements: str | None = attrs.field(default=None, kw_only=True)
    package: str = attrs.field(default="numpy", kw_only=True)
    measures: tuple[str, ...] = attrs.field(default=("quality", "speed"), kw_only=True)

    @property
    def versions(self) -> tuple[str, ...]:
        """Return the pinned requirements that are installed for the peer."""
        if self.requirements is None:
            return (f"{self.package}=={version(self.package)}",)
        return tuple((REQUIREMENTS / f"{self.requirements}.txt").read_text(encoding="utf-8").split())


FACTMEM: Final = "factmem"

FIELD: Final[Mapping[str, Contestant]] = {
    FACTMEM: Contestant("factmem", "factmem_memory", package="factmem"),
    "scan": Contestant("bare numpy scan", "scan"),
    "embedder": Contestant("the embedder alone", "embedder", package="wordllama", measures=("speed",)),
    "chroma": Contestant("Chroma", "chroma", requirements="chroma"),
    "crewai": Contestant("CrewAI memory", "crewai_memory", requirements="crewai"),
    "lancedb": Contestant("LanceDB", "lance", requirements="lancedb"),
    "langgraph-inmemory": Contestant("LangGraph InMemoryStore", "langgraph_inmemory", requirements="langgraph"),
    "langgraph-sqlite": Contestant("LangGraph SqliteStore", "langgraph_sqlite", requirements="langgraph"),
    "mem0": Contestant("mem0", "mem0_open", requirements="mem0"),
    "mempalace": Contestant("MemPalace", "mempalace_drawers", requirements="mempalace"),
    "txtai": Contestant("txtai", "txtai_index", requirements="txtai"),
}
