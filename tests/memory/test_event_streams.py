"""Streams of events: identified by their ids, ordered by their times, on disk at once, and read together."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from factmem import AgentMemoryProvider, InMemoryProvider, Memory, Message, Submission
from factmem.abc.detector import MEMORY_ROLE
from factmem.errors import InvalidDataError, ModelUnavailableError
from factmem.memory import Trigger
from factmem.records import AssertionState
from factmem.testing import ScriptedModel
from tests.memory.telling import BEGAN, CITY, PETS, USER, log_of, opened, said, well, words

MINUTE = dt.timedelta(minutes=1)
LATER = Trigger(count=99)


def event(text: str, minute: int = 0, **options: Any) -> Message:
    """Return an event of the user, some minutes after the beginning; its id is the minute."""
    return Message(content=text, **{"id": f"e{minute}", "timestamp": BEGAN + minute * MINUTE, **options})


OSLO, CAT, DOG = (
    event(text, minute) for minute, text in enumerate(["I live in Oslo.", "I have a cat.", "I have a dog."])
)


async def add_events(memory: Memory, *events: Message, trigger: Trigger | None = None, **options: Any) -> Submission:
    return await memory.inbox.ingest_events("chat", events, trigger=trigger, subject=USER, **options)


async def known(memory: Memory) -> list[Any]:
    return said(await memory.list_records())


async def test_an_event_is_known_by_its_id(provider: AgentMemoryProvider) -> None:
    """A repeated event with another text changes nothing: while it is pending, in one call, and after it was read."""
    model = ScriptedModel(well)
    async with opened(provider, model) as memory:
        await add_events(memory, CAT, event("I have a cow.", 1), trigger=LATER)
        await add_events(memory, event("I have a pig.", 1), trigger=LATER)
        assert words(await memory.list_records()) == ["I have a cat."]
        await memory.inbox.flush()
        assert await known(memory) == ["cat"]
        assert await (await add_events(memory, event("I have a hen.", 1))).wait() == ()
        assert await known(memory) == ["cat"]
    assert len(model.prompts) == 1


async def test_an_event_without_an_id_is_known_by_what_it_says_and_when(provider: AgentMemoryProvider) -> None:
    cat = event("I have a cat.", id=None)
    async with opened(provider, ScriptedModel(well)) as memory:
        for _ in range(2):
            await add_events(memory, cat, cat, trigger=LATER)
        assert (await log_of(provider))[1] == {AssertionState.PENDING: 1}
        await add_events(memory, event("I have a cat.", 1, id=None), trigger=LATER)
        await add_events(memory, event("I have a cat.", id=None, name="Ana"), trigger=LATER)
        assert (await log_of(provider))[1] == {AssertionState.PENDING: 3}


async def test_events_are_read_in_the_order_of_their_times(provider: AgentMemoryProvider) -> None:
    """The order of arrival does not matter, so the last statement by time is current."""
    model = ScriptedModel(well)
    async with opened(provider, model) as memory:
        await add_events(memory, event("I live in Rome.", 3), DOG, trigger=LATER)
        await add_events(memory, CAT, OSLO, trigger=LATER)
        assert [item.evidence[0].position for item in await memory.list_records(descending=False)] == [0, 1, 0, 1]
        await memory.inbox.flush()
        assert (city := await memory.load(CITY, subject=USER)) is not None
        assert (city.value, city.timestamp) == ("Rome", BEGAN + 3 * MINUTE)
        assert (pets := await memory.load(PETS, subject=USER)) is not None
        assert pets.values == ("cat", "dog")
    (prompt,) = model.prompts
    places = [prompt.content.index(text) for text in ("Oslo", "cat", "dog", "Rome")]
    assert places == sorted(places)


async def test_a_flush_reads_what_waits_whatever_the_trigger_says(provider: AgentMemoryProvider) -> None:
    async with opened(provider, ScriptedModel(well)) as memory:
        waiting = await add_events(memory, OSLO, trigger=LATER)
        assert waiting.pending == 1
        flushed = await add_events(memory, trigger=LATER, flush=True)
        assert flushed is waiting
        (outcome,) = await waiting.wait()
        assert said(outcome.records) == ["Oslo"]
        await add_events(memory, CAT, trigger=LATER)
        await memory.inbox.ingest_events("another", [DOG], trigger=LATER, subject=USER)
        await memory.inbox.flush()
        assert await known(memory) == ["Oslo", "cat", "dog"]
        await memory.inbox.flush()
        assert (await (await add_events(memory, flush=True)).wait()) == ()


async def test_a_restart_continues_where_the_last_process_left_off(provider: AgentMemoryProvider) -> None:
    """Pending events stay pending and count; events already read are known as read; the trigger is kept."""
    model, trigger = ScriptedModel(well), Trigger(count=3)
    async with opened(provider, model) as memory:
        await add_events(memory, OSLO, CAT, trigger=trigger)
    assert model.prompts == []
    async with opened(provider, model) as memory:
        await memory.inbox.resume()
        assert words(await memory.list_records()) == ["I have a cat.", "I live in Oslo."]
        submission = await add_events(memory, CAT, DOG, trigger=trigger)
        (outcome,) = await submission.wait()
        assert said(outcome.records) == ["Oslo", "cat", "dog"]
    async with opened(provider, model) as memory:
        assert (await (await add_events(memory, OSLO, CAT, DOG, trigger=trigger)).wait()) == ()
        assert await known(memory) == ["Oslo", "cat", "dog"]
    assert len(model.prompts) == 1


async def test_the_same_name_behind_another_wall_is_another_stream(provider: AgentMemoryProvider) -> None:
    """Another scope, subject or owner makes another stream; a flush reads the streams that its viewer may see."""
    model, trigger = ScriptedModel(well), Trigger(count=2)
    async with opened(provider, model) as memory:
        bobs = memory.view(viewer="bob")
        await add_events(memory, CAT, trigger=trigger, scope="/product/alpha")
        await add_events(memory, CAT, trigger=trigger, scope="/product/beta")
        await memory.inbox.ingest_events("chat", [CAT], trigger=trigger)
        await add_events(memory, CAT, trigger=trigger, private=True)
        await add_events(bobs, DOG, trigger=trigger, private=True)
        assert (await log_of(provider))[1] == {AssertionState.PENDING: 5}
        assert model.prompts == []
        await memory.inbox.flush()
        assert (await log_of(provider))[1][AssertionState.PENDING] == 1
        assert "dog" not in await known(memory)
        assert words(await bobs.list_records()) == ["I have a dog."]
        await bobs.inbox.flush()
        assert "dog" in await known(bobs)


async def test_what_a_model_cannot_read_is_a_dead_letter_and_not_a_new_event() -> None:
    down = True
    model = ScriptedModel(lambda prompt, answer: ModelUnavailableError("away") if down else well(prompt, answer))
    async with opened(InMemoryProvider(), model) as memory:
        (outcome,) = await (await add_events(memory, CAT)).wait()
        assert (outcome.failure, words(outcome.records)) == ("ModelUnavailableError", ["I have a cat."])
        down = False
        (outcome,) = await (await add_events(memory, CAT, DOG)).wait()
        assert said(outcome.records) == ["dog"]
        (letter,) = await memory.inbox.dead_letters.list()
        (outcome,) = await memory.inbox.dead_letters.retry(letter.id)
        assert said(outcome.records) == ["cat"]
        assert await known(memory) == ["cat", "dog"]


async def test_only_what_was_said_is_an_event() -> None:
    """Rendered blocks, instructions and blank messages are skipped; results of tools are not trusted."""
    model, provider = ScriptedModel(well), InMemoryProvider()
    async with opened(provider, model) as memory:
        unsaid = [event("I have a cat.", role=MEMORY_ROLE), event("I have a cow.", 1, role="system"), event("  ", 2)]
        assert (await (await add_events(memory, *unsaid)).wait()) == ()
        await (await add_events(memory, event("I have a pig.", 3, role="tool"))).wait()
        assert (await known(memory), model.prompts) == ([], [])
        assert [entry.value for entry in await memory.inbox.quarantine.list()] == ["I have a pig."]


@pytest.mark.parametrize(
    "malformed",
    [
        {"events": [OSLO, "a text"]},
        {"events": [OSLO, None]},
        {"events": [OSLO, {"content": "I have a cat."}]},
        {"events": [OSLO, event("I have a cat.", 1, timestamp=dt.datetime.now(dt.UTC) + dt.timedelta(days=1))]},
        {"events": [OSLO], "stream": " "},
        {"events": [OSLO], "scope": "/../up"},
    ],
    ids=["a text", "nothing", "a dict", "the future", "the stream", "the scope"],
)
async def test_malformed_events_are_refused_and_nothing_is_kept(
    provider: AgentMemoryProvider, malformed: dict[str, Any]
) -> None:
    told_wrongly: dict[str, Any] = {"stream": "chat", "trigger": LATER, **malformed}
    async with opened(provider, ScriptedModel(well)) as memory:
        with pytest.raises(InvalidDataError):
            await memory.inbox.ingest_events(**told_wrongly)
        assert (await log_of(provider))[0] == []
        await (await add_events(memory, OSLO)).wait()
        assert await known(memory) == ["Oslo"]


async def test_without_a_model_events_are_kept_as_they_are(provider: AgentMemoryProvider) -> None:
    """Each is kept once and identified by its id, also by a model that comes later; nothing is pending."""
    model = ScriptedModel(well)
    async with opened(provider) as memory:
        submission = await add_events(memory, OSLO, trigger=LATER)
        assert submission.pending == 0
        await add_events(memory, OSLO, event("I live in Rome.", 0), trigger=LATER)
        await add_events(memory, event("I have a cat.", 1, timestamp=None))
        await add_events(memory, event("I have a cow.", 1, timestamp=None))
        assert await known(memory) == ["I have a cat.", "I live in Oslo."]
        await memory.inbox.flush()
    async with opened(provider, model) as memory:
        await add_events(memory, OSLO, event("I have a cow.", 1, timestamp=None))
        await (await add_events(memory, event("I have a dog.", 2))).wait()
        assert await known(memory) == ["I have a cat.", "I live in Oslo.", "dog"]
    assert len(model.prompts) == 1


async def test_what_is_found_in_an_event_carries_the_details_of_its_own_call(provider: AgentMemoryProvider) -> None:
    """Labels, metadata and expiries: also if events of several calls are read together."""
    end = dt.datetime.now(dt.UTC) + dt.timedelta(days=9)
    async with opened(provider, ScriptedModel(well)) as memory:
        first: dict[str, Any] = {"labels": {"run": "1"}, "metadata": {"app": "a"}, "expires_at": end}
        await add_events(memory, OSLO, trigger=LATER, **first)
        await add_events(memory, CAT, trigger=LATER, labels={"run": "2"}, revision_ttl=MINUTE)
        await memory.inbox.flush()
        city, cat = sorted(await memory.list_records(), key=lambda record: record.timestamp)
        assert (city.value, city.details.labels, city.details.metadata) == ("Oslo", {"run": "1"}, {"app": "a"})
        assert (city.details.expires_at, city.details.revision_expires_at) == (end, None)
        assert (cat.value, cat.details.labels, cat.details.expires_at) == ("cat", {"run": "2"}, None)
        assert cat.details.revision_expires_at is not None


async def test_events_of_memory_bank_are_taken_as_they_are() -> None:
    content = {"role": "user", "parts": [{"text": "I live in Oslo."}]}
    async with opened(InMemoryProvider(), ScriptedModel(well)) as memory:
        for _ in range(2):
            event = {"content": content, "event_id": "e1", "event_time": BEGAN.isoformat()}
            await memory.inbox.ingest_events("chat", [event], trigger=LATER, subject=USER)
        (said_so,) = await memory.list_records()
        assert (said_so.value, said_so.timestamp, said_so.evidence[0].message_id) == ("I live in Oslo.", BEGAN, "e1")
        await memory.inbox.flush()
        assert await known(memory) == ["Oslo"]
