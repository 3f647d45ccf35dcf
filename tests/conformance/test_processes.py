"""What durable providers promise to survive: `kill -9` at any moment, and many processes on one store."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from factmem.facts import Concept
from factmem.providers import open_provider
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

NUMBERS = Concept.multiple("numbers", "Two values a save, so that half a save would show")
KILLS_PER_STORE = 8
durable_providers = pytest.mark.parametrize("name", ["file", "sqlite-vec"])


class Savers:
    """The process that forks the processes that save."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._pids: list[int] = []
        self._kept: set[int] = set()
        self._ended = False

    def start(self, address: str, *, first: int = 0, count: int, processes: int = 1) -> list[int]:
        """Let processes save so many numbered facts each; return their process ids."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{address}\t{first}\t{count}\t{processes}\n")
        self._process.stdin.flush()
        while len(self._pids) < processes:
            self._read()
        pids, self._pids = self._pids, []
        return pids

    def first_kept(self) -> None:
        """Wait until one save has returned."""
        while not self._kept and not self._ended:
            self._read()

    def kept(self) -> set[int]:
        """Wait until the processes are gone; return the numbers whose saves returned."""
        while not self._ended:
            self._read()
        kept, self._kept, self._ended = self._kept, set(), False
        return kept

    def _read(self) -> None:
        assert self._process.stdout is not None
        match self._process.stdout.readline().split(maxsplit=1):
            case ["started", pid]:
                self._pids.append(int(pid))
            case ["kept", number]:
                self._kept.add(int(number))
            case ["ended"]:
                self._ended = True
            case other:
                pytest.fail(" ".join(other) or "the saving process is gone")


@pytest.fixture(scope="module")
def savers() -> Iterator[Savers]:
    command = [sys.executable, str(Path(__file__).with_name("saving_processes.py"))]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield Savers(process)
        assert process.stdin is not None
        process.stdin.close()


async def saved(address: str) -> set[int]:
    """The numbers in a store; each must be there whole."""
    found: list[str] = []
    async with open_provider(address) as provider:
        for agent in ("0", "1"):
            fact = await provider.load(NUMBERS, MemorySubject("user"), MemoryScope.agent(agent))
            found.extend(fact.values if fact else ())
    halves = [{int(value.split()[0]) for value in found if value.endswith(end)} for end in ("a", "b")]
    assert halves[0] == halves[1]
    assert len(found) == 2 * len(halves[0])
    return halves[0]


@pytest.mark.timeout(1800)
@durable_providers
def test_no_acknowledged_save_is_lost_to_a_kill(name: str, savers: Savers, tmp_path: Path, big: bool) -> None:
    """At any moment: while opening, while saving four facts at once, and again on what a kill left behind."""
    chance = random.Random(9)
    for store in range((2_000 if big else 200) // KILLS_PER_STORE):
        address = f"{name}:{tmp_path / str(store)}"
        acknowledged: set[int] = set()
        for kill in range(KILLS_PER_STORE):
            (pid,) = savers.start(address, first=kill * 100_000, count=100_000)
            if kill % 3:
                savers.first_kept()
            time.sleep(chance.random() * 0.02)
            os.kill(pid, signal.SIGKILL)
            acknowledged |= savers.kept()
        assert acknowledged
        assert acknowledged <= anyio.run(saved, address)


@durable_providers
def test_many_processes_share_one_store(name: str, savers: Savers, tmp_path: Path, big: bool) -> None:
    """Eight processes with four tasks each: every save returns, and every fact is there once."""
    count = 250 if big else 50
    address = f"{name}:{tmp_path / 'store'}"
    savers.start(address, count=count, processes=8)
    everything = set(range(8 * count))
    assert savers.kept() == everything
    assert anyio.run(saved, address) == everything
