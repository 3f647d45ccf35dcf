"""Streams of events: when what they say is read, once each, however many come at a time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio
import attrs
import pytest

from factmem import AgentMemoryProvider, Background, InMemoryProvider, Memory, Message, Submission
from factmem.abc import Prompt
from factmem.abc.capabilities import KeepsLog, Receipt, Statement
from factmem.abc.detector import MEMORY_ROLE
from factmem.errors import InvalidDataError, ModelUnavailableError
from factmem.fold import states_of
from factmem.memory import Trigger
from factmem.memory.inbox import ABANDONED_AFTER, Inbox, due_at
from factmem.memory.journal import units_in
from factmem.records import AssertionState, Recorded
from factmem.testing import FakeClock, ScriptedModel
from tests.memory.telling import BEGAN, CITY, PETS, USER, Gated, log_of, opened, said, until, well, words
from tests.tables import cases

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


# Triggers for reading a stream's events: count, idle time, interval, or a day without further events.


SECOND, HOUR = dt.timedelta(seconds=1), dt.timedelta(hours=1)
SOON = dt.timedelta(milliseconds=5)
LONG = event("\n\n".join(f"{'word ' * 400}{number}." for number in range(9)), 7)


async def test_so_many_events_are_read_together(provider: AgentMemoryProvider) -> None:
    """Events of one call or several are read together; each submission gets the outcomes of its own events."""
    model = ScriptedModel(well)
    async with opened(provider, model) as memory:
        first = await add_events(memory, OSLO, trigger=Trigger(count=3))
        second = await add_events(memory, CAT, trigger=Trigger(count=3))
        assert (first is second, first.pending, model.prompts) == (True, 1, [])
        third = await add_events(memory, DOG, event("I have a cow.", 3), trigger=Trigger(count=3))
        assert third is first
        (outcome,) = await first.wait()
        assert said(outcome.records) == ["Oslo", "cat", "cow", "dog"]
        assert await add_events(memory, event("I have a pig.", 4), trigger=Trigger(count=3)) is not first
        assert len(model.prompts) == 1


@pytest.mark.parametrize(
    ("trigger", "since", "after"),
    [
        (Trigger(idle=HOUR), "last", HOUR),
        (Trigger(interval=HOUR), "first", HOUR),
        (Trigger(idle=HOUR, interval=HOUR), "first", HOUR),
        (Trigger(idle=MINUTE, interval=HOUR), "last", MINUTE),
        (Trigger(count=3), "last", ABANDONED_AFTER),
        (Trigger(idle=99 * HOUR), "last", ABANDONED_AFTER),
        (Trigger(count=3, interval=99 * HOUR), "last", ABANDONED_AFTER),
        (Trigger(count=2, idle=HOUR), "now", 0 * HOUR),
        (Trigger(), "now", 0 * HOUR),
    ],
    ids=str,
)
async def test_events_are_due_by_whatever_comes_first(
    clock: FakeClock, trigger: Trigger, since: str, after: dt.timedelta
) -> None:
    """The time of submission counts, not that of the message."""
    provider = InMemoryProvider(clock=clock)
    async with opened(provider, ScriptedModel(well), clock=clock) as memory:
        await add_events(memory, DOG, trigger=Trigger(count=9))
        clock.advance(10 * MINUTE)
        await add_events(memory, LONG, trigger=Trigger(count=9))
        log, _ = await log_of(provider)
        (unit,) = units_in(log, states_of(log), {})
    assert len(unit.words) > 2
    times = [entry.recorded_at for entry in log]
    moments = {"first": min(times), "last": max(times), "now": clock()}
    triggered = attrs.evolve(unit, job=attrs.evolve(unit.job, trigger=trigger))
    assert due_at(triggered, moments["now"]) == moments[since] + after


async def test_a_long_event_counts_once() -> None:
    """The number of statements it is stored in makes no difference."""
    provider = InMemoryProvider()
    async with opened(provider, ScriptedModel(well)) as memory:
        submission = await add_events(memory, LONG, trigger=Trigger(count=2))
        assert len((await log_of(provider))[0]) > 1
        assert submission.pending == 1


async def test_an_idle_stream_is_read_and_a_lively_one_is_not(provider: AgentMemoryProvider, clock: FakeClock) -> None:
    trigger = Trigger(idle=HOUR)
    async with opened(provider, ScriptedModel(well), clock=clock) as memory:
        await add_events(memory, OSLO, trigger=trigger)
        clock.advance(HOUR - SECOND)
        await add_events(memory, CAT, trigger=trigger)
        clock.advance(HOUR - SECOND)
        submission = await add_events(memory, CAT, trigger=trigger)
        assert submission.pending == 1
        clock.advance(2 * SECOND)
        assert await add_events(memory, trigger=trigger) is submission
        (outcome,) = await submission.wait()
        assert said(outcome.records) == ["Oslo", "cat"]


@pytest.mark.parametrize("trigger", [Trigger(idle=SOON), Trigger(interval=SOON), Trigger(count=9, idle=SOON)])
async def test_a_stream_is_watched_and_read_without_anybody_asking(trigger: Trigger) -> None:
    async with opened(InMemoryProvider(), ScriptedModel(well)) as memory:
        for message, found in ((OSLO, "Oslo"), (CAT, "cat")):
            (outcome,) = await (await add_events(memory, message, trigger=trigger)).wait()
            assert said(outcome.records) == [found]


async def test_a_changed_trigger_applies_at_once() -> None:
    """A caller waiting for the old trigger gets the result of the new one."""
    async with opened(InMemoryProvider(), ScriptedModel(well)) as memory:
        submission = await add_events(memory, OSLO, trigger=Trigger(count=9))
        await add_events(memory, CAT, trigger=Trigger(idle=SOON))
        (outcome,) = await submission.wait()
        assert said(outcome.records) == ["Oslo", "cat"]


@pytest.mark.slow
async def test_a_busy_stream_leaves_no_watchers_behind() -> None:
    """At most one task watches, however often the stream was read."""
    async with opened(InMemoryProvider(), ScriptedModel(well)) as memory:
        for minute in range(20):
            await add_events(memory, event(f"I have a cat{minute}.", minute), trigger=Trigger(idle=HOUR))
            await (await add_events(memory, trigger=Trigger(idle=HOUR), flush=True)).wait()
        assert memory._backend.worker._tasks is not None
        await until(lambda: memory._backend.worker._watched == {})


async def test_overlapping_events_are_read_along_and_give_nothing_anew(provider: AgentMemoryProvider) -> None:
    """They are in the prompt, are not counted, and repeated findings in them are dropped."""
    model, trigger = ScriptedModel(well), Trigger(count=2, overlap=1)
    async with opened(provider, model) as memory:
        await (await add_events(memory, OSLO, CAT, trigger=trigger)).wait()
        waiting = await add_events(memory, DOG, trigger=trigger)
        assert waiting.pending == 1
        await add_events(memory, event("I have a cow.", 3), trigger=trigger)
        (outcome,) = await waiting.wait()
        assert (said(outcome.records), outcome.dropped) == (["cow", "dog"], {})
        assert await known(memory) == ["Oslo", "cat", "cow", "dog"]
        (cat,) = [record for record in await memory.list_records() if record.value == "cat"]
        assert len(cat.evidence) == 1
    second = model.prompts[1].content
    assert "I live in Oslo" not in second
    places = [second.index(text) for text in ("a cat", "a dog", "a cow")]
    assert places == sorted(places)


async def test_overlap_reaches_behind_a_restart(provider: AgentMemoryProvider) -> None:
    trigger = Trigger(overlap=2)
    async with opened(provider, ScriptedModel(well)) as memory:
        await (await add_events(memory, OSLO, CAT, DOG, trigger=trigger)).wait()
    model = ScriptedModel(well)
    async with opened(provider, model) as memory:
        await (await add_events(memory, event("I have a cow.", 3), trigger=trigger)).wait()
    assert [text in model.prompts[0].content for text in ("Oslo", "cat", "dog", "cow")] == [False, True, True, True]


async def test_events_that_come_while_others_are_read_wait_for_the_next_time() -> None:
    """They count towards the next trigger, and none is read twice."""
    model, trigger = Gated(), Trigger(count=2)
    async with opened(InMemoryProvider(), model) as memory:
        first = await add_events(memory, OSLO, trigger=Trigger(count=1))
        await until(lambda: model.under_way == 1)
        assert await add_events(memory, OSLO, trigger=trigger) is first
        second = await add_events(memory, CAT, trigger=trigger)
        assert second is not first
        model.gate.set()
        await first.wait()
        assert (await known(memory), second.pending, model.asked) == (["I have a cat.", "Oslo"], 1, 1)
        model.gate = anyio.Event()


@attrs.define
class Picky:
    """A model whose callers wait, except for questions about cows."""

    gated: Gated = attrs.field(factory=Gated)
    max_chars: int = 24_000

    async def ask(self, prompt: Prompt, answer: Any) -> Any:
        model = ScriptedModel(well) if "cow" in prompt.content else self.gated
        return await model.ask(prompt, answer)


async def test_a_flush_waits_for_what_is_being_read_already() -> None:
    model, flushed = Picky(), anyio.Event()
    async with opened(InMemoryProvider(), model) as memory, anyio.create_task_group() as tasks:
        await add_events(memory, DOG)
        await until(lambda: model.gated.under_way == 1)
        await add_events(memory, event("I have a cow.", 3), trigger=Trigger(count=9))

        async def flush() -> None:
            await memory.inbox.flush()
            flushed.set()

        tasks.start_soon(flush)
        with anyio.move_on_after(0.1):
            await flushed.wait()
        assert not flushed.is_set()
        model.gated.gate.set()
        await flushed.wait()
        assert await known(memory) == ["cow", "dog"]


async def test_of_two_processes_each_event_is_read_by_one(provider: AgentMemoryProvider) -> None:
    """An event added by one memory while the other reads is read, although it missed the other's plan.

    Whether the other one reads the first event too depends on when it looks for waiting words at its opening.
    """
    ones, others = Gated(), Gated()
    async with opened(provider, ones) as one, opened(provider, others) as other:
        first = await add_events(one, OSLO)
        await until(lambda: ones.under_way == 1)
        second = await add_events(other, CAT)
        await until(lambda: others.under_way == 1)
        ones.gate.set()
        await first.wait()
        others.gate.set()
        (outcome,) = await second.wait()
        assert "cat" in said(outcome.records)
        assert await known(other) == ["Oslo", "cat"]
    assert (await log_of(provider))[1] == {AssertionState.RETRACTED: 2, AssertionState.ACTIVE: 2}


@pytest.mark.parametrize(
    "wrong",
    [
        *cases(__file__)["a trigger of another type or below nothing is refused"],
        {"idle": -HOUR},
        {"idle": dt.timedelta.max},
        {"interval": dt.timedelta(days=999999999)},
    ],
)
def test_a_trigger_of_another_type_or_below_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataError, match=next(iter(wrong))):
        Trigger(**wrong)


@pytest.mark.parametrize("overlap", [2, 5])
def test_an_overlap_that_is_not_less_than_the_count_is_refused(overlap: int) -> None:
    with pytest.raises(InvalidDataError, match="lower the overlap, or raise the count"):
        Trigger(count=2, overlap=overlap)
    assert Trigger(count=2, overlap=1).overlap == 1
    assert Trigger(overlap=overlap).overlap == overlap, "without a count there is nothing to exceed"


async def test_a_trigger_reaches_no_further_than_time_does() -> None:
    """Near the end of the calendar, the last representable moment is used."""
    clock = FakeClock(dt.datetime(9999, 12, 31, 12, tzinfo=dt.UTC))
    provider = InMemoryProvider(clock=clock)
    trigger = Trigger(count=3, interval=999 * HOUR)
    async with opened(provider, ScriptedModel(well), clock=clock) as memory:
        submission = await add_events(memory, OSLO, trigger=trigger)
        assert submission.pending == 1
    log, _ = await log_of(provider)
    (unit,) = units_in(log, states_of(log), {})
    assert due_at(unit, clock()) == dt.datetime.max.replace(tzinfo=dt.UTC)


# Events submitted concurrently, by one process or two, and many streams that are read together.


NOW = event("I have a cat.", timestamp=None)
NAMELESS = event("I have a cat.", id=None, timestamp=None)


def counting(provider: AgentMemoryProvider, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that collects the number of statements in each transaction from now on."""
    assert isinstance(provider, KeepsLog)
    written, append = list[int](), provider.append

    async def counted(statements: Sequence[Statement]) -> Sequence[Receipt]:
        written.append(len(statements))
        return await append(statements)

    monkeypatch.setattr(provider, "append", counted)
    return written


