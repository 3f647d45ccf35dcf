"""AGENTS.md: files that agents read, and facts kept in them."""

from __future__ import annotations

from factmem.agent.agents_md.facts_file import AgentsMdFacts
from factmem.agent.agents_md.sources import DEFAULT_TEMPLATE, SLOT, AgentsMd, AgentsMdText, Limits, Source
from factmem.agent.agents_md.tree import OVERVIEW, MemoryFiles, MemoryTree

__all__ = [
    "DEFAULT_TEMPLATE",
    "OVERVIEW",
    "SLOT",
    "AgentsMd",
    "AgentsMdFacts",
    "AgentsMdText",
    "Limits",
    "MemoryFiles",
    "MemoryTree",
    "Source",
]
