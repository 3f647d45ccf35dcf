"""Consolidation: the effect of new facts on known ones.

`plan` compares candidates with known records, asks a consolidator where that is needed, and returns a `Plan` of what to
append. Applying it is the caller's task.
"""

from __future__ import annotations

from factmem.consolidation.policy import ConsolidationPolicy

__all__ = ["ConsolidationPolicy"]
