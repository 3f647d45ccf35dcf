"""Finding and building providers, and the two that need no file."""

from __future__ import annotations

from factmem.providers.ledger import (
    LedgerProvider,
    TrackIndex,
    check_readable,
    check_writable,
    fact_of,
    new_id,
)
from factmem.providers.memory import InMemoryProvider
from factmem.providers.none import NoMemory
from factmem.providers.registry import ENTRY_POINT_GROUP, open_provider, provider_entry_points

__all__ = [
    "ENTRY_POINT_GROUP",
    "InMemoryProvider",
    "LedgerProvider",
    "NoMemory",
    "TrackIndex",
    "check_readable",
    "check_writable",
    "fact_of",
    "new_id",
    "open_provider",
    "provider_entry_points",
]
