"""Keywords that differ in case, hyphens, underscores and spaces: a concept is found by any of them."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest

from factmem import (
    STATEMENT,
    AgentMemoryConfig,
    AgentMemoryProvider,
    Concept,
    InMemoryProvider,
    Memory,
    MemoryScope,
    MultipleFacts,
    SingleFact,
)
from factmem.abc import DetectionRequest
from factmem.errors import ConceptConflictError, InvalidDataError
from tests.memory.shelves import Shelf
from tests.memory.telling import USER, opened, said
from tests.narrowing import not_none

ASKED = Concept.multiple("user-preference", "What the user prefers")
FOUND = Concept.multiple("user_preference", "What the user prefers")
OTHER = Concept.multiple("preference", "What anybody prefers")
PLACE: Any = {"subject": USER, "scope": "/agent/clerk"}


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    """A memory over the store in memory alone."""
    async with opened(InMemoryProvider()) as memory:
        yield memory


@pytest.mark.parametrize("keyword", ["user-preference", "User Preference", "userPreference", "USER_PREFERENCE"])
async def test_a_concept_is_found_by_any_alike_keyword(provider: AgentMemoryProvider, keyword: str) -> None:
    asked = Concept.multiple(keyword, "What the user prefers")
    async with opened(provider) as memory:
        await memory.save(MultipleFacts(FOUND, ("tea",)), **PLACE)
        await memory.save(MultipleFacts(OTHER, ("coffee",)), **PLACE)
        for loaded in (await memory.load(asked, **PLACE), await memory.load(asked)):
            assert loaded is not None
            assert (loaded.concept, loaded.values) == (asked, ("tea",))
        for concepts in ([asked], [keyword]):
            assert said(await memory.list_records(concepts=concepts)) == ["tea"]
            assert said(await memory.list_records(concepts=concepts, strongest=True)) == ["tea"]
            assert said(await memory.list_records(without_concepts=concepts)) == ["coffee"]
            assert [match.record.value for match in await memory.recall("tea", concepts=concepts)] == ["tea"]
        for history in (await memory.history(asked, **PLACE), await memory.history(keyword)):
            assert [record.value for record in history] == ["tea"]
        (record,) = await memory.list_records(concepts=[asked])
        assert record.concept.keyword == "user_preference", "a fact keeps the keyword that it was saved with"
        await memory.forget(concepts=[asked])
        assert said(await memory.list_records()) == ["coffee"]


async def test_a_concept_is_found_by_its_keyword_in_another_unicode_form(memory: Memory) -> None:
    composed, other = (unicodedata.normalize(form, "Café préféré") for form in ("NFC", "NFD"))
    await memory.save(SingleFact(Concept.single(composed, "Where they go"), "Florian"), **PLACE)
    assert not_none(await memory.load(Concept.single(other, "Where they go"), **PLACE)).value == "Florian"
    assert said(await memory.list_records(concepts=[other])) == ["Florian"]


async def test_alike_keywords_are_one_concept_where_the_strongest_is_chosen(memory: Memory) -> None:
    one, other = (Concept.single(keyword, "Where somebody lives") for keyword in ("home-town", "home_town"))
    await memory.save(SingleFact(one, "Oslo"), subject=USER)
    await memory.save(SingleFact(other, "Rome"), subject=USER)
    assert said(await memory.list_records(strongest=True)) == ["Rome"]
    for concept in (one, other):
        assert not_none(await memory.load(concept)).value == "Rome"


async def test_a_profile_is_filled_by_alike_keywords(memory: Memory) -> None:
    @attrs.frozen
    class Guest:
        home_town: str

    await memory.save(SingleFact(Concept.single("Home-Town", "Where they live"), "Oslo"), subject=USER)
    assert await memory.profile(Guest, subject=USER) == Guest(home_town="Oslo")


async def test_another_type_under_an_alike_keyword_is_named(memory: Memory) -> None:
    await memory.save(SingleFact(Concept.single("seat-count", "Seats"), "a dozen"), **PLACE)
    with pytest.raises(ConceptConflictError, match="seat"):
        await memory.load(Concept.single("seat_count", "Seats", int), **PLACE)


async def test_a_fact_is_saved_under_the_keyword_of_the_declared_concept() -> None:
    found, declared = (Concept.single(keyword, "What somebody does") for keyword in ("job_title", "job-title"))
    async with opened(InMemoryProvider(), concepts=[declared]) as memory:
        await memory.save(SingleFact(declared, "Intern"), subject=USER)
        (record,) = await memory.save(SingleFact(found, "Director"), subject=USER)
        assert (record.concept.keyword, said(await memory.list_records())) == ("job-title", ["Director"])
        with pytest.raises(ConceptConflictError, match="job-title"):
            await memory.save(SingleFact(Concept.single("job title", "A number of a title", int), 3), subject=USER)


async def test_a_simple_provider_finds_by_alike_keywords_too() -> None:
    async with opened(Shelf()) as memory:
        await memory.save(MultipleFacts(FOUND, ("tea",)), subject=USER)
        assert said(await memory.list_records(concepts=[ASKED])) == ["tea"]
        assert not_none(await memory.load(ASKED)).values == ("tea",)


AGE, AGE_IN_WORDS = Concept.single("age", "Age in years", int), Concept.single("Age", "Age in words")


def test_declared_keywords_that_are_alike_have_one_type() -> None:
    for wrong in ([AGE, AGE_IN_WORDS], [AGE, Concept.multiple("AGE", "Ages", int)]):
        for declare in (
            lambda concepts: Memory("memory:", concepts=concepts),
            lambda concepts: AgentMemoryConfig(agent_name="clerk", concepts=concepts),
            lambda concepts: DetectionRequest(concepts=concepts),
        ):
            with pytest.raises(InvalidDataError, match="'age' and 'A"):
                declare(wrong)
    Memory("memory:", concepts=[AGE, Concept.single("Age", "Age in years", int)])


async def test_an_alike_keyword_of_another_type_cannot_be_saved(provider: AgentMemoryProvider) -> None:
    async with opened(provider) as memory:
        await memory.save(SingleFact(AGE, 4), **PLACE)
        for _ in range(2):
            with pytest.raises(ConceptConflictError, match="'age' as 'int', not as 'str'"):
                await memory.save(SingleFact(AGE_IN_WORDS, "four"), **PLACE)
        await memory.save(SingleFact(AGE_IN_WORDS, "five"), subject="user:bo")
        with pytest.raises(ConceptConflictError, match="'Age' as 'str', not as 'int'"):
            await memory.save(SingleFact(AGE, 5), subject="user:bo")
        assert not_none(await memory.load(AGE, **PLACE)).value == 4
        bo = memory.view(viewer="bo")
        await bo.save(SingleFact(AGE_IN_WORDS, "four"), private=True, **PLACE)  # as under the same keyword


@pytest.mark.parametrize("keyword", ["statement", "Statement"])
async def test_no_concept_has_the_keyword_of_statements(memory: Memory, keyword: str) -> None:
    balance = Concept.single(keyword, "Balance of the last bank statement", int)
    for declare in (
        lambda: Memory("memory:", concepts=[balance]),
        lambda: AgentMemoryConfig(agent_name="bank", concepts=[balance]),
        lambda: DetectionRequest(concepts=[balance]),
        lambda: Memory("memory:", profiles=[attrs.make_class("Bank", {keyword: attrs.field(type=int)})]),
    ):
        with pytest.raises(InvalidDataError, match="bank_statement"):
            declare()
    with pytest.raises(InvalidDataError, match="bank_statement"):
        await memory.save(SingleFact(balance, 10), **PLACE)
    await memory.save(MultipleFacts(STATEMENT, ("The cellar is cold.",)), **PLACE)


async def test_a_store_with_such_a_concept_opens_and_can_be_converted(provider: AgentMemoryProvider) -> None:
    balance, better = (
        Concept.single(keyword, "Balance of the last bank statement", int) for keyword in ("statement", "balance")
    )
    await provider.save(SingleFact(balance, 10), USER, MemoryScope.parse(PLACE["scope"]))
    async with opened(provider) as memory:
        await memory.remember("The vault is cold.", subject="user:bo")
        assert said(await memory.list_records(subject=USER)) == [10]
        with pytest.raises(ConceptConflictError):
            await memory.remember("The cellar is cold.", **PLACE)
        assert (await memory.admin.convert("statement", better)).revisions == 1
        await memory.remember("The cellar is cold.", **PLACE)
        assert not_none(await memory.load(better, **PLACE)).value == 10
        assert said(await memory.list_records(concepts=[STATEMENT])) == ["The cellar is cold.", "The vault is cold."]
