"""Specs of `KeepsHistory`: states, expected states, and words that wait."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import attrs
import pytest

from factmem.abc import AgentMemoryProvider, Append, KeepsHistory, StateRequest
from factmem.errors import RecordNotFoundError, StateConflictError
from factmem.records import Assertion, AssertionState, LogEntry, Origin, Place, Recorded, StateChange
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import (
    CITY,
    PLANNER,
    SEATS,
    USER,
    keep,
    loaded_value,
    only,
    said,
)

__all__ = ["StateSpecs"]

_HERE = Place(USER, PLANNER)
_JOB = {"kind": "detect", "words": ["Ørsted", "", "漢字"], "tries": 2, "share": 0.5, "of": None, "by": {"x": True}}
_ACTIVE, _PENDING, _RETRACTED = AssertionState.ACTIVE, AssertionState.PENDING, AssertionState.RETRACTED


class StateSpecs(ProviderCase):
    """Specs of changes of state that expect a state, and of words that wait for a model."""

    async def test_a_change_from_the_expected_state_is_made(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        recorded = await only(history, said(CITY, "Oslo"))
        await history.append([_change(recorded, _RETRACTED, expected=_ACTIVE)])
        assert await loaded_value(provider, CITY) is None
        await history.append([_change(recorded, _ACTIVE, expected=_RETRACTED)])
        assert await loaded_value(provider, CITY) == "Oslo"
        assert _states(await history.entries(_HERE)) == [_RETRACTED, _ACTIVE]

    @pytest.mark.parametrize("expected", [state for state in AssertionState if state is not _ACTIVE])
    async def test_a_change_from_another_state_than_expected_is_refused_and_nothing_is_written(
        self, provider: AgentMemoryProvider, history: KeepsHistory, expected: AssertionState
    ) -> None:
        recorded = await only(history, said(CITY, "xylophone"))
        before = list(await history.entries(_HERE))
        first, last = Append(assertion=said(SEATS, 1)), Append(assertion=said(SEATS, 2, 2))
        with pytest.raises(StateConflictError, match=f"active.*{expected.value}") as refusal:
            await history.append([first, _change(recorded, _RETRACTED, expected=expected), last])
        assert "xylophone" not in str(refusal.value)
        assert list(await history.entries(_HERE)) == before
        assert await loaded_value(provider, CITY) == "xylophone"

    async def test_the_expected_state_is_the_newest_one(self, history: KeepsHistory) -> None:
        recorded = await only(history, said(CITY, "Oslo", origin=Origin.DOCUMENT))
        for state in (_RETRACTED, AssertionState.QUARANTINED, _ACTIVE, AssertionState.FAILED):
            await history.append([_change(recorded, state)])
        with pytest.raises(StateConflictError):
            await history.append([_change(recorded, _RETRACTED, expected=AssertionState.QUARANTINED)])
        await history.append([_change(recorded, _RETRACTED, expected=AssertionState.FAILED)])

    async def test_statements_earlier_in_a_transaction_count_for_what_is_expected(self, history: KeepsHistory) -> None:
        recorded = await only(history, said(CITY, "Oslo"))
        there = _change(recorded, _RETRACTED, expected=_ACTIVE)
        back = _change(recorded, _ACTIVE, expected=_RETRACTED)
        await history.append([there, back, there, back])
        assert _states(await history.entries(_HERE)) == [_RETRACTED, _ACTIVE] * 2
        with pytest.raises(StateConflictError):
            await history.append([there, there])
        assert _states(await history.entries(_HERE)) == [_RETRACTED, _ACTIVE] * 2

    async def test_a_change_of_nothing_is_not_found_whatever_is_expected(self, history: KeepsHistory) -> None:
        with pytest.raises(RecordNotFoundError):
            await history.append([StateRequest(assertion_id="nothing", tenant=None, state=_ACTIVE, expected=_PENDING)])

    async def test_of_several_who_expect_the_same_state_one_succeeds(self, history: KeepsHistory) -> None:
        """The others write nothing, and do not block concurrent requests for other states."""
        words = await only(history, _waiting(said(CITY, "Oslo")))
        won, lost = list[int](), list[int]()

        async def take_up(number: int) -> None:
            found = Append(assertion=said(SEATS, number, number))
            try:
                await history.append([_change(words, _RETRACTED, expected=_PENDING), found])
            except StateConflictError:
                lost.append(number)
            else:
                won.append(number)

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(take_up, number)
                tasks.start_soon(keep, history, said(CITY, "Rome", 100 + number))
        assert len(won) == 1
        assert len(lost) == 7
        log = await history.entries(_HERE)
        assert [entry.assertion.data for entry in _recorded(log) if entry.assertion.keyword == "seats"] == won
        assert len([entry for entry in _recorded(log) if entry.assertion.data == "Rome"]) == 8
        assert _states(log) == [_RETRACTED]

    @pytest.mark.parametrize("state", [_PENDING, AssertionState.FAILED])
    async def test_words_that_wait_or_failed_are_loaded_as_they_stand_if_their_origin_is_trusted(
        self, provider: AgentMemoryProvider, history: KeepsHistory, state: AssertionState
    ) -> None:
        await keep(history, attrs.evolve(said(CITY, "Oslo"), state=state))
        stray = attrs.evolve(said(SEATS, 4, origin=Origin.TOOL), state=state)
        untrusted = await only(history, stray)
        assert await loaded_value(provider, CITY) == "Oslo"
        assert await loaded_value(provider, SEATS) is None
        await history.append([_change(untrusted, _ACTIVE, expected=state)])
        assert await loaded_value(provider, SEATS) == 4

    @pytest.mark.parametrize("state", [state for state in AssertionState if state is not AssertionState.SUPERSEDED])
    async def test_every_state_reads_back(self, history: KeepsHistory, state: AssertionState) -> None:
        """Both as the state of an appended assertion, and after a change of state."""
        recorded = await only(history, attrs.evolve(said(CITY, "Oslo"), state=state))
        assert recorded.assertion.state is state
        await history.append([_change(recorded, state, expected=state)])
        log = await history.entries(_HERE)
        assert [entry.assertion.state for entry in _recorded(log)] == [state]
        assert _states(log) == [state]

    async def test_a_job_stays_with_its_words_and_makes_them_wait(self, history: KeepsHistory) -> None:
        assertion = _waiting(said(CITY, "Oslo"))
        assert assertion.state is _PENDING
        recorded = await only(history, assertion)
        assert recorded.assertion == assertion
        (read,) = _recorded(await history.entries(_HERE))
        assert read.assertion.job == _JOB
        assert read == recorded

    async def test_states_jobs_and_labels_survive_reopening(
        self, provider: AgentMemoryProvider, history: KeepsHistory, tmp_path: Path
    ) -> None:
        waiting = await only(history, _waiting(said(CITY, "Oslo", labels={"run": "7"})))
        failed = await only(history, attrs.evolve(said(SEATS, 4), state=AssertionState.FAILED))
        log = list(await history.entries(_HERE))
        async with await self.reopened(provider, tmp_path) as again:
            assert isinstance(again, KeepsHistory)
            assert list(await again.entries(_HERE)) == log
            with pytest.raises(StateConflictError):
                await again.append([_change(waiting, _RETRACTED, expected=_ACTIVE)])
            await again.append([_change(waiting, _RETRACTED, expected=_PENDING)])
            await again.append([_change(failed, _PENDING, expected=AssertionState.FAILED)])
            assert _states(await again.entries(_HERE)) == [_RETRACTED, _PENDING]


def _change(recorded: Recorded, state: AssertionState, *, expected: AssertionState | None = None) -> StateRequest:
    return StateRequest.of(recorded, state=state, expected=expected)


def _waiting(assertion: Assertion) -> Assertion:
    return attrs.evolve(assertion, job=_JOB, state=_PENDING)


def _states(log: Sequence[LogEntry]) -> list[AssertionState]:
    return [entry.state for entry in log if isinstance(entry, StateChange)]


def _recorded(log: Sequence[LogEntry]) -> list[Recorded]:
    return [entry for entry in log if isinstance(entry, Recorded)]
