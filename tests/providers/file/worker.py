"""A process that saves to a store, for the tests of several processes: root, name, count, file size limit."""

from __future__ import annotations

import datetime as dt
import resource
import sys
from pathlib import Path

import anyio
from factmem_file import LocalFileMemoryProvider

from factmem.errors import StoreUnavailableError
from factmem.facts import Concept
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

LIKES = Concept.multiple("likes", "likes")


async def main(root: Path, name: str, count: int, limit: int) -> None:
    provider = LocalFileMemoryProvider(root)
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    for number in range(count):
        fact = LIKES.fact([f"{name}-{number}"], timestamp=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
        scope = MemoryScope.agent(f"agent{number % 3}")
        try:
            await provider.save(fact, MemorySubject("user"), scope)
        except StoreUnavailableError as error:
            print(f"refused {number} {error}", flush=True)
            return
        print(f"{name}-{number}", flush=True)


anyio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
