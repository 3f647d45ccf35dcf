"""Durable saves per second: group commit against a commit for each save, and eight processes on one store.

    python benchmarks/save.py [--saves 960] [--rounds 5] [--processes 8] [--json]

A save is one call of `save` with one new value; when it returns, the value is on disk (WAL, synchronous=FULL).
*Commit per save* is the same provider and the same tasks, limited to one save at a time. Both are measured in
alternation, with a new file each time, and the medians of the rounds are compared. Then processes save 250 facts
each to one SQLite file and to one directory, and every acknowledged fact is verified.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
from factmem_sqlite_vec import SqliteVecMemoryProvider
from rich.console import Console
from rich.table import Table

from factmem.abc.provider import AgentMemoryProvider
from factmem.facts import Concept
from factmem.providers.registry import open_provider
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

TASKS = (1, 8, 64)
EACH = 250
LIKES = Concept.multiple("likes", "What the user likes")
USER = MemorySubject("user")
SCOPE = MemoryScope.agent("planner")


async def save(provider: AgentMemoryProvider, value: str) -> None:
    await provider.save(LIKES.fact([value], timestamp=dt.datetime.now(dt.UTC)), USER, SCOPE)


async def saves_per_second(path: Path, saves: int, tasks: int, *, grouped: bool) -> float:
    """Divide a number of saves between tasks; the first save, which makes the file, is not timed."""
    values: Iterator[str] = (f"thing number {number}" for number in range(saves))
    one_at_a_time = anyio.Lock()

    async def work() -> None:
        for value in values:
            async with AsyncExitStack() as stack:
                if not grouped:
                    await stack.enter_async_context(one_at_a_time)
                await save(provider, value)

    async with SqliteVecMemoryProvider(path) as provider:
        await save(provider, "the first thing")
        started = time.perf_counter()
        async with anyio.create_task_group() as group:
            for _ in range(tasks):
                group.start_soon(work)
        took = time.perf_counter() - started
        kept = await provider.version(None)
    assert kept == saves + 1, f"{saves + 1} saves were acknowledged, {kept} are there"
    return saves / took


async def compare(folder: Path, saves: int, rounds: int) -> list[dict[str, Any]]:
    rates: dict[tuple[int, bool], list[float]] = {}
    for number in range(rounds):
        for tasks in TASKS:
            for grouped in (False, True):
                path = folder / f"{number}-{tasks}-{grouped}.db"
                rate = await saves_per_second(path, saves, tasks, grouped=grouped)
                rates.setdefault((tasks, grouped), []).append(rate)
    medians = {key: statistics.median(found) for key, found in rates.items()}
    return [
        {
            "tasks": tasks,
            "commit_per_save": round(medians[tasks, False]),
            "group_commit": round(medians[tasks, True]),
            "ratio": round(medians[tasks, True] / medians[tasks, False], 1),
        }
        for tasks in TASKS
    ]


async def keep_saving(address: str, name: str) -> None:
    """Save in one of several processes, and print each acknowledged save."""
    async with open_provider(address) as provider:
        for number in range(EACH):
            await save(provider, f"{name}-{number}")
            print(f"{name}-{number}", flush=True)


def share(address: str, processes: int) -> dict[str, Any]:
    """Run processes that save to one store at the same time, and verify every acknowledged fact."""
    started = time.perf_counter()
    command = [sys.executable, __file__, "--save-to", address, "--as"]
    workers = [
        subprocess.Popen([*command, f"process{number}"], stdout=subprocess.PIPE, text=True)
        for number in range(processes)
    ]
    said = {line for worker in workers for line in worker.communicate()[0].split()}
    took = time.perf_counter() - started
    failed = sum(worker.returncode != 0 for worker in workers)
    kept = anyio.run(everything, address)
    return {
        "store": address.partition(":")[0],
        "processes": processes,
        "saves": processes * EACH,
        "acknowledged": len(said),
        "kept": len(said & kept),
        "lost": len(said - kept),
        "failed_processes": failed,
        "saves_per_second": round(len(said) / took),
    }


async def everything(address: str) -> set[str]:
    async with open_provider(address) as provider:
        fact = await provider.load(LIKES, USER, SCOPE)
        return set(fact.values) if fact else set()


def show(rates: list[dict[str, Any]], shared: list[dict[str, Any]], console: Console) -> None:
    table = Table("tasks", "commit per save", "group commit", "ratio", title="durable saves per second (medians)")
    for row in rates:
        table.add_row(str(row["tasks"]), f"{row['commit_per_save']:,}", f"{row['group_commit']:,}", f"{row['ratio']} x")
    console.print(table)
    table = Table("store", "processes", "saves", "acknowledged", "kept", "lost", "per second", title="one store, many")
    for row in shared:
        names = ("store", "processes", "saves", "acknowledged", "kept", "lost", "saves_per_second")
        table.add_row(*(str(row[name]) for name in names))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure durable saves.")
    parser.add_argument("--saves", type=int, default=960, help="number of saves per measurement")
    parser.add_argument("--rounds", type=int, default=5, help="number of interleaved rounds")
    parser.add_argument("--processes", type=int, default=8, help="number of processes on one store (0: skip)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save-to", metavar="ADDRESS", help=argparse.SUPPRESS)
    parser.add_argument("--as", dest="name", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.save_to:
        anyio.run(keep_saving, options.save_to, options.name)
        return
    with tempfile.TemporaryDirectory() as folder:
        rates = anyio.run(compare, Path(folder), options.saves, options.rounds)
        addresses = [f"sqlite-vec:{folder}/shared.db?busy_timeout=60", f"file:{folder}/shared"]
        shared = [share(address, options.processes) for address in addresses] if options.processes else []
    if options.json:
        print(json.dumps({"durable_saves": rates, "processes": shared}))
    else:
        show(rates, shared, Console())
    if any(row["lost"] or row["failed_processes"] for row in shared):
        sys.exit("an acknowledged fact is missing, or a process failed")


if __name__ == "__main__":
    main()
