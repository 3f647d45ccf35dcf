"""Diverse results: the greedy choice over the whole store, independent of the candidate pool."""

from __future__ import annotations

import anyio
import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factmem import RecallMatch, RecallSettings
from factmem.testing import HashEmbedder
from tests.recall.generated import Said, filled, queries, stores, weights

pytestmark = pytest.mark.slow


def overlap(one: RecallMatch, other: RecallMatch, vectors: dict[str, np.ndarray]) -> float:
    """Return half the similarity of two records, plus half if they share a conversation."""
    (first, second) = (match.record for match in (one, other))
    talks = [
        (record.details.evidence[0].conversation_id, record.subject.key, record.scope, record.details.owner)
        for record in (first, second)
    ]
    same = talks[0] == talks[1] and talks[0][0] is not None
    return (max(float(vectors[first.id] @ vectors[second.id]), 0.0) + same) / 2


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(stores, queries, weights, st.floats(0.05, 1), st.integers(1, 6))
def test_each_result_adds_the_most_to_those_before(
    store: list[Said], query: str, weigh: RecallSettings, diversity: float, limit: int
) -> None:
    async def check() -> None:
        memory = await filled(store)
        left = list(await memory.recall(query, limit=1000, settings=weigh))
        if not left:
            return
        texts = [
            f"trip note: A note of a trip: {it.record.value}"
            if it.record.concept.keyword != "statement"
            else str(it.record.value)
            for it in left
        ]
        vectors = dict(
            zip([it.record.id for it in left], (await HashEmbedder().embed(texts)).astype(float), strict=True)
        )
        chosen = await memory.recall(query, limit=limit, settings=attrs.evolve(weigh, diversity=diversity))
        assert len(chosen) == min(limit, len(left))
        scores = {it.record.id: it.score for it in left}
        before: list[RecallMatch] = []
        for match in chosen:
            gains = {
                it.record.id: it.score
                * (1 - diversity * max((overlap(it, other, vectors) for other in before), default=0))
                for it in left
            }
            assert gains[match.record.id] == pytest.approx(max(gains.values()), abs=1e-5)
            assert match.score == scores[match.record.id]
            before.append(match)
            left = [it for it in left if it.record.id != match.record.id]

    anyio.run(check)
