"""Opening providers, the parts to build one from, and the two that need no file.

Each store is a package of its own. That of a database, such as ``factmem_postgres``, has a `DatabaseProvider` with a
`DatabaseEngine`; see `factmem.providers.threaded`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from factmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from factmem.providers.backups import back_up
    from factmem.providers.log_verbs import fact_of
    from factmem.providers.write_plans import Planner, SteadyClock, TrackIndex

__all__ = ["Planner", "SteadyClock", "TrackIndex", "back_up", "fact_of"]

_HOMES = {"backups": ("back_up",), "log_verbs": ("fact_of",), "write_plans": ("Planner", "SteadyClock", "TrackIndex")}
if not TYPE_CHECKING:  # a type checker that sees it takes any name for one of the package
    __getattr__ = lazy_names(__name__, _HOMES)
