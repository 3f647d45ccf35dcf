"""`Memory`, its blocking twin, and the data that they take and return."""

from __future__ import annotations

from factmem.memory.audit import AuditAction, AuditEntry, AuditPage
from factmem.memory.background import Background, Handover, HandoverFailed, HandoverFinished, MemoryEvent
from factmem.memory.blocking import (
    BlockingDeadLetters,
    BlockingHandover,
    BlockingMemory,
    BlockingQuarantine,
)
from factmem.memory.context import FuturePolicy, Policies
from factmem.memory.dead_letters import DeadLetter, DeadLetters
from factmem.memory.eraser import Erasure
from factmem.memory.errands import Trigger
from factmem.memory.exchange import ImportReceipt
from factmem.memory.facade import Memory
from factmem.memory.filters import Filters, RecordOrder, RecordPage
from factmem.memory.inbox import About, StoredSession
from factmem.memory.outcomes import Remembered, Unrepresented
from factmem.memory.profiles import PartialProfile, ProfileField, ProfileSchema, concepts_of
from factmem.memory.proof import ErasureReport, FileTraces, verify_erased
from factmem.memory.quarantine import Quarantine
from factmem.memory.recaller import RecallDepth
from factmem.memory.scope_tree import ScopeInfo, ScopeTree
from factmem.memory.screening import FlaggedPolicy
from factmem.memory.traces import Traces
from factmem.memory.ttl import ExpiryReceipt, TtlOperation, TtlPolicy

__all__ = [
    "About",
    "AuditAction",
    "AuditEntry",
    "AuditPage",
    "Background",
    "BlockingDeadLetters",
    "BlockingHandover",
    "BlockingMemory",
    "BlockingQuarantine",
    "DeadLetter",
    "DeadLetters",
    "Erasure",
    "ErasureReport",
    "ExpiryReceipt",
    "FileTraces",
    "Filters",
    "FlaggedPolicy",
    "FuturePolicy",
    "Handover",
    "HandoverFailed",
    "HandoverFinished",
    "ImportReceipt",
    "Memory",
    "MemoryEvent",
    "PartialProfile",
    "Policies",
    "ProfileField",
    "ProfileSchema",
    "Quarantine",
    "RecallDepth",
    "RecordOrder",
    "RecordPage",
    "Remembered",
    "ScopeInfo",
    "ScopeTree",
    "StoredSession",
    "Traces",
    "Trigger",
    "TtlOperation",
    "TtlPolicy",
    "Unrepresented",
    "concepts_of",
    "verify_erased",
]
