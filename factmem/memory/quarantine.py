"""Quarantine: what came from an untrusted mouth, until somebody lets it in or turns it away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol

import attrs

from factmem.facts import Concept
from factmem.records import AssertionState, Change, ChangeKind, FactRecord, Recorded, record_of

__all__ = ["ChangeStates", "EntriesIn", "Quarantine"]

EntriesIn = Callable[[Collection[AssertionState]], Awaitable[Sequence[Recorded]]]
"""Gives what the viewer may see that is in one of some states."""

_QUARANTINED: Final = (AssertionState.QUARANTINED,)


class ChangeStates(Protocol):
    """Changes the states of what the viewer may see."""

    async def __call__(
        self, record_ids: Collection[str], before: Collection[AssertionState], after: AssertionState, reason: str | None
    ) -> None:
        """Change everything of these records that is in one of the states ``before``.

        Raises:
            RecordNotFoundError: a record has nothing in that state; nothing was changed.
        """
        ...


@attrs.frozen(kw_only=True)
class Quarantine:
    """What is kept apart: neither loaded nor recalled nor counted, until it is let in. See `Memory.quarantine`."""

    _entries_in: EntriesIn
    _change_states: ChangeStates
    _concepts: Mapping[str, Concept[Any, Any]]

    async def list(self) -> tuple[FactRecord[Any], ...]:
        """Return what is quarantined, oldest first, each with its evidence and origin."""
        return tuple(self._record(entry) for entry in await self._entries_in(_QUARANTINED))

    async def accept(self, *record_ids: str, reason: str | None = None) -> tuple[Change, ...]:
        """Let records in: from now on they are facts like any other.

        Args:
            record_ids: which.
            reason: why, and who says so, for the audit trail.

        Raises:
            RecordNotFoundError: an id names nothing quarantined; none was let in.
            ConceptConflictError: the place holds another type under its keyword; none was let in.
            ReadOnlyError: the memory is read-only.
        """
        kept = await self._changed(record_ids, AssertionState.ACTIVE, reason)
        return tuple(
            Change(kind=ChangeKind.CREATED, record=attrs.evolve(record, state=AssertionState.ACTIVE)) for record in kept
        )

    async def reject(self, *record_ids: str, reason: str | None = None) -> tuple[Change, ...]:
        """Turn records away. They can be brought back by `Memory.restore`, and erased by `Memory.forget`.

        Args:
            record_ids: which.
            reason: why, and who says so, for the audit trail.

        Raises:
            RecordNotFoundError: an id names nothing quarantined; none was turned away.
            ReadOnlyError: the memory is read-only.
        """
        return tuple(
            Change(kind=ChangeKind.DELETED, record=record)
            for record in await self._changed(record_ids, AssertionState.RETRACTED, reason)
        )

    async def _changed(
        self, record_ids: Collection[str], state: AssertionState, reason: str | None
    ) -> Sequence[FactRecord[Any]]:
        records = [record for record in await self.list() if record.id in record_ids]
        await self._change_states(record_ids, _QUARANTINED, state, reason)
        return records

    def _record(self, entry: Recorded) -> FactRecord[Any]:
        concept = self._concepts.get(entry.assertion.keyword)
        fits = concept is not None and (concept.fact_type, concept.shape) == (
            entry.assertion.fact_type,
            entry.assertion.shape,
        )
        return record_of(entry, concept if fits else None, state=AssertionState.QUARANTINED)
