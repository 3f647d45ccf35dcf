"""Specs: a place keeps one type per keyword."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

import enum
from typing import Any, Final

import attrs
import pytest

from factmem.abc import AgentMemoryProvider
from factmem.errors import ConceptConflictError
from factmem.facts import Concept
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import (
    ADDRESS,
    COLOUR,
    LANGUAGES,
    PLANNER,
    SEATS,
    USER,
    Address,
    Colour,
    loaded_values,
    multiple,
    single,
)

__all__ = ["TypeSpecs"]


@attrs.frozen
class _AddressLater:
    """`Address` in a later version of an application: a field with a default was added."""

    street: str
    number: int
    floor: int | None = None
    country: str = "Norway"


@attrs.frozen
class _AddressOther:
    """`Address` with a field that the stored ones do not have and that has no default."""

    street: str
    number: int
    country: str


class _ColourLater(enum.Enum):
    RED = "red"
    GREEN = "green"
    BLUE = "blue"


_LATER: Final = Concept.single(ADDRESS.keyword, ADDRESS.description, _AddressLater)
_SEATS_AS_TEXT: Final = Concept.single(SEATS.keyword, SEATS.description)
_SEATS_AS_SET: Final = Concept.multiple(SEATS.keyword, SEATS.description, int)


class TypeSpecs(ProviderCase):
    """Specs of types: conflicts raise typed errors and leave the store unchanged; compatible types do not conflict."""

    async def test_another_fact_type_is_refused(self, provider: AgentMemoryProvider) -> None:
        await provider.save(single(SEATS, 12345, 1), USER, PLANNER)
        with pytest.raises(ConceptConflictError, match=r"(?s)seats.*SINGLE.*MULTIPLE") as refusal:
            await provider.save(multiple(_SEATS_AS_SET, 67890, minutes=2), USER, PLANNER)
        assert "12345" not in str(refusal.value)
        assert "67890" not in str(refusal.value)
        assert list(await provider.load_all(USER, PLANNER)) == [single(SEATS, 12345, 1)]

    async def test_another_value_type_is_refused(self, provider: AgentMemoryProvider) -> None:
        await provider.save(single(SEATS, 12345, 1), USER, PLANNER)
        with pytest.raises(ConceptConflictError, match=r"(?s)seats.*int.*str") as refusal:
            await provider.save(single(_SEATS_AS_TEXT, "a secret", 2), USER, PLANNER)
        assert "secret" not in str(refusal.value)
        assert list(await provider.load_all(USER, PLANNER)) == [single(SEATS, 12345, 1)]

    async def test_no_value_of_a_refused_fact_is_kept(self, provider: AgentMemoryProvider) -> None:
        await provider.save(multiple(LANGUAGES, "Thai"), USER, PLANNER)
        numbers = Concept.multiple(LANGUAGES.keyword, LANGUAGES.description, int)
        with pytest.raises(ConceptConflictError):
            await provider.save(multiple(numbers, 1, 2, 3, minutes=1), USER, PLANNER)
        assert await loaded_values(provider, LANGUAGES) == ["Thai"]

    @pytest.mark.parametrize("wrong", [_SEATS_AS_TEXT, _SEATS_AS_SET], ids=["value type", "fact type"])
    async def test_loading_as_another_type_is_refused(
        self, provider: AgentMemoryProvider, wrong: Concept[Any, Any]
    ) -> None:
        await provider.save(single(SEATS, 4), USER, PLANNER)
        with pytest.raises(ConceptConflictError):
            await provider.load(wrong, USER, PLANNER)

    async def test_a_superseded_value_still_holds_the_type(self, provider: AgentMemoryProvider) -> None:
        """History must stay readable with the present type."""
        for minute in range(3):
            await provider.save(single(SEATS, minute, minute), USER, PLANNER)
        with pytest.raises(ConceptConflictError):
            await provider.save(single(_SEATS_AS_TEXT, "four", 9), USER, PLANNER)

    async def test_a_field_added_with_a_default_is_compatible(self, provider: AgentMemoryProvider) -> None:
        await provider.save(single(ADDRESS, Address("Weg", 1), 1), USER, PLANNER)
        read = await provider.load(_LATER, USER, PLANNER)
        assert read is not None
        assert read.value == _AddressLater("Weg", 1, country="Norway")
        newer = single(_LATER, _AddressLater("Weg", 2, country="Chad"), 2)
        await provider.save(newer, USER, PLANNER)
        assert await provider.load(_LATER, USER, PLANNER) == newer

    async def test_a_field_added_without_a_default_is_not_compatible(self, provider: AgentMemoryProvider) -> None:
        await provider.save(single(ADDRESS, Address("Weg", 1), 1), USER, PLANNER)
        other = Concept.single(ADDRESS.keyword, ADDRESS.description, _AddressOther)
        with pytest.raises(ConceptConflictError):
            await provider.save(single(other, _AddressOther("Weg", 2, "Chad"), 2), USER, PLANNER)
        with pytest.raises(ConceptConflictError):
            await provider.load(other, USER, PLANNER)

    async def test_an_enum_that_gained_members_is_compatible(self, provider: AgentMemoryProvider) -> None:
        later = Concept.single(COLOUR.keyword, COLOUR.description, _ColourLater)
        await provider.save(single(COLOUR, Colour.GREEN, 1), USER, PLANNER)
        read = await provider.load(later, USER, PLANNER)
        assert read is not None
        assert read.value is _ColourLater.GREEN
        await provider.save(single(later, _ColourLater.BLUE, 2), USER, PLANNER)
        with pytest.raises(ConceptConflictError):
            await provider.load(COLOUR, USER, PLANNER)

    async def test_undeclared_json_reads_every_type(self, provider: AgentMemoryProvider) -> None:
        await provider.save(single(ADDRESS, Address("Weg", 1)), USER, PLANNER)
        undeclared = Concept.single(ADDRESS.keyword, "whatever it is", object)
        read = await provider.load(undeclared, USER, PLANNER)
        assert read is not None
        assert read.value == {"street": "Weg", "number": 1, "floor": None}