@pytest.mark.parametrize("message", [NOW, NAMELESS, CAT], ids=["an id", "nothing", "an id and a time"])
async def test_an_event_that_comes_twice_at_once_is_kept_once(provider: AgentMemoryProvider, message: Message) -> None:
    """This holds with and without a time, and through any view of the memory."""
    model = ScriptedModel(well)
    async with opened(provider, model) as memory:
        async with anyio.create_task_group() as tasks:
            for viewer in ("alice", "bob", "alice", None):
                tasks.start_soon(partial(add_events, memory.view(viewer=viewer), message, trigger=LATER))
        assert (await log_of(provider))[1] == {AssertionState.PENDING: 1}
        await memory.inbox.flush()
        assert said(await memory.list_records()) == ["cat"]
    assert len(model.prompts) == 1


async def test_two_processes_that_take_in_an_event_at_once_read_it_once(
    provider: AgentMemoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each dates an event without a time; the model is shown it once, and its finding is stored once."""
    model = ScriptedModel(well)

    async def looked_before(inbox: Inbox, *ids: str) -> tuple[Recorded, ...]:
        return ()

    async with opened(provider, model) as memory, opened(provider, model) as other:
        with monkeypatch.context() as patch:
            patch.setattr(Inbox, "_events", looked_before)
            for each in (memory, other):
                await add_events(each, NOW, trigger=LATER)
        assert (await log_of(provider))[1] == {AssertionState.PENDING: 2}
        await memory.inbox.flush()
        (record,) = await memory.list_records()
        assert (record.value, len(record.evidence)) == ("cat", 1)
        assert [prompt.content.count("I have a cat.") for prompt in model.prompts] == [1]
    assert AssertionState.PENDING not in (await log_of(provider))[1]


async def test_a_flush_reads_all_streams_together(
    provider: AgentMemoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Questions run up to the limit, and one transaction stores all findings."""
    model = Gated()
    async with opened(provider, model, background=Background(concurrency=4)) as memory:
        submissions = [
            await memory.inbox.ingest_events(
                f"chat{number}", [event(f"I have a cat{number}.")], trigger=LATER, subject=USER
            )
            for number in range(12)
        ]
        written = counting(provider, monkeypatch)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(memory.inbox.flush)
            await until(lambda: model.under_way == 4)
            model.gate.set()
        assert written == [24]
        assert [said((await submission.wait())[0].records) for submission in submissions] == [
            [f"cat{number}"] for number in range(12)
        ]


async def test_a_restart_reads_all_streams_together_that_are_due(
    provider: AgentMemoryProvider, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The streams of each owner are read with that owner's view."""
    async with opened(provider, ScriptedModel(well), clock=clock) as memory:
        for viewer in ("alice", "bob"):
            for minute in range(3):
                mine = memory.view(viewer=viewer)
                await mine.inbox.ingest_events(
                    f"chat{minute}", [event("I have a cat.", minute)], trigger=LATER, private=True
                )
    assert (await log_of(provider))[1] == {AssertionState.PENDING: 6}
    clock.advance(ABANDONED_AFTER)
    written = counting(provider, monkeypatch)
    async with opened(provider, ScriptedModel(well), clock=clock) as memory:
        await until(lambda: len(written) == 2)
        assert said(await memory.list_records()) == ["cat"]
    assert AssertionState.PENDING not in (await log_of(provider))[1]


async def test_a_submission_with_nothing_new_does_not_release_another_that_waits() -> None:
    """Two submit the same event while a third caller waits for it to be read."""
    model = Gated()
    async with opened(InMemoryProvider(), model) as memory:
        first = await add_events(memory, CAT, trigger=Trigger(count=1))
        await until(lambda: model.under_way == 1)
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(partial(add_events, memory, CAT, trigger=Trigger(count=1)))
        model.gate.set()
        (outcome,) = await first.wait()
        assert said(outcome.records) == ["cat"]
        assert first.pending == 0
        second = await add_events(memory, event("I have a dog.", 1), trigger=Trigger(idle=MINUTE))
        assert second.pending == 1
