"""A memory that another task opened, or closes, or whose opener was cancelled."""

from __future__ import annotations

import contextlib

import anyio
import pytest

from factmem import InMemoryProvider, Memory
from factmem.memory.background import Submission
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
