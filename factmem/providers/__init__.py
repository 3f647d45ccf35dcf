"""Opening providers, the parts to build one from, and the two that need no file."""

from __future__ import annotations

from factmem.providers.backups import back_up
from factmem.providers.history import fact_of
from factmem.providers.planning import (
    TrackIndex,
)

__all__ = ["TrackIndex", "back_up", "fact_of"]
