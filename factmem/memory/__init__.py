"""The facade: what people hold."""

from __future__ import annotations

from factmem.memory.blocking import BlockingMemory, BlockingReader
from factmem.memory.facade import Memory
from factmem.memory.listing import ScopeInfo, ScopeTree
from factmem.memory.reading import MemoryReader
from factmem.memory.writing import FuturePolicy

__all__ = ["BlockingMemory", "BlockingReader", "FuturePolicy", "Memory", "MemoryReader", "ScopeInfo", "ScopeTree"]
