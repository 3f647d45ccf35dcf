"""A memory that another task opened, or closes, or whose opener was cancelled, or that threads call."""

from __future__ import annotations

import contextlib
import threading

import anyio
import pytest

from factmem import BlockingMemory, InMemoryProvider, Memory
from factmem.errors import InvalidDataError, ProviderClosedError, WrongLoopError
from factmem.event_loops import ProgramLoops
from factmem.memory.background import Submission
from factmem.memory.blocking import MemoryThread
from tests.memory.telling import until
from tests.memory.test_under_way import Slow, reading, talk


async def test_a_memory_that_a_request_opens_is_closed_by_the_task_of_the_program() -> None:
    """A framework runs the request in a task and a cancel scope of its own, which end before the memory does."""
    detector = Slow(free=2)
    async with contextlib.AsyncExitStack() as program:
        opened: list[Memory] = []

        async def request() -> None:
            with anyio.CancelScope():
                opened.append(await program.enter_async_context(reading(InMemoryProvider(), detector)))

        for _ in range(2):
            async with anyio.create_task_group() as requests:
                requests.start_soon(request)
        for memory in opened:
            await memory.remember_many([talk(1)])
    assert detector.asked == 2


async def test_a_cancelled_opener_leaves_the_memory_open() -> None:
    detector = Slow()
    memory = reading(InMemoryProvider(), detector)
    with anyio.CancelScope() as request:
        await memory.__aenter__()
        request.cancel()
        await anyio.sleep_forever()
    submission = await memory.remember_many([talk(1)])
    detector.gate.set()
    await submission.wait()
    await memory.__aexit__(None, None, None)
    assert (submission.pending, detector.asked) == (0, 1)


async def test_closing_in_another_task_waits_for_what_is_being_read() -> None:
    detector = Slow()
    memory = reading(InMemoryProvider(), detector)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(memory.__aenter__)
    submission = await memory.remember_many([talk(1)])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(memory.__aexit__, None, None, None)
        await detector.waiting.wait()
        await anyio.wait_all_tasks_blocked()
        assert submission.pending
        detector.gate.set()
    assert not submission.pending
    async with memory:  # it may be opened again
        await (await memory.remember_many([talk(2)])).wait()
    assert detector.asked == 2


@pytest.mark.parametrize("fails", [False, True], ids=["cancelled", "after an error"])
async def test_nothing_runs_on_once_closing_was_cancelled(fails: bool) -> None:
    detector = Slow()
    ended: list[str] = []

    async def wait_for(submission: Submission) -> None:
        await submission.wait()
        ended.append("waiting")

    memory = await reading(InMemoryProvider(), detector).__aenter__()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait_for, await memory.remember_many([talk(1)]))
        await detector.waiting.wait()
        error = ValueError() if fails else None
        with anyio.CancelScope() as closing:
            if not fails:
                tasks.start_soon(until_blocked, closing)
            await memory.__aexit__(type(error) if error else None, error, None)
        await until(lambda: bool(ended))
    assert detector.asking == 1  # its call was cancelled, and never came to its end


async def test_closing_reads_all_that_was_submitted() -> None:
    detector = Slow(free=70)
    async with reading(InMemoryProvider(), detector) as memory:
        submission = await memory.remember_many([talk(number) for number in range(70)])
    assert (detector.asked, submission.pending) == (70, 0)


async def test_what_a_time_limit_leaves_is_read_by_the_next_process() -> None:
    provider, slow, fast = InMemoryProvider(), Slow(free=64), Slow(free=6)
    service = contextlib.AsyncExitStack()
    memory = await service.enter_async_context(reading(provider, slow))
    submission = await memory.remember_many([talk(number) for number in range(70)])
    limit = anyio.CancelScope()
    async with anyio.create_task_group() as tasks:
        with limit:
            await slow.waiting.wait()
            tasks.start_soon(until_blocked, limit)
            await service.aclose()
    assert (limit.cancelled_caught, submission.pending) == (True, 6)
    async with reading(provider, fast) as memory:
        await (await memory.inbox.resume(*submission.ids)).wait()
    assert fast.asked == 6


async def until_blocked(scope: anyio.CancelScope) -> None:
    """Cancel a scope once every task waits."""
    await anyio.wait_all_tasks_blocked()
    scope.cancel()


# Blocking calls from threads to the event loop of a memory


def test_an_error_reaches_the_caller() -> None:
    with BlockingMemory(Memory("memory:")) as memory, pytest.raises(InvalidDataError, match="blank"):
        memory.remember(" ")


def test_a_view_of_a_closed_memory_refuses_calls() -> None:
    with BlockingMemory(Memory("memory:")) as memory:
        view = memory.scope("/product/alpha")
    for closed in (memory, view):
        with pytest.raises(ProviderClosedError, match="with"):
            closed.remember("The venue has 120 seats.")


def test_a_memory_that_cannot_be_opened_leaves_no_thread_behind() -> None:
    """A thread of a loop that nobody ends would keep the process from ending."""

    def loops() -> list[str]:
        return [thread.name for thread in threading.enumerate() if "portal" in thread.name]

    memory = Memory("memory:")
    with BlockingMemory(memory) as first:
        of_first = loops()
        with pytest.raises(WrongLoopError), BlockingMemory(memory):
            pass
        assert len(of_first) == 1
        assert loops() == of_first
        assert first.list_records() == []


@pytest.mark.parametrize("finishes", [True, False])
def test_closing_waits_for_a_call_under_way(finishes: bool) -> None:
    begun, results = threading.Event(), []

    async def work() -> str:
        begun.set()
        await anyio.sleep(0.05)
        return "done"

    calls = MemoryThread(lambda: Memory("memory:"), ProgramLoops(), "factmem portal", finishes_calls=finishes)
    calls.open()
    thread = threading.Thread(target=lambda: results.append(calls.call(work)))
    thread.start()
    begun.wait(30)
    calls.close()
    thread.join(30)
    assert results == ["done"]


def test_a_call_from_the_thread_of_the_loop_is_refused() -> None:
    calls = MemoryThread(lambda: Memory("memory:"), ProgramLoops(), "factmem portal")
    calls.open()

    async def call_again() -> None:
        calls.call(anyio.lowlevel.checkpoint)

    with pytest.raises(RuntimeError, match="wait for itself"):
        calls.call(call_again)
    calls.close()
