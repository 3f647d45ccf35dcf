"""Opening providers, the parts to build one from, and the two that need no file."""

from __future__ import annotations

from factmem.providers.backups import (
    Backup,
    Restored,
    back_up,
    read_backup,
    refuse_unfinished_restore,
    restore_backup,
)
from factmem.providers.history import HistoryProvider, fact_of
from factmem.providers.memory import InMemoryProvider, NoMemory
from factmem.providers.planning import (
    TrackIndex,
)
from factmem.providers.registry import (
    ENTRY_POINT_GROUP,
    default_store,
    open_provider,
    provider_entry_points,
    without_secrets,
)
from factmem.providers.threaded import (
    DatabaseProvider,
    Engine,
    GroupCommit,
    Request,
    ThreadedProvider,
    flag_option,
    seconds_option,
)

__all__ = [
    "ENTRY_POINT_GROUP",
    "Backup",
    "DatabaseProvider",
    "Engine",
    "GroupCommit",
    "HistoryProvider",
    "InMemoryProvider",
    "NoMemory",
    "Request",
    "Restored",
    "ThreadedProvider",
    "TrackIndex",
    "back_up",
    "default_store",
    "fact_of",
    "flag_option",
    "open_provider",
    "provider_entry_points",
    "read_backup",
    "refuse_unfinished_restore",
    "restore_backup",
    "seconds_option",
    "without_secrets",
]
