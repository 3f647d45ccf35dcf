"""Requests to forget, and plans that delete too much."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import attrs
import pytest

from factmem.abc.consolidator import Action, Novelty, Verdict, Verdicts
from factmem.consolidation.policy import Proposal
from factmem.details import Evidence
from factmem.records import AssertionState, Recorded

if TYPE_CHECKING:
    from tests.consolidation.conftest import World

PARIS, BERLIN = "the user lives in Paris", "the user lives in Berlin"


async def test_a_wish_is_shown_everything_said_before_behind_its_walls(world: World) -> None:
    """Typed facts are included and no threshold applies; later statements are left out."""
    await world.save(world.says("dogs bark"), world.typed("home_city", "Paris"), world.says(PARIS, minute=9))
    asked = world.always(Action.KEEP, Action.DELETE)
    await world.consolidate(await world.candidates(world.says("dogs", minute=5), removal=True), asked)
    (novelty,) = asked.asked
    assert novelty.removal
    assert [known.text for known in novelty.known] == ["dogs bark", "home city: Paris"]
    assert await world.texts() == ["dogs bark", PARIS]


async def test_without_a_consolidator_only_an_exact_match_is_forgotten(world: World) -> None:
    await world.save(world.says(PARIS), world.says(BERLIN))
    await world.consolidate(await world.candidates(world.says(PARIS, minute=5), removal=True))
    assert await world.texts() == [BERLIN]


async def test_an_exact_match_is_meant_whatever_the_consolidator_thinks(world: World) -> None:
    await world.save(world.says(PARIS), world.says(BERLIN))
    await world.consolidate(
        await world.candidates(world.says(PARIS, minute=5), removal=True), world.always(Action.KEEP, Action.KEEP)
    )
    assert await world.texts() == [BERLIN]


async def test_a_wish_takes_nothing_that_somebody_else_said(world: World) -> None:
    ana, tom = (
        (Evidence(quote="x", conversation_id="chat", message_id=name, speaker=name),) for name in ("Ana", "Tom")
    )
    await world.save(world.says(PARIS, evidence=ana), world.says("dogs bark"), world.says("cats purr"))
    asked = world.always(Action.DELETE)
    wish = await world.candidates(world.says("where the user lives", minute=5, evidence=tom), removal=True)
    await world.consolidate(wish, asked)
    (novelty,) = asked.asked
    assert PARIS not in [known.text for known in novelty.known]
    assert PARIS in await world.texts()


async def test_a_wish_is_compared_with_ten_times_as_many_records(world: World) -> None:
    world.policy = attrs.evolve(world.policy, limit=2)
    await world.save(*(world.says(f"the user saw number {number}") for number in range(25)))
    asked = world.always(Action.DELETE)
    await world.consolidate(await world.candidates(world.says("numbers", minute=5), removal=True), asked)
    (novelty,) = asked.asked
    assert len(novelty.known) == 20


async def test_a_part_of_a_record_can_be_forgotten(world: World) -> None:
    (known,) = await world.save(world.says("the user likes tea and hates milk"))
    wish = world.candidates(world.says("what the user hates", minute=5), removal=True)
    _, (change,) = await world.consolidate(await wish, world.always(Action.UPDATE, text="the user likes tea"))
    assert (change.record.id, change.record.value) == (known.record_id, "the user likes tea")


async def test_a_wish_reaches_what_was_said_before_it_in_the_same_batch(world: World) -> None:
    """The withdrawn statement is kept as history, and a statement after the request is current."""
    candidates = await world.candidates(world.says(PARIS))
    candidates += await world.candidates(world.says("where the user lives", minute=1), removal=True)
    candidates += await world.candidates(world.says(BERLIN, minute=2))
    await world.consolidate(candidates, world.always(Action.DELETE))
    assert await world.texts() == [BERLIN]
    states = {entry.assertion.data: entry.assertion.state for entry in await world.log() if isinstance(entry, Recorded)}
    assert states[PARIS] is AssertionState.RETRACTED


async def test_a_wish_goes_before_an_update_of_the_same_record(world: World) -> None:
    await world.save(world.says(PARIS), world.says("dogs bark"))
    candidates = await world.candidates(world.says(BERLIN, minute=1))
    candidates += await world.candidates(world.says("Paris", minute=2), removal=True)

    def answer(novelty: Novelty) -> Verdicts:
        numbers = {known.text: number for number, known in enumerate(novelty.known)}
        action = Action.DELETE if novelty.removal else Action.UPDATE
        return Verdicts(insert=False, known={numbers[PARIS]: Verdict(action=action, text=BERLIN + " now")})

    await world.consolidate(candidates, world.answering(answer))
    assert await world.texts() == ["dogs bark", BERLIN]


async def test_a_wish_that_was_met_is_not_met_again(world: World) -> None:
    """Ingesting the same conversation again must not retract a record that was restored since, nor any other."""
    await world.save(world.says(PARIS))
    candidates = await world.candidates(world.says("where the user lives", minute=5), removal=True)
    await world.consolidate(candidates, world.always(Action.DELETE))
    await world.restore_everything()
    planned, _ = await world.consolidate(candidates, world.always(Action.DELETE))
    assert (planned.statements, await world.texts()) == ((), [PARIS])


async def test_a_plan_that_deletes_most_of_what_was_shown_is_refused_and_everything_inserted(world: World) -> None:
    """Without approval neither deletions nor updates of these answers are applied."""
    cities = [world.says(f"the user lives in {city}") for city in ("Paris", "Rome", "Oslo", "Bonn")]
    await world.save(*cities)
    candidates = await world.candidates(world.says(BERLIN, minute=1))
    actions = [Action.DELETE] * 3 + [Action.UPDATE]
    planned, _ = await world.consolidate(candidates, world.always(*actions, text="nothing", insert=False))
    assert await world.texts() == [*(str(said.data) for said in cities), BERLIN]
    (proposal,) = planned.refused
    assert (proposal.deletions, proposal.among, proposal.removal) == (3, 4, False)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("approved", [True, False, None])
async def test_the_approver_is_shown_the_records_and_decides(world: World, approved: bool | None, plain: bool) -> None:
    """One that fails does not approve."""
    seen: list[Proposal] = []

    def decide(proposal: Proposal) -> bool:
        seen.append(proposal)
        if approved is None:
            raise OSError("the form is closed")
        return approved

    async def approve(proposal: Proposal) -> bool:
        return decide(proposal)

    world.policy = attrs.evolve(world.policy, approve=decide if plain else approve)
    known = await world.save(world.says(PARIS), world.says("the user lives in Rome"))
    candidates = await world.candidates(world.says(BERLIN, minute=1))
    await world.consolidate(candidates, world.always(Action.DELETE, Action.DELETE))
    assert set(seen[0].record_ids) == {recorded.record_id for recorded in known}
    assert len(await world.texts()) == (1 if approved else 3)


async def test_a_wish_is_measured_by_all_that_is_known_behind_its_walls(world: World) -> None:
    """Two of five may be retracted on request although only two were shown; four of five may not."""
    world.policy = attrs.evolve(world.policy, limit=4)
    await world.save(*(world.says(f"the user lives in {city}") for city in ("Paris", "Rome", "Oslo", "Bonn", "Kiel")))
    wish = await world.candidates(world.says("Oslo and Bonn", minute=1), removal=True)
    planned, changed = await world.consolidate(wish, world.always(Action.DELETE, Action.DELETE))
    assert (len(planned.refused), len(changed)) == (0, 2)
    again = await world.candidates(world.says("all of it", minute=2), removal=True)
    planned, changed = await world.consolidate(again, world.always(*[Action.DELETE] * 3))
    assert (len(planned.refused), planned.refused[0].among, changed) == (1, 3, [])


async def test_a_fact_and_the_words_it_was_found_in_are_one_thing_to_forget(world: World) -> None:
    """Otherwise nobody of whom little is known could have anything forgotten."""
    message = (Evidence(quote="I live in Paris.", conversation_id="chat", message_id="1"),)
    await world.save(
        world.says("I live in Paris.", evidence=message), world.typed("home_city", "Paris", evidence=message)
    )
    wish = await world.candidates(world.says("where I live", minute=1), removal=True)
    planned, _ = await world.consolidate(wish, world.always(Action.DELETE, Action.DELETE))
    assert (planned.refused, await world.texts()) == ((), [])


async def test_a_refused_wish_does_not_keep_other_candidates_from_updating(world: World) -> None:
    await world.save(world.says(PARIS), world.says("dogs bark"), world.says("cats purr"))
    candidates = await world.candidates(world.says("forget the lot", minute=1), removal=True)
    candidates += await world.candidates(world.says(BERLIN, minute=2))
    await world.consolidate(candidates, world.always(*[Action.DELETE] * 3))
    assert await world.texts() == ["dogs bark", "cats purr", BERLIN]


async def test_an_expiry_does_not_bring_back_what_a_wish_took(world: World) -> None:
    soon = dt.datetime(2024, 1, 1, 13, tzinfo=dt.UTC)
    (first,) = await world.save(world.says(PARIS))
    await world.save(attrs.evolve(world.says(BERLIN, minute=1, expires_at=soon), revises=first.record_id, revised=1))
    await world.save(world.says("dogs bark"))
    await world.consolidate(
        await world.candidates(world.says("home", minute=5), removal=True), world.always(Action.KEEP)
    )
    assert await world.texts() == ["dogs bark"]
