"""Regression tests of differences found by the comparison with a plain model."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import attrs
import pytest

from factmem import Concept, FactDetails, InMemoryProvider, Memory, MemoryScope, MemorySubject, Origin
from factmem.testing import FakeClock, HashEmbedder
from tests.models.hostile import at
from tests.models.plain_values import Pet
from tests.models.stores import STORES, Store

USER = MemorySubject("user", "The user")
PLANNER = MemoryScope.agent("planner")


@attrs.frozen
class _StrictPet:
    name: str = attrs.field(validator=attrs.validators.min_len(10))
    age: int | None = None


every_store = pytest.mark.parametrize("store", STORES, ids=lambda store: store.name)


@every_store
async def test_a_set_said_under_two_descriptions_is_found_whole_by_the_one_it_is_shown_with(
    store: Store, tmp_path: Path
) -> None:
    before = Concept.multiple("languages", "Languages the person speaks")
    after = Concept.multiple("languages", "What one can talk with them in")
    async with store.open(tmp_path, FakeClock()) as provider:
        await provider.save(before.fact(["Thai"], timestamp=at(1)), USER, PLANNER)
        await provider.save(after.fact(["Ewe"], timestamp=at(2)), USER, PLANNER)
        (found,) = await provider.load_by_description("talk", USER, PLANNER)
        assert found.values == ("Thai", "Ewe")
        assert list(await provider.load_by_description("speaks", USER, PLANNER)) == []


@every_store
async def test_two_keys_that_are_one_in_nfc_are_two_and_neither_item_gets_lost(store: Store, tmp_path: Path) -> None:
    apart, together = (unicodedata.normalize(form, "é") for form in ("NFD", "NFC"))
    things = Concept.multiple("things", "Anything", object)
    both, one = {together: 1, apart: 2}, {apart: 2}
    async with store.open(tmp_path, FakeClock()) as provider:
        await provider.save(things.fact([one], timestamp=at(1)), USER, PLANNER)
        await provider.save(things.fact([both], timestamp=at(1)), USER, PLANNER)
        loaded = await provider.load(things, USER, PLANNER)
    assert loaded is not None
    assert loaded.values == (one, both)


async def test_a_place_that_holds_another_type_than_the_declared_one_does_not_hide_the_others() -> None:
    seats, planted = Concept.single("seats", "", int), Concept.single("seats", "")
    memory = Memory(InMemoryProvider(), concepts=[seats], embedder=HashEmbedder())
    await memory.save(seats.fact([4], timestamp=at(1)), scope="/product/a")
    await memory.save(planted.fact(["four"], timestamp=at(2)), scope="/product/b")
    assert [record.value for record in await memory.list_records()] == ["four", 4]
    assert len(await memory.recall("seats")) == 2


async def test_a_value_that_its_declared_class_refuses_is_read_everywhere_as_it_is_stored() -> None:
    lax, strict = Concept.single("pet", "", Pet), Concept.single("pet", "", _StrictPet)
    provider = InMemoryProvider()
    await Memory(provider, embedder=HashEmbedder()).save(lax.fact([Pet("Rex")], timestamp=at(1)))
    tool = FactDetails(origin=Origin.TOOL)
    await Memory(provider, embedder=HashEmbedder()).save(lax.fact([Pet("Ina")], timestamp=at(2)), details=tool)
    memory = Memory(provider, concepts=[strict], embedder=HashEmbedder())
    for records in (await memory.list_records(), await memory.history("pet")):
        assert [record.value for record in records] == [{"name": "Rex", "age": None}]
    assert [record.value for record in await memory.inbox.quarantine.list()] == [{"name": "Ina", "age": None}]
