"""Records for readers who declare concepts that the store may contradict."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import attrs

from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.records import AssertionState, FactDetails, FactRecord, Recorded, record_of
from factmem.values import accepts

__all__ = ["as_kept_apart", "shown_record"]


def shown_record(
    recorded: Recorded,
    concepts: Mapping[str, Concept[Any, Any]],
    *,
    details: FactDetails | None = None,
    state: AssertionState = AssertionState.ACTIVE,
) -> FactRecord[Any]:
    """Return a recorded assertion as a record, read as its declared concept if that fits, else by its shape.

    Another place may hold another type under the same keyword, and a class may be stricter than its shape: one value
    that a declared type refuses must not hide all the others.

    Args:
        recorded: the recorded assertion.
        concepts: declared concepts by keyword.
        details: replaces the assertion's own details, for example with more evidence.
        state: the state shown in the record.
    """
    said = recorded.assertion
    declared = concepts.get(said.keyword)
    if declared is not None and declared.fact_type is said.fact_type and accepts(said.shape, declared.shape):
        with contextlib.suppress(InvalidDataError):
            return record_of(recorded, declared, details=details, state=state)
    return record_of(recorded, details=details, state=state)


def as_kept_apart(entry: Recorded, state: AssertionState, concepts: Mapping[str, Concept[Any, Any]]) -> FactRecord[Any]:
    """Return a quarantined assertion as a record, with an id of its own.

    Args:
        entry: The assertion.
        state: Its state.
        concepts: The declared concepts by keyword.
    """
    return attrs.evolve(shown_record(entry, concepts, state=state), id=entry.id)
