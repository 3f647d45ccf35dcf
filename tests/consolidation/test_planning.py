"""Effects of candidates on known records."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import anyio
import attrs
import pytest

from factmem.abc.capabilities import Append, StateRequest
from factmem.abc.consolidator import Action, Novelty, Verdict, Verdicts
from factmem.changes import ChangeKind
from factmem.consolidation.policy import ConsolidationPolicy
from factmem.consolidation.questions import questions_about
from factmem.consolidation.survey import Survey
from factmem.details import Evidence, MetadataMerge, Origin
from factmem.errors import BudgetSpentError, InvalidDataError, ModelError, ModelUnavailableError
from factmem.records import AssertionState, Recorded
from tests.tables import each_case

if TYPE_CHECKING:
    from tests.consolidation.conftest import World

PARIS, BERLIN = "the user lives in Paris", "the user lives in Berlin"
GREEN, BOTH = "the user likes green tea", "the user likes green and black tea"


async def test_what_is_like_nothing_known_is_inserted_without_a_question(world: World) -> None:
    await world.save(world.says(PARIS))
    asked = world.always()
    planned, (change,) = await world.consolidate(await world.candidates(world.says("dogs bark loudly")), asked)
    assert (asked.asked, planned.questions, change.kind) == ([], 0, ChangeKind.CREATED)


async def test_an_equal_statement_needs_no_model_and_adds_its_evidence(world: World) -> None:
    await world.save(world.says(PARIS, evidence=[Evidence(quote="a")]))
    again = world.says(PARIS, minute=5, evidence=[Evidence(quote="b")])
    asked = world.always(Action.DELETE)
    _, (change,) = await world.consolidate(await world.candidates(again), asked)
    assert (asked.asked, change.kind) == ([], ChangeKind.UPDATED)
    assert [item.quote for item in change.record.evidence] == ["a", "b"]


async def test_typed_facts_and_their_removals_are_appended_as_they_are(world: World) -> None:
    """The fold decides the current value without a model: the latest assertion, or a dated removal."""
    await world.save(world.typed("city", "Paris", minute=3), world.typed("pet", "cat"))
    asked = world.always(Action.DELETE)
    candidates = await world.candidates(world.typed("city", "Rome", minute=1))
    candidates += await world.candidates(world.typed("pet", "cat", minute=9), removal=True)
    await world.consolidate(candidates, asked)
    assert asked.asked == []
    assert await world.texts() == ["Paris"]


@each_case("known", "new", "text", "followed")
async def test_an_update_says_no_name_number_or_order_that_nobody_said(
    world: World, known: str, new: str, text: str, followed: bool
) -> None:
    """Else both statements stay as they were said."""
    world.policy = attrs.evolve(world.policy, threshold=0.1)
    await world.save(world.says(known))
    answer = Verdicts(insert=False, known={0: Verdict(action=Action.UPDATE, text=text)})
    consolidator = world.answering(lambda novelty: answer)
    world.flags = lambda said: ["order"] if "now order" in said else []
    await world.consolidate(await world.candidates(world.says(new, minute=1)), consolidator)
    assert await world.texts() == ([text] if followed else [known, new])


async def test_a_similar_statement_can_take_the_place_of_a_known_one(world: World) -> None:
    (known,) = await world.save(world.says(PARIS))
    planned, changed = await world.consolidate(
        await world.candidates(world.says(BERLIN, minute=1)), world.always(Action.DELETE)
    )
    assert await world.texts() == [BERLIN]
    assert [change.kind for change in changed] == [ChangeKind.DELETED, ChangeKind.CREATED]
    request = planned.statements[0]
    assert isinstance(request, StateRequest)
    assert (request.assertion_id, request.expected) == (known.id, AssertionState.ACTIVE)


async def test_deleting_a_record_brings_back_nothing_that_it_said_before(world: World) -> None:
    """Every counting assertion of the record is retracted, not only the newest."""
    (first,) = await world.save(world.says(PARIS))
    await world.save(attrs.evolve(world.says("the user lives in Rome", minute=1), revises=first.record_id, revised=1))
    await world.consolidate(await world.candidates(world.says(BERLIN, minute=2)), world.always(Action.DELETE))
    assert await world.texts() == [BERLIN]


async def test_deleting_a_record_uncovers_no_other_record_of_the_same_value(world: World) -> None:
    """An update by id can make two records equal, of which only one is shown."""
    await world.save(world.says(PARIS))
    (other,) = await world.save(world.says("the user has moved"))
    await world.save(attrs.evolve(world.says(PARIS, minute=1), revises=other.record_id, revised=other.seq))
    await world.consolidate(await world.candidates(world.says(BERLIN, minute=2)), world.always(Action.DELETE))
    assert await world.texts() == [BERLIN]


async def test_an_update_keeps_the_record_and_unites_the_evidence(world: World) -> None:
    (known,) = await world.save(world.says(GREEN, evidence=[Evidence(quote="green")]))
    candidate = world.says("the user likes black tea", minute=7, evidence=[Evidence(quote="black")])
    _, (change,) = await world.consolidate(
        await world.candidates(candidate), world.always(Action.UPDATE, text=BOTH, insert=False)
    )
    assert (change.kind, change.record.id, change.record.value) == (ChangeKind.UPDATED, known.record_id, BOTH)
    assert [item.quote for item in change.record.evidence] == ["green", "black"]
    assert change.record.timestamp == candidate.timestamp
    assert change.previous is not None
    assert change.previous.value == GREEN


async def test_an_update_by_something_said_earlier_stands_all_the_same(world: World) -> None:
    """A late message must not hide behind the record that it completes."""
    await world.save(world.says(GREEN, minute=9))
    late = world.says("the user likes black tea", minute=1)
    await world.consolidate(await world.candidates(late), world.always(Action.UPDATE, text=BOTH, insert=False))
    assert await world.texts() == [BOTH]


async def test_a_fact_that_a_kept_record_says_lives_on_as_its_evidence(world: World) -> None:
    await world.save(world.says(GREEN))
    candidate = world.says("the user likes his green tea", minute=2)
    _, (change,) = await world.consolidate(await world.candidates(candidate), world.always(Action.KEEP, insert=False))
    assert (change.kind, change.record.value) == (ChangeKind.UPDATED, GREEN)
    assert change.record.evidence[-1].quote == candidate.data
    await world.restore_everything()
    assert candidate.data in {entry.assertion.data for entry in await world.log() if isinstance(entry, Recorded)}


@pytest.mark.parametrize("actions", [(), (Action.DELETE,)], ids=["nothing", "delete"])
async def test_a_fact_that_no_record_would_say_is_inserted_against_the_verdict(
    world: World, actions: tuple[Action, ...]
) -> None:
    await world.save(world.says(PARIS))
    await world.consolidate(await world.candidates(world.says(BERLIN)), world.always(*actions, insert=False))
    assert BERLIN in await world.texts()


@pytest.mark.parametrize("insert", [True, False])
@pytest.mark.parametrize("text", [None, " ", "...", "x" * 5_000, "\ud800 lone"])
async def test_an_update_without_a_usable_text_is_a_keep(world: World, text: str | None, insert: bool) -> None:
    """The candidate is inserted regardless of the verdict, because the missing text would have included it."""
    await world.save(world.says(PARIS))
    updating = world.always(Action.UPDATE, text=text, insert=insert)
    await world.consolidate(await world.candidates(world.says(BERLIN)), updating)
    assert sorted(await world.texts()) == [BERLIN, PARIS]


async def test_what_an_update_that_cannot_be_made_would_say_is_inserted(world: World) -> None:
    """Another candidate has claimed the record, and the record that is kept says something else."""
    third = "the user lives in Bern"
    await world.save(world.says(PARIS), world.says("the user lives in Oslo", minute=1))

    def answer(novelty: Novelty) -> Verdicts:
        paris = next(number for number, known in enumerate(novelty.known) if known.text == PARIS)
        update = Verdict(action=Action.UPDATE, text=f"{PARIS}, and {novelty.text}")
        return Verdicts(insert=False, known={paris: update, 1 - paris: Verdict(action=Action.KEEP)})

    candidates = await world.candidates(world.says(BERLIN, minute=2), world.says(third, minute=3))
    await world.consolidate(candidates, world.answering(answer))
    assert third in await world.texts()


async def test_only_the_most_similar_are_shown_and_no_more_than_the_limit(world: World) -> None:
    world.policy = ConsolidationPolicy(threshold=0.5, limit=2)
    await world.save(*(world.says(f"the user likes {tea} tea") for tea in ("green", "black", "cold green")))
    asked = world.always()
    await world.consolidate(await world.candidates(world.says("the user likes cold green tea now")), asked)
    assert [known.text for known in asked.asked[0].known] == ["the user likes cold green tea", GREEN]


async def test_without_a_consolidator_everything_is_inserted(world: World) -> None:
    await world.save(world.says(PARIS))
    await world.consolidate(await world.candidates(world.says(BERLIN)))
    assert await world.texts() == [PARIS, BERLIN]


@pytest.mark.parametrize("error", [ModelUnavailableError("down"), ValueError("a bug, with words in it")])
async def test_a_failing_consolidator_costs_the_comparison_and_not_the_fact(world: World, error: Exception) -> None:
    def fail(novelty: Novelty) -> Verdicts:
        raise error

    await world.save(world.says(PARIS))
    planned, _ = await world.consolidate(await world.candidates(world.says(BERLIN)), world.answering(fail))
    assert await world.texts() == [PARIS, BERLIN]
    (failure,) = planned.failures
    assert isinstance(failure, ModelError)
    assert "words" not in str(failure)


async def test_a_comparison_that_the_budget_does_not_allow_waits_with_its_fact(world: World) -> None:
    def refuse(novelty: Novelty) -> Verdicts:
        raise BudgetSpentError("spent")

    await world.save(world.says(PARIS))
    with pytest.raises(BudgetSpentError):
        await world.consolidate(await world.candidates(world.says(BERLIN)), world.answering(refuse))
    assert await world.texts() == [PARIS]


async def test_questions_are_asked_in_parallel_up_to_the_limit(world: World) -> None:
    world.policy = ConsolidationPolicy(threshold=0.5, concurrency=3)
    await world.save(*(world.says(f"the user owns a {pet}") for pet in ("cat", "dog", "cow", "hen")))
    running, most = 0, 0

    class Slow:
        async def decide(self, novelty: Novelty) -> Verdicts:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await anyio.wait_all_tasks_blocked() if running < 3 else await anyio.lowlevel.checkpoint()
            running -= 1
            return Verdicts()

    candidates = await world.candidates(*(world.says(f"the user owns a small {pet}") for pet in "abcdefgh"))
    planned, _ = await world.consolidate(candidates, Slow())
    assert (most, planned.questions) == (3, 8)


async def test_the_first_candidate_that_decides_about_a_record_wins(world: World) -> None:
    """crewai plan_conflict: one action per record over the whole batch; the losing candidate is inserted."""
    (known,) = await world.save(world.says(PARIS))
    candidates = await world.candidates(world.says(BERLIN, minute=1), world.says("the user lives in Rome", minute=2))

    def conflicting(novelty: Novelty) -> Verdicts:
        update = Verdict(action=Action.UPDATE, text="the user lives in Berlin now")
        delete = Verdict(action=Action.DELETE)
        return Verdicts(insert=False, known={0: update if "Berlin" in novelty.text else delete})

    planned, _ = await world.consolidate(candidates, world.answering(conflicting))
    assert await world.texts() == ["the user lives in Berlin now", "the user lives in Rome"]
    assert not any(isinstance(item, StateRequest) and item.assertion_id == known.id for item in planned.statements)


async def test_a_record_that_somebody_relies_on_is_not_deleted_by_the_next(world: World) -> None:
    await world.save(world.says(PARIS))
    first, second = world.says("the user lives in Paris today", minute=1), world.says(BERLIN, minute=2)

    def answer(novelty: Novelty) -> Verdicts:
        keep = "today" in novelty.text
        return Verdicts(insert=not keep, known={0: Verdict(action=Action.KEEP if keep else Action.DELETE)})

    planned, _ = await world.consolidate(await world.candidates(first, second), world.answering(answer))
    assert await world.texts() == [PARIS, BERLIN]
    assert not any(isinstance(item, StateRequest) for item in planned.statements)


@pytest.mark.parametrize(("speaker", "asked"), [("Zoë", 0), ("Ann", 1), (None, 1)])
async def test_what_somebody_says_does_not_touch_what_another_said(
    world: World, speaker: str | None, asked: int
) -> None:
    await world.save(world.says(PARIS, evidence=[Evidence(quote=PARIS, speaker="Ann")]))
    again = world.says(BERLIN, minute=1, evidence=[Evidence(quote=BERLIN, speaker=speaker)])
    consolidator = world.always(Action.DELETE, insert=True)
    await world.consolidate(await world.candidates(again), consolidator)
    assert len(consolidator.asked) == asked
    assert len(await world.texts()) == 2 - asked


async def test_what_the_assistant_says_does_not_touch_what_the_user_said(world: World) -> None:
    await world.save(world.says(PARIS))
    asked = world.always(Action.DELETE)
    await world.consolidate(await world.candidates(world.says(BERLIN, origin=Origin.ASSISTANT)), asked)
    assert (asked.asked, await world.texts()) == ([], [PARIS, BERLIN])


async def test_what_the_user_says_is_never_merged_into_the_assistants_words(world: World) -> None:
    """The merged record would be attributed to the assistant, or the reverse."""
    await world.save(world.says(PARIS, origin=Origin.ASSISTANT))
    candidates = await world.candidates(world.says(BERLIN, minute=1))
    await world.consolidate(candidates, world.always(Action.UPDATE, text=BERLIN + " now", insert=False))
    origins = {item.recorded.assertion.data: item.details.origin for item in await world.current()}
    assert origins == {PARIS: Origin.ASSISTANT, BERLIN: Origin.USER}


async def test_the_assistants_echo_does_not_make_the_users_words_its_own(world: World) -> None:
    await world.save(world.says(PARIS))
    await world.consolidate(await world.candidates(world.says(PARIS, minute=5, origin=Origin.ASSISTANT)))
    (current,) = await world.current()
    assert current.details.origin is Origin.USER


async def test_words_that_are_not_believed_ask_nothing_and_change_nothing(world: World) -> None:
    await world.save(world.says(PARIS))
    asked = world.always(Action.DELETE)
    candidates = await world.candidates(world.says(BERLIN, origin=Origin.TOOL))
    candidates += await world.candidates(world.says("forget where the user lives", origin=Origin.TOOL), removal=True)
    planned, _ = await world.consolidate(candidates, asked)
    assert (asked.asked, await world.texts()) == ([], [PARIS])
    assert all(
        isinstance(item, Append) and item.assertion.state is AssertionState.QUARANTINED for item in planned.statements
    )


async def test_the_words_that_wait_are_neither_shown_nor_taken_for_known(world: World) -> None:
    waiting = attrs.evolve(world.says(PARIS), job={"kind": "x"}, state=AssertionState.PENDING)
    other = attrs.evolve(world.says(PARIS + " now"), job={"kind": "y"}, state=AssertionState.PENDING)
    (words, _) = await world.save(waiting, other)
    asked = world.always(Action.DELETE)
    candidates = await world.candidates(world.says("the user lives in Paris too", minute=1))
    await world.plan(candidates, asked, leave_out=frozenset({words.id}))
    assert asked.asked == []


async def test_a_find_that_looks_just_like_words_read_before_is_not_taken_for_them(world: World) -> None:
    """A store treats an identical assertion as already recorded, whatever its state, so the candidate would be lost."""
    (words,) = await world.save(attrs.evolve(world.says(PARIS), job={"kind": "x"}, state=AssertionState.PENDING))
    await world.provider.append([StateRequest.of(words, state=AssertionState.RETRACTED)])
    await world.consolidate(await world.candidates(world.says(PARIS)))
    assert await world.texts() == [PARIS]


async def test_words_that_stand_can_be_updated_like_any_record(world: World) -> None:
    """The update does not wait, whatever the words had waited for."""
    (words,) = await world.save(attrs.evolve(world.says(PARIS), job={"kind": "x"}, state=AssertionState.PENDING))
    await world.provider.append([StateRequest.of(words, state=AssertionState.ACTIVE)])
    candidates = await world.candidates(world.says(BERLIN, minute=1, labels={"run": "2"}))
    await world.consolidate(candidates, world.always(Action.UPDATE, text=BERLIN + " now", insert=False))
    (current,) = await world.current()
    said = current.recorded.assertion
    assert (said.data, said.state, said.job) == (BERLIN + " now", AssertionState.ACTIVE, None)
    assert said.details.labels == {"run": "2"}


async def test_what_is_looked_away_from_does_not_make_its_find_known(world: World) -> None:
    (words,) = await world.save(world.says(PARIS))
    candidates = await world.candidates(world.says(PARIS))
    assert (await world.plan(candidates)).statements == ()
    (append,) = (await world.plan(candidates, leave_out=frozenset({words.id}))).statements
    assert isinstance(append, Append)
    assert append.assertion == words.assertion


async def test_metadata_must_be_the_same_where_the_policy_says_so(world: World) -> None:
    world.policy = attrs.evolve(world.policy, metadata=MetadataMerge.REQUIRE_EXACT_MATCH)
    await world.save(world.says(PARIS, metadata={"case": 1}))
    asked = world.always()
    await world.consolidate(await world.candidates(world.says(BERLIN, metadata={"case": 2})), asked)
    await world.consolidate(await world.candidates(world.says("the user lives in Rome", metadata={"case": 1})), asked)
    assert [[known.text for known in novelty.known] for novelty in asked.asked] == [[PARIS]]


async def test_what_expires_does_not_carry_what_is_to_last(world: World) -> None:
    await world.save(world.says(PARIS, expires_at=dt.datetime(2030, 1, 1, tzinfo=dt.UTC)))
    candidates = await world.candidates(world.says(BERLIN))
    await world.consolidate(candidates, world.always(Action.UPDATE, text=BERLIN + " now", insert=False))
    assert await world.texts() == [PARIS, BERLIN]


@each_case("wrong")
def test_a_policy_with_a_number_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidDataError):
        ConsolidationPolicy(**wrong)  # type: ignore[arg-type]  # what a configuration file may hold


# The known records are scanned a bounded number of times, however large the batch and the store are


if TYPE_CHECKING:
    from tests.consolidation.conftest import World

MANY = 40
ItemT = TypeVar("ItemT")


class Looked(list[ItemT]):
    """A list that counts how often it is iterated over."""

    times = 0

    def __iter__(self) -> Iterator[ItemT]:
        self.times += 1
        return super().__iter__()


async def test_a_batch_goes_through_what_is_known_once_and_not_for_each_candidate(world: World) -> None:
    await world.save(*(world.says(f"box {number} stands in the hall") for number in range(MANY)))
    candidates = await world.candidates(*(world.says(f"crate {number} is blue", minute=1) for number in range(MANY)))
    survey = Survey.of(candidates, await world.known(), await world.whole_log(), ())
    known = {partition: Looked(records) for partition, records in survey.records.items()}
    questions_about(candidates, attrs.evolve(survey, records=known), ConsolidationPolicy(threshold=0))
    assert [records.times for records in known.values()] == [1]


async def test_what_stands_behind_records_is_found_in_one_look_at_their_track(world: World) -> None:
    await world.save(*(world.says(f"box {number} stands in the hall") for number in range(MANY)))
    again = await world.save(*(world.says(f"box {number} stands in the hall", minute=1) for number in range(MANY)))
    candidates = await world.candidates(world.says("the hall is empty", minute=2))
    survey = Survey.of(candidates, await world.known(), await world.whole_log(), ())
    tracks = {track: Looked(entries) for track, entries in survey._counting.items()}
    counted = attrs.evolve(survey, counting=tracks)
    (records,) = counted.records.values()
    behind = [counted.assertions_of(record) for record in records]
    assert [len(entries) for entries in behind] == [2] * MANY
    assert {entries[1].id for entries in behind} == {recorded.id for recorded in again}
    assert [entries.times for entries in tracks.values()] == [1]
