"""The facade: what people hold."""

from __future__ import annotations

from factmem.memory.blocking import BlockingMemory, BlockingReader
from factmem.memory.expiry import ExpiryReceipt, TtlOperation, TtlPolicy
from factmem.memory.facade import Memory
from factmem.memory.filtering import Filters, RecordOrder, RecordPage
from factmem.memory.lifecycle import PurgeResult
from factmem.memory.listing import ScopeInfo, ScopeTree
from factmem.memory.profiles import PartialProfile, ProfileField, ProfileSchema, concepts_of
from factmem.memory.reading import MemoryReader
from factmem.memory.writing import FuturePolicy

__all__ = [
    "BlockingMemory",
    "BlockingReader",
    "ExpiryReceipt",
    "Filters",
    "FuturePolicy",
    "Memory",
    "MemoryReader",
    "PartialProfile",
    "ProfileField",
    "ProfileSchema",
    "PurgeResult",
    "RecordOrder",
    "RecordPage",
    "ScopeInfo",
    "ScopeTree",
    "TtlOperation",
    "TtlPolicy",
    "concepts_of",
]
