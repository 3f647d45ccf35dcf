"""Reading in the background: done once, with bounded concurrency, and reported in parts."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import anyio
import attrs
import pytest

from factmem import AgentMemoryProvider, Background, Conversation, InMemoryProvider, Memory, Message
from factmem.abc import Detection, DetectionRequest, Detector, system_clock
from factmem.abc.clock import Clock
from factmem.memory.background import Worker
from factmem.testing import FakeClock, HashEmbedder
from tests.memory.telling import until


@attrs.define
class Slow:
    """A detector that finds nothing, and counts its calls and the concurrent ones."""

    gate: anyio.Event = attrs.field(factory=anyio.Event)
    waiting: anyio.Event = attrs.field(factory=anyio.Event)
    free: int = 0
    asked: int = 0
    asking: int = 0
    most: int = 0

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        """Wait for the gate after a number of calls."""
        self.asked += 1
        self.asking += 1
        self.most = max(self.most, self.asking)
        if self.asked > self.free:
            self.waiting.set()
            await self.gate.wait()
        await anyio.wait_all_tasks_blocked()
        self.asking -= 1
        return Detection()


@attrs.define
class InPairs(Slow):
    """A detector that answers two concurrent callers, and counts the others."""

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        """Wait for the other caller."""
        self.asked += 1
        self.asking += 1
        self.most = max(self.most, self.asking)
        answered = self.asked + self.asked % 2
        await until(lambda: self.asked >= answered)
        await anyio.wait_all_tasks_blocked()
        self.asking -= 1
        return Detection()


def talk(number: int) -> Conversation:
    return Conversation(messages=[Message(content=f"Stall {number} sells tea.")], id=f"talk-{number}")


def reading(
    store: str | AgentMemoryProvider, detector: Detector, viewer: str | None = None, *, clock: Clock = system_clock
) -> Memory:
    background = Background(concurrency=2)
    return Memory(store, detector=detector, viewer=viewer, embedder=HashEmbedder(), clock=clock, background=background)


async def test_all_that_is_submitted_asks_no_more_at_once_than_was_set() -> None:
    detector = InPairs()
    async with reading(InMemoryProvider(), detector) as memory:
        submissions = [await memory.remember_many([talk(number), talk(-number)]) for number in range(1, 6)]
        for submission in submissions:
            await submission.wait()
    assert (detector.asked, detector.most) == (10, 2)


async def test_a_long_submission_is_settled_piece_by_piece() -> None:
    """A waiting caller sees progress, and a process that dies repeats little."""
    detector = Slow(free=64)
    async with reading(InMemoryProvider(), detector) as memory:
        submission = await memory.remember_many([talk(number) for number in range(70)])
        await detector.waiting.wait()
        assert (len(submission.outcomes), submission.pending) == (64, 6)
        detector.gate.set()
        assert len(await submission.wait()) == 70


async def submitted_and_left(store: str, viewer: str) -> None:
    """Submit private words, and close the memory before they are read."""
    async with reading(store, Slow(), viewer) as memory:
        await memory.remember_many([talk(1)], private=True)
        raise KeyError


async def test_resuming_ends_when_the_words_of_every_owner_are_read(tmp_path: Path) -> None:
    store = f"sqlite-vec:{tmp_path / 'facts.db'}"
    for viewer in ("alice", "bob"):
        with pytest.raises(KeyError):
            await submitted_and_left(store, viewer)
    detector = Slow(free=2)
    async with reading(store, detector, "alice") as memory:
        submission = await memory.inbox.resume()
        assert (len(submission.ids), len(await submission.wait()), submission.pending) == (1, 1, 0)
        assert detector.asked == 2


async def test_what_another_process_has_read_meanwhile_is_not_asked_about_again() -> None:
    """As where a service with several workers starts, each of which finds the same words waiting."""
    provider, slow, fast = InMemoryProvider(), Slow(), Slow(free=3)
    async with reading(provider, slow) as memory:
        submission = await memory.remember_many([talk(number) for number in range(3)])
        await until(lambda: slow.asking == 2)
        async with reading(provider, fast) as other:
            await (await other.inbox.resume()).wait()
        slow.gate.set()
        outcomes = await submission.wait()
    assert (fast.asked, slow.asked) == (3, 2)
    assert [(outcome.failure, len(outcome)) for outcome in outcomes] == [(None, 1)] * 3


async def left_unread(provider: AgentMemoryProvider, count: int, clock: Clock = system_clock) -> None:
    """Submit words, and leave the memory by an error before they are read."""
    async with reading(provider, Slow(), clock=clock) as memory:
        await memory.remember_many([Message(content=f"Stall {number} sells tea.") for number in range(count)])
        raise KeyError


@pytest.mark.parametrize("start", [0, 4])
async def test_what_is_resumed_is_read_from_a_random_place_on_so_that_processes_divide_it(
    monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    provider = InMemoryProvider()
    with pytest.raises(KeyError):
        await left_unread(provider, 9)
    left, read = await resumed(monkeypatch, provider, start, system_clock)
    assert len(left) == 9
    assert read == [*left[start:], *left[:start]]


async def test_what_was_said_at_one_time_is_resumed_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the clock of a simulation stands still: the last of equal times counts."""
    clock = FakeClock()
    provider = InMemoryProvider(clock=clock)
    for _ in range(2):
        with pytest.raises(KeyError):
            await left_unread(provider, 3, clock)
        clock.advance(dt.timedelta(days=1))
    left, read = await resumed(monkeypatch, provider, -1, clock)
    assert read == [*left[3:], *left[:3]]


async def resumed(
    monkeypatch: pytest.MonkeyPatch, provider: AgentMemoryProvider, start: int, clock: Clock
) -> tuple[list[str], list[str]]:
    """Return the words that wait, and in what order a memory resumes reading them from one of the places to begin."""
    orders = list[list[str]]()
    monkeypatch.setattr(Worker, "submit", lambda worker, reader, units, *_: orders.append([it.job.id for it in units]))
    for place in (0, start):
        monkeypatch.setattr("factmem.memory.inbox.choice", lambda places, place=place: places[place])
        async with reading(provider, Slow(), clock=clock) as memory:
            await memory.inbox.resume()
    return orders[0], orders[-1]


@pytest.mark.parametrize("together", [False, True])
async def test_texts_without_times_that_are_submitted_together_are_in_the_order_of_the_list(together: bool) -> None:
    """In whatever order they are read, such as by the next process."""
    async with reading(InMemoryProvider(), Slow(free=9)) as memory:
        said = [Message(content=f"Stall {number} sells tea.") for number in range(4)]
        talks = [Conversation(messages=said[:2], id="a"), Conversation(messages=said[2:], id="b")]
        await (await memory.remember_many(talks if together else said)).wait()
        records = await memory.list_records()
    assert len({record.timestamp for record in records}) == 4
    assert [record.value for record in sorted(records, key=lambda it: it.timestamp)] == [it.content for it in said]
