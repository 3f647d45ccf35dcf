"""`Memory`, its blocking twin and their parts; here are names that programs use beside those of `factmem`."""

from __future__ import annotations

from factmem.memory.erasure_proof import verify_erased
from factmem.memory.journal import Trigger
from factmem.memory.profiles import concepts_of

__all__ = ["Trigger", "concepts_of", "verify_erased"]
