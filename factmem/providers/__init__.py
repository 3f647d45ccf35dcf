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
    Planned,
    Planner,
    SteadyClock,
    TrackIndex,
    check_part,
    check_readable,
    check_writable,
    misfit,
    unknown_assertion,
)
from factmem.providers.registry import (
    ENTRY_POINT_GROUP,
    default_store,
    open_provider,
    provider_entry_points,
    without_secrets,
)
from factmem.providers.threaded import (
    DatabaseEngine,
    DatabaseProvider,
    Engine,
    GroupCommit,
    Request,
    ThreadedProvider,
    flag_option,
    raised_again,
    seconds_option,
)

__all__ = [
    "ENTRY_POINT_GROUP",
    "Backup",
    "DatabaseEngine",
    "DatabaseProvider",
    "Engine",
    "GroupCommit",
    "HistoryProvider",
    "InMemoryProvider",
    "NoMemory",
    "Planned",
    "Planner",
    "Request",
    "Restored",
    "SteadyClock",
    "ThreadedProvider",
    "TrackIndex",
    "back_up",
    "check_part",
    "check_readable",
    "check_writable",
    "default_store",
    "fact_of",
    "flag_option",
    "misfit",
    "open_provider",
    "provider_entry_points",
    "raised_again",
    "read_backup",
    "refuse_unfinished_restore",
    "restore_backup",
    "seconds_option",
    "unknown_assertion",
    "without_secrets",
]
