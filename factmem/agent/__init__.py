"""Memory in agents: the plugin, nodes of strategy graphs, compression of long histories, lessons from feedback."""

from __future__ import annotations

from factmem.agent.config import Loading, Saving
from factmem.agent.lessons import LESSON, Lessons
from factmem.agent.nodes import (
    load_all_facts_from_memory,
    load_from_memory,
    save_to_memory,
    save_to_memory_auto_detect_facts,
)
from factmem.agent.plugin import install

__all__ = [
    "LESSON",
    "Lessons",
    "Loading",
    "Saving",
    "install",
    "load_all_facts_from_memory",
    "load_from_memory",
    "save_to_memory",
    "save_to_memory_auto_detect_facts",
]
