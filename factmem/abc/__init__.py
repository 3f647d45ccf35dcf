"""Contracts of providers, embedders, detectors, verifiers, consolidators, models, observers, clocks and the like."""

from __future__ import annotations

from factmem.abc.accesses import Access, KeepsAccesses
from factmem.abc.analyst import Analysis, AnalysisRequest, Analyst
from factmem.abc.backups import BacksUp, StoreLocation
from factmem.abc.capabilities import (
    Append,
    ChecksItself,
    EmbedderIdentity,
    EraseReceipt,
    Erases,
    FeedsChanges,
    KeepsFiles,
    KeepsHistory,
    KeepsVectors,
    Receipt,
    ScansVectors,
    Statement,
    StateRequest,
    UpgradesFormat,
)
from factmem.abc.clock import Clock, system_clock
from factmem.abc.consolidator import Action, Consolidator, Known, Novelty, Verdict, Verdicts
from factmem.abc.copying import CopiesLogs, LogPart
from factmem.abc.detector import (
    MEMORY_ROLE,
    Candidate,
    Conversation,
    Detection,
    DetectionExample,
    DetectionRequest,
    Detector,
    Doubt,
    DropReason,
    Message,
)
from factmem.abc.embedder import Embedder, EmbedsQueries
from factmem.abc.log_storage import LogName, LogStorage, Position, Scan
from factmem.abc.media import MediaReader, Passage
from factmem.abc.model import LanguageModel, Prompt, WorkedExample
from factmem.abc.observer import (
    Effect,
    MemoryObserver,
    Operation,
    OperationCompleted,
    OperationEvent,
    OperationFailed,
    OperationStarted,
)
from factmem.abc.outlines import KeepsOutlines, Outline, Outlined, number_of_id
from factmem.abc.provider import AgentMemoryProvider
from factmem.abc.question_analyst import (
    Complexity,
    Gap,
    QuestionAnalysis,
    QuestionAnalyst,
    QuestionRequest,
    SubQuestion,
)
from factmem.abc.reranker import Reranker
from factmem.abc.topics import (
    EXPLICIT_INSTRUCTIONS,
    KEY_CONVERSATION_DETAILS,
    MANAGED_TOPICS,
    PERSONAL_INFORMATION,
    PREFERENCES,
    Topic,
)
from factmem.abc.verifier import Claim, Confirmation, Verifier

__all__ = [
    "EXPLICIT_INSTRUCTIONS",
    "KEY_CONVERSATION_DETAILS",
    "MANAGED_TOPICS",
    "MEMORY_ROLE",
    "PERSONAL_INFORMATION",
    "PREFERENCES",
    "Access",
    "Action",
    "AgentMemoryProvider",
    "Analysis",
    "AnalysisRequest",
    "Analyst",
    "Append",
    "BacksUp",
    "Candidate",
    "ChecksItself",
    "Claim",
    "Clock",
    "Complexity",
    "Confirmation",
    "Consolidator",
    "Conversation",
    "CopiesLogs",
    "Detection",
    "DetectionExample",
    "DetectionRequest",
    "Detector",
    "Doubt",
    "DropReason",
    "Effect",
    "Embedder",
    "EmbedderIdentity",
    "EmbedsQueries",
    "EraseReceipt",
    "Erases",
    "FeedsChanges",
    "Gap",
    "KeepsAccesses",
    "KeepsFiles",
    "KeepsHistory",
    "KeepsOutlines",
    "KeepsVectors",
    "Known",
    "LanguageModel",
    "LogName",
    "LogPart",
    "LogStorage",
    "MediaReader",
    "MemoryObserver",
    "Message",
    "Novelty",
    "Operation",
    "OperationCompleted",
    "OperationEvent",
    "OperationFailed",
    "OperationStarted",
    "Outline",
    "Outlined",
    "Passage",
    "Position",
    "Prompt",
    "QuestionAnalysis",
    "QuestionAnalyst",
    "QuestionRequest",
    "Receipt",
    "Reranker",
    "Scan",
    "ScansVectors",
    "StateRequest",
    "Statement",
    "StoreLocation",
    "SubQuestion",
    "Topic",
    "UpgradesFormat",
    "Verdict",
    "Verdicts",
    "Verifier",
    "WorkedExample",
    "number_of_id",
    "system_clock",
]
