"""Recall with a reranker: what it reads, what it orders, and what happens when it fails."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factmem import Concept, InMemoryProvider, Memory, MemorySubject, SingleFact
from factmem.errors import InvalidDataError, ModelAnswerError, ModelUnavailableError
from factmem.llm import Budget
from factmem.recall.results import RecallMatches
from factmem.reranking import Reranking
from factmem.reranking.bounds import reordered
from factmem.reranking.model_reranker import ModelReranker
from factmem.testing import HashEmbedder, ScriptedModel

ANA, BEN = MemorySubject("ana"), MemorySubject("ben")
DRINK = Concept.single("drink", "Drink that somebody likes")


class Last:
    """Puts the texts in the reverse order, and notes what it was shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, list[str]]] = []

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        self.shown.append((query, list(texts)))
        return [float(place) for place in range(len(texts))]


class Failing:
    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        raise ZeroDivisionError("secret words")


class Slow:
    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        await anyio.sleep_forever()
        return []


class Rubbish:
    def __init__(self, *scores: Any) -> None:
        self.scores = scores

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        return self.scores


def memory_with(reranker: Any, *, provider: Any = None, weight: float = 1.0, **bounds: Any) -> Memory:
    bounds = {"weight": weight, "timeout": 60.0, **bounds}
    return Memory(
        provider or InMemoryProvider(), embedder=HashEmbedder(), reranker=reranker, reranking=Reranking(**bounds)
    )


def values(matches: RecallMatches) -> list[Any]:
    return [match.record.value for match in matches]


async def fill(memory: Memory, count: int = 12) -> None:
    await memory.remember_many(
        [f"Ana brewed tea number {number}{' with milk' * (number % 3)}." for number in range(count)]
    )


async def test_a_reranker_orders_the_best_and_leaves_the_others_exact() -> None:
    async with memory_with(reranker := Last(), top=4) as memory:
        await fill(memory)
        plain = await Memory(memory._backend.provider, embedder=HashEmbedder()).recall("tea with milk", limit=12)
        found = await memory.recall("tea with milk", limit=12)
    assert values(found) == [*reversed(values(plain)[:4]), *values(plain)[4:]]
    assert [match.parts.reranked for match in found] == [3.0, 2.0, 1.0, 0.0, *[None] * 8]
    scores = {match.record.id: match.score for match in plain}
    assert {match.record.id: match.score for match in found} == pytest.approx(scores, abs=1e-6)  # they age
    assert [len(texts) for _, texts in reranker.shown] == [4]
    assert found.failure is None


async def test_no_reranker_costs_nothing_and_says_nothing() -> None:
    async with Memory("memory:", embedder=HashEmbedder()) as memory:
        await fill(memory)
        found = await memory.recall("tea")
    assert all(match.parts.reranked is None for match in found)
    assert found.failure is None


async def test_the_reranker_reads_what_a_person_would() -> None:
    async with memory_with(reranker := Last(), max_chars=40) as memory:
        await memory.save(SingleFact(DRINK, "tea " * 20), subject=ANA)
        await memory.recall("Which tea? My key is sk-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKL")
    ((query, texts),) = reranker.shown
    assert texts == ["ana, Drink that somebody likes: tea tea "]
    assert "sk-abc" not in query


async def test_a_filter_never_changes_the_order_of_two_results() -> None:
    """The reranker reads the best of all that the caller sees, not of what the filter leaves."""
    async with memory_with(reranker := Last(), top=6) as memory:
        for number in range(5):
            await memory.remember(f"Tea number {number}.", subject=ANA)
            await memory.remember(f"Tea number {number}, again.", subject=BEN)
        whole = await memory.recall("Tea number 3", limit=10)
        of_ana = await memory.recall("Tea number 3", limit=10, subject=ANA)
        few = await memory.recall("Tea number 3", limit=10, min_score=whole[-1].score + 0.01)
    assert values(of_ana) == [match.record.value for match in whole if match.record.subject == ANA]
    assert values(few) == [match.record.value for match in whole if match.score >= whole[-1].score + 0.01]
    assert reranker.shown[0] == reranker.shown[1] == reranker.shown[2]


async def test_the_reranker_sees_what_the_caller_may_see() -> None:
    provider = InMemoryProvider()
    async with memory_with(reranker := Last(), provider=provider) as memory:
        await memory.remember("Tea for all.", scope="/product/alpha")
        await memory.remember("Tea of beta.", scope="/product/beta")
        await memory.view(viewer="ben").save(SingleFact(DRINK, "secret tea"), subject=BEN, private=True)
        await memory.view(viewer="ana").recall("tea")
        await memory.scope("/product/alpha").recall("tea")
        await memory.view(viewer="ben").recall("tea")
    shown = [" ".join(texts) for _, texts in reranker.shown]
    assert ["secret" in texts for texts in shown] == [False, False, True]
    assert ["beta" in texts for texts in shown] == [True, False, True]


@pytest.mark.parametrize(
    "reranker", [Failing(), Slow(), Rubbish(1.0), Rubbish(float("nan"), *[1.0] * 11), Rubbish(*["high"] * 12)]
)
async def test_a_failing_reranker_leaves_the_order_and_says_so(reranker: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with memory_with(reranker, timeout=0.05) as memory:
        await fill(memory)
        plain = await Memory(memory._backend.provider, embedder=HashEmbedder()).recall("tea with milk", limit=5)
        with caplog.at_level(logging.WARNING, "factmem"):
            found = await memory.recall("tea with milk", limit=5)
        assert values(found) == values(plain)
        assert found.failure is not None
        assert found.failure.startswith("results are not reranked")
        assert found.failure in caplog.text
        assert "secret" not in caplog.text
        with pytest.raises((ModelUnavailableError, ModelAnswerError)):
            await memory.recall("tea with milk", strict=True)


async def test_a_reranker_stops_when_its_budget_is_spent() -> None:
    model = ScriptedModel(lambda prompt, answer: {"order": [2, 1]})
    async with memory_with(ModelReranker(model), budget=Budget(requests=2)) as memory:
        await fill(memory)
        failures = [(await memory.recall("tea")).failure for _ in range(3)]
    assert failures[:2] == [None, None]
    assert failures[2] is not None
    assert "budget" in failures[2]
    assert len(model.prompts) == 2


async def test_deep_recall_is_reranked_as_well() -> None:
    async with memory_with(Last(), top=3) as memory:
        await fill(memory)
        plain = await Memory(memory._backend.provider, embedder=HashEmbedder()).recall("tea with milk", limit=3)
        found = await memory.recall("tea with milk", limit=3, depth="deep")
    assert values(found) == [*reversed(values(plain))]


@given(st.lists(st.floats(-10, 10), max_size=30), st.floats(0, 1))
@settings(max_examples=50)
def test_the_order_is_a_permutation_between_both_orders(scores: list[float], weight: float) -> None:
    order = reordered(scores, weight)
    assert sorted(order) == list(range(len(scores)))
    assert reordered(scores, 0.0) == list(range(len(scores)))
    assert reordered(scores, 1.0) == sorted(range(len(scores)), key=lambda row: -scores[row])


@pytest.mark.parametrize("wrong", [{"top": 0}, {"timeout": 0.0}, {"weight": 1.5}, {"max_chars": 0}, {"budget": 5}])
def test_bounds_that_cannot_be_met_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((InvalidDataError, TypeError)):
        Reranking(**wrong)
