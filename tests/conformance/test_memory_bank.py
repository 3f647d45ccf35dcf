"""Memory Bank, by the rows of the study's table.

The other rows, and what is otherwise here, are in ``docs/pages/explanation/comparison-rows.md``.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import attrs
import pytest

from factmem import ChangeKind, Concept, InMemoryProvider, Memory, SingleFact, TtlPolicy
from factmem.abc import DetectionRequest
from factmem.abc.consolidator import Action, Novelty, Verdict, Verdicts
from factmem.abc.topics import MANAGED_TOPICS
from factmem.consolidation import ConsolidationPolicy
from factmem.errors import RecordNotFoundError
from factmem.facts import STATEMENT
from factmem.memory import concepts_of
from factmem.memory.journal import Job, JobKind
from factmem.records import AssertionState, MetadataMerge
from factmem.testing import FakeClock, HashEmbedder, ScriptedModel
from tests.memory.telling import BEGAN, CITY, PETS, USER, Gated, opened, said, talk, well, words

DAY = dt.timedelta(days=1)
OLD, NEW = "The project is led by Ana from Lyon.", "The project is led by Ana from Faro."


@attrs.define
class Doing:
    """A consolidator that decides the same about every known record."""

    action: Action

    async def decide(self, novelty: Novelty) -> Verdicts:
        verdict = Verdict(action=self.action, text=novelty.text if self.action is Action.UPDATE else None)
        return Verdicts(insert=self.action is Action.DELETE, known=dict.fromkeys(range(len(novelty.known)), verdict))


@attrs.frozen(kw_only=True)
class Profile:
    city: str | None = None
    seats: int | None = None
    pets: list[str] = attrs.field(factory=list)


def statement(text: str, minute: int = 0) -> Any:
    return STATEMENT.fact([text], timestamp=BEGAN + dt.timedelta(minutes=minute))


def bank(clock: FakeClock, **options: Any) -> Memory:
    return Memory(InMemoryProvider(clock=clock), embedder=HashEmbedder(), clock=clock, **options)


def test_memory_banks_four_topics_are_managed() -> None:
    labels = {"personal information", "preferences", "key conversation details", "explicit instructions"}
    assert labels <= {topic.label for topic in MANAGED_TOPICS}


async def test_scope_memories_of_another_scope_are_neither_consolidated_nor_loaded() -> None:
    """The scope matches exactly, including its case; an update without a scope moves nothing."""
    async with opened(InMemoryProvider(), consolidator=Doing(Action.UPDATE)) as memory:
        for scope in ("/app/Maya", "/app/maya", "/app/maya/x"):
            await (await memory.generate([statement(OLD), CITY.fact([scope], timestamp=BEGAN)], scope=scope)).wait()
        assert len(words(await memory.list_records())) == 3
        assert (city := await memory.load(CITY, scope="/app/maya")) is not None
        assert city.value == "/app/maya"
        (record, *_) = await memory.list_records(scope="/app/Maya")
        assert (await memory.update(record.id, importance=0.9)).record.scope == record.scope


async def test_customization_without_natural_language_there_are_typed_facts_only() -> None:
    """``disable_natural_language_memories``: a request for concepts alone returns facts alone."""
    request = DetectionRequest(subjects=[USER], concepts=[CITY, PETS])
    async with opened(InMemoryProvider(), ScriptedModel(well)) as memory:
        source = talk("I live in Oslo.", "I have a cat.", "It rains.")
        await (await memory.generate(source, subject=USER, looking_for=request)).wait()
        assert said(await memory.list_records()) == ["Oslo", "cat"]
        assert await memory.list_records(concepts=[STATEMENT]) == []


@pytest.mark.parametrize(
    ("action", "kinds"),
    [(Action.UPDATE, [ChangeKind.UPDATED]), (Action.DELETE, [ChangeKind.DELETED, ChangeKind.CREATED])],
)
async def test_result_says_created_updated_and_deleted_with_the_previous_revision(
    action: Action, kinds: list[ChangeKind]
) -> None:
    async with opened(InMemoryProvider(), consolidator=Doing(action)) as memory:
        (outcome,) = await (await memory.generate([statement(OLD)])).wait()
        (created,) = outcome.changes
        assert (created.kind, created.previous) == (ChangeKind.CREATED, None)
        (outcome,) = await (await memory.generate([statement(NEW, 1)])).wait()
        assert [change.kind for change in outcome.changes] == kinds
        first = outcome.changes[0]
        assert first.record.id == created.record.id
        assert (first.previous or first.record).value == OLD


async def test_result_a_deleted_memory_is_not_found_and_can_be_restored_for_ever() -> None:
    """Memory Bank keeps it for 48 hours. Here its history shows it as retracted until it is erased."""
    clock = FakeClock()
    async with bank(clock) as memory:
        (record,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=clock()))
        await memory.retract(record.id)
        with pytest.raises(RecordNotFoundError):
            await memory.get(record.id)
        clock.advance(400 * DAY)
        assert [item.state for item in await memory.history(CITY)] == [AssertionState.RETRACTED]
        await memory.restore(record.id)
        assert (await memory.get(record.id)).value == "Oslo"


async def test_operation_every_kind_of_source_is_on_disk_before_it_is_waited_for() -> None:
    """``wait_for_completion`` is optional: without it the operation continues, and reads return the words."""
    model = Gated()
    async with opened(InMemoryProvider(), model) as memory:
        submissions = [
            await memory.generate(talk("I live in Oslo."), subject=USER),
            await memory.inbox.ingest_events("s", talk("I have a cat.", id="s").messages, subject=USER),
        ]
        assert [submission.pending for submission in submissions] == [1, 1]
        assert words(await memory.list_records()) == ["I have a cat.", "I live in Oslo."]
        model.gate.set()
    assert [submission.pending for submission in submissions] == [0, 0]


async def test_retrieve_gives_as_many_as_are_asked_for_best_first() -> None:
    """Memory Bank returns 3 by default and at most 100."""
    async with opened(InMemoryProvider()) as memory:
        facts = [statement(f"Fact number {number} is about bees.", number) for number in range(120)]
        await (await memory.generate(facts)).wait()
        assert len(await memory.recall("bees")) == 10
        matches = await memory.recall("bees", limit=150)
        assert len(matches) == 120
        scores = [match.score for match in matches]
        assert scores == sorted(scores, reverse=True)
        assert 0 <= scores[-1] <= scores[0] <= 1


async def test_filters_free_statements_and_typed_facts_are_told_apart_by_concept() -> None:
    """``memory_types``."""
    async with opened(InMemoryProvider()) as memory:
        await (await memory.generate([statement(OLD), CITY.fact(["Oslo"], timestamp=BEGAN)])).wait()
        assert said(await memory.list_records(concepts=[STATEMENT])) == [OLD]
        assert said(await memory.list_records(concepts=concepts_of(Profile))) == ["Oslo"]


@pytest.mark.parametrize("value", [True, 2.5, "a text", BEGAN], ids=["bool", "double", "string", "timestamp"])
async def test_metadata_has_memory_banks_kinds_of_values(value: Any) -> None:
    """A time is kept as text and compared as a time."""
    async with opened(InMemoryProvider()) as memory:
        (outcome,) = await (await memory.generate([statement(OLD)], metadata={"key": value})).wait()
        (kept,) = outcome.records
        found = kept.details.metadata["key"]
        assert (dt.datetime.fromisoformat(str(found)) if isinstance(value, dt.datetime) else found) == value


async def test_revisions_can_be_done_without() -> None:
    """``disable_memory_revisions``: superseded revisions are erased, and current records stay."""
    clock = FakeClock()
    async with bank(clock) as memory:
        for city in ("Oslo", "Rome", "Bergen"):
            await memory.save(SingleFact(CITY, city, timestamp=clock()), subject=USER)
            clock.advance(DAY)
        assert (await memory.admin.expire(revisions=dt.timedelta(seconds=1))).superseded == 2
        assert [item.value for item in await memory.history(CITY)] == ["Bergen"]


async def test_revisions_tell_what_they_came_from() -> None:
    """``extracted_memories``: the evidence of every revision quotes the words it came from."""
    async with opened(InMemoryProvider(), ScriptedModel(well)) as memory:
        await (await memory.generate(talk("I live in Oslo.", id="a"), subject=USER, looking_for=_of(CITY))).wait()
        later = talk("Well, actually it is Rome.", id="b", start=BEGAN + DAY)
        await (await memory.generate(later, subject=USER, looking_for=_of(CITY))).wait()
        revisions = [(item.value, item.evidence[0].conversation_id) for item in await memory.history(CITY)]
    assert revisions == [("Oslo", "a"), ("Rome", "b")]


async def test_profiles_detection_fills_the_schema_that_it_is_asked_for() -> None:
    """``retrieve_profiles``: by subject and scope, without a query; fields without a fact are empty."""
    async with opened(InMemoryProvider(), ScriptedModel(well)) as memory:
        assert await memory.profile(Profile, subject=USER) == Profile()
        request = DetectionRequest(subjects=[USER], concepts=concepts_of(Profile))
        source = talk("I live in Oslo.", "We booked 12 seats.", "I have a cat.", "I have a dog.")
        await (await memory.generate(source, subject=USER, looking_for=request)).wait()
        assert await memory.profile(Profile, subject=USER) == Profile(city="Oslo", seats=12, pets=["cat", "dog"])
        assert await memory.profile(Profile, subject=USER, scope="/product/other") == Profile()


async def test_adk_gaps_what_is_found_has_an_id_and_can_be_limited_and_deleted() -> None:
    async with opened(InMemoryProvider()) as memory:
        await (await memory.generate([statement(OLD), statement(NEW)])).wait()
        (match,) = await memory.recall("Who leads the project?", limit=1)
        await memory.forget(match.record.id)
        assert len(await memory.list_records()) == 1


async def test_contradiction_1_metadata_is_merged_unless_somebody_says_otherwise() -> None:
    """One page says MERGE, another OVERWRITE. Here generation, events, updates and consolidation all merge."""
    assert Job(id="stream:x", kind=JobKind.DETECT).merge is MetadataMerge.MERGE
    assert ConsolidationPolicy().metadata is MetadataMerge.MERGE
    async with opened(InMemoryProvider(), consolidator=Doing(Action.UPDATE)) as memory:
        await (await memory.generate([statement(OLD)], metadata={"a": 1, "b": 1})).wait()
        (outcome,) = await (await memory.generate([statement(NEW, 1)], metadata={"b": 2})).wait()
        (record,) = outcome.records
        assert (record.value, record.details.metadata) == (NEW, {"a": 1, "b": 2})
        change = await memory.update(record.id, metadata={"c": 3})
        assert change.record.details.metadata == {"a": 1, "b": 2, "c": 3}
    assert "two defaults" in (MetadataMerge.__doc__ or "")


async def test_contradiction_2_what_is_looked_for_is_not_picked_by_a_scopes_keys() -> None:
    """The guide requires them to match exactly, the SDK to be included.

    Here two calls at one scope each use their own request.
    """
    async with opened(InMemoryProvider(), ScriptedModel(well)) as memory:
        for number, concept in enumerate((CITY, PETS)):
            source = talk("I live in Oslo.", "I have a cat.", id=str(number))
            await (await memory.generate(source, subject=USER, scope="/app/x", looking_for=_of(concept))).wait()
            assert len(await memory.list_records(scope="/app/x", exact=True)) == number + 1
    assert "scope_keys" in (DetectionRequest.__doc__ or "")


def test_contradiction_3_a_default_and_single_operations_may_both_have_a_time_to_live() -> None:
    """``granular_ttl`` on a page and ``granular_ttl_config`` in the SDK are fields of one policy here."""
    policy = TtlPolicy(default=9 * DAY, create=DAY, generate_created=2 * DAY, generate_updated=3 * DAY, revisions=DAY)
    assert (policy.default, policy.create, policy.generate_updated) == (9 * DAY, DAY, 3 * DAY)
    assert "granular_ttl_config" in (TtlPolicy.__doc__ or "")


def _of(concept: Concept[Any, Any]) -> DetectionRequest:
    return DetectionRequest(subjects=[USER], concepts=[concept])
