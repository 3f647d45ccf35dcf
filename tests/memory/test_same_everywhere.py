"""The same facts rank the same in every store, and in a store that has the four verbs only."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import anyio
import pytest

from factmem import (
    AgentMemoryProvider,
    Concept,
    InMemoryProvider,
    Memory,
    MemoryScope,
    MemorySubject,
    MultipleFacts,
    SingleFact,
)
from factmem.errors import CapabilityError
from factmem.testing import FakeClock, HashEmbedder
from tests.memory.shelves import Shelf
from tests.narrowing import not_none
from tests.reliability.stores import STORES, DurableStore

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CITY = Concept.single("city", "Where the user lives")
LIKES = Concept.multiple("likes", "What the user likes to eat or drink")
USER = MemorySubject("user", "The user", priority_level=1)
ALPHA = MemoryScope.product("alpha")
QUERIES = ["which city does the user live in", "tea or coffee", "what food do they like", "zzz"]


async def filled(provider: AgentMemoryProvider) -> Memory:
    memory = Memory(
        provider, subjects=[USER], scopes=[ALPHA, "/agent/planner"], embedder=HashEmbedder(), clock=FakeClock(NOW)
    )
    said = NOW - dt.timedelta(days=3)
    await memory.save(SingleFact(CITY, "Lisbon", timestamp=said), subject=USER, scope=ALPHA)
    await memory.save(MultipleFacts(LIKES, ("green tea", "grilled fish"), timestamp=said), subject=USER, scope=ALPHA)
    later = said + dt.timedelta(days=2)
    await memory.save(MultipleFacts(LIKES, ("black coffee",), timestamp=later), subject=USER, scope="/agent/planner")
    return memory


async def answers(memory: Memory) -> list[list[tuple[str, float]]]:
    return [[(match.record.value, match.score) for match in await memory.recall(query)] for query in QUERIES]


@pytest.mark.parametrize("store", [None, *STORES], ids=lambda store: "four verbs" if store is None else store.name)
async def test_every_store_gives_the_same_answers_with_the_same_scores(
    store: DurableStore | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in store.environment.items() if store else ():
        monkeypatch.setenv(name, value)
    provider: AgentMemoryProvider = store.open(tmp_path / "store") if store else Shelf()
    async with provider:
        here = await answers(await filled(provider))
    there = await answers(await filled(InMemoryProvider()))
    assert [[value for value, _ in row] for row in here] == [[value for value, _ in row] for row in there]
    assert [score for row in here for _, score in row] == pytest.approx([score for row in there for _, score in row])
    assert here[0][0][0] == "Lisbon"
    assert here[1][0][0] in ("green tea", "black coffee")


async def test_a_store_with_four_verbs_follows_what_changes_in_it() -> None:
    provider = Shelf()
    memory = await filled(provider)
    assert len(await memory.list_records()) == 4
    await provider.save(SingleFact(CITY, "Porto", timestamp=NOW), USER, ALPHA)
    assert {record.value for record in await memory.list_records(concepts=[CITY])} == {"Porto"}
    assert not_none(await memory.load(CITY)).value == "Porto"


async def test_four_verbs_without_places_to_look_in_say_so() -> None:
    memory = Memory(Shelf(), subjects=[], embedder=HashEmbedder())
    with pytest.raises(CapabilityError, match="subjects="):
        await memory.recall("anything")


async def test_recall_beside_saves_that_bring_new_words_never_fails() -> None:
    memory = await filled(InMemoryProvider())

    async def say(number: int) -> None:
        words = f"word{number} and{number} more{number}"
        await memory.save(MultipleFacts(LIKES, (words,), timestamp=NOW), subject=USER, scope=ALPHA)
        assert await memory.recall(words, limit=1)

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(say, number)
    assert len(await memory.list_records()) == 34
