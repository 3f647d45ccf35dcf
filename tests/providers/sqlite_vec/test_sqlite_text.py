"""Full text: words in, assertions out, and no word is ever a syntax."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.testing.conformance.samples import ADDRESS, CITY, LANGUAGES, PLANNER, Address, keep, said


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[SqliteVecMemoryProvider]:
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as opened:
        yield opened


async def test_words_of_description_keyword_and_value_are_found(provider: SqliteVecMemoryProvider) -> None:
    """Whatever their case and accents, newest first, of one tenant, no more than asked for."""
    await keep(
        provider,
        said(CITY, "Zürich"),
        said(LANGUAGES, "Züritüütsch"),
        said(ADDRESS, Address("Rue Haute", 12)),
        said(CITY, "Genf", 1),
        said(CITY, "Zürich", scope=PLANNER.within("acme")),
        said(Concept.multiple("数字", "なんでも", list[int]), [41, 42]),
    )
    for text, expected in {
        "zurich": [1],
        "ZÜRICH lives": [1],
        "city": [4, 1],
        "person": [4, 2, 1],
        "haute 12": [3],
        "数字 42": [6],
        "zurich genf": [],
        "zur": [],
    }.items():
        assert list(await provider.matching(text, 10, tenant=None)) == expected
    assert list(await provider.matching("city", 1, tenant=None)) == [4]
    assert list(await provider.matching("city", 0, tenant=None)) == []
    assert list(await provider.matching("zürich", 10, tenant="acme")) == [5]


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_an_empty_text_is_refused(provider: SqliteVecMemoryProvider, text: str) -> None:
    with pytest.raises(InvalidDataError):
        await provider.matching(text, 10, tenant=None)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.sampled_from("city\"*():^+-{}\\'\0\udc80 \tANDORNEAR"), min_size=1).filter(str.strip))
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_text_is_a_syntax(provider: SqliteVecMemoryProvider, text: str) -> None:
    await keep(provider, said(CITY, "Bern"))
    assert set(await provider.matching(text, 10, tenant=None)) <= {1}
    assert list(await provider.matching('"city" AND', 10, tenant=None)) == []
