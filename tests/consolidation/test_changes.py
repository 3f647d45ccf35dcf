"""Tests of the changes between two folds, and of planning twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from factmem.abc.consolidator import Action
from factmem.changes import ChangeKind, changes_between
from factmem.details import Evidence
from factmem.facts import Concept
from tests.tables import each_case

if TYPE_CHECKING:
    from tests.consolidation.conftest import World


async def test_each_record_is_created_updated_or_deleted_in_the_order_first_said(world: World) -> None:
    (gone,) = await world.save(world.says("gone"))
    (kept, _) = await world.save(world.says("kept", minute=1), world.says("untouched", minute=2))
    before = await world.current()
    await world.save(world.says("new", minute=4))
    await world.save(attrs.evolve(world.says("kept, but better", minute=5), revises=kept.record_id, revised=kept.seq))
    after = [item for item in await world.current() if item.recorded.record_id != gone.record_id]
    found = [(change.kind, change.record.value) for change in changes_between(before, after)]
    assert found[0] == (ChangeKind.DELETED, "gone")
    assert sorted(found, key=str) == sorted(
        [(ChangeKind.DELETED, "gone"), (ChangeKind.UPDATED, "kept, but better"), (ChangeKind.CREATED, "new")], key=str
    )
    assert {kind for kind, _ in found} == set(ChangeKind) - {ChangeKind.UNCHANGED}
    (updated,) = [change for change in changes_between(before, after) if change.kind is ChangeKind.UPDATED]
    assert updated.previous is not None
    assert (updated.previous.value, updated.previous.id) == ("kept", updated.record.id)
    assert changes_between(after, after) == []


async def test_more_evidence_alone_is_an_update(world: World) -> None:
    """This includes evidence that is older than the record's."""
    await world.save(world.says("it rains", minute=5, evidence=[Evidence(quote="now")]))
    before = await world.current()
    await world.save(world.says("it rains", minute=1, evidence=[Evidence(quote="then")]))
    (change,) = changes_between(before, await world.current())
    assert (change.kind, len(change.record.evidence)) == (ChangeKind.UPDATED, 2)


async def test_values_are_read_with_their_declared_concepts(world: World) -> None:
    await world.save(world.typed("city", "Paris"))
    (change,) = changes_between([], await world.current(), {"city": Concept.single("city", "where they live")})
    assert change.record.concept.description == "where they live"
    (change,) = changes_between([], await world.current(), {"city": Concept.multiple("city", "of another type")})
    assert change.record.concept.description == "city"


@each_case("actions", "insert")
async def test_the_same_candidates_again_bring_nothing_about(world: World, actions: list[str], insert: bool) -> None:
    """No candidate is decided again, although the consolidator would answer the same."""
    await world.save(world.says("the user lives in Paris"))
    candidates = await world.candidates(
        world.says("the user lives in Berlin", minute=1), world.typed("city", "Berlin", minute=1)
    )
    consolidator = world.always(*map(Action.__getitem__, actions), insert=insert, text="the user lives in Berlin now")
    await world.consolidate(candidates, consolidator)
    asked = len(consolidator.asked)
    planned, changed = await world.consolidate(candidates, consolidator)
    assert (planned.statements, changed, len(consolidator.asked)) == ((), [], asked)
