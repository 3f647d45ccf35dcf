"""Memory in agents: the plugin, nodes of strategy graphs, compression of long histories, lessons from feedback."""

from __future__ import annotations

from factmem.agent.compression import FactRetrievalCompression, Fallback, keep_history
from factmem.agent.config import (
    USER,
    AgentMemoryConfig,
    FailurePolicy,
    Hooks,
    Loading,
    NoStoreWarning,
    RunIdentity,
    Saving,
    SavingTime,
    Store,
    UserPolicy,
    estimated_tokens,
)
from factmem.agent.history import MEMORY_NAME, DictFormat, HistoryFormat, MessageFormat, spoken, with_block
from factmem.agent.holders import SavedHistory
from factmem.agent.lessons import LESSON, TASK, Lessons, Reviewed, Reviewer
from factmem.agent.nodes import (
    GraphRun,
    Node,
    StateAccess,
    load_all_facts_from_memory,
    load_from_memory,
    save_to_memory,
    save_to_memory_auto_detect_facts,
)
from factmem.agent.plugin import (
    ENTRY_POINT_GROUP,
    AgentMemory,
    HostIntegration,
    format_of,
    host_entry_points,
    host_of,
    install,
)
from factmem.agent.rendering import MemoryBlock
from factmem.agent.run import TOOL_NAMES, MemoryRun, MemoryTools

__all__ = [
    "ENTRY_POINT_GROUP",
    "LESSON",
    "MEMORY_NAME",
    "TASK",
    "TOOL_NAMES",
    "USER",
    "AgentMemory",
    "AgentMemoryConfig",
    "DictFormat",
    "FactRetrievalCompression",
    "FailurePolicy",
    "Fallback",
    "GraphRun",
    "HistoryFormat",
    "Hooks",
    "HostIntegration",
    "Lessons",
    "Loading",
    "MemoryBlock",
    "MemoryRun",
    "MemoryTools",
    "MessageFormat",
    "NoStoreWarning",
    "Node",
    "Reviewed",
    "Reviewer",
    "RunIdentity",
    "SavedHistory",
    "Saving",
    "SavingTime",
    "StateAccess",
    "Store",
    "UserPolicy",
    "estimated_tokens",
    "format_of",
    "host_entry_points",
    "host_of",
    "install",
    "keep_history",
    "load_all_facts_from_memory",
    "load_from_memory",
    "save_to_memory",
    "save_to_memory_auto_detect_facts",
    "spoken",
    "with_block",
]
