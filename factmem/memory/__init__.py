"""`Memory`, its blocking twin, and the data that they take and return."""

from __future__ import annotations

from factmem.memory.admin import Admin
from factmem.memory.audit import AuditAction, AuditEntry, AuditPage
from factmem.memory.background import (
    Background,
    MemoryEvent,
    Remembered,
    Submission,
    SubmissionFailed,
    SubmissionFinished,
    Unrepresented,
)
from factmem.memory.blocking import (
    BlockingAdmin,
    BlockingDeadLetters,
    BlockingInbox,
    BlockingMemory,
    BlockingQuarantine,
    BlockingSubmission,
)
from factmem.memory.context import FuturePolicy, MediaSettings, Policies, PolicyChanges
from factmem.memory.converting import Conversion
from factmem.memory.eraser import Erasure
from factmem.memory.exchange import ImportReceipt
from factmem.memory.facade import Memory
from factmem.memory.filters import Filters, RecordOrder, RecordPage
from factmem.memory.inbox import Inbox
from factmem.memory.journal import Trigger
from factmem.memory.moves import MoveReceipt, TenantMove, move
from factmem.memory.profiles import PartialProfile, ProfileField, ProfileSchema, ProfileSource, concepts_of
from factmem.memory.proof import ErasureReport, FileTraces, Traces, verify_erased
from factmem.memory.recaller import RecallDepth
from factmem.memory.remembering import About, ReadyFact, StoredSession
from factmem.memory.review import DeadLetter, DeadLetters, Quarantine
from factmem.memory.scope_tree import ScopeInfo, ScopeTree
from factmem.memory.screening import FlaggedPolicy, QuarantineQuota
from factmem.memory.ttl import ExpiryReceipt, TtlOperation, TtlPolicy

__all__ = [
    "About",
    "Admin",
    "AuditAction",
    "AuditEntry",
    "AuditPage",
    "Background",
    "BlockingAdmin",
    "BlockingDeadLetters",
    "BlockingInbox",
    "BlockingMemory",
    "BlockingQuarantine",
    "BlockingSubmission",
    "Conversion",
    "DeadLetter",
    "DeadLetters",
    "Erasure",
    "ErasureReport",
    "ExpiryReceipt",
    "FileTraces",
    "Filters",
    "FlaggedPolicy",
    "FuturePolicy",
    "ImportReceipt",
    "Inbox",
    "MediaSettings",
    "Memory",
    "MemoryEvent",
    "MoveReceipt",
    "PartialProfile",
    "Policies",
    "PolicyChanges",
    "ProfileField",
    "ProfileSchema",
    "ProfileSource",
    "Quarantine",
    "QuarantineQuota",
    "ReadyFact",
    "RecallDepth",
    "RecordOrder",
    "RecordPage",
    "Remembered",
    "ScopeInfo",
    "ScopeTree",
    "StoredSession",
    "Submission",
    "SubmissionFailed",
    "SubmissionFinished",
    "TenantMove",
    "Traces",
    "Trigger",
    "TtlOperation",
    "TtlPolicy",
    "Unrepresented",
    "concepts_of",
    "move",
    "verify_erased",
]
