"""Generation of memories: from messages, ready facts or a stored session, with every option."""

from __future__ import annotations

import datetime as dt
import types
from typing import Any

import attrs
import pydantic
import pytest

from factmem import STATEMENT, AgentMemoryProvider, ChangeKind, InMemoryProvider, Message, Remembered, Topic, TtlPolicy
from factmem.abc import DetectionRequest, Prompt
from factmem.abc.consolidator import Action
from factmem.abc.topics import EXPLICIT_INSTRUCTIONS, MANAGED_TOPICS
from factmem.details import MetadataMerge
from factmem.errors import InvalidDataError, OutOfViewError, ReadOnlyError, RecordNotFoundError
from factmem.memory.facade import Memory
from factmem.memory.submitted import ReadyFact, StoredSession
from factmem.records import AssertionState
from factmem.testing import FakeClock, ScriptedModel
from tests.memory.telling import (
    BEGAN,
    CITY,
    FOUND_ALONE,
    PETS,
    SEATS,
    USER,
    Deciding,
    Gated,
    log_of,
    opened,
    said,
    talk,
    until,
    well,
    words,
)
from tests.narrowing import not_none
from tests.tables import each_case

HOUR = dt.timedelta(hours=1)
OLD, NEW = "The user works in the old office in Lyon.", "The user works in the new office in Lyon."


CITY_FACT = CITY.fact(["Oslo"], timestamp=BEGAN)


def statement(text: str, minute: int = 0) -> Any:
    return STATEMENT.fact([text], timestamp=BEGAN + dt.timedelta(minutes=minute))


async def generated(memory: Memory, source: Any, **options: Any) -> tuple[Remembered, ...]:
    given: dict[str, Any] = {"subject": USER, **options}
    return await (await memory.generate(source, **given)).wait()


async def test_it_is_a_long_running_operation_that_can_be_awaited_or_left(provider: AgentMemoryProvider) -> None:
    model = Gated()
    request = DetectionRequest(subjects=[USER], concepts=[CITY, SEATS, PETS])
    async with opened(provider, model) as memory:
        submission = await memory.generate(talk("I live in Oslo."), subject=USER, looking_for=request)
        await until(lambda: model.under_way == 1)
        assert submission.pending == 1
        model.gate.set()
        (outcome,) = await submission.wait()
        assert [(change.kind, change.record.value) for change in outcome.changes] == [(ChangeKind.CREATED, "Oslo")]


async def test_messages_alone_give_memories_of_the_managed_topics() -> None:
    """Managed topics are the default of a request; labels become topics of the memory."""

    def script(prompt: Prompt, answer: Any) -> dict[str, Any]:
        item = {"quote": "I take tea, never coffee", "message": 1, "memory": "The user takes tea, never coffee."}
        return {"memories": [item | {"topics": ["preferences"]}], "remember": [], "forget": []}

    model = ScriptedModel(script)
    async with opened(InMemoryProvider(), model) as memory:
        (outcome,) = await generated(memory, [Message(content="I take tea, never coffee.", id="1", timestamp=BEGAN)])
        (record,) = await memory.list_records(topics=["preferences"])
        assert outcome.records == (record,)
        assert (record.details.topics, record.evidence[0].message_id) == (("preferences",), "1")
    asked = model.prompts[0].content
    assert [topic for topic in MANAGED_TOPICS if topic.label not in asked] == [EXPLICIT_INSTRUCTIONS]


async def test_the_request_says_which_topics_are_allowed() -> None:
    """A memory of another topic is dropped, and counted."""
    item = {"quote": "I take tea", "message": 1, "memory": "The user takes tea."}
    model = ScriptedModel(lambda prompt, answer: {"memories": [item | {"topics": ["gossip"]}]})
    request = DetectionRequest(subjects=[USER], topics=[Topic("food", "what they eat"), Topic("work")])
    async with opened(InMemoryProvider(), model) as memory:
        (outcome,) = await generated(memory, talk("I take tea."), looking_for=request)
        assert (outcome.records, sum(outcome.dropped.values())) == ((), 1)
    assert '<topic label="food">what they eat</topic>' in model.prompts[0].content
    assert "preferences" not in model.prompts[0].content


