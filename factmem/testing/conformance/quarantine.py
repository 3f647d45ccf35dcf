"""Specs of `KeepsHistory`: a quarantined assertion neither sets the type of a track nor is checked against it."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from factmem.abc import AgentMemoryProvider, Append, Erases, KeepsHistory, Statement, StateRequest
from factmem.errors import ConceptConflictError
from factmem.facts import Concept
from factmem.records import Assertion, AssertionState, Origin, Place, Recorded
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
    single,
)

__all__ = ["QuarantineSpecs"]

_HERE = Place(USER, PLANNER)
_AS_TEXT: Final = Concept.single(SEATS.keyword, "Planted as text")
_AS_SET: Final = Concept.multiple(SEATS.keyword, "Planted as a set", int)
_PLANTS: Final[list[tuple[Concept[Any, Any], object]]] = [(_AS_TEXT, "four"), (_AS_SET, 44)]
_other_types = pytest.mark.parametrize(("concept", "value"), _PLANTS, ids=["value type", "fact type"])


class QuarantineSpecs(ProviderCase):
    """Specs of the quarantine: an untrusted assertion cannot block the user's own facts by its type."""

    @_other_types
    async def test_the_quarantined_does_not_set_the_type_of_its_track(
        self, provider: AgentMemoryProvider, history: KeepsHistory, concept: Concept[Any, Any], value: object
    ) -> None:
        await keep(history, _planted(concept, value))
        await provider.save(single(SEATS, 4, 1), USER, PLANNER)
        assert list(await provider.load_all(USER, PLANNER)) == [single(SEATS, 4, 1)]
        assert list(await provider.load_by_description("seats", USER, PLANNER)) == [single(SEATS, 4, 1)]

    @_other_types
    async def test_the_quarantined_is_not_held_to_the_type_of_its_track_and_disturbs_nothing_there(
        self, provider: AgentMemoryProvider, history: KeepsHistory, concept: Concept[Any, Any], value: object
    ) -> None:
        await provider.save(single(SEATS, 4, 1), USER, PLANNER)
        planted = await only(history, _planted(concept, value, 9))
        assert planted.assertion.state is AssertionState.QUARANTINED
        assert await loaded_value(provider, SEATS) == 4
        await provider.save(single(SEATS, 5, 2), USER, PLANNER)
        assert list(await provider.load_all(USER, PLANNER)) == [single(SEATS, 5, 2)]
        with pytest.raises(ConceptConflictError):
            await keep(history, said(concept, value, 3))

    @_other_types
    async def test_letting_in_another_type_is_refused_and_nothing_is_written(
        self, provider: AgentMemoryProvider, history: KeepsHistory, concept: Concept[Any, Any], value: object
    ) -> None:
        await provider.save(single(SEATS, 4, 1), USER, PLANNER)
        planted = await only(history, _planted(concept, value, 9))
        before = list(await history.entries(_HERE))
        with pytest.raises(ConceptConflictError, match="seats"):
            await history.append([Append(assertion=said(CITY, "Oslo")), _acceptance(planted)])
        assert list(await history.entries(_HERE)) == before
        assert await loaded_value(provider, SEATS) == 4

    async def test_what_is_accepted_sets_the_type_of_a_track_that_has_none(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        planted = await only(history, _planted(_AS_TEXT, "four"))
        await history.append([_acceptance(planted)])
        assert await loaded_value(provider, _AS_TEXT) == "four"
        with pytest.raises(ConceptConflictError):
            await provider.save(single(SEATS, 4, 1), USER, PLANNER)

    async def test_of_two_types_in_quarantine_the_first_accepted_holds(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        text, number = await only(history, _planted(_AS_TEXT, "four")), await only(history, _planted(SEATS, 4, 1))
        await history.append([_acceptance(number)])
        with pytest.raises(ConceptConflictError):
            await history.append([_acceptance(text)])
        assert await loaded_value(provider, SEATS) == 4

    async def test_what_was_retracted_before_it_was_accepted_is_checked_when_it_is(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        planted = await only(history, _planted(_AS_TEXT, "four"))
        await history.append([StateRequest.of(planted, state=AssertionState.RETRACTED)])
        await provider.save(single(SEATS, 4, 1), USER, PLANNER)
        with pytest.raises(ConceptConflictError):
            await history.append([_acceptance(planted)])
        assert await loaded_value(provider, SEATS) == 4

    async def test_what_was_once_accepted_holds_the_type_whatever_becomes_of_it(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        """History must stay readable with the present type, and a retracted assertion can be restored."""
        planted = await only(history, _planted(_AS_TEXT, "four"))
        await history.append([_acceptance(planted)])
        for state in (AssertionState.RETRACTED, AssertionState.QUARANTINED):
            await history.append([StateRequest.of(planted, state=state)])
            with pytest.raises(ConceptConflictError):
                await provider.save(single(SEATS, 4, 1), USER, PLANNER)
        await history.append([_acceptance(planted)])
        assert await loaded_value(provider, _AS_TEXT) == "four"

    async def test_the_type_accepted_earlier_in_a_transaction_counts(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        planted, number = await only(history, _planted(_AS_TEXT, "four")), Append(assertion=said(SEATS, 4, 1))
        in_either_order: list[list[Statement]] = [[_acceptance(planted), number], [number, _acceptance(planted)]]
        for statements in in_either_order:
            with pytest.raises(ConceptConflictError):
                await history.append(statements)
        assert len(await history.entries(_HERE)) == 1
        await history.append([number])
        assert await loaded_value(provider, SEATS) == 4

    async def test_untrusted_words_that_wait_set_no_type_either(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        for minute, state in enumerate((AssertionState.PENDING, AssertionState.FAILED, AssertionState.RETRACTED)):
            await keep(history, attrs.evolve(_planted(_AS_TEXT, "four", minute), state=state))
        await provider.save(single(SEATS, 4, 5), USER, PLANNER)
        assert await loaded_value(provider, SEATS) == 4

    async def test_trusted_words_that_wait_hold_their_type(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        await keep(history, attrs.evolve(said(_AS_TEXT, "four"), state=AssertionState.PENDING))
        with pytest.raises(ConceptConflictError):
            await provider.save(single(SEATS, 4, 1), USER, PLANNER)

    async def test_who_is_accepted_is_remembered_over_reopening(
        self, provider: AgentMemoryProvider, history: KeepsHistory, tmp_path: Path
    ) -> None:
        city = await only(history, said(Concept.single("city", "As a number", int), 7, origin=Origin.TOOL))
        planted = await only(history, _planted(_AS_TEXT, "four"))
        await history.append([_acceptance(planted)])
        async with await self.reopened(provider, tmp_path) as again:
            assert isinstance(again, KeepsHistory)
            with pytest.raises(ConceptConflictError):
                await again.save(single(SEATS, 4, 1), USER, PLANNER)
            await again.save(single(CITY, "Oslo", 1), USER, PLANNER)
            with pytest.raises(ConceptConflictError):
                await again.append([_acceptance(city)])

    async def test_erasing_all_that_was_accepted_frees_the_type_of_a_track(
        self, provider: AgentMemoryProvider, history: KeepsHistory, eraser: Erases
    ) -> None:
        """A quarantined assertion of another type does not prevent that."""
        first = await only(history, said(SEATS, 4))
        stays = await only(history, _planted(_AS_SET, 44, 1))
        await eraser.erase([], tenant=None, assertion_ids=[first.id])
        await provider.save(single(_AS_TEXT, "four", 2), USER, PLANNER)
        with pytest.raises(ConceptConflictError):
            await history.append([_acceptance(stays)])
        assert await loaded_value(provider, _AS_TEXT) == "four"


def _planted(concept: Concept[Any, Any], value: object, minutes: float = 0) -> Assertion:
    return said(concept, value, minutes, origin=Origin.DOCUMENT)


def _acceptance(recorded: Recorded) -> StateRequest:
    return StateRequest.of(recorded, state=AssertionState.ACTIVE)
