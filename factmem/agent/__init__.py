"""Memory in agents: the plugin, the nodes of strategy graphs, and compression of long histories."""

from __future__ import annotations

from factmem.agent.agent_memory import AgentMemory
from factmem.agent.compression import FactRetrievalCompression, Fallback, keep_history
from factmem.agent.config import USER, AgentMemoryConfig, NoStoreWarning, Store
from factmem.agent.history import MEMORY_NAME, DictFormat, HistoryFormat, MessageFormat, spoken, told
from factmem.agent.hosts import ENTRY_POINT_GROUP, HostIntegration, format_of, host_entry_points, host_of
from factmem.agent.identity import RunIdentity
from factmem.agent.installing import install
from factmem.agent.nodes import (
    Node,
    StateAccess,
    load_all_facts_from_memory,
    load_from_memory,
    save_to_memory,
    save_to_memory_auto_detect_facts,
)
from factmem.agent.policies import FailurePolicy, Hooks, Loading, Saving, SavingTime, UserPolicy, estimated_tokens
from factmem.agent.rendering import MemoryBlock
from factmem.agent.run import MemoryRun
from factmem.agent.saving import SavedHistory
from factmem.agent.tools import TOOL_NAMES, MemoryTools

__all__ = [
    "ENTRY_POINT_GROUP",
    "MEMORY_NAME",
    "TOOL_NAMES",
    "USER",
    "AgentMemory",
    "AgentMemoryConfig",
    "DictFormat",
    "FactRetrievalCompression",
    "FailurePolicy",
    "Fallback",
    "HistoryFormat",
    "Hooks",
    "HostIntegration",
    "Loading",
    "MemoryBlock",
    "MemoryRun",
    "MemoryTools",
    "MessageFormat",
    "NoStoreWarning",
    "Node",
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
    "told",
]
