"""Blocking calls from threads to the event loop of a memory."""

from __future__ import annotations

import threading

import anyio
import pytest

from factmem import BlockingMemory, Memory
from factmem.errors import InvalidDataError, ProviderClosedError, WrongLoopError
from factmem.event_loops import ProgramLoops
from factmem.memory.blocking import MemoryThread


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