async def test_nothing_to_remember_is_a_success() -> None:
    async with opened(InMemoryProvider(), ScriptedModel(lambda prompt, answer: {})) as memory:
        (outcome,) = await generated(memory, talk("Hello there."))
        assert outcome == Remembered()
        assert await memory.list_records() == []


async def test_any_number_of_ready_facts_is_taken(provider: AgentMemoryProvider) -> None:
    """Typed and free facts go in one operation, without a call of the model; Memory Bank takes five."""
    facts = [
        *(statement(f"Fact number {number} is about {number * 7} bees.", number) for number in range(12)),
        SEATS.fact([12], timestamp=BEGAN),
        PETS.fact(["cat", "dog"], timestamp=BEGAN),
    ]
    model = ScriptedModel(well)
    async with opened(provider, model) as memory:
        (outcome,) = await generated(memory, facts)
        assert len(outcome.records) == len(outcome.changes) == 15
        assert len(words(await memory.list_records())) == 12
        assert not_none(await memory.load(PETS, subject=USER)).values == ("cat", "dog")
        (again,) = await generated(memory, facts)
        assert again.changes == ()
    assert not [prompt for prompt in model.prompts if "<conversation>" in prompt.content]
    assert (await log_of(provider))[1][AssertionState.PENDING] == 0


async def test_a_stored_session_is_read_in_part_or_whole(provider: AgentMemoryProvider) -> None:
    """A session kept verbatim by an earlier process is read between two times; its messages are unchanged."""
    lines = ["I live in Oslo.", "We booked 12 seats.", "I have a cat."]
    request = DetectionRequest(subjects=[USER], concepts=[CITY, SEATS, PETS])
    async with opened(provider) as memory:
        await memory.remember(talk(*lines, id="s"), subject=USER)
        await memory.remember(talk("I have a dog.", id="other"), subject=USER)
    async with opened(provider, ScriptedModel(well)) as memory:
        some = StoredSession(id="s", since=BEGAN + dt.timedelta(minutes=1), until=BEGAN + dt.timedelta(minutes=2))
        (outcome,) = await generated(memory, some, looking_for=request)
        assert [change.record.value for change in outcome.changes] == [12]
        await generated(memory, StoredSession(id="s"), looking_for=request)
        typed = await memory.list_records(concepts=[CITY, SEATS, PETS])
        assert said(typed) == [12, "Oslo", "cat"]
        assert words(await memory.list_records()) == sorted([*lines, "I have a dog."])
        with pytest.raises(RecordNotFoundError):
            await memory.generate(StoredSession(id="nowhere"), subject=USER)
        with pytest.raises(RecordNotFoundError):
            await memory.view(viewer="bob").generate(StoredSession(id="s"), subject=USER, scope="/product/alpha")


async def test_with_consolidation_a_similar_memory_is_updated_and_without_it_created(
    provider: AgentMemoryProvider,
) -> None:
    merging = Deciding(Action.UPDATE, insert=False)
    async with opened(provider, consolidator=merging) as memory:
        await generated(memory, [statement(OLD)])
        (outcome,) = await generated(memory, [statement(NEW, 1)])
        (change,) = outcome.changes
        assert (change.kind, change.record.value) == (ChangeKind.UPDATED, NEW)
        assert not_none(change.previous).value == OLD
        (outcome,) = await generated(memory, [statement(OLD, 2)], consolidate=False)
        assert [change.kind for change in outcome.changes] == [ChangeKind.CREATED]
        assert words(await memory.list_records()) == [NEW, OLD]
    assert len(merging.asked) == 1


@each_case("merge", "metadata")
async def test_metadata_joins_as_was_said(merge: str, metadata: dict[str, int] | None) -> None:
    """Without the required exact match, the record is unchanged and the new one is created."""
    async with opened(InMemoryProvider(), consolidator=Deciding(Action.UPDATE, insert=False)) as memory:
        await generated(memory, [statement(OLD)], metadata={"a": 1, "b": 1})
        (outcome,) = await generated(memory, [statement(NEW, 1)], metadata={"b": 2, "c": 3}, merge=MetadataMerge[merge])
        (change,) = outcome.changes
        if metadata is None:
            assert change.kind is ChangeKind.CREATED
            assert words(await memory.list_records()) == [NEW, OLD]
        else:
            assert (change.kind, change.record.details.metadata) == (ChangeKind.UPDATED, metadata)


