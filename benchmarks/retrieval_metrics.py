"""Metrics of retrieval, by the definitions of the benchmarks' own authors."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from statistics import fmean

import attrs

from factmem import Memory, RecallMatch

__all__ = ["Scores", "first_seen", "fraction_found", "ndcg", "ndcg_longmemeval", "sessions_of"]


def first_seen(items: Iterable[str]) -> list[str]:
    """Keep the first of equal items, in order."""
    return list(dict.fromkeys(items))


async def sessions_of(memory: Memory, question: str) -> tuple[list[RecallMatch], list[str]]:
    """Recall everything for a question; return it with the sessions in the order of their best record."""
    matches = await memory.recall(question, limit=100_000)
    return matches, first_seen(
        item.conversation_id for match in matches for item in match.record.evidence if item.conversation_id
    )


def fraction_found(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """Recall at k as LoCoMo's papers have it: the share of the gold documents among the first k."""
    return len(set(ranking[:k]) & set(gold)) / len(set(gold))


def ndcg(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """NDCG at k with binary relevance and the usual discount, ``1 / log2(rank + 1)``."""
    gained = sum(1 / math.log2(rank + 2) for rank, item in enumerate(ranking[:k]) if item in gold)
    return gained / sum(1 / math.log2(rank + 2) for rank in range(min(len(set(gold)), k)))


def ndcg_longmemeval(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """NDCG at k as LongMemEval's own script has it: the first two ranks undiscounted, the ideal over all gold."""

    def dcg(relevances: Sequence[int]) -> float:
        return sum(relevance / (math.log2(rank + 1) if rank else 1) for rank, relevance in enumerate(relevances[:k]))

    gained = dcg([int(item in gold) for item in ranking])
    return gained / dcg([1] * len(set(gold)))


@attrs.define
class Scores:
    """Collects figures over questions and averages them."""

    _values: dict[str, list[float]] = attrs.field(factory=dict)

    def add(self, name: str, value: float) -> None:
        """Take in one question's figure."""
        self._values.setdefault(name, []).append(value)

    def means(self) -> dict[str, float]:
        """The mean of each figure, rounded to four places."""
        return {name: round(fmean(values), 4) for name, values in self._values.items()}

    def counts(self) -> dict[str, int]:
        """How many questions each mean is over."""
        return {name: len(values) for name, values in self._values.items()}
