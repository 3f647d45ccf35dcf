"""Quarantine: assertions of untrusted origins or uncertain meaning, until they are accepted or rejected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from factmem.changes import Change, ChangeKind
from factmem.errors import RecordNotFoundError
from factmem.fold import never_accepted, states_of
from factmem.memory.backend import Backend
from factmem.memory.context import Context
from factmem.memory.filters import Filters, ids_of
from factmem.memory.observed import observed
from factmem.memory.reader import Reader
from factmem.memory.writer import Writer
from factmem.recall import LogPart, RecallFilter
from factmem.records import AssertionState, FactRecord, Recorded
from factmem.showing import as_kept_apart, shown_record

__all__ = ["Quarantine", "quarantined"]


@observed("quarantine.")
class Quarantine:
    """Quarantined assertions: neither loaded nor recalled nor counted until they are accepted. See `Inbox.quarantine`.

    A planted assertion may claim to revise a record of the user. An entry therefore has an id of its own, which is
    valid only inside the quarantine.
    """

    def __init__(self, context: Context, backend: Backend) -> None:
        self._context = context
        self._backend = backend
        self._reader = Reader(context, backend)
        self._writer = Writer(context.everybody, backend)

    async def list(self, *, rejected: bool = False, **filters: Unpack[Filters]) -> tuple[FactRecord[Any], ...]:
        """Return the quarantined assertions, in the order recorded.

        Each has its evidence, its origin and a `FactRecord.quarantine_reason`.

        Args:
            rejected: Return the rejected ones instead.
            filters: Conditions on the assertions; see `Filters`.

        Raises:
            InvalidDataError: A condition cannot be met.
        """
        state = AssertionState.RETRACTED if rejected else AssertionState.QUARANTINED
        self._context.check_present()
        entries = await quarantined(self._reader, self._reader.wanted(filters))
        return tuple(self._record(entry, found) for entry, found in entries if found is state)

    async def count(self) -> int:
        """Return the number of statements that wait to be accepted or rejected, quickly.

        Words of untrusted origins that wait for a model are among them, and not in `list` yet.
        """
        self._context.check_present()
        return await self._reader.waiting()

    async def accept(self, *ids: str, reason: str | None = None) -> tuple[Change, ...]:
        """Accept entries in one transaction, rejected ones included: from now on they are facts like any other.

        A doubtful finding of the same value at the same place is believed at once later.

        Args:
            ids: Ids, as `list` returns them.
            reason: The reason, for the audit trail.

        Raises:
            RecordNotFoundError: An id names no quarantined assertion; none was accepted.
            ConceptConflictError: The place holds another type under its keyword; none was accepted.
            StateConflictError: Another reviewer decided about one meanwhile; none was accepted.
            ReadOnlyError: The memory is read-only.
        """
        chosen = await self._chosen(ids)
        await self._writer.change_states(chosen, AssertionState.ACTIVE, reason)
        return tuple(
            Change(kind=ChangeKind.CREATED, record=shown_record(entry, self._context.concepts)) for entry in chosen
        )

    async def reject(self, *ids: str, reason: str | None = None) -> tuple[Change, ...]:
        """Reject entries in one transaction. They stay in the store, out of sight, and can still be accepted.

        A doubtful finding of the same value at the same place is dropped later.

        Args:
            ids: Ids, as `list` returns them.
            reason: The reason, for the audit trail.

        Raises:
            RecordNotFoundError: An id names no quarantined assertion; none was rejected.
            StateConflictError: Another reviewer decided about one meanwhile; none was rejected.
            ReadOnlyError: The memory is read-only.
        """
        chosen = await self._chosen(ids)
        await self._writer.change_states(chosen, AssertionState.RETRACTED, reason)
        return tuple(
            Change(kind=ChangeKind.DELETED, record=self._record(entry, AssertionState.RETRACTED)) for entry in chosen
        )

    async def _chosen(self, ids: Sequence[str]) -> Sequence[Recorded]:
        self._context.check_present()
        wanted = ids_of(ids)
        entries = {entry.id: entry for entry, _ in await quarantined(self._reader.everybody)}
        if missing := wanted.keys() - entries.keys():
            raise RecordNotFoundError(f"{len(missing)} of the ids name no quarantined record: see list()")
        return [entries[id] for id in wanted]

    def _record(self, entry: Recorded, state: AssertionState) -> FactRecord[Any]:
        return as_kept_apart(entry, state, self._context.concepts)


async def quarantined(reader: Reader, wanted: RecallFilter | None = None) -> list[tuple[Recorded, AssertionState]]:
    """Return the visible assertions that were never accepted and pass a filter, with their states, as recorded."""
    log = await reader.log(LogPart(apart=True, kept=wanted))
    states, apart = states_of(log), never_accepted(log)
    return [
        (entry, states[entry.id])
        for entry in log
        if isinstance(entry, Recorded) and entry.id in apart and entry.id in states and not entry.assertion.only_shown
    ]
