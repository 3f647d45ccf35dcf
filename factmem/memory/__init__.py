"""`Memory`, its blocking twin, and the data that they take and return."""

from __future__ import annotations

from factmem.memory.journal import Trigger
from factmem.memory.profiles import concepts_of
from factmem.memory.proof import verify_erased

__all__ = ["Trigger", "concepts_of", "verify_erased"]
