"""Decisions of people: assertions in quarantine, and words that a model could not read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Unpack

import attrs

from factmem.abc.capabilities import StateRequest
from factmem.changes import Change, ChangeKind
from factmem.errors import OutOfViewError, RecordNotFoundError
from factmem.fold import never_accepted, states_of
from factmem.memory.background import Remembered
from factmem.memory.filters import Filters, ids_of
from factmem.memory.journal import Unit, settled_state, to_pending
from factmem.memory.observed import observed
from factmem.memory.pipeline import PipelinePart
from factmem.memory.reader import Reader
from factmem.memory.writer import WritingPart
from factmem.recall import RecallFilter
from factmem.recall.index.selection import LogPart
from factmem.records import AssertionState, FactRecord, Recorded, StateChange, record_of
from factmem.showing import as_kept_apart, shown_record

__all__ = ["DeadLetter", "DeadLetters", "Quarantine", "failure_in", "quarantined"]


@attrs.frozen(kw_only=True)
class DeadLetter:
    """Words that could not be read.

    Attributes:
        id: Id of the submission.
        records: The words, as they are kept.
        failure: Name of the error of the last attempt.
        reason: Message of that error: what the model did, or which field of its answer was wrong; never what was said.
        failed_at: Time of the last attempt, in UTC.
    """

    id: str
    records: tuple[FactRecord[Any], ...]
    failure: str
    reason: str
    failed_at: dt.datetime


@observed("dead_letters.")
class DeadLetters(PipelinePart):
    """Words that a model could not read. See `Inbox.dead_letters`."""

    async def list(self) -> tuple[DeadLetter, ...]:
        """Return the dead letters, in the order submitted."""
        return tuple(letter for letter, _ in await self._shown())

    async def retry(self, *ids: str) -> tuple[Remembered, ...]:
        """Read dead letters again, now; all of them if no id is given. Those that fail again stay dead letters.

        Raises:
            RecordNotFoundError: An id names no dead letter; none was read.
            ReadOnlyError: The memory is read-only.
            OutOfViewError: Facts about subjects outside of this view were looked for.
        """
        return tuple([await self._read_again(unit) for unit in await self._chosen(ids)])

    async def dismiss(self, *ids: str) -> None:
        """Give up on reading dead letters: the words stay as they were said, like any other statement.

        Raises:
            RecordNotFoundError: An id names no dead letter.
            ReadOnlyError: The memory is read-only.
        """
        for unit in await self._chosen(ids):
            await self._let_stand(unit)

    async def _chosen(self, ids: Sequence[str]) -> Sequence[Unit]:
        letters = {letter.id: unit for letter, unit in await (self._letters() if ids else self._shown())}
        if missing := set(ids) - letters.keys():
            raise RecordNotFoundError(f"{len(missing)} of the ids name no dead letter: see list()")
        return [letters[id] for id in ids or letters]

    async def _shown(self) -> Sequence[tuple[DeadLetter, Unit]]:
        shows = self._context.view.shows
        return [(letter, unit) for letter, unit in await self._letters() if shows(unit.place.subject)]

    async def _letters(self) -> Sequence[tuple[DeadLetter, Unit]]:
        self._context.check_present()
        given_up = {
            entry.assertion_id: entry
            for entry in await self._backend.mirror.log(LogPart(jobs=True))
            if isinstance(entry, StateChange) and entry.state is AssertionState.FAILED
        }
        visible = self._context.visible_owners
        units = [unit for unit in await self._pipeline.waiting(AssertionState.FAILED) if unit.given.owner in visible]
        return [(_letter(unit, given_up.get(unit.words[0].id)), unit) for unit in units]

    async def _read_again(self, unit: Unit) -> Remembered:
        self._context.check_writable()
        if not self._pipeline.can_read(unit):
            raise OutOfViewError(
                "it looks for facts outside of this view: read it with the memory that the view was made of"
            )
        await self._writer.commit([to_pending(recorded) for recorded in unit.words])
        (outcome,) = await self._pipeline.read_now([unit])
        return outcome

    async def _let_stand(self, unit: Unit) -> None:
        self._context.check_writable()
        await self._writer.commit(
            [
                StateRequest.of(
                    recorded,
                    state=settled_state(recorded),
                    reason="dismissed",
                    expected=AssertionState.FAILED,
                )
                for recorded in unit.words
            ]
        )


def failure_in(reason: str | None) -> tuple[str, str]:
    """Return the name and the message of the error in the reason of a failed state, which an import does not carry."""
    failure, _, message = (reason or "unknown").partition(": ")
    return failure, message


def _letter(unit: Unit, why: StateChange | None) -> DeadLetter:
    failure, reason = failure_in(None if why is None else why.reason)
    return DeadLetter(
        id=unit.job.id,
        records=tuple(record_of(recorded, state=AssertionState.FAILED) for recorded in unit.words),
        failure=failure,
        reason=reason,
        failed_at=why.recorded_at if why else unit.words[0].recorded_at,
    )


@observed("quarantine.")
class Quarantine(WritingPart):
    """Quarantined assertions: neither loaded nor recalled nor counted until they are accepted. See `Inbox.quarantine`.

    A planted assertion may claim to revise a record of the user. An entry therefore has an id of its own, which is
    valid only inside the quarantine.
    """

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
