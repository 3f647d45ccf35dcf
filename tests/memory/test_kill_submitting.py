"""No submitted text is lost: neither to `kill -9` at any moment nor to a process that ends without closing.

The same experiments lose 20 of 20 texts in CrewAI (killed half a second after `remember_many` returned) and 15 of
15 (the interpreter ended by itself): it acknowledges texts that are only in the memory of the process.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from factmem.abc.capabilities import KeepsLog
from factmem.facts import STATEMENT
from factmem.fold import states_of
from factmem.providers.registry import open_provider
from factmem.records import AssertionState, Recorded
from tests.memory.submitting_processes import NUMBERS, memory_at, text_of

pytestmark = pytest.mark.processes

SCRIPT = Path(__file__).with_name("submitting_processes.py")
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
KILLS_PER_STORE = 5
durable_providers = pytest.mark.parametrize("name", ["file", "sqlite-vec"])


class Hands:
    """The process that forks the submitting processes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._handed: set[int] = set()
        self._pid = 0
        self._ended = False

    def start(self, address: str, first: int) -> int:
        """Start a process that submits numbered texts from a number on, and return its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{address}\t{first}\t10000\n")
        self._process.stdin.flush()
        self._handed, self._pid, self._ended = set(), 0, False
        while not self._pid:
            self._read()
        return self._pid

    def first_handed(self) -> None:
        """Wait until one submission has returned."""
        while not self._handed and not self._ended:
            self._read()

    def handed(self) -> set[int]:
        """Wait until the process has ended, and return the numbers whose submission returned."""
        while not self._ended:
            self._read()
        return self._handed

    def _read(self) -> None:
        assert self._process.stdout is not None
        match self._process.stdout.readline().split(maxsplit=1):
            case ["started", pid]:
                self._pid = int(pid)
            case ["handed", numbers]:
                self._handed |= set(range(*map(int, numbers.split())))
            case ["ended"]:
                self._ended = True
            case other:
                pytest.fail(" ".join(other) or "the handing process is gone")


@pytest.fixture(scope="module")
def hands() -> Iterator[Hands]:
    command = [sys.executable, str(SCRIPT)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        yield Hands(process)
        assert process.stdin is not None
        process.stdin.close()


async def numbers_in(address: str) -> tuple[Counter[int], set[str]]:
    """Return the numbers read and the pending texts verbatim, after a restart and before resuming."""
    async with memory_at(address, pause=None) as memory:
        records = await memory.list_records()
    read = Counter(record.value for record in records if record.concept.keyword == NUMBERS.keyword)
    return read, {record.value for record in records if record.concept.keyword == STATEMENT.keyword}


async def read_on(address: str) -> None:
    """Open the store with a detector, which resumes by itself, and wait until nothing is pending."""
    async with memory_at(address) as memory:
        await (await memory.inbox.resume()).wait()


async def states_at(address: str) -> Counter[tuple[str, AssertionState]]:
    """Return the number of assertions of each concept in each state."""
    async with open_provider(address) as provider:
        assert isinstance(provider, KeepsLog)
        log = await provider.changes(None)
    states = states_of(log)
    return Counter((entry.assertion.keyword, states[entry.id]) for entry in log if isinstance(entry, Recorded))


def check_nothing_lost(address: str, handed: set[int]) -> None:
    """Check that each acknowledged text is read or pending, and that resuming stores each fact exactly once."""
    read, waiting = anyio.run(numbers_in, address)
    assert handed <= set(read) | {number for number in handed if text_of(number) in waiting}
    there = set(read) | {int(text.split()[-1].rstrip(".")) for text in waiting}
    anyio.run(read_on, address)
    read, waiting = anyio.run(numbers_in, address)
    assert not waiting
    assert read == Counter(there)
    states = anyio.run(states_at, address)
    assert states == {
        (NUMBERS.keyword, AssertionState.ACTIVE): len(there),
        (STATEMENT.keyword, AssertionState.RETRACTED): len(there),
    }


@pytest.mark.timeout(1800)
@durable_providers
def test_no_submitted_text_is_lost_to_a_kill(name: str, hands: Hands, tmp_path: Path, big: bool) -> None:
    """The kill comes while opening, resuming, submitting or applying, and again on the store left by a kill."""
    chance = random.Random(5)
    for store in range((200 if big else 5) // KILLS_PER_STORE):
        address = f"{name}:{tmp_path / str(store)}"
        handed: set[int] = set()
        for kill in range(KILLS_PER_STORE):
            pid = hands.start(address, kill * 10_000)
            if kill != 1:
                hands.first_handed()
            time.sleep(chance.random() * 0.15)
            os.kill(pid, signal.SIGKILL)
            handed |= hands.handed()
        assert handed
        check_nothing_lost(address, handed)


@pytest.mark.parametrize(
    ("name", "way"), [("file", "_exit"), *(("sqlite-vec", way) for way in ("_exit", "sys.exit", "return", "blocking"))]
)
def test_a_process_that_just_ends_loses_nothing(name: str, way: str, tmp_path: Path) -> None:
    """The process closes nothing, and does not wait for the model."""
    address = f"{name}:{tmp_path / 'store'}"
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), way, address, "0", "20"],
        capture_output=True,
        text=True,
        timeout=60,
        env=ENVIRONMENT,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "handed 0 20\n"), ended.stderr
    assert "Traceback" not in ended.stderr
    check_nothing_lost(address, set(range(20)))
