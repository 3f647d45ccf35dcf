"""Consolidation: the effect of new facts on known ones.

`plan` compares candidates with known records, asks a consolidator where that is needed, and returns a `Plan` of what to
append. Applying it is the caller's task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from factmem.consolidation.candidates import CandidateAssertion
from factmem.consolidation.duplicates import duplicates_in, without_duplicates
from factmem.consolidation.planning import ASKED_TO_BE_FORGOTTEN, Plan, plan
from factmem.consolidation.policy import Approve, ConsolidationPolicy, Proposal
from factmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from factmem.consolidation.model_consolidator import InstructorConsolidator

__all__ = [
    "ASKED_TO_BE_FORGOTTEN",
    "Approve",
    "CandidateAssertion",
    "ConsolidationPolicy",
    "InstructorConsolidator",
    "Plan",
    "Proposal",
    "duplicates_in",
    "plan",
    "without_duplicates",
]

_HOMES = {"model_consolidator": ("InstructorConsolidator",)}
if not TYPE_CHECKING:  # a type checker that sees it takes any name for one of the package
    __getattr__ = lazy_names(__name__, _HOMES)