async def test_labels_belong_to_the_revisions_that_this_makes() -> None:
    async with opened(InMemoryProvider(), consolidator=Deciding(Action.UPDATE, insert=False)) as memory:
        await generated(memory, [statement(OLD)], labels={"run": "1"})
        await generated(memory, [statement(NEW, 1)], labels={"run": "2"})
        for label, value, state in (("1", OLD, AssertionState.SUPERSEDED), ("2", NEW, AssertionState.ACTIVE)):
            (revision,) = [
                item
                for item in await memory.history(STATEMENT, labels={"run": label})
                if item.state is not AssertionState.RETRACTED  # the words as submitted, which the update replaced
            ]
            assert (revision.value, revision.state) == (value, state)


async def test_what_is_generated_lasts_as_long_as_the_policy_says(clock: FakeClock) -> None:
    """Created records, and updated ones from the update on, use the policy's times; an explicit expiry wins."""
    policy = TtlPolicy(generate_created=HOUR, generate_updated=3 * HOUR)
    clock.set(BEGAN + 24 * HOUR)
    async with opened(
        InMemoryProvider(clock=clock),
        consolidator=Deciding(Action.UPDATE, insert=False),
        policies=attrs.evolve(FOUND_ALONE, ttl=policy),
        clock=clock,
    ) as memory:
        (outcome,) = await generated(memory, [statement(OLD)])
        created = not_none(outcome.records[0].details.expires_at)
        assert HOUR - dt.timedelta(seconds=9) < created - (BEGAN + 24 * HOUR) <= HOUR + dt.timedelta(seconds=9)
        (outcome,) = await generated(memory, [statement(NEW, 1)])
        clock.advance(2 * HOUR)
        assert words(await memory.list_records()) == [NEW]
        clock.advance(2 * HOUR)
        assert words(await memory.list_records()) == []
        given = clock() + 9 * HOUR
        (outcome,) = await generated(memory, [statement("Something else, about bees.")], expires_at=given)
        assert outcome.records[0].details.expires_at == given


@pytest.mark.parametrize(
    "source", [[], " ", [SEATS], [statement(OLD), Message(content="x")], [ReadyFact("x"), "x"], None]
)
async def test_what_is_no_source_is_refused_and_nothing_is_kept(source: Any) -> None:
    provider = InMemoryProvider()
    async with opened(provider, ScriptedModel(well)) as memory:
        with pytest.raises(InvalidDataError):
            await memory.generate(source)
        with pytest.raises(InvalidDataError):
            await memory.generate([Message(content="x"), statement(OLD)])
    async with opened(provider, ScriptedModel(well), read_only=True) as memory:
        with pytest.raises(ReadOnlyError):
            await memory.generate([statement(OLD)])
    assert not (await log_of(provider))[0]


async def test_a_session_kept_at_one_place_gives_memories_at_another(provider: AgentMemoryProvider) -> None:
    """They carry the details of this call; what was said stays where it is, and what it is about there."""
    session = StoredSession(id="s", subject="user", scope="/product/alpha")
    request = DetectionRequest(subjects=[USER.individual("alice")], concepts=[CITY])
    async with opened(provider) as memory:
        await memory.remember(talk("I live in Oslo.", id="s"), subject=USER, scope="/product/alpha", source="chat")
    async with opened(provider, ScriptedModel(well)) as memory:
        target: dict[str, Any] = {"subject": "user:alice", "scope": "/feature/trips"}
        with pytest.raises(RecordNotFoundError, match="StoredSession"):
            await memory.generate(StoredSession(id="s"), **target)
        given = {"looking_for": request, "metadata": {"run": 7}, "labels": {"run": "7"}}
        (outcome,) = await generated(memory, session, **target, **given)
        (record,) = outcome.records
        assert (record.value, str(record.subject), str(record.scope)) == ("Oslo", "user:alice", "/feature/trips")
        assert (record.details.metadata, record.details.labels) == ({"run": 7}, {"run": "7"})
        assert record.details.source == "chat"
        assert record.evidence[0].conversation_id == "s"
        (words_kept,) = await memory.list_records(scope="/product/alpha")
        assert words_kept.value == "I live in Oslo."
        with pytest.raises(OutOfViewError):
            await memory.scope("/feature/trips").generate(session, **target)


