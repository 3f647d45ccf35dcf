"""Blocking calls from threads to the event loop of a memory."""

from __future__ import annotations

import threading

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from factmem import BlockingMemory, Memory
from factmem.errors import InvalidDataError, ProviderClosedError, WrongLoopError
from factmem.memory.blocking import Calls


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


def test_closing_waits_for_a_call_under_way() -> None:
    begun, results = threading.Event(), []

    async def work() -> str:
        begun.set()
        await anyio.sleep(0.05)
        return "done"

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Calls()) as calls:
        thread = threading.Thread(target=lambda: results.append(calls.call(work)))
        thread.start()
        begun.wait(30)
    thread.join(30)
    assert results == ["done"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_call_from_the_thread_of_the_loop_is_refused() -> None:
    async with Calls() as calls:
        with pytest.raises(RuntimeError, match="wait for itself"):
            calls.call(anyio.lowlevel.checkpoint)
