"""AGENTS.md: files that agents read, and facts kept in them."""

from __future__ import annotations

from factmem.agent.agents_md.facts_file import AgentsMdFacts
from factmem.agent.agents_md.sources import AgentsMd

__all__ = ["AgentsMd", "AgentsMdFacts"]