async def test_what_is_generated_may_be_erased_earlier_than_the_policy_says(clock: FakeClock) -> None:
    """``revision_ttl``: it counts from the call, and only once a later revision has superseded this one."""
    clock.set(BEGAN + 24 * HOUR)
    provider = InMemoryProvider(clock=clock)
    policies = attrs.evolve(FOUND_ALONE, ttl=TtlPolicy(revisions=99 * HOUR))
    async with opened(provider, ScriptedModel(well), clock=clock, policies=policies) as memory:
        for number, city in enumerate(("Oslo", "Rome", "Bern")):
            ttl = None if city == "Rome" else HOUR
            source = talk(f"I live in {city}.", id=city, start=BEGAN + number * HOUR)
            request = DetectionRequest(subjects=[USER], concepts=[CITY])
            await generated(memory, source, looking_for=request, revision_ttl=ttl)
        clock.advance(2 * HOUR)
        assert (await memory.admin.expire()).superseded == 1
        assert [item.value for item in await memory.history(CITY)] == ["Rome", "Bern"]
        with pytest.raises(InvalidDataError, match="ttl"):
            await memory.generate(talk("I live in Faro."), revision_ttl=dt.timedelta(0))


SPOKEN: Any = types.MappingProxyType({"role": "user", "parts": ({"text": "I live in Oslo."},)})


class Content(pydantic.BaseModel):
    """Content as Google's SDK has it."""

    role: str | None = None
    parts: list[dict[str, Any]] | None = None


@pytest.mark.parametrize(
    "source",
    [
        "I live in Oslo.",
        ["I live in Oslo.", "It rains."],
        [{"role": "user", "content": "I live in Oslo."}],
        SPOKEN,
        [SPOKEN, "It rains."],
        {"contents": "I live in Oslo."},
        {"contents": [SPOKEN]},
        {"events": [{"content": SPOKEN, "event_id": "e1"}]},
        Content(role="user", parts=[{"text": "I live in Oslo."}]),
        [Content(parts=[{"text": "I live in Oslo."}])],
        {"events": [{"content": Content(parts=[{"text": "I live in Oslo."}])}]},
    ],
)
async def test_words_in_every_form_are_read_by_the_model(source: Any) -> None:
    """Texts, dicts, contents and events of Memory Bank: dicts, other mappings, and the models of Google's SDK."""
    async with opened(InMemoryProvider(), ScriptedModel(well)) as memory:
        request = DetectionRequest(subjects=[USER], concepts=[CITY])
        (outcome,) = await generated(memory, source, looking_for=request)
        assert [change.record.value for change in outcome.changes] == ["Oslo"]


async def test_ready_facts_carry_topics(provider: AgentMemoryProvider) -> None:
    """Those of Memory Bank's ``direct_memories``: texts or typed facts, each with its own topics."""
    facts = [
        ReadyFact("Ana likes tea.", topics=["preferences"]),
        ReadyFact(SEATS.fact([12], timestamp=BEGAN)),
        CITY_FACT,
    ]
    async with opened(provider) as memory:
        (outcome,) = await generated(memory, facts)
        assert {record.value: record.details.topics for record in outcome} == {
            "Ana likes tea.": ("preferences",),
            12: (),
            "Oslo": (),
        }
        assert [record.value for record in await memory.list_records(topics=["preferences"])] == ["Ana likes tea."]
        with pytest.raises(InvalidDataError):
            ReadyFact("Ana likes tea.", topics="preferences")


async def test_a_value_of_several_conversations_is_refused() -> None:
    several = {"haystack_sessions": [[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]]}
    async with opened(InMemoryProvider()) as memory:
        with pytest.raises(InvalidDataError, match="expected one conversation, got 2"):
            await memory.generate(several)
