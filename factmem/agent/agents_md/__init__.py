"""AGENTS.md: files that agents read, and facts kept in them."""

from __future__ import annotations

from factmem.agent.agents_md.applying import Hand, applied
from factmem.agent.agents_md.bullets import Bullet
from factmem.agent.agents_md.facts_file import AgentsMdFacts
from factmem.agent.agents_md.files import Content
from factmem.agent.agents_md.page import Page, bullets_in, page_of
from factmem.agent.agents_md.prompting import DEFAULT_TEMPLATE, SLOT, Source, prompt_of
from factmem.agent.agents_md.reconciling import Edits, reconciled
from factmem.agent.agents_md.sources import AgentsMd, AgentsMdText, Limits, read_as
from factmem.agent.agents_md.tree import OVERVIEW, MemoryFiles, MemoryTree

__all__ = [
    "DEFAULT_TEMPLATE",
    "OVERVIEW",
    "SLOT",
    "AgentsMd",
    "AgentsMdFacts",
    "AgentsMdText",
    "Bullet",
    "Content",
    "Edits",
    "Hand",
    "Limits",
    "MemoryFiles",
    "MemoryTree",
    "Page",
    "Source",
    "applied",
    "bullets_in",
    "page_of",
    "prompt_of",
    "read_as",
    "reconciled",
]
