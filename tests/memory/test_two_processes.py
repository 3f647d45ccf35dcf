"""Two real processes on one store file submit overlapping halves of a conversation to a model behind a socket."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import attrs
import pytest

from factmem.llm import InstructorModel
from factmem.providers.registry import open_provider
from factmem.records import AssertionState
from factmem.testing.chat_answers import chat_answer
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.memory.telling import USER, log_of, opened, over_the_wire, said, talk

pytestmark = pytest.mark.processes

WHOLE = talk(*(f"I have a cat{number}." for number in range(12)))
HALVES = {"earlier": (0, 8), "later": (4, 12)}
ALL = sorted(f"cat{number}" for number in range(12))


async def submit(address: str, base_url: str, start: int, end: int) -> None:
    """Run in a process of its own: wait for a signal, submit a part, wait until it is read, and print the outcome."""
    model = InstructorModel("loopback", base_url=base_url, api_key="none")
    async with open_provider(address) as provider, opened(provider, model) as memory:
        await (await memory.inbox.resume()).wait()
        sys.stdout.write("open\n")
        sys.stdout.flush()
        await anyio.to_thread.run_sync(sys.stdin.readline)
        part = attrs.evolve(WHOLE, messages=WHOLE.messages[start:end])
        (outcome,) = await (await memory.remember_many([part], subject=USER)).wait()
        sys.stdout.write(f"{outcome.failure} {' '.join(said(outcome.records))}\n")


@attrs.define
class Together:
    """A responder that answers after both processes have asked, so that each reads words the other is reading."""

    both: threading.Barrier = attrs.field(factory=lambda: threading.Barrier(2, timeout=60))
    asked: int = 0
    lock: threading.Lock = attrs.field(factory=threading.Lock)

    def __call__(self, path: str, request: dict[str, Any]) -> Answer:
        with self.lock:
            self.asked += 1
            first = self.asked <= 2
        if first:
            self.both.wait()
        return chat_answer(over_the_wire(request))


def started(*arguments: str) -> subprocess.Popen[str]:
    program = "import sys, anyio; from tests.memory import test_two_processes as t; a = sys.argv[1:]; "
    program += "anyio.run(t.submit, a[0], a[1], int(a[2]), int(a[3]))"
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), str(root / "providers"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": path},
    )


@pytest.mark.timeout(240)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("name", ["sqlite-vec", "file"])
async def test_overlapping_halves_are_read_once_and_to_the_end(name: str, tmp_path: Path) -> None:
    address = f"{name}:{tmp_path / 'store'}"
    with LoopbackOpenAIServer(Together()) as server:
        halves = [started(address, server.base_url, str(start), str(end)) for start, end in HALVES.values()]
        for half in halves:  # the later one would otherwise resume the words that the other has submitted
            assert half.stdout is not None
            assert half.stdout.readline() == "open\n"
        for half in halves:
            assert half.stdin is not None
            half.stdin.write("go\n")
            half.stdin.flush()
        printed = [half.communicate(timeout=120) for half in halves]
        asked = len(server.requests)
    for (out, err), (start, end) in zip(printed, HALVES.values(), strict=True):
        assert out == f"None {' '.join(sorted(f'cat{number}' for number in range(start, end)))}\n", err
    assert asked == 3  # both halves, and the messages left by the slower one
    async with open_provider(address) as provider:
        memory = opened(provider)
        records = await memory.list_records()
        assert said(records) == ALL
        assert [len(record.evidence) for record in records] == [1] * len(ALL)
        states = (await log_of(provider))[1]
        assert states == {AssertionState.ACTIVE: 12, AssertionState.RETRACTED: 12}
        assert await memory.inbox.dead_letters.list() == ()
