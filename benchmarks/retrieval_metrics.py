"""Metrics of retrieval, by the definitions of the benchmarks' own authors."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean

import attrs

__all__ = ["Scores", "auroc", "figures_of", "first_seen", "fraction_found", "ndcg"]


def first_seen(items: Iterable[str]) -> list[str]:
    """Keep the first of equal items, in order."""
    return list(dict.fromkeys(items))


def fraction_found(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """Recall at k as in LoCoMo's papers: the share of the gold documents among the first k."""
    return len(set(ranking[:k]) & set(gold)) / len(set(gold))


def ndcg(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """NDCG at k with binary relevance and the usual discount, ``1 / log2(rank + 1)``."""
    gained = sum(1 / math.log2(rank + 2) for rank, item in enumerate(ranking[:k]) if item in gold)
    return gained / sum(1 / math.log2(rank + 2) for rank in range(min(len(set(gold)), k)))


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Area under the ROC curve: the probability that a positive scores above a negative; a tie counts half."""
    wins = sum((high > low) + 0.5 * (high == low) for high in positive for low in negative)
    return wins / (len(positive) * len(negative))


def figures_of(
    ranking: Sequence[str],
    gold: Collection[str],
    gold_conversations: Collection[str],
    conversation_of: Mapping[str, str],
) -> dict[str, float]:
    """Return the figures of one question.

    Args:
        ranking: ids of messages, best first.
        gold: ids of the messages that answer; empty if none does.
        gold_conversations: ids of the conversations that answer, if the set names them; otherwise those of the gold.
        conversation_of: the conversation of each message.
    """
    ranking = first_seen(ranking)
    talks = first_seen(conversation_of[said] for said in ranking)
    figures = {f"R@{k}": fraction_found(ranking, gold, k) for k in (5, 10)} if gold else {}
    if gold:
        figures["nDCG@10"] = ndcg(ranking, gold, 10)
    if gold_conversations:
        found = set(talks[:5]) & set(gold_conversations)
        figures |= {"any@5": float(bool(found)), "all@5": float(len(found) == len(set(gold_conversations)))}
    elif gold:
        figures["conversation R@5"] = fraction_found(talks, {conversation_of[said] for said in gold}, 5)
    return figures


@attrs.define
class Scores:
    """Figures accumulated over questions and averaged."""

    _values: dict[str, list[float]] = attrs.field(factory=dict)

    def add(self, name: str, value: float) -> None:
        """Add a figure of one question."""
        self._values.setdefault(name, []).append(value)

    def means(self) -> dict[str, float]:
        """Return the mean of each figure, rounded to four places."""
        return {name: round(fmean(values), 4) for name, values in self._values.items()}

    def counts(self) -> dict[str, int]:
        """Return the number of questions behind each mean."""
        return {name: len(values) for name, values in self._values.items()}
