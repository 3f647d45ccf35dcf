"""Forks processes that save facts until they are done or killed; a new interpreter for each would take too long.

Every line on standard input is an order: ``address<TAB>first number<TAB>how many<TAB>processes``. Told on
standard output: ``started <pid>`` for each process, ``kept <number>`` for each save that returned,
``failed <error>``, and ``ended`` when all processes of the order are gone.
"""

from __future__ import annotations

import datetime as dt
import os
import sys

import anyio
import numpy  # noqa: F401  # every import that a child would make, made once
from anyio.to_thread import run_sync  # noqa: F401

from factmem.facts import Concept
from factmem.providers import open_provider, provider_entry_points
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

NUMBERS = Concept.multiple("numbers", "Two values a save, so that half a save would show")
USER = MemorySubject("user")
TASKS = 4
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def save(address: str, numbers: range) -> None:
    async with open_provider(address) as provider:

        async def save_every(start: int) -> None:
            for number in numbers[start::TASKS]:
                timestamp = NOON + dt.timedelta(seconds=number)
                fact = NUMBERS.fact([f"{number} a", f"{number} b"], timestamp=timestamp)
                await provider.save(fact, USER, MemoryScope.agent(f"{number % 2}"))
                tell(f"kept {number}")

        async with anyio.create_task_group() as tasks:
            for start in range(TASKS):
                tasks.start_soon(save_every, start)


def fork(address: str, numbers: range) -> int:
    pid = os.fork()
    if pid:
        tell(f"started {pid}")
        return pid
    try:
        anyio.run(save, address, numbers)
    except BaseException as error:
        tell(f"failed {error!r}")
        os._exit(1)
    os._exit(0)


def main() -> None:
    for name in ("file", "sqlite-vec"):
        provider_entry_points()[name].load()
    for line in sys.stdin:
        address, first, count, processes = line.rstrip("\n").split("\t")
        starts = range(int(first), int(first) + int(count) * int(processes), int(count))
        for pid in [fork(address, range(start, start + int(count))) for start in starts]:
            os.waitpid(pid, 0)
        tell("ended")


if __name__ == "__main__":
    main()
