"""Events submitted concurrently, by one process or two, and many streams that are read together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio
import pytest

from factmem import AgentMemoryProvider, InMemoryProvider, Message
from factmem.abc.capabilities import KeepsLog, Receipt, Statement
from factmem.memory import Trigger
from factmem.memory.background import Background
from factmem.memory.inbox import ABANDONED_AFTER, Inbox
from factmem.records import AssertionState, Recorded
from factmem.testing import FakeClock, ScriptedModel
from tests.memory.telling import USER, Gated, log_of, opened, said, until, well
from tests.memory.test_event_streams import CAT, LATER, MINUTE, add_events, event

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
