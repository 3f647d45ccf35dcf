"""CPU time of `FactMemStore` compared with LangGraph's AsyncSqliteStore: 1,800 mixed operations gathered at once.

    python benchmarks/langgraph_store.py [--operations 1800] [--rounds 3] [--json]

Each round opens new stores on disk, fills them with one batch, and gathers reads, writes, searches, deletions and
listings in one shuffled order. CPU time is that of the whole process, all threads included. AsyncSqliteStore is left
out if the package langgraph-checkpoint-sqlite is not installed. Neither store gets a text query, because
AsyncSqliteStore ignores it without an embedder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from langgraph.store.base import BaseStore, PutOp

from factmem import Memory
from factmem.integrations.langgraph import FactMemStore
from factmem.testing import HashEmbedder

try:
    from langgraph.store.sqlite.aio import AsyncSqliteStore  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError:
    AsyncSqliteStore = None

USERS = 20
SHARES = {"put": 8, "get": 6, "search": 2, "delete": 1, "list": 1}
"""Number of operations of each kind among eighteen."""

Run = Callable[[BaseStore], Awaitable[object]]


def operations(count: int) -> list[Run]:
    """Return a number of operations, in the same shuffled order each time."""
    chooser = random.Random(14)
    kinds = [kind for kind, share in SHARES.items() for _ in range(count * share // sum(SHARES.values()))]
    chooser.shuffle(kinds)
    return [_operation(kind, chooser, number) for number, kind in enumerate(kinds)]


def _operation(kind: str, chooser: random.Random, number: int) -> Run:
    namespace, key = ("users", f"user{chooser.randrange(USERS)}"), f"key{chooser.randrange(50)}"
    match kind:
        case "put":
            return lambda store: store.aput(namespace, key, {"text": f"note {number}", "number": number})
        case "get":
            return lambda store: store.aget(namespace, key)
        case "search":
            return lambda store: store.asearch(namespace, filter={"even": True}, limit=10)
        case "delete":
            return lambda store: store.adelete(namespace, f"{key}-gone")
        case _:
            return lambda store: store.alist_namespaces(prefix=("users",), limit=100)


def seeds() -> list[PutOp]:
    """Return the initial items of a store."""
    return [
        PutOp(("users", f"user{user}"), f"key{key}", {"text": f"note of {user}", "even": key % 2 == 0})
        for user in range(USERS)
        for key in range(25)
    ]


async def cpu_of(opened: AbstractAsyncContextManager[BaseStore], runs: Sequence[Run]) -> float:
    """Return the CPU seconds of the operations, gathered at once."""
    async with opened as store:
        await store.abatch(seeds())
        await store.aget(("users", "user0"), "key0")
        started = time.process_time()
        await asyncio.gather(*(run(store) for run in runs))
        return time.process_time() - started


def factmem_store(folder: Path) -> AbstractAsyncContextManager[BaseStore]:
    return FactMemStore(lambda: Memory(f"sqlite-vec:{folder / 'facts.db'}", embedder=HashEmbedder()))


def measure(count: int, rounds: int) -> dict[str, Any]:
    """Return the CPU milliseconds per operation of each store, as medians of interleaved rounds."""
    times: dict[str, list[float]] = {}
    runs = operations(count)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            times.setdefault("factmem", []).append(asyncio.run(cpu_of(factmem_store(Path(folder)), runs)))
            if AsyncSqliteStore is not None:
                theirs = AsyncSqliteStore.from_conn_string(str(Path(folder) / "langgraph.db"))
                times.setdefault("langgraph", []).append(asyncio.run(_set_up(theirs, runs)))
    each = {name: round(statistics.median(found) / len(runs) * 1000, 3) for name, found in times.items()}
    return {"operations": len(runs), "rounds": rounds, "ms_cpu_each": each}


async def _set_up(opened: AbstractAsyncContextManager[Any], runs: Sequence[Run]) -> float:
    async with opened as store:
        await store.setup()
        await store.abatch(seeds())
        started = time.process_time()
        await asyncio.gather(*(run(store) for run in runs))
        return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare FactMemStore with AsyncSqliteStore.")
    parser.add_argument("--operations", type=int, default=1800, help="operations gathered at once")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds; the median is shown")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    result = measure(options.operations, options.rounds)
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['operations']} operations gathered at once, {result['rounds']} rounds")
    for name, milliseconds in result["ms_cpu_each"].items():
        print(f"{name:<10} {milliseconds:>8.3f} ms CPU an operation")


if __name__ == "__main__":
    main()
