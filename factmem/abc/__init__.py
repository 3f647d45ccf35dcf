"""The contracts. What factmem asks of providers, embedders, detectors, clocks and storages."""

from __future__ import annotations

from factmem.abc.analyst import Analysis, AnalysisRequest, Analyst
from factmem.abc.capabilities import (
    Append,
    EmbedderIdentity,
    EraseReceipt,
    Erases,
    FeedsChanges,
    KeepsFiles,
    KeepsHistory,
    KeepsVectors,
    Receipt,
    SearchesVectors,
    Statement,
    StateRequest,
)
from factmem.abc.clock import Clock, system_clock
from factmem.abc.consolidator import Action, Consolidator, Known, Novelty, Verdict, Verdicts
from factmem.abc.detector import (
    EXPLICIT_INSTRUCTIONS,
    KEY_CONVERSATION_DETAILS,
    MANAGED_TOPICS,
    MEMORY_ROLE,
    PERSONAL_INFORMATION,
    PREFERENCES,
    Candidate,
    Conversation,
    Detection,
    DetectionExample,
    DetectionRequest,
    Detector,
    DropReason,
    Message,
    Topic,
)
from factmem.abc.embedder import Embedder
from factmem.abc.model import LanguageModel, Prompt, WorkedExample
from factmem.abc.outlines import KeepsOutlines, Outline, Outlined, number_of_id
from factmem.abc.provider import AgentMemoryProvider
from factmem.abc.storage import LogName, Position, Scan, Storage

__all__ = [
    "EXPLICIT_INSTRUCTIONS",
    "KEY_CONVERSATION_DETAILS",
    "MANAGED_TOPICS",
    "MEMORY_ROLE",
    "PERSONAL_INFORMATION",
    "PREFERENCES",
    "Action",
    "AgentMemoryProvider",
    "Analysis",
    "AnalysisRequest",
    "Analyst",
    "Append",
    "Candidate",
    "Clock",
    "Consolidator",
    "Conversation",
    "Detection",
    "DetectionExample",
    "DetectionRequest",
    "Detector",
    "DropReason",
    "Embedder",
    "EmbedderIdentity",
    "EraseReceipt",
    "Erases",
    "FeedsChanges",
    "KeepsFiles",
    "KeepsHistory",
    "KeepsOutlines",
    "KeepsVectors",
    "Known",
    "LanguageModel",
    "LogName",
    "Message",
    "Novelty",
    "Outline",
    "Outlined",
    "Position",
    "Prompt",
    "Receipt",
    "Scan",
    "SearchesVectors",
    "StateRequest",
    "Statement",
    "Storage",
    "Topic",
    "Verdict",
    "Verdicts",
    "WorkedExample",
    "number_of_id",
    "system_clock",
]
