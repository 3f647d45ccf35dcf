"""Triggers for reading a stream's events: count, idle time, interval, or a day without further events."""

from __future__ import annotations

import datetime as dt
from typing import Any

import anyio
import attrs
import pytest

from factmem import AgentMemoryProvider, InMemoryProvider
from factmem.abc import Prompt
from factmem.errors import InvalidDataError
from factmem.fold import states_of
from factmem.memory import Trigger
from factmem.memory.inbox import ABANDONED_AFTER, due_at
from factmem.memory.journal import units_in
from factmem.records import AssertionState
from factmem.testing import FakeClock, ScriptedModel
from tests.memory.telling import Gated, log_of, opened, said, until, well
from tests.memory.test_event_streams import CAT, DOG, OSLO, add_events, event, known

SECOND, MINUTE, HOUR = dt.timedelta(seconds=1), dt.timedelta(minutes=1), dt.timedelta(hours=1)
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
    assert due_at(unit, trigger, moments["now"]) == moments[since] + after


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
        {"count": "3"},
        {"count": -1},
        {"count": True},
        {"count": 1.5},
        {"idle": 5},
        {"idle": -HOUR},
        {"idle": dt.timedelta.max},
        {"interval": dt.timedelta(days=999_999_999)},
        {"interval": "1h"},
        {"overlap": None},
        {"overlap": 1.0},
        {"overlap": -1},
    ],
    ids=str,
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
    assert due_at(unit, trigger, clock()) == dt.datetime.max.replace(tzinfo=dt.UTC)
