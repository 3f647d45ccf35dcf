"""`Memory`, its blocking twin, and the data that they take and return."""

from __future__ import annotations

from factmem.memory.erasure_proof import verify_erased
from factmem.memory.journal import Trigger
from factmem.memory.profiles import concepts_of

__all__ = ["Trigger", "concepts_of", "verify_erased"]
