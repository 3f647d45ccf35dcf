"""Calibration measures how much words count beside an embedder."""

from __future__ import annotations

import hashlib

import pytest

from factmem import InMemoryProvider, Memory
from factmem.errors import InvalidDataError
from factmem.memory.calibrating import LEAST_TEXTS, WEIGHTS
from factmem.recall import CallableEmbedder
from factmem.testing import HashEmbedder
from tests.tables import each_case

COLOURS = ("red", "blue", "green", "white", "black", "brown")
THINGS = ("car", "house", "dog", "tree", "boat", "bell")
TEXTS = [f"the {colour} {thing} stood beside the other {colour} {thing}" for colour in COLOURS for thing in THINGS]


def blind(texts: list[str]) -> list[list[int]]:
    """Return vectors that have nothing to do with their texts."""
    return [list(hashlib.sha256(text.encode()).digest()[:8]) for text in texts]


async def test_an_embedder_that_tells_halves_apart_leads_more_than_a_blind_one() -> None:
    assert len(TEXTS) > LEAST_TEXTS
    weights = {}
    for embedder in (HashEmbedder(), CallableEmbedder(blind, name="blind", dimension=8)):
        async with Memory(InMemoryProvider(), embedder=embedder) as memory:
            await memory.remember_many(TEXTS)
            await memory.inbox.flush()
            found = await memory.admin.calibrate()
            weights[(await embedder.identity()).name] = found.lexical_weight
            assert WEIGHTS[0] <= found.lexical_weight <= WEIGHTS[-1]
    assert weights["factmem-hash-1"] < weights["blind"]


async def test_questions_choose_the_weight_that_finds_their_answers() -> None:
    async with Memory(InMemoryProvider(), embedder=CallableEmbedder(blind, name="blind", dimension=8)) as memory:
        await memory.remember_many(TEXTS[:12])
        await memory.inbox.flush()
        found = await memory.admin.calibrate({"Where was the blue boat?": TEXTS[10], "And the red bell?": TEXTS[5]})
        assert found.lexical_weight > 0.3, "only words find anything"
        assert found.unrelated > 0.5


@each_case("questions", "error")
async def test_questions_that_choose_no_weight_are_refused(questions: dict[str, str] | None, error: str) -> None:
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as memory:
        await memory.remember(TEXTS[0])
        with pytest.raises(InvalidDataError, match=error):
            await memory.admin.calibrate(questions)
