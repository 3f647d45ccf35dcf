"""Words that a model could not read: shown, read again, or given up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import attrs

from factmem.abc.capabilities import StateRequest
from factmem.errors import OutOfViewError, RecordNotFoundError
from factmem.memory.background import Remembered
from factmem.memory.journal import Unit, settled_state
from factmem.memory.operations import observed
from factmem.memory.pipeline import PipelinePart
from factmem.recall.index.selection import LogPart
from factmem.records import AssertionState, FactRecord, StateChange, record_of


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

    async def list(self, *, all_users: bool = False) -> tuple[DeadLetter, ...]:
        """Return the dead letters, in the order submitted.

        Args:
            all_users: Return those of the private words of all users as well.

        Raises:
            InvalidDataError: A viewer asks for all users.
            OutOfViewError: A view asks for all users.
        """
        return tuple(letter for letter, _ in await self._shown(all_users=all_users))

    async def retry(self, *ids: str, all_users: bool = False) -> tuple[Remembered, ...]:
        """Read dead letters again, now; all of them if no id is given. Those that fail again stay dead letters.

            await memory.inbox.dead_letters.retry(all_users=True)  # after an outage of the model

        Args:
            ids: Ids of dead letters.
            all_users: Read those of the private words of all users as well.

        Raises:
            InvalidDataError: A viewer asks for all users.
            RecordNotFoundError: An id names no dead letter; none was read.
            ReadOnlyError: The memory is read-only.
            OutOfViewError: Facts about subjects outside of this view were looked for, or a view is asked for all users.
        """
        outcomes: list[Remembered] = []
        for unit in await self._chosen(ids, all_users=all_users):
            self._context.check_writable()
            if not self._pipeline.can_read(unit):
                raise OutOfViewError(
                    "the text is read for facts outside of this view: use the memory that the view was made of"
                )
            await self._pipeline.await_again(unit.words)
            outcomes += await self._pipeline.read_now([unit])
        return tuple(outcomes)

    async def dismiss(self, *ids: str, all_users: bool = False) -> None:
        """Give up on reading dead letters: the words stay as they were said, like any other statement.

        Args:
            ids: Ids of dead letters; all of them if none is given.
            all_users: Dismiss those of the private words of all users as well.

        Raises:
            InvalidDataError: A viewer asks for all users.
            RecordNotFoundError: An id names no dead letter.
            ReadOnlyError: The memory is read-only.
            OutOfViewError: A view asks for all users.
        """
        failed, reason = AssertionState.FAILED, "dismissed"
        for unit in await self._chosen(ids, all_users=all_users):
            self._context.check_writable()
            await self._writer.commit(
                [StateRequest.of(it, settled_state(it), reason=reason, expected=failed) for it in unit.words]
            )

    async def _chosen(self, ids: Sequence[str], *, all_users: bool) -> Sequence[Unit]:
        those = self._letters if ids else self._shown
        letters = {letter.id: unit for letter, unit in await those(all_users=all_users)}
        if missing := set(ids) - letters.keys():
            raise RecordNotFoundError(f"{len(missing)} of the ids name no dead letter: see list()")
        return [letters[id] for id in ids or letters]

    async def _shown(self, *, all_users: bool) -> Sequence[tuple[DeadLetter, Unit]]:
        shows = self._context.view.shows
        return [pair for pair in await self._letters(all_users=all_users) if shows(pair[1].place.subject)]

    async def _letters(self, *, all_users: bool) -> Sequence[tuple[DeadLetter, Unit]]:
        self._context.check_present()
        if all_users:
            self._context.of_all_users()  # raises if they are out of reach
        given_up = {
            entry.assertion_id: entry
            for entry in await self._backend.mirror.log(LogPart(jobs=True, states=(AssertionState.FAILED,)))
            if isinstance(entry, StateChange) and entry.state is AssertionState.FAILED
        }
        units = await self._pipeline.waiting(AssertionState.FAILED, of_all=all_users)
        return [(_letter(unit, given_up.get(unit.words[0].id)), unit) for unit in units]


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
