"""A process that saves to a store, for the tests of several processes: file, name, count, file size limit."""

from __future__ import annotations

import datetime as dt
import resource
import signal
import sys
from pathlib import Path

import anyio
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.errors import StoreUnavailableError
from factmem.facts import Concept
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

LIKES = Concept.multiple("likes", "likes")


async def main(path: Path, name: str, count: int, limit: int) -> None:
    provider = SqliteVecMemoryProvider(path, busy_timeout=60)
    if limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    for number in range(count):
        fact = LIKES.fact([f"{name}-{number}"], timestamp=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
        scope = MemoryScope.agent(f"agent{number % 3}")
        try:
            await provider.save(fact, MemorySubject("user"), scope)
        except StoreUnavailableError as error:
            print(f"refused {error}", flush=True)
            return
        print(f"{name}-{number}", flush=True)


anyio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
