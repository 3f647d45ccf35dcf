"""A process of tests: some tasks that save numbers of their own, one at a time.

python writing_process.py ADDRESS FIRST COUNT TASKS
"""

from __future__ import annotations

import sys
from typing import Any

import anyio
from factmem_postgres import PostgresMemoryProvider

from factmem.facts import Concept, MultipleFacts
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

NUMBERS = Concept.multiple("numbers", "One a save", int)


async def write(provider: PostgresMemoryProvider, numbers: Any) -> None:
    for number in numbers:
        await provider.save(
            MultipleFacts(NUMBERS, (number,)), MemorySubject("user"), MemoryScope.agent(f"{number % 5}")
        )
        print(number, flush=True)


async def main(address: str, first: int, count: int, tasks: int) -> None:
    async with PostgresMemoryProvider(address) as provider, anyio.create_task_group() as group:
        for task in range(tasks):
            group.start_soon(write, provider, range(first + task, first + count, tasks))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
