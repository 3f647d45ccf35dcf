"""`NoMemory` keeps nothing and finds nothing, without an error."""

from __future__ import annotations

from factmem.facts import Concept, MultipleFacts, SingleFact
from factmem.providers.memory import NoMemory
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import capabilities_of

CITY = Concept.single("city", "Where the person lives")
USER, AGENT = MemorySubject("user"), MemoryScope.agent("a")


async def test_what_is_saved_is_let_go() -> None:
    async with NoMemory() as provider:
        await provider.save(SingleFact(CITY, "Oslo"), USER, AGENT)
        await provider.save(MultipleFacts(Concept.multiple("city", "another type"), ("x",)), USER, AGENT)
        assert await provider.load(CITY, USER, AGENT) is None
        assert list(await provider.load_all(USER, AGENT)) == []
        assert list(await provider.load_by_description("city", USER, AGENT)) == []


def test_it_claims_no_capability() -> None:
    assert capabilities_of(NoMemory()) == []
