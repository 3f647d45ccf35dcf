"""What waits to be read, what could not be read, and what is kept apart."""

from __future__ import annotations

import abc

from anyio import to_thread

from factmem.abc import StateRequest
from factmem.fold import never_let_in, states_of
from factmem.memory.dead_letters import DeadLetter, DeadLetters
from factmem.memory.handover import UnitReader, Worker
from factmem.memory.journal import Unit, settled_state, units_in
from factmem.memory.outcomes import Remembered
from factmem.memory.processing import MemoryProcessor
from factmem.memory.quarantine import Quarantine
from factmem.recall import LogPart
from factmem.records import AssertionState, Recorded, StateChange, record_of

__all__ = ["MemoryWaiting", "to_pending"]


class MemoryWaiting(MemoryProcessor, abc.ABC):
    """Looks after words that are not facts yet."""

    _worker: Worker

    @property
    def quarantine(self) -> Quarantine:
        """What came from an untrusted mouth, until somebody lets it in or turns it away."""
        return Quarantine(entries=self._kept_apart, change_states=self._change_states, reading=self._reading)

    @property
    def dead_letters(self) -> DeadLetters:
        """Words that a model could not read; they are kept as they were said."""
        return DeadLetters(
            letters=self._letters, retry=self._read_again, dismiss=self._let_stand, reading=self._reading
        )

    @property
    def _unit_reader(self) -> UnitReader:
        return UnitReader(self._process, self._give_up)

    async def _read_now(self, unit: Unit) -> Remembered:
        with self._worker.holding(unit):
            (result,) = await self._process([unit])
            return result if isinstance(result, Remembered) else await self._give_up(unit, result)

    async def _waiting(self, state: AssertionState) -> list[Unit]:
        log, concepts = await self._mirror.log(LogPart(errands=True)), self._reading.concepts

        def select() -> list[Unit]:
            errands = [entry for entry in log if not isinstance(entry, Recorded) or entry.assertion.errand is not None]
            recorded = [entry for entry in errands if isinstance(entry, Recorded)]
            return units_in(recorded, states_of(errands), concepts, state=state)

        units = await to_thread.run_sync(select)
        return [unit for unit in units if self._reading.reaches(unit.place.scope)]

    async def _kept_apart(self) -> list[tuple[Recorded, AssertionState]]:
        log = await self._seen_log(LogPart(apart=True))
        states, apart = states_of(log), never_let_in(log)
        return [
            (entry, states[entry.id])
            for entry in log
            if isinstance(entry, Recorded)
            and entry.id in apart
            and entry.id in states
            and not entry.assertion.only_shown
        ]

    async def _letters(self) -> list[tuple[DeadLetter, Unit]]:
        given_up = {
            entry.assertion_id: entry
            for entry in await self._mirror.log(LogPart(errands=True))
            if isinstance(entry, StateChange) and entry.state is AssertionState.FAILED
        }
        visible = (None, self._reading.viewer)
        units = [unit for unit in await self._waiting(AssertionState.FAILED) if unit.given.owner in visible]
        return [(_letter(unit, given_up.get(unit.words[0].id)), unit) for unit in units]

    async def _read_again(self, unit: Unit) -> Remembered:
        self._check_writable()
        await self._commit([to_pending(recorded) for recorded in unit.words])
        return await self._read_now(unit)

    async def _let_stand(self, unit: Unit) -> None:
        self._check_writable()
        await self._commit(
            [
                StateRequest(
                    assertion_id=recorded.id,
                    state=settled_state(recorded),
                    reason="dismissed",
                    expected=AssertionState.FAILED,
                )
                for recorded in unit.words
            ]
        )


def to_pending(recorded: Recorded) -> StateRequest:
    """Return the request that lets words wait again that could not be read."""
    return StateRequest(
        assertion_id=recorded.id,
        state=AssertionState.PENDING,
        reason="to be read again",
        expected=AssertionState.FAILED,
    )


def _letter(unit: Unit, why: StateChange | None) -> DeadLetter:
    return DeadLetter(
        id=unit.errand.id,
        records=tuple(record_of(recorded, state=AssertionState.FAILED) for recorded in unit.words),
        failure=(why and why.reason) or "unknown",  # an import tells the state, and not how it came about
        failed_at=why.recorded_at if why else unit.words[0].recorded_at,
    )
