"""The identity of assertions."""

from __future__ import annotations

import datetime as dt

import pytest

from factmem import Concept, FactDetails, InMemoryProvider, MemoryScope, MemorySubject, SingleFact
from factmem.records import Assertion, Place, assertions_of

CITY = Concept.single("city", "Where the user lives")
SAID = dt.datetime(2025, 5, 1, tzinfo=dt.UTC)
COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


def said(value: str = "Porto", *, scope: str = "planner", subject: str = "user", owner: str | None = None) -> Assertion:
    place = Place(MemorySubject(subject), MemoryScope.agent(scope))
    (assertion,) = assertions_of(SingleFact(CITY, value, timestamp=SAID), place, FactDetails(owner=owner))
    return assertion


@pytest.mark.parametrize("what", ["scope", "subject", "owner"])
async def test_names_that_differ_in_their_normal_form_only_are_two_names(what: str) -> None:
    one, two = said(**{what: COMPOSED}), said(**{what: DECOMPOSED})
    assert one.fingerprint != two.fingerprint
    async with InMemoryProvider() as provider:
        fact = SingleFact(CITY, "Porto", timestamp=SAID)
        for name in (COMPOSED, DECOMPOSED):
            await provider.save(fact, MemorySubject("user"), MemoryScope.agent(name))
            assert await provider.load(CITY, MemorySubject("user"), MemoryScope.agent(name)) == fact
