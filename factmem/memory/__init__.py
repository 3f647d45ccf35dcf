"""The facade: what people hold."""

from __future__ import annotations

from factmem.memory.audit_trail import AuditAction, AuditEntry, AuditPage
from factmem.memory.blocking import (
    BlockingDeadLetters,
    BlockingHandover,
    BlockingMemory,
    BlockingQuarantine,
    BlockingReader,
)
from factmem.memory.dead_letters import DeadLetter, DeadLetters
from factmem.memory.erasing import PurgeResult
from factmem.memory.errands import Trigger
from factmem.memory.exchange import ImportReceipt
from factmem.memory.expiry import ExpiryReceipt, TtlOperation, TtlPolicy
from factmem.memory.facade import Memory
from factmem.memory.filtering import Filters, RecordOrder, RecordPage
from factmem.memory.generating import StoredSession
from factmem.memory.handover import Background, Handover, HandoverFailed, HandoverFinished, MemoryEvent
from factmem.memory.listing import ScopeInfo, ScopeTree
from factmem.memory.outcomes import Remembered, Unrepresented
from factmem.memory.profiles import PartialProfile, ProfileField, ProfileSchema, concepts_of
from factmem.memory.quarantine import Quarantine
from factmem.memory.reading import MemoryReader
from factmem.memory.recalling import RecallDepth
from factmem.memory.remembering import About
from factmem.memory.screening import FlaggedPolicy
from factmem.memory.traces import Traces
from factmem.memory.verifying import ErasureReport, FileTraces, verify_erased
from factmem.memory.writing import FuturePolicy

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
    "BlockingReader",
    "DeadLetter",
    "DeadLetters",
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
    "MemoryReader",
    "PartialProfile",
    "ProfileField",
    "ProfileSchema",
    "PurgeResult",
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
