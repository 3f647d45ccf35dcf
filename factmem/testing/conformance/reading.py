"""Specs: reading a whole place, and looking concepts up by name and description."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

import datetime as dt

import pytest

from factmem.abc import AgentMemoryProvider
from factmem.errors import InvalidDataError
from factmem.facts import Concept, FactType
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import (
    ADDRESS,
    CITY,
    COLOUR,
    LANGUAGES,
    PLANNER,
    SEATS,
    USER,
    Address,
    Colour,
    multiple,
    single,
)

__all__ = ["ReadingSpecs"]


class ReadingSpecs(ProviderCase):
    """Specs of `load_all` and `load_by_description`."""

    async def test_load_all_gives_one_fact_a_concept_in_the_order_first_said(
        self, provider: AgentMemoryProvider
    ) -> None:
        await provider.save(single(SEATS, 4, 3), USER, PLANNER)
        await provider.save(multiple(LANGUAGES, "Thai", minutes=1), USER, PLANNER)
        await provider.save(single(CITY, "Oslo", 2), USER, PLANNER)
        await provider.save(multiple(LANGUAGES, "Ewe", minutes=4), USER, PLANNER)
        await provider.save(single(SEATS, 5, 5), USER, PLANNER)
        facts = await provider.load_all(USER, PLANNER)
        assert [(fact.concept.keyword, fact.values) for fact in facts] == [
            ("languages", ("Thai", "Ewe")),
            ("city", ("Oslo",)),
            ("seats", (5,)),
        ]

    async def test_load_all_gives_the_concepts_as_they_were_saved(self, provider: AgentMemoryProvider) -> None:
        for fact in (single(SEATS, 4), multiple(LANGUAGES, "Thai")):
            await provider.save(fact, USER, PLANNER)
        concepts = {fact.concept.keyword: fact.concept for fact in await provider.load_all(USER, PLANNER)}
        assert concepts == {"seats": SEATS, "languages": LANGUAGES}
        assert concepts["languages"].fact_type is FactType.MULTIPLE

    async def test_values_of_declared_classes_read_as_json(self, provider: AgentMemoryProvider) -> None:
        """No class is looked up by name: a reader without the declared concept gets JSON."""
        await provider.save(single(ADDRESS, Address("Weg", 1, floor=2), 1), USER, PLANNER)
        await provider.save(single(COLOUR, Colour.RED, 2), USER, PLANNER)
        await provider.save(single(Concept.single("born", "", dt.date), dt.date(1990, 1, 2), 3), USER, PLANNER)
        values = [fact.values[0] for fact in await provider.load_all(USER, PLANNER)]
        assert values == [{"street": "Weg", "number": 1, "floor": 2}, "red", dt.date(1990, 1, 2)]

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("seats", ["seats"]),
            ("SEATS THE PLAN", ["seats"]),
            ("person", ["city", "languages"]),
            ("  where ", ["city", "address"]),
            ("lang", ["languages"]),
            ("Oslo", []),
            ("%", []),
            ("_", []),
            ("*", []),
            ("'", []),
        ],
    )
    async def test_a_text_is_found_in_description_or_keyword(
        self, provider: AgentMemoryProvider, text: str, found: list[str]
    ) -> None:
        """A substring matches regardless of case; values are not searched, and there are no wildcards."""
        await provider.save(single(SEATS, 4, 1), USER, PLANNER)
        await provider.save(single(CITY, "Oslo", 2), USER, PLANNER)
        await provider.save(multiple(LANGUAGES, "Thai", "Ewe", minutes=3), USER, PLANNER)
        await provider.save(single(ADDRESS, Address("Oslo", 1), 4), USER, PLANNER)
        facts = await provider.load_by_description(text, USER, PLANNER)
        assert [fact.concept.keyword for fact in facts] == found

    @pytest.mark.parametrize(
        ("written", "asked"),
        [
            ("Hauptstraße", "HAUPTSTRASSE"),
            ("ΣΊΣΥΦΟΣ", "σίσυφος"),
            ("Ｃｉｔｙ", "city"),
            ("Cafe\u0301", "café"),
            ("100%_sure", "%_s"),
            ("谁住在这里", "住在"),
            ('it\'s a "test"', 's a "t'),
        ],
    )
    async def test_both_texts_are_folded_alike(self, provider: AgentMemoryProvider, written: str, asked: str) -> None:
        await provider.save(single(Concept.single("other", "Something else"), "x"), USER, PLANNER)
        await provider.save(single(Concept.single("wanted", f"The {written} here"), "x"), USER, PLANNER)
        facts = await provider.load_by_description(asked, USER, PLANNER)
        assert [fact.concept.keyword for fact in facts] == ["wanted"]

    async def test_a_found_fact_is_whole_and_current(self, provider: AgentMemoryProvider) -> None:
        await provider.save(single(CITY, "Rome", 1), USER, PLANNER)
        await provider.save(single(CITY, "Oslo", 2), USER, PLANNER)
        await provider.save(multiple(LANGUAGES, "Thai", "Ewe", minutes=3), USER, PLANNER)
        found = await provider.load_by_description("person", USER, PLANNER)
        assert list(found) == [single(CITY, "Oslo", 2), multiple(LANGUAGES, "Thai", "Ewe", minutes=3)]

    @pytest.mark.parametrize("text", ["", "   ", "\n\t"])
    async def test_looking_for_nothing_is_an_error(self, provider: AgentMemoryProvider, text: str) -> None:
        with pytest.raises(InvalidDataError):
            await provider.load_by_description(text, USER, PLANNER)
