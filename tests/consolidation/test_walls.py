"""Nothing is shown, compared or changed across tenants, scopes, subjects and owners, unlike in CrewAI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest

from factmem import MemoryScope, MemorySubject
from factmem.abc.consolidator import Action, Novelty, Verdict, Verdicts
from factmem.details import Evidence
from factmem.records import Place

if TYPE_CHECKING:
    from tests.consolidation.conftest import World

PARIS, BERLIN = "the user lives in Paris", "the user lives in Berlin"
HERE = MemoryScope.parse("/project/alpha")
USER = MemorySubject("user", "the user")

ELSEWHERE: dict[str, dict[str, Any]] = {
    "another tenant": {"place": Place(USER, HERE.within("other"))},
    "no tenant": {"place": Place(USER, HERE)},
    "a sibling whose name begins the same": {
        "place": Place(USER, MemoryScope.parse("/project/alphabet").within("acme"))
    },
    "the scope above": {"place": Place(USER, MemoryScope.parse("/project").within("acme"))},
    "a scope below": {"place": Place(USER, MemoryScope.parse("/project/alpha/x").within("acme"))},
    "another subject": {"place": Place(MemorySubject("project", ""), HERE.within("acme"))},
    "another individual": {"place": Place(MemorySubject("user", "", individual_name="bob"), HERE.within("acme"))},
    "somebody's own": {"owner": "alice"},
}


@pytest.mark.parametrize("where", ELSEWHERE.values(), ids=ELSEWHERE.keys())
@pytest.mark.parametrize("removal", [False, True], ids=["statement", "wish"])
async def test_records_behind_other_walls_are_not_shown(world: World, where: dict[str, Any], removal: bool) -> None:
    """Conformance 122 and 123, and `scope_privacy`, although the planner is passed the records of every owner."""
    await world.save(world.says(PARIS, **where))
    asked = world.always(Action.DELETE)
    candidates = await world.candidates(world.says(BERLIN, minute=1), removal=removal)
    await world.consolidate(candidates, asked)
    assert asked.asked == []


async def test_consolidation_privacy_source_and_owner_survive_an_update(world: World) -> None:
    """consolidation_privacy:

    CrewAI's update dropped source and privacy. metadata_dropped: and the caller's metadata.
    """
    kept: dict[str, Any] = {
        "owner": "alice",
        "source": "crm",
        "importance": 0.9,
        "categories": ("home",),
        "topics": ("personal information",),
        "metadata": {"ticket": 7},
        "evidence": (Evidence(quote="I live in Paris", message_id="m1"),),
    }
    await world.save(world.says(PARIS, **kept))
    candidate = world.says(BERLIN, minute=1, owner="alice", metadata={"seen": True}, importance=0.1)
    text = "the user lives in Berlin, before that in Paris"
    _, (change,) = await world.consolidate(
        await world.candidates(candidate), world.always(Action.UPDATE, text=text, insert=False)
    )
    details = change.record.details
    assert (details.owner, details.source, details.importance) == ("alice", "crm", 0.9)
    assert (details.categories, details.topics) == (("home",), ("personal information",))
    assert details.metadata == {"ticket": 7, "seen": True}
    assert details.evidence[0] == kept["evidence"][0]
    assert len(details.evidence) == 2


@pytest.mark.parametrize("number", [1, -1, 99, True, "0", None])
async def test_a_record_that_was_not_shown_cannot_be_named(world: World, number: Any) -> None:
    """consolidation_privacy: CrewAI's plan deleted an id that was not among the similar records."""
    known = [world.says(PARIS), world.says("dogs bark"), world.says(PARIS, owner="bob")]
    await world.save(*known)

    def hallucinating(novelty: Novelty) -> Verdicts:
        return Verdicts(insert=False, known={number: Verdict(action=Action.DELETE)})

    await world.consolidate(await world.candidates(world.says(BERLIN, minute=1)), world.answering(hallucinating))
    assert sorted(await world.texts()) == sorted([*(said.data for said in known), BERLIN])


async def test_the_question_holds_no_id(world: World) -> None:
    (known,) = await world.save(world.says(PARIS))
    asked = world.always()
    await world.consolidate(await world.candidates(world.says(BERLIN)), asked)
    shown = repr([(novelty.text, [item.text for item in novelty.known]) for novelty in asked.asked])
    assert known.id not in shown
    assert known.record_id not in shown


async def test_remember_returns_foreign_what_changed_is_never_somebody_elses(world: World) -> None:
    """remember_returns_foreign: for "not new" CrewAI returned the most similar record, even a private one."""
    await world.save(world.says(PARIS, owner="bob"))
    candidates = await world.candidates(world.says("the user lives in Paris too", minute=1))
    _, (change,) = await world.consolidate(candidates, world.always(Action.KEEP, insert=False))
    assert (change.record.details.owner, change.record.value) == (None, "the user lives in Paris too")


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
async def test_similarity_is_the_cosine_whatever_the_length_of_the_vectors(world: World, scale: float) -> None:
    """dedup_threshold_cos: CrewAI compared the threshold with 1 / (1 + squared distance)."""
    await world.save(world.says(PARIS))
    world.policy = attrs.evolve(world.policy, threshold=0.8)  # four of five words: a cosine of exactly .8
    (candidate,) = await world.candidates(world.says(BERLIN))
    assert candidate.vector is not None
    asked = world.always()
    await world.plan([attrs.evolve(candidate, vector=candidate.vector * scale)], asked)
    assert len(asked.asked) == 1
    world.policy = attrs.evolve(world.policy, threshold=0.81)
    await world.plan([attrs.evolve(candidate, vector=candidate.vector * scale)], asked)
    assert len(asked.asked) == 1


async def test_vectors_that_are_no_use_are_like_nothing(world: World) -> None:
    await world.save(world.says(PARIS))
    (candidate,) = await world.candidates(world.says(BERLIN))
    asked = world.always()
    for vector in (None, np.zeros(256, np.float32), np.full(256, np.nan, np.float32), np.ones(3, np.float32)):
        await world.plan([attrs.evolve(candidate, vector=vector)], asked)
    assert asked.asked == []
