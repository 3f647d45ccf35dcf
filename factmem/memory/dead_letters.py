"""Dead letters: words that a model could not read. They are kept as they were said, and can be read again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import attrs

from factmem.abc import StateRequest
from factmem.errors import OutOfViewError, RecordNotFoundError
from factmem.memory.backend import Backend
from factmem.memory.context import Context
from factmem.memory.journal import Unit, settled_state, to_pending
from factmem.memory.observed import observed
from factmem.memory.outcomes import Remembered
from factmem.memory.pipeline import Pipeline
from factmem.memory.writer import Writer
from factmem.recall import LogPart
from factmem.records import AssertionState, FactRecord, StateChange, record_of

__all__ = ["DeadLetter", "DeadLetters", "failure_in"]


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
class DeadLetters:
    """Words that a model could not read. See `Inbox.dead_letters`."""

    def __init__(self, context: Context, backend: Backend) -> None:
        self._context = context
        self._backend = backend
        self._writer = Writer(context.everybody, backend)
        self._pipeline = Pipeline(context, backend)

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
        return await self._pipeline.read_now(unit)

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
