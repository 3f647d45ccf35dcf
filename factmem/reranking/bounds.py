"""Bounds of reranking: how many records, how long, at what cost; and the order that follows from the scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import attrs
from anyio import fail_after

from factmem.abc import Reranker
from factmem.abc.observer import Operation
from factmem.errors import BudgetSpentError, FactMemError, ModelAnswerError, ModelUnavailableError
from factmem.llm import Budget
from factmem.llm.asking import Spent, metered
from factmem.observing import nested
from factmem.validators import fraction, instance_of, positive, seconds

_FIRST: Final = 5.0
"""Number that is added to places before they are inverted: how much less the second place counts than the first."""


@attrs.frozen(kw_only=True)
class Reranking:
    """Bounds of a reranker, and its weight.

    Attributes:
        top: Number of best records of a search that it reads.
        timeout: Seconds for each of its answers. After that, results stay in their order.
        max_chars: Number of characters of each text that it reads.
        weight: Weight of its order beside that of the search, from 0 to 1 (its order alone).
        budget: Limit of what it may cost while the memory is open; None for no limit. After that, results stay in their
            order.

    Raises:
        InvalidDataError: A number is out of range.
    """

    top: int = attrs.field(default=50, validator=positive)
    timeout: float = attrs.field(default=10.0, validator=seconds)
    max_chars: int = attrs.field(default=2_000, validator=positive)
    weight: float = attrs.field(default=0.5, validator=fraction)
    budget: Budget | None = attrs.field(default=None, validator=instance_of(Budget, type(None)))


async def rerank_checked(
    reranker: Reranker, query: str, texts: Sequence[str], bounds: Reranking, spent: Spent
) -> list[float]:
    """Ask a reranker for the scores of texts, within its bounds.

    Args:
        reranker: The reranker.
        query: The question.
        texts: The texts; they are cut to `Reranking.max_chars`.
        bounds: The bounds.
        spent: What the reranker has cost so far; this call is added.

    Raises:
        ModelError: The reranker failed, took too long, has no budget left, or returned anything but finite scores.
    """
    if bounds.budget is not None and bounds.budget.is_spent(spent):
        raise BudgetSpentError("the budget of the reranker is spent: raise Reranking(budget=)")
    with nested(Operation.RERANK, records_in=len(texts)) as call, metered(spent):
        try:
            with fail_after(bounds.timeout):
                answer = await reranker.rerank(query, [text[: bounds.max_chars] for text in texts])
            scores = [float(score) for score in answer]
        except FactMemError:
            raise
        except TimeoutError:
            raise ModelUnavailableError(
                f"the reranker did not answer within {bounds.timeout:g} s: try later, or raise Reranking(timeout=)"
            ) from None
        except Exception as error:  # a third party's reranker may raise anything
            raise ModelUnavailableError(f"the reranker failed: {type(error).__name__}") from error
        if len(scores) != len(texts) or not all(map(math.isfinite, scores)):
            raise ModelAnswerError(f"the reranker returned {len(scores)} scores for {len(texts)} texts, or none finite")
        call.record_result(len(scores))
    return scores


def reordered(scores: Sequence[float], weight: float) -> list[int]:
    """Return the places of records in their new order, given the scores of a reranker in the order of the search.

    The two orders are fused by their places: ``(1 - w) / (k + place) + w / (k + place by the reranker)``. Records
    of one score share the mean of their places.

    Args:
        scores: Scores of the reranker.
        weight: ``w``, from 0 to 1.
    """
    places = _places(scores)
    fused = [(1 - weight) / (_FIRST + row) + weight / (_FIRST + place) for row, place in enumerate(places)]
    return sorted(range(len(scores)), key=lambda row: -fused[row])


def _places(scores: Sequence[float]) -> list[float]:
    order = sorted(range(len(scores)), key=lambda row: -scores[row])
    places = [0.0] * len(scores)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and scores[order[end]] == scores[order[start]]:
            end += 1
        for row in order[start:end]:
            places[row] = (start + end - 1) / 2
        start = end
    return places
