"""Specs: a MULTIPLE concept is a set, in the order first said."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

import unicodedata

from factmem.abc import AgentMemoryProvider
from factmem.facts import Concept
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import LANGUAGES, PLANNER, USER, Address, at, loaded_values, multiple

__all__ = ["SetSpecs"]


class SetSpecs(ProviderCase):
    """Specs of MULTIPLE concepts."""

    async def test_saves_are_united_in_the_order_first_said(self, provider: AgentMemoryProvider) -> None:
        await provider.save(multiple(LANGUAGES, "Thai", "Ewe", minutes=1), USER, PLANNER)
        await provider.save(multiple(LANGUAGES, "Ewe", "Ainu", "Thai", minutes=2), USER, PLANNER)
        assert await loaded_values(provider, LANGUAGES) == ["Thai", "Ewe", "Ainu"]

    async def test_what_was_said_earlier_comes_first_though_it_arrived_later(
        self, provider: AgentMemoryProvider
    ) -> None:
        await provider.save(multiple(LANGUAGES, "Ainu", minutes=3), USER, PLANNER)
        await provider.save(multiple(LANGUAGES, "Thai", minutes=1), USER, PLANNER)
        await provider.save(multiple(LANGUAGES, "Ewe", minutes=2), USER, PLANNER)
        assert await loaded_values(provider, LANGUAGES) == ["Thai", "Ewe", "Ainu"]

    async def test_a_loaded_set_has_the_newest_timestamp(self, provider: AgentMemoryProvider) -> None:
        await provider.save(multiple(LANGUAGES, "Thai", minutes=5), USER, PLANNER)
        await provider.save(multiple(LANGUAGES, "Ewe", minutes=1), USER, PLANNER)
        loaded = await provider.load(LANGUAGES, USER, PLANNER)
        assert loaded is not None
        assert loaded.timestamp == at(5)

    async def test_the_same_facts_again_change_nothing(self, provider: AgentMemoryProvider) -> None:
        fact = multiple(LANGUAGES, "Thai", "Ewe")
        for _ in range(3):
            await provider.save(fact, USER, PLANNER)
        assert await provider.load(LANGUAGES, USER, PLANNER) == fact

    async def test_texts_equal_in_nfc_are_one_value(self, provider: AgentMemoryProvider) -> None:
        """Both within one fact and over several."""
        composed, decomposed = (unicodedata.normalize(form, "Français") for form in ("NFC", "NFD"))
        await provider.save(multiple(LANGUAGES, composed, decomposed, minutes=1), USER, PLANNER)
        await provider.save(multiple(LANGUAGES, decomposed, minutes=2), USER, PLANNER)
        (value,) = await loaded_values(provider, LANGUAGES)
        assert unicodedata.normalize("NFC", value) == composed

    async def test_one_and_one_point_zero_and_true_are_three_values(self, provider: AgentMemoryProvider) -> None:
        concept = Concept.multiple("anything", "Whatever was said", object)
        await provider.save(multiple(concept, 1, 1.0, True), USER, PLANNER)
        await provider.save(multiple(concept, True, 1.0, 1, minutes=1), USER, PLANNER)
        assert [(type(value), value) for value in await loaded_values(provider, concept)] == [
            (int, 1),
            (float, 1.0),
            (bool, True),
        ]

    async def test_case_and_white_space_tell_values_apart(self, provider: AgentMemoryProvider) -> None:
        values = ["thai", "Thai", " Thai", "Thai "]
        await provider.save(multiple(LANGUAGES, *values), USER, PLANNER)
        assert await loaded_values(provider, LANGUAGES) == values

    async def test_values_of_a_class_are_united_too(self, provider: AgentMemoryProvider) -> None:
        concept = Concept.multiple("homes", "Where the person has lived", Address)
        home, office = Address("Weg", 1), Address("Weg", 2, floor=4)
        await provider.save(multiple(concept, home, office), USER, PLANNER)
        await provider.save(multiple(concept, Address("Weg", 1), minutes=1), USER, PLANNER)
        assert await loaded_values(provider, concept) == [home, office]

    async def test_many_values_come_back_in_order(self, provider: AgentMemoryProvider) -> None:
        values = [f"language {number}" for number in range(300)]
        await provider.save(multiple(LANGUAGES, *values), USER, PLANNER)
        assert await loaded_values(provider, LANGUAGES) == values
