"""Words submitted once more, to look for something else in them: they are read again, and nothing else changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import anyio
import attrs
import pytest

from factmem import AgentMemoryProvider, Conversation, InMemoryProvider, Memory, MemorySubject, Message, Policies, Topic
from factmem.abc import DetectionRequest
from factmem.errors import ModelRefusedError
from factmem.memory import Trigger
from factmem.memory.background import Submission
from factmem.records import AssertionState
from factmem.testing import FakeClock, ScriptedModel
from tests.memory.shelves import Shelf
from tests.memory.telling import CITY, PETS, SEATS, USER, Gated, log_of, opened, said, talk, until, well

WORDS = ("I live in Oslo.", "I have a cat.", "We booked 12 seats.")
TALK = [Message(content=text, id=str(number)) for number, text in enumerate(WORDS)]


def looking_for(*concepts: Any, open: bool = False, **options: Any) -> DetectionRequest:
    return DetectionRequest(subjects=[USER], concepts=concepts, open=open, **options)


async def ingest(memory: Memory, request: DetectionRequest, events: Sequence[Message] = TALK) -> Submission:
    submission = await memory.inbox.ingest_events("talk", events, subject=USER, looking_for=request)
    await submission.wait()
    return submission


def values(records: Sequence[Any]) -> list[Any]:
    return said([record for record in records if record.concept.keyword != "statement"])


async def test_another_request_is_new_work_and_the_same_one_is_not(provider: AgentMemoryProvider) -> None:
    model = ScriptedModel(well)
    async with opened(provider, model) as memory:
        for request, found, skipped in (
            (looking_for(CITY), ["Oslo"], 0),
            (looking_for(CITY), ["Oslo"], 3),
            (looking_for(SEATS), [12, "Oslo"], 0),
            (looking_for(CITY), ["Oslo", 12], 3),
            (looking_for(CITY, SEATS, PETS), [12, "Oslo", "cat"], 0),
            (looking_for(SEATS, PETS), [12, "Oslo", "cat"], 3),
        ):
            asked = len(model.prompts)
            submission = await ingest(memory, request)
            assert sorted(map(str, values(await memory.list_records()))) == sorted(map(str, found))
            assert submission.skipped == skipped
            assert (len(model.prompts) > asked) == (skipped == 0)


@pytest.mark.parametrize(
    "request_",
    [
        looking_for(CITY, open=True),
        DetectionRequest(subjects=[USER, MemorySubject("team")], concepts=[CITY]),
        looking_for(CITY, topics=[Topic("food", "What they like to eat")]),
    ],
    ids=["open", "subject", "topic"],
)
async def test_other_subjects_topics_and_an_open_search_are_new_work(request_: DetectionRequest) -> None:
    model = ScriptedModel(well)
    async with opened(InMemoryProvider(), model) as memory:
        await ingest(memory, looking_for(CITY))
        submission = await ingest(memory, request_)
        assert (submission.skipped, len(model.prompts)) == (0, 2)
        assert (await ingest(memory, request_)).skipped == 3
        assert (await ingest(memory, looking_for(CITY))).skipped == 3
        assert len(model.prompts) == 2


@pytest.mark.parametrize("keep_words", [True, False])
async def test_the_words_stay_as_their_first_reading_left_them(keep_words: bool) -> None:
    provider = InMemoryProvider()
    async with opened(provider, ScriptedModel(well), policies=Policies(keep_words=keep_words)) as memory:
        await ingest(memory, looking_for(CITY))
        before = await memory.list_records(concepts=["statement"])
        submission = await ingest(memory, looking_for(SEATS))
        assert await memory.list_records(concepts=["statement"]) == before
        assert {record.value for record in before} == {*(WORDS if keep_words else ())}
        (outcome,) = submission.outcomes
        assert [(change.kind.value, change.record.value) for change in outcome.changes] == [("created", 12)]
        assert (await log_of(provider))[1][AssertionState.PENDING] == 0


async def test_what_the_user_took_back_is_not_read_again(provider: AgentMemoryProvider) -> None:
    model = ScriptedModel(well)
    async with opened(provider, model, policies=Policies()) as memory:
        await ingest(memory, looking_for(CITY))
        (words,) = [record for record in await memory.list_records() if record.value == "I have a cat."]
        await memory.retract(words.id)
        await ingest(memory, looking_for(PETS))
        assert values(await memory.list_records()) == ["Oslo"]
        assert "I have a cat" not in model.prompts[-1].content


async def test_two_requests_wait_together_and_each_is_read() -> None:
    model = Gated()
    async with opened(InMemoryProvider(), model) as memory:
        submissions = [
            await memory.inbox.ingest_events("talk", TALK, subject=USER, looking_for=looking_for(concept))
            for concept in (CITY, SEATS)
        ]
        assert said(await memory.list_records()) == said(await memory.list_records(concepts=["statement"]))
        assert len(await memory.list_records()) == 3, "words that wait twice are shown once"
        model.gate.set()
        for submission in submissions:
            await submission.wait()
        assert sorted(map(str, values(await memory.list_records()))) == ["12", "Oslo"]


async def test_a_request_waits_for_the_next_process() -> None:
    provider, model = InMemoryProvider(), ScriptedModel(well)
    waiting = Trigger(count=99)
    async with opened(provider, model) as memory:
        await ingest(memory, looking_for(CITY))
        await memory.inbox.ingest_events("talk", TALK, trigger=waiting, subject=USER, looking_for=looking_for(SEATS))
    async with opened(provider, model) as memory:
        await memory.inbox.flush()
        assert sorted(map(str, values(await memory.list_records()))) == ["12", "Oslo"]
        assert (await ingest(memory, looking_for(SEATS))).skipped == 3


async def test_only_what_is_new_is_read_of_a_growing_talk() -> None:
    model = ScriptedModel(well)
    async with opened(InMemoryProvider(), model) as memory:
        for events in (TALK[:1], TALK):
            for request in (looking_for(CITY), looking_for(SEATS)):
                await ingest(memory, request, events)
        assert [prompt.content.count('take_facts="yes"') for prompt in model.prompts] == [1, 1, 2, 2]


async def test_remember_reads_a_conversation_again_for_something_else() -> None:
    conversation = talk(*(message.content for message in TALK))
    async with opened(InMemoryProvider(), ScriptedModel(well)) as memory:
        for concept, found in ((CITY, ["Oslo"]), (SEATS, ["12", "Oslo"]), (SEATS, ["12", "Oslo"])):
            await memory.remember(conversation, subject=USER, looking_for=looking_for(concept))
            assert sorted(map(str, values(await memory.list_records()))) == found


async def test_a_simple_provider_reads_for_each_request_too() -> None:
    async with opened(Shelf(), ScriptedModel(well)) as memory:
        for concept, skipped in ((CITY, 0), (SEATS, 0), (SEATS, 3)):
            assert (await ingest(memory, looking_for(concept))).skipped == skipped
        assert sorted(map(str, values(await memory.list_records()))) == ["12", "Oslo"]


# Two processes submit overlapping halves of one conversation, so that each reads a part for the other.

WHOLE = talk("I live in Rome.", "I have a cat.", "I have a dog.", "I have a hen.", "I have a cow.", "I have a pig.")
EARLIER = attrs.evolve(WHOLE, messages=WHOLE.messages[:4])
LATER = attrs.evolve(WHOLE, messages=WHOLE.messages[2:])
ALL = ["Rome", "cat", "cow", "dog", "hen", "pig"]


async def test_what_comes_together_with_it_is_not_read_again(provider: AgentMemoryProvider) -> None:
    slow, others = Gated(), [talk(f"I have a goat{number}.", id=f"talk{number}") for number in range(3)]
    other = opened(provider, ScriptedModel(well))  # not entered: it would resume the words that the first one reads
    async with opened(provider, slow) as memory:
        submission = await memory.remember_many([*others, EARLIER], subject=USER)
        await until(lambda: slow.under_way == 4)
        await other.remember(LATER, subject=USER)
        slow.gate.set()
        assert len(await submission.wait()) == 4
        assert slow.asked == 5
        assert said(await memory.list_records()) == sorted([*ALL, *(f"goat{number}" for number in range(3))])


async def test_what_cannot_be_read_of_the_rest_is_a_dead_letter() -> None:
    """Words that the other process has read do not become a dead letter."""
    provider, slow = InMemoryProvider(), Gated(lambda prompt, answer: ModelRefusedError("no"))
    other = opened(provider, ScriptedModel(well))  # not entered: it would resume the words that the first one reads
    async with opened(provider, slow) as memory:
        submission = await memory.remember_many([EARLIER], subject=USER)
        await until(lambda: slow.under_way == 1)
        await other.remember(LATER, subject=USER)
        slow.gate.set()
        (outcome,) = await submission.wait()
        assert outcome.failure == "ModelRefusedError"
        (letter,) = await memory.inbox.dead_letters.list()
        assert said(letter.records) == ["I have a cat.", "I live in Rome."]
    assert AssertionState.PENDING not in (await log_of(provider))[1]


@pytest.mark.parametrize("hands", [2, 5])
async def test_many_who_submit_overlapping_parts_leave_nothing_unread(
    provider: AgentMemoryProvider, hands: int
) -> None:
    """Each memory stands for a process, and is unaware of the reads in progress of the others."""

    async def submit(memory: Memory, part: Conversation) -> None:
        await memory.remember(part, subject=USER)

    async with anyio.create_task_group() as tasks:
        for number in range(hands):
            part = attrs.evolve(WHOLE, messages=WHOLE.messages[number % 3 : number % 3 + 4])
            tasks.start_soon(submit, opened(provider, ScriptedModel(well)), part)
    memory = opened(provider)
    assert (await log_of(provider))[1][AssertionState.PENDING] == 0
    parts = min(hands, 3)
    assert said(await memory.list_records()) == sorted(ALL if parts == 3 else [*ALL[:3], "dog", "hen"])


@pytest.mark.parametrize("reads", [False, True], ids=["kept", "read"])
async def test_a_conversation_that_goes_on_keeps_the_times_of_what_was_said_before(
    reads: bool, clock: FakeClock
) -> None:
    """Otherwise its old words would stand above those of a later conversation."""
    model = ScriptedModel(well) if reads else None

    def chat(id: str, *texts: str) -> Conversation:
        return Conversation(id=id, messages=[Message(content=text) for text in texts])

    async with Memory(InMemoryProvider(), model=model, concepts=[CITY], clock=clock) as memory:
        for conversation in (chat("monday", "I live in Oslo."), chat("tuesday", "I live in Porto.")):
            await memory.remember(conversation, subject=USER)
            clock.advance(dt.timedelta(days=1))
        outcome = await memory.remember(chat("monday", "I live in Oslo.", "I have a cat."), subject=USER)
        assert not any("Oslo" in str(change.record.value) for change in outcome.changes)
        newest = sorted(await memory.list_records(), key=lambda record: record.timestamp)
        homes = [str(record.value) for record in newest if "Oslo" in str(record.value) or "Porto" in str(record.value)]
        assert "Porto" in homes[-1]
