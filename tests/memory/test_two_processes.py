"""Two real processes on one store file submit overlapping halves of a conversation to a model behind a socket."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
from multiprocessing.synchronize import Barrier
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
from tests.fork_server import ForkServer
from tests.memory.telling import USER, log_of, opened, over_the_wire, said, talk

pytestmark = pytest.mark.processes

WHOLE = talk(*(f"I have a cat{number}." for number in range(12)))
HALVES = {"earlier": (0, 8), "later": (4, 12)}
ALL = sorted(f"cat{number}" for number in range(12))

opened_by_both: Barrier


async def submit(address: str, base_url: str, start: int, end: int) -> tuple[str | None, list[str]]:
    """Run in a process of its own: wait for the other, submit a part, wait until it is read, and return the outcome."""
    model = InstructorModel("loopback", base_url=base_url, api_key="none")
    async with open_provider(address) as provider, opened(provider, model) as memory:
        await (await memory.inbox.resume()).wait()
        await anyio.to_thread.run_sync(opened_by_both.wait, 60)
        part = attrs.evolve(WHOLE, messages=WHOLE.messages[start:end])
        (outcome,) = await (await memory.remember_many([part], subject=USER)).wait()
        return outcome.failure, said(outcome.records)


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


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("name", ["sqlite-vec", "file"])
async def test_overlapping_halves_are_read_once_and_to_the_end(
    name: str, tmp_path: Path, fork_server: ForkServer
) -> None:
    address = f"{name}:{tmp_path / 'store'}"
    script = ("-m", "tests.memory.test_two_processes", address)
    with LoopbackOpenAIServer(Together()) as server:
        done = fork_server.run(
            *script, server.base_url, cwd=Path(__file__).parents[2], env=os.environ, timeout=120, outputs=tmp_path
        )
        asked = len(server.requests)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        [None, sorted(f"cat{number}" for number in range(start, end))] for start, end in HALVES.values()
    ]
    assert asked == 3  # both halves, and the messages left by the slower one
    async with open_provider(address) as provider:
        memory = opened(provider)
        records = await memory.list_records()
        assert said(records) == ALL
        assert [len(record.evidence) for record in records] == [1] * len(ALL)
        states = (await log_of(provider))[1]
        assert states == {AssertionState.ACTIVE: 12, AssertionState.RETRACTED: 12}
        assert await memory.inbox.dead_letters.list() == ()


def begin(barrier: Barrier) -> None:
    """Give this process what both wait at: the later one would otherwise resume the words of the other."""
    global opened_by_both
    opened_by_both = barrier


def main(*store_and_model: str) -> None:
    parts = [(submit, *store_and_model, *half) for half in HALVES.values()]
    fork = multiprocessing.get_context("fork")
    with fork.Pool(2, begin, [fork.Barrier(2)]) as pool:
        json.dump(pool.starmap(anyio.run, parts, chunksize=1), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
