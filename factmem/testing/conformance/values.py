"""Specs: a saved value of a SINGLE concept reads back, and the newest wins."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any, Final

import pytest

from factmem.abc import AgentMemoryProvider
from factmem.facts import Concept, SingleFact
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import (
    ADDRESS,
    CITY,
    COLOUR,
    PLANNER,
    SEATS,
    USER,
    Address,
    Colour,
    at,
    loaded_value,
    single,
)
from factmem.values import MAX_VALUE_BYTES

__all__ = ["ValueSpecs"]

_FACTS: Final[list[SingleFact[Any]]] = [
    single(CITY, "Oslo"),
    single(CITY, '"quoted" \\ line\nbreak\ttab \u2028 % _ \' ; -- \x00 end'),
    single(CITY, "Zürich, 서울, القاهرة, 東京, 👩‍🚀"),
    single(SEATS, 2**70),
    single(SEATS, -1),
    single(Concept.single("ratio", "", float), 0.1),
    single(Concept.single("member", "", bool), value=True),
    single(COLOUR, Colour.GREEN),
    single(Concept.single("born", "", dt.date), dt.date(1990, 2, 28)),
    single(Concept.single("woken", "", dt.datetime), at(7)),
    single(ADDRESS, Address("Hauptstraße", 7)),
    single(ADDRESS, Address("Hauptstraße", 7, floor=3)),
    single(Concept.single("route", "", list[Address]), [Address("a", 1), Address("b", 2, floor=0)]),
    single(Concept.single("anything", "", object), {"a": [1, 2.5, None, {"b": False}]}),
]


class ValueSpecs(ProviderCase):
    """Specs of SINGLE concepts."""

    async def test_nothing_is_known_before_the_first_save(self, provider: AgentMemoryProvider) -> None:
        assert await provider.load(CITY, USER, PLANNER) is None
        assert list(await provider.load_all(USER, PLANNER)) == []
        assert list(await provider.load_by_description("city", USER, PLANNER)) == []

    @pytest.mark.parametrize("fact", _FACTS, ids=lambda fact: f"{fact.concept.keyword}")
    async def test_a_value_reads_back_equal_and_of_its_type(
        self, provider: AgentMemoryProvider, fact: SingleFact[Any]
    ) -> None:
        await provider.save(fact, USER, PLANNER)
        loaded = await provider.load(fact.concept, USER, PLANNER)
        assert loaded is not None
        assert loaded == fact
        assert type(loaded.value) is type(fact.value)

    async def test_the_times_of_a_fact_read_back(self, provider: AgentMemoryProvider) -> None:
        """Times are exact to the microsecond, and in UTC whatever their zone was."""
        tokyo = dt.timezone(dt.timedelta(hours=9))
        fact = SingleFact(
            CITY,
            "Oslo",
            timestamp=dt.datetime(2024, 3, 1, 8, 30, 15, 123456, tzinfo=tokyo),
            valid_from=dt.datetime(1999, 12, 31, 23, tzinfo=tokyo),
            valid_to=dt.datetime(2030, 1, 1, tzinfo=tokyo),
        )
        await provider.save(fact, USER, PLANNER)
        loaded = await provider.load(CITY, USER, PLANNER)
        assert loaded is not None
        assert loaded == fact
        assert loaded.timestamp.tzinfo is dt.UTC

    async def test_the_newest_timestamp_wins_whatever_the_order_of_arrival(self, provider: AgentMemoryProvider) -> None:
        facts = [single(CITY, "oldest", 1), single(CITY, "middle", 2), single(CITY, "newest", 3)]
        for number, order in enumerate(itertools.permutations(facts)):
            subject = USER.individual(f"person {number}")
            for fact in order:
                await provider.save(fact, subject, PLANNER)
            assert await provider.load(CITY, subject, PLANNER) == facts[-1]

    async def test_of_equal_timestamps_the_later_save_wins(self, provider: AgentMemoryProvider) -> None:
        await provider.save(single(CITY, "first"), USER, PLANNER)
        await provider.save(single(CITY, "second"), USER, PLANNER)
        assert await loaded_value(provider, CITY) == "second"

    async def test_a_then_b_then_a_again_ends_at_a(self, provider: AgentMemoryProvider) -> None:
        for minute, city in enumerate(["A", "B", "A"]):
            await provider.save(single(CITY, city, minute), USER, PLANNER)
        assert await provider.load(CITY, USER, PLANNER) == single(CITY, "A", 2)

    async def test_the_same_fact_again_changes_nothing(self, provider: AgentMemoryProvider) -> None:
        """Neither after a newer fact, nor after another one of the same time."""
        first, second = single(CITY, "first"), single(CITY, "second")
        for fact in (first, second, first):
            await provider.save(fact, USER, PLANNER)
        assert await loaded_value(provider, CITY) == "second"

    @pytest.mark.parametrize("text", ["x", "é", "👩", "\n"], ids=["ascii", "two bytes", "four bytes", "escaped"])
    async def test_a_value_near_the_limit_reads_back(self, provider: AgentMemoryProvider, text: str) -> None:
        written = 2 if text == "\n" else len(text.encode())
        value = "v" + text * ((MAX_VALUE_BYTES - 3) // written)
        await provider.save(single(CITY, value), USER, PLANNER)
        assert await loaded_value(provider, CITY) == value
