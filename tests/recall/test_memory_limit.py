"""With its vectors left in the store, recall returns identical results, to the last bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from factmem import InMemoryProvider, Memory, RecallMatch
from factmem.errors import CapabilityError, InvalidDataError
from factmem.testing import FakeClock, HashEmbedder
from tests.recall.generated import NOW

pytestmark = pytest.mark.slow

SAID = [f"{who} {what} the {thing}" for who in ("Ann", "Ben") for what in ("saw", "sold") for thing in "abcdefghij"]
"""Forty statements with vectors of a kilobyte each."""


def opened(path: Path, *, limit: int | None, organization: str | None = None) -> Memory:
    return Memory(
        f"sqlite-vec:{path}",
        embedder=HashEmbedder(256),
        clock=FakeClock(NOW),
        memory_limit=limit,
        organization=organization,
    )


async def recalled(memory: Memory) -> list[list[RecallMatch]]:
    return [await memory.recall(query, limit=7) for query in ("Ann sold", "the e that Ben saw", "nobody")]


@pytest.mark.parametrize("organization", [None, "acme"])
async def test_results_are_the_same_without_the_vectors_in_memory(tmp_path: Path, organization: str | None) -> None:
    path = tmp_path / "facts.db"
    async with opened(path, limit=None, organization="other") as other:
        await other.remember("Ann sold the z")
    async with opened(path, limit=None, organization=organization) as memory:
        for text in SAID:
            await memory.remember(text)
        expected = await recalled(memory)
    async with opened(path, limit=0, organization=organization) as memory:
        assert await recalled(memory) == expected


async def test_vectors_leave_the_memory_when_they_become_too_many(tmp_path: Path) -> None:
    async with (
        opened(tmp_path / "facts.db", limit=20_000) as limited,
        opened(tmp_path / "other.db", limit=None) as free,
    ):
        for text in SAID:
            for memory in (limited, free):
                await memory.remember(text)
            assert values(await limited.recall("Ann sold the c")) == values(await free.recall("Ann sold the c"))
        assert limited._backend.mirror._log.vectors_stay
        assert not free._backend.mirror._log.vectors_stay


async def test_what_is_forgotten_or_embedded_again_is_followed(tmp_path: Path) -> None:
    async with opened(tmp_path / "facts.db", limit=0) as memory:
        await memory.remember("Ann sold the a")
        await memory.remember("Ann sold the b")
        first, last = await memory.recall("Ann sold")
        await memory.forget(last.record.id)
        assert values(await memory.recall("Ann sold")) == values([first])
        await memory.admin.reembed()
        (match,) = await memory.recall("Ann sold")
        assert match.parts.cosine > 0


def values(matches: list[RecallMatch]) -> list[object]:
    return [match.record.value for match in matches]


async def test_a_provider_that_holds_its_vectors_in_memory_says_so() -> None:
    with pytest.raises(CapabilityError, match="sqlite-vec"):
        Memory(InMemoryProvider(), memory_limit=1_000_000)


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "1 GB"])
def test_a_limit_is_a_number_of_bytes(wrong: int) -> None:
    with pytest.raises(InvalidDataError, match="memory_limit"):
        Memory("memory:", memory_limit=wrong)
    with pytest.raises(InvalidDataError, match="mirror_limit"):
        Memory("memory:", mirror_limit=wrong)
