"""The identity of assertions."""

from __future__ import annotations

import datetime as dt

import attrs
import pytest

from factmem import Concept, Evidence, FactDetails, MemoryScope, MemorySubject, SingleFact
from factmem.providers import InMemoryProvider
from factmem.records import Assertion, Place, assertions_of

CITY = Concept.single("city", "Where the user lives")
SAID = dt.datetime(2025, 5, 1, tzinfo=dt.UTC)
COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


def said(value: str = "Porto", *, scope: str = "planner", subject: str = "user", owner: str | None = None) -> Assertion:
    place = Place(MemorySubject(subject), MemoryScope.agent(scope))
    (assertion,) = assertions_of(SingleFact(CITY, value, timestamp=SAID), place, FactDetails(owner=owner))
    return assertion


def test_equal_assertions_have_equal_fingerprints_whatever_else_is_known_of_them() -> None:
    again = attrs.evolve(said(), details=FactDetails(importance=0.9, categories=("home",)))
    assert said().fingerprint == again.fingerprint


def test_texts_of_one_normal_form_are_one_value() -> None:
    assert said(COMPOSED).fingerprint == said(DECOMPOSED).fingerprint


@pytest.mark.parametrize(
    "other",
    [
        said("Lisbon"),
        said(scope="writer"),
        said(subject="team"),
        said(owner="alice"),
        attrs.evolve(said(), timestamp=SAID + dt.timedelta(microseconds=1)),
        attrs.evolve(said(), removed=True),
        attrs.evolve(said(), revises="some-record", revised=7),
        attrs.evolve(said(), details=FactDetails(evidence=(Evidence(quote="Porto", message_id="m1"),))),
    ],
)
def test_another_place_owner_value_time_or_message_is_another_assertion(other: Assertion) -> None:
    assert other.fingerprint != said().fingerprint


@pytest.mark.parametrize("what", ["scope", "subject", "owner"])
async def test_names_that_differ_in_their_normal_form_only_are_two_names(what: str) -> None:
    one, two = said(**{what: COMPOSED}), said(**{what: DECOMPOSED})
    assert one.fingerprint != two.fingerprint
    async with InMemoryProvider() as provider:
        fact = SingleFact(CITY, "Porto", timestamp=SAID)
        for name in (COMPOSED, DECOMPOSED):
            await provider.save(fact, MemorySubject("user"), MemoryScope.agent(name))
            assert await provider.load(CITY, MemorySubject("user"), MemoryScope.agent(name)) == fact
