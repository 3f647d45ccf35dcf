"""Specs of `KeepsHistory`: the log of a place, its transactions, ids and states."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

import pytest

from factmem.abc import AgentMemoryProvider, Append, KeepsHistory, Statement, StateRequest
from factmem.errors import ConceptConflictError, RecordNotFoundError
from factmem.facts import Concept
from factmem.records import AssertionState, Place, Recorded, StateChange
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import (
    ADDRESS,
    CITY,
    LANGUAGES,
    PLANNER,
    SEATS,
    USER,
    Address,
    keep,
    loaded_value,
    loaded_values,
    only,
    said,
)

__all__ = ["HistorySpecs"]

_HERE = Place(USER, PLANNER)


class HistorySpecs(ProviderCase):
    """Specs of `append` and `entries`."""

    async def test_an_appended_assertion_reads_back_whole(self, history: KeepsHistory) -> None:
        assertion = said(ADDRESS, Address("Weg", 1), scope=PLANNER / "child")
        recorded = await only(history, assertion)
        assert recorded.assertion == assertion
        assert list(await history.entries(assertion.place)) == [recorded]

    async def test_entries_are_of_exactly_one_place_by_sequence_number(self, history: KeepsHistory) -> None:
        places = [_HERE, Place(USER, PLANNER / "x"), Place(USER.individual("a"), PLANNER)]
        for minute in range(6):
            place = places[minute % 3]
            await keep(history, said(SEATS, minute, -minute, subject=place.subject, scope=place.scope))
        for number, place in enumerate(places):
            entries = [entry for entry in await history.entries(place) if isinstance(entry, Recorded)]
            assert [entry.assertion.data for entry in entries] == [number, number + 3]
            assert entries[0].seq < entries[1].seq

    async def test_entries_of_a_keyword_come_with_their_changes_of_state(self, history: KeepsHistory) -> None:
        seats = await only(history, said(SEATS, 4))
        city = await only(history, said(CITY, "Oslo"))
        for recorded in (city, seats):
            await history.append([_retract(recorded)])
        seats_log = await history.entries(_HERE, "seats")
        assert [type(entry) for entry in seats_log] == [Recorded, StateChange]
        change = seats_log[1]
        assert isinstance(change, StateChange)
        assert change.assertion_id == seats.id
        assert (change.state, change.reason) == (AssertionState.RETRACTED, "said so")
        assert len(await history.entries(_HERE)) == 4

    async def test_sequence_numbers_grow_and_times_of_recording_are_set(self, history: KeepsHistory) -> None:
        recorded = [
            receipt.recorded
            for minute in range(3)
            for receipt in await keep(history, said(SEATS, minute, -minute), said(CITY, f"{minute}", minute))
        ]
        numbers = [entry.seq for entry in recorded]
        assert numbers == sorted(set(numbers))
        assert numbers[0] >= 1
        times = [entry.recorded_at for entry in recorded]
        assert times == sorted(times)
        assert all(time.utcoffset() is not None for time in times)
        assert len({entry.id for entry in recorded}) == len(recorded)

    async def test_receipts_are_those_of_the_assertions_in_order(self, history: KeepsHistory) -> None:
        assert list(await history.append([])) == []
        first = await only(history, said(CITY, "Oslo"))
        statements: list[Statement] = [
            Append(assertion=said(SEATS, 1)),
            StateRequest.of(first, state=AssertionState.RETRACTED),
            Append(assertion=said(SEATS, 2)),
        ]
        receipts = await history.append(statements)
        assert [(receipt.recorded.assertion.data, receipt.new) for receipt in receipts] == [(1, True), (2, True)]

    async def test_the_same_assertion_again_is_the_same_record_and_writes_nothing(self, history: KeepsHistory) -> None:
        (first,) = await keep(history, said(CITY, "Oslo"))
        twice = await keep(history, said(CITY, "Oslo"), said(CITY, "Oslo"))
        assert first.new
        assert [receipt.new for receipt in twice] == [False, False]
        assert [receipt.recorded for receipt in twice] == [first.recorded] * 2
        assert len(await history.entries(_HERE)) == 1

    async def test_the_same_assertion_twice_in_one_transaction_is_recorded_once(self, history: KeepsHistory) -> None:
        first, second = await keep(history, said(LANGUAGES, "Thai"), said(LANGUAGES, "Thai"))
        assert (first.new, second.new) == (True, False)
        assert first.recorded == second.recorded

    async def test_a_refused_assertion_takes_the_whole_transaction_with_it(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        await keep(history, said(SEATS, 4))
        wrong = said(Concept.single("seats", "As text"), "four", 1)
        with pytest.raises(ConceptConflictError):
            await keep(history, said(CITY, "Oslo"), wrong, said(LANGUAGES, "Thai"))
        assert [fact.concept.keyword for fact in await provider.load_all(USER, PLANNER)] == ["seats"]
        assert len(await history.entries(_HERE)) == 1

    async def test_a_conflict_within_one_transaction_is_refused(self, history: KeepsHistory) -> None:
        with pytest.raises(ConceptConflictError):
            await keep(history, said(SEATS, 4), said(Concept.single("seats", "As text"), "four", 1))
        assert list(await history.entries(_HERE)) == []

    async def test_a_change_of_state_of_nothing_takes_the_whole_transaction_with_it(
        self, history: KeepsHistory
    ) -> None:
        unknown = StateRequest(assertion_id="no such assertion", tenant=None, state=AssertionState.RETRACTED)
        with pytest.raises(RecordNotFoundError):
            await history.append([Append(assertion=said(CITY, "Oslo")), unknown])
        assert list(await history.entries(_HERE)) == []

    async def test_a_record_keeps_its_id_while_its_value_changes(self, history: KeepsHistory) -> None:
        recorded = [await only(history, said(SEATS, number, number)) for number in (1, 2, 1)]
        assert len({entry.record_id for entry in recorded}) == 1
        removal = await only(history, said(SEATS, 1, 9, removed=True))
        assert removal.record_id == recorded[0].record_id

    async def test_each_value_of_a_multiple_is_a_record_of_its_own(self, history: KeepsHistory) -> None:
        thai, ewe = await keep(history, said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe"))
        again = await only(history, said(LANGUAGES, "Thai", 5))
        assert thai.recorded.record_id == again.record_id != ewe.recorded.record_id

    async def test_an_update_by_id_replaces_a_value_of_a_multiple_and_keeps_the_id(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        thai, _ = await keep(history, said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe"))
        updated = await only(history, said(LANGUAGES, "Lao", 1, revises=thai.recorded.record_id))
        assert updated.record_id == thai.recorded.record_id
        assert sorted(await loaded_values(provider, LANGUAGES)) == ["Ewe", "Lao"]
        again = await only(history, said(LANGUAGES, "Lao", 2))
        assert again.record_id == thai.recorded.record_id

    async def test_retracting_brings_back_the_value_before_and_can_be_undone(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        await only(history, said(CITY, "Rome", 1))
        newest = await only(history, said(CITY, "Oslo", 2))
        await history.append([_retract(newest)])
        assert await loaded_value(provider, CITY) == "Rome"
        await history.append([StateRequest.of(newest, state=AssertionState.ACTIVE)])
        assert await loaded_value(provider, CITY) == "Oslo"

    async def test_retracting_a_value_of_a_multiple_leaves_the_others(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        receipts = await keep(history, *(said(LANGUAGES, value) for value in ("Thai", "Ewe", "Lao")))
        await history.append([_retract(receipts[1].recorded)])
        assert await loaded_values(provider, LANGUAGES) == ["Thai", "Lao"]

    async def test_what_is_retracted_stays_in_the_log(self, history: KeepsHistory) -> None:
        recorded = await only(history, said(CITY, "Oslo"))
        await history.append([_retract(recorded)])
        assert (await history.entries(_HERE))[0] == recorded

    async def test_a_removal_is_dated(self, provider: AgentMemoryProvider, history: KeepsHistory) -> None:
        """A removal removes earlier values, and no later ones."""
        await keep(history, said(CITY, "Oslo", 5))
        await keep(history, said(CITY, "Oslo", 3, removed=True))
        assert await loaded_value(provider, CITY) == "Oslo"
        await keep(history, said(CITY, "Oslo", 7, removed=True))
        assert await loaded_value(provider, CITY) is None
        await keep(history, said(CITY, "Rome", 9))
        assert await loaded_value(provider, CITY) == "Rome"

    async def test_a_removal_takes_one_value_of_a_multiple(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        await keep(history, said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe"))
        await keep(history, said(LANGUAGES, "Thai", 1, removed=True))
        assert await loaded_values(provider, LANGUAGES) == ["Ewe"]
        await keep(history, said(LANGUAGES, "Thai", 2))
        assert sorted(await loaded_values(provider, LANGUAGES)) == ["Ewe", "Thai"]


def _retract(recorded: Recorded) -> StateRequest:
    return StateRequest.of(recorded, state=AssertionState.RETRACTED, reason="said so")
