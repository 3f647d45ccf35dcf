"""The contracts. What factmem asks of providers, embedders, detectors, clocks and storages."""

from __future__ import annotations

from factmem.abc.capabilities import (
    Append,
    EmbedderIdentity,
    EraseReceipt,
    Erases,
    FeedsChanges,
    KeepsHistory,
    KeepsVectors,
    Receipt,
    SearchesVectors,
    Statement,
    StateRequest,
)
from factmem.abc.clock import Clock, system_clock
from factmem.abc.detector import MEMORY_ROLE, Candidate, Conversation, Detector, Message
from factmem.abc.embedder import Embedder
from factmem.abc.provider import AgentMemoryProvider
from factmem.abc.storage import LogName, Position, Scan, Storage

__all__ = [
    "MEMORY_ROLE",
    "AgentMemoryProvider",
    "Append",
    "Candidate",
    "Clock",
    "Conversation",
    "Detector",
    "Embedder",
    "EmbedderIdentity",
    "EraseReceipt",
    "Erases",
    "FeedsChanges",
    "KeepsHistory",
    "KeepsVectors",
    "LogName",
    "Message",
    "Position",
    "Receipt",
    "Scan",
    "SearchesVectors",
    "StateRequest",
    "Statement",
    "Storage",
    "system_clock",
]
