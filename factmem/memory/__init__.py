"""The facade: what people hold."""

from __future__ import annotations

from factmem.memory.blocking import BlockingMemory, BlockingReader
from factmem.memory.facade import Memory
from factmem.memory.filtering import Filters, RecordOrder, RecordPage
from factmem.memory.listing import ScopeInfo, ScopeTree
from factmem.memory.reading import MemoryReader
from factmem.memory.writing import FuturePolicy

__all__ = [
    "BlockingMemory",
    "BlockingReader",
    "Filters",
    "FuturePolicy",
    "Memory",
    "MemoryReader",
    "RecordOrder",
    "RecordPage",
    "ScopeInfo",
    "ScopeTree",
]
