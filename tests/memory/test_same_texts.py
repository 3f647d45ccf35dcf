"""Equal texts of one call are kept once, although no model compares them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from numpy.typing import NDArray

from factmem import AgentMemoryProvider, InMemoryProvider, Memory, Message
from factmem.abc import DropReason
from factmem.errors import EmbedderError
from factmem.testing import FakeClock, HashEmbedder, ScriptedModel
from tests.memory.telling import log_of, opened, talk, well, words

SAME = ["The cellar floods in March.", "the cellar floods in march", "The cellar  floods in March!"]
OTHERS = ["The roof was mended.", "We booked 12 seats.", "We booked 14 seats."]
DUPLICATE = {DropReason.DUPLICATE: 1}


async def test_texts_that_say_the_same_are_kept_once(provider: AgentMemoryProvider, clock: FakeClock) -> None:
    """The first one is kept, and the others return its record; texts with other numbers differ."""
    async with Memory(provider, embedder=HashEmbedder(), clock=clock) as memory:
        submission = await memory.remember_many([SAME[0], OTHERS[0], *SAME[1:], *OTHERS[1:], SAME[0]])
        outcomes = await submission.wait()
        assert [dict(outcome.dropped) for outcome in outcomes] == [{}, {}, DUPLICATE, DUPLICATE, {}, {}, DUPLICATE]
        assert [len(outcome.changes) for outcome in outcomes] == [1, 1, 0, 0, 1, 1, 0]
        assert {record.value for number in (0, 2, 3, 6) for record in outcomes[number]} == {SAME[0]}
        assert submission.dropped == {DropReason.DUPLICATE: 3}
        assert words(await memory.list_records()) == sorted([SAME[0], *OTHERS])
    assert len((await log_of(provider))[0]) == 4


async def test_what_people_said_stays_whoever_says_the_same(clock: FakeClock) -> None:
    """Messages and conversations are evidence of the speaker and the time."""
    said: list[str | Message] = [Message(content=SAME[0], name=name, id=name) for name in ("Ana", "Bo")]
    async with Memory(InMemoryProvider(clock=clock), embedder=HashEmbedder(), clock=clock) as memory:
        await (await memory.remember_many([*said, talk(*SAME), SAME[0]])).wait()
        assert {record.value for record in await memory.list_records()} == set(SAME)
        assert len((await log_of(memory._backend.provider))[0]) == 6


async def test_what_is_not_to_be_compared_stays(clock: FakeClock) -> None:
    async with Memory(InMemoryProvider(clock=clock), embedder=HashEmbedder(), clock=clock) as memory:
        await (await memory.remember_many(SAME, consolidate=False)).wait()
        assert words(await memory.list_records()) == sorted(SAME)


class Away(HashEmbedder):
    """An embedder that is unavailable."""

    async def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        raise EmbedderError("it is away")


async def test_without_the_embedder_all_are_kept(clock: FakeClock) -> None:
    async with Memory(InMemoryProvider(clock=clock), embedder=Away(), clock=clock) as memory:
        outcomes = await (await memory.remember_many(SAME)).wait()
        assert words(await memory.list_records()) == sorted(SAME)
        assert [dict(outcome.dropped) for outcome in outcomes] == [{}, {}, {}]


async def test_texts_that_wait_for_a_model_are_submitted_as_they_are(provider: AgentMemoryProvider) -> None:
    async with opened(provider, ScriptedModel(well)) as memory:
        await (await memory.remember_many(SAME)).wait()
        assert len(words(await memory.list_records())) == 1


@pytest.mark.parametrize("count", [0, 1])
async def test_few_texts_need_no_comparison(clock: FakeClock, count: int) -> None:
    async with Memory(InMemoryProvider(clock=clock), embedder=HashEmbedder(), clock=clock) as memory:
        outcomes = await (await memory.remember_many(SAME[:count])).wait()
        assert [len(outcome) for outcome in outcomes] == [1] * count
