"""Behaviour of `InMemoryProvider` beyond the kit: its clock, its closing, and its capabilities."""

from __future__ import annotations

import datetime as dt

import numpy as np

from factmem.abc.capabilities import Append, EmbedderIdentity
from factmem.details import FactDetails
from factmem.facts import Concept, MultipleFacts, SingleFact
from factmem.providers.memory import InMemoryProvider, NoMemory
from factmem.records import Assertion, Place, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import FakeClock, HashEmbedder, capabilities_of

CITY = Concept.single("city", "Where the person lives")
USER, AGENT = MemorySubject("user"), MemoryScope.agent("a")
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def said(value: str, details: FactDetails | None = None) -> Assertion:
    (assertion,) = assertions_of(CITY.fact([value], timestamp=NOON), Place(USER, AGENT), details)
    return assertion


async def test_the_clock_decides_what_has_expired() -> None:
    clock = FakeClock(NOON)
    provider = InMemoryProvider(clock=clock)
    await provider.append([Append(assertion=said("Oslo", FactDetails(expires_at=NOON + HOUR)))])
    assert await provider.load(CITY, USER, AGENT) is not None
    clock.advance(HOUR)
    assert await provider.load(CITY, USER, AGENT) is None
    clock.set(NOON)
    assert await provider.load(CITY, USER, AGENT) is not None


async def test_the_hash_embedder_is_the_same_everywhere() -> None:
    """Its vectors may be stored, so they must never change."""
    embedder = HashEmbedder(16)
    assert await embedder.identity() == EmbedderIdentity(name="factmem-hash-1", dimension=16)
    rows = await embedder.embed(["The cat sat", "the CAT  sat!", "a dog", "…"])
    assert rows.dtype == np.float32
    assert rows.shape == (4, 16)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(rows[0], rows[1])
    assert rows[0] @ rows[2] < 0.9
    assert np.flatnonzero(rows[2]).tolist() == [15]


# `NoMemory` keeps nothing and finds nothing, without an error.


async def test_what_is_saved_is_let_go() -> None:
    async with NoMemory() as provider:
        await provider.save(SingleFact(CITY, "Oslo"), USER, AGENT)
        await provider.save(MultipleFacts(Concept.multiple("city", "another type"), ("x",)), USER, AGENT)
        assert await provider.load(CITY, USER, AGENT) is None
        assert list(await provider.load_all(USER, AGENT)) == []
        assert list(await provider.load_by_description("city", USER, AGENT)) == []


def test_it_claims_no_capability() -> None:
    assert capabilities_of(NoMemory()) == []
