"""Calibration measures how much words count beside an embedder."""

from __future__ import annotations

import hashlib

import pytest

from factmem import InMemoryProvider, Memory
from factmem.errors import InvalidDataError
from factmem.memory.calibrating import LEAST_TEXTS, WEIGHTS
from factmem.recall import CallableEmbedder
from factmem.testing import HashEmbedder

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


async def test_too_few_texts_or_questions_are_refused() -> None:
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as memory:
        with pytest.raises(InvalidDataError, match="needs 30 statements"):
            await memory.admin.calibrate()
        with pytest.raises(InvalidDataError, match="questions"):
            await memory.admin.calibrate({})


@pytest.mark.parametrize("answer", ["nonsense", TEXTS[0].title(), TEXTS[0] + "."])
async def test_an_answer_that_is_the_text_of_no_record_is_refused(answer: str) -> None:
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as memory:
        await memory.remember(TEXTS[0])
        with pytest.raises(InvalidDataError, match=r"1 of 2 answers \(number 2\)"):
            await memory.admin.calibrate({"What stood there?": TEXTS[0], "What else?": answer})


async def test_questions_whose_answers_every_weight_finds_equally_well_are_refused() -> None:
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as memory:
        await memory.remember(TEXTS[0])
        with pytest.raises(InvalidDataError, match="equally well"):
            await memory.admin.calibrate({"What stood beside the red car?": TEXTS[0]})
