"""AGENTS.md: files that agents read, and facts kept in them."""

from __future__ import annotations

from factmem.agent.agents_md.comments import Visible, visible
from factmem.agent.agents_md.edits import Editor, Edits, applied, reconciled
from factmem.agent.agents_md.facts_file import AgentsMdFacts, Block, block_in, written_into
from factmem.agent.agents_md.files import Content
from factmem.agent.agents_md.page import Bullet, Page, bullet_of, bullets_in, one_line, original, page_of, said_in
from factmem.agent.agents_md.sources import (
    DEFAULT_TEMPLATE,
    SLOT,
    AgentsMd,
    AgentsMdText,
    Limits,
    Source,
    prompt_of,
    read_as,
)
from factmem.agent.agents_md.tree import OVERVIEW, MemoryFiles, MemoryTree

__all__ = [
    "DEFAULT_TEMPLATE",
    "OVERVIEW",
    "SLOT",
    "AgentsMd",
    "AgentsMdFacts",
    "AgentsMdText",
    "Block",
    "Bullet",
    "Content",
    "Editor",
    "Edits",
    "Limits",
    "MemoryFiles",
    "MemoryTree",
    "Page",
    "Source",
    "Visible",
    "applied",
    "block_in",
    "bullet_of",
    "bullets_in",
    "one_line",
    "original",
    "page_of",
    "prompt_of",
    "read_as",
    "reconciled",
    "said_in",
    "visible",
    "written_into",
]
