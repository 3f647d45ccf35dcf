"""The same facts rank the same in every store, and in a store that has the four verbs only."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from factmem_file import LocalFileMemoryProvider
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem import (
    AgentMemoryProvider,
    Concept,
    Fact,
    InMemoryProvider,
    Memory,
    MemoryScope,
    MemorySubject,
    MultipleFacts,
    SingleFact,
)
from factmem.errors import CapabilityError
from factmem.facts import FactT
from factmem.testing import FakeClock, HashEmbedder

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CITY = Concept.single("city", "Where the user lives")
LIKES = Concept.multiple("likes", "What the user likes to eat or drink")
USER = MemorySubject("user", "The user", priority_level=1)
ALPHA = MemoryScope.product("alpha")
QUERIES = ["which city does the user live in", "tea or coffee", "what food do they like", "zzz"]


class FourVerbs(AgentMemoryProvider):
    """A third-party store: a dictionary and the four verbs."""

    def __init__(self) -> None:
        self._facts: dict[tuple[object, ...], dict[str, Fact[Any]]] = {}

    def _at(self, subject: MemorySubject, scope: MemoryScope) -> dict[str, Fact[Any]]:
        return self._facts.setdefault((subject.key, scope), {})

    async def save(self, fact: Fact[Any], subject: MemorySubject, scope: MemoryScope) -> None:
        self._at(subject, scope)[fact.concept.keyword] = fact

    async def load(self, concept: Concept[Any, FactT], subject: MemorySubject, scope: MemoryScope) -> FactT | None:
        fact = self._at(subject, scope).get(concept.keyword)
        return concept.fact(list(fact.values), timestamp=fact.timestamp) if fact else None

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> Sequence[Fact[Any]]:
        return list(self._at(subject, scope).values())

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> Sequence[Fact[Any]]:
        return [fact for fact in await self.load_all(subject, scope) if description in fact.concept.description]


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


@pytest.mark.parametrize("store", ["four verbs", "file", "sqlite-vec"])
async def test_every_store_gives_the_same_answers_with_the_same_scores(store: str, tmp_path: Path) -> None:
    provider: AgentMemoryProvider
    match store:
        case "file":
            provider = LocalFileMemoryProvider(tmp_path / "facts")
        case "sqlite-vec":
            provider = SqliteVecMemoryProvider(tmp_path / "facts.db")
        case _:
            provider = FourVerbs()
    async with provider:
        here = await answers(await filled(provider))
    there = await answers(await filled(InMemoryProvider()))
    assert [[value for value, _ in row] for row in here] == [[value for value, _ in row] for row in there]
    assert [score for row in here for _, score in row] == pytest.approx([score for row in there for _, score in row])
    assert here[0][0][0] == "Lisbon"
    assert here[1][0][0] in ("green tea", "black coffee")


async def test_a_store_with_four_verbs_follows_what_changes_in_it() -> None:
    provider = FourVerbs()
    memory = await filled(provider)
    assert len(await memory.list_records()) == 4
    await provider.save(SingleFact(CITY, "Porto", timestamp=NOW), USER, ALPHA)
    assert {record.value for record in await memory.list_records(concepts=[CITY])} == {"Porto"}
    fact = await memory.load(CITY)
    assert fact is not None
    assert fact.value == "Porto"


async def test_what_four_verbs_cannot_keep_is_refused_and_not_lost_silently() -> None:
    memory = await filled(FourVerbs())
    (record, *_) = await memory.list_records()
    refused = [
        memory.view(viewer="alice").remember("for me alone", private=True),
        memory.view(viewer="alice").save(
            SingleFact(CITY, "Faro", timestamp=NOW), subject=USER, scope=ALPHA, private=True
        ),
        memory.retract(record.id),
        memory.update(record.id, importance=1.0),
        memory.forget(record.id),
    ]
    for write in refused:
        with pytest.raises(CapabilityError):
            await write
    assert len(await memory.list_records()) == 4


async def test_four_verbs_without_places_to_look_in_say_so() -> None:
    memory = Memory(FourVerbs(), subjects=[], embedder=HashEmbedder())
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
