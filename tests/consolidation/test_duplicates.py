"""Near-duplicates inside a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest

from factmem.consolidation import ConsolidationPolicy
from factmem.consolidation.candidates import CandidateAssertion, without_duplicates
from factmem.details import Evidence, Origin
from tests.tables import each_case

if TYPE_CHECKING:
    from tests.consolidation.conftest import World

POLICY = ConsolidationPolicy(duplicate=0.9)
TEA, AGAIN = "the user likes green tea very much indeed", "very much indeed the user likes green tea"


def texts(candidates: list[CandidateAssertion]) -> list[object]:
    return [candidate.assertion.data for candidate in candidates]


async def test_the_first_said_is_kept_and_takes_the_others_evidence_in(world: World) -> None:
    """Conformance 48. The batch need not be in chronological order."""
    late = world.says(AGAIN, minute=5, evidence=[Evidence(quote="late")])
    early = world.says(TEA, minute=1, evidence=[Evidence(quote="early")])
    (kept,) = without_duplicates(await world.candidates(late, early), POLICY)
    assert kept.assertion.data == TEA
    assert [item.quote for item in kept.assertion.details.evidence] == ["early", "late"]


async def test_a_duplicate_that_nobody_quoted_lives_on_in_its_own_words(world: World) -> None:
    (kept,) = without_duplicates(await world.candidates(world.says(TEA), world.says(AGAIN, minute=1)), POLICY)
    assert [item.quote for item in kept.assertion.details.evidence] == [TEA, AGAIN]


@each_case("details")
async def test_what_another_speaker_says_and_what_is_said_of_another_day_is_kept(
    world: World, details: list[dict[str, Any]]
) -> None:
    candidates = await world.candidates(*(world.says(TEA, evidence=[Evidence(quote=TEA, **of)]) for of in details))
    assert without_duplicates(candidates, POLICY) == candidates


async def test_what_is_merely_similar_is_kept(world: World) -> None:
    """Conformance 49."""
    candidates = await world.candidates(world.says(TEA), world.says("the user likes black tea"))
    assert without_duplicates(candidates, POLICY) == candidates


async def test_statements_with_other_numbers_are_never_the_same(world: World) -> None:
    """Embeddings distinguish 2 from 3 poorly, and a lost number is a lost fact."""
    words = "of the many small red houses at the long straight road"
    candidates = await world.candidates(*(world.says(f"the user owns {count} {words}") for count in (12, 13)))
    assert len(without_duplicates(candidates, attrs.evolve(POLICY, duplicate=0.8))) == 2


async def test_only_what_stands_behind_the_same_walls_is_the_same(world: World) -> None:
    candidates = await world.candidates(
        world.says(TEA), world.says(TEA, owner="alice"), world.says(TEA, origin=Origin.ASSISTANT), world.says(AGAIN)
    )
    kept = without_duplicates(candidates, POLICY)
    assert [(item.assertion.details.owner, item.assertion.details.origin) for item in kept] == [
        (None, Origin.USER),
        ("alice", Origin.USER),
        (None, Origin.ASSISTANT),
    ]


async def test_typed_facts_and_wishes_stand_for_themselves(world: World) -> None:
    candidates = await world.candidates(world.typed("tea", TEA), world.typed("tea", TEA, minute=1))
    candidates += await world.candidates(world.says(TEA), world.says(TEA, minute=1), removal=True)
    assert without_duplicates(candidates, POLICY) == candidates


async def test_what_is_said_again_after_a_wish_to_forget_is_no_duplicate(world: World) -> None:
    candidates = await world.candidates(world.says(TEA))
    candidates += await world.candidates(world.says("tea", minute=1), removal=True)
    candidates += await world.candidates(world.says(TEA, minute=2))
    assert without_duplicates(candidates, POLICY) == candidates


async def test_equal_statements_without_vectors_are_the_same(world: World) -> None:
    said = [CandidateAssertion(world.says(text, minute=minute)) for minute, text in enumerate(("a", "b", "a"))]
    assert texts(without_duplicates(said, POLICY)) == ["a", "b"]


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [1, 40])
async def test_a_large_batch_is_compared_across_blocks(world: World, kinds: int) -> None:
    """1,300 statements in groups of duplicates, so that several blocks are compared."""
    rows = np.eye(64, dtype=np.float32)
    batch = [
        CandidateAssertion(
            world.says(f"{'abcdefghij'[number % 10]}{'x' * number}", minute=number), rows[number % kinds] * 10
        )
        for number in range(1_300)
    ]
    kept = without_duplicates(batch, ConsolidationPolicy())
    assert texts(kept) == texts(batch[:kinds])
    assert sum(len(item.assertion.details.evidence) for item in kept) == len(batch)
