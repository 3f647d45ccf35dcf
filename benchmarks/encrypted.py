"""Cost of encryption: recall, the first answer, durable saves and a rotation, compared with plain stores.

    python benchmarks/encrypted.py [--facts 10000] [--queries 40] [--saves 320] [--rounds 3] [--json]

The same facts about ten users are in three stores: encrypted files, plain files, one SQLite file. In each round
every store is opened anew and queried (*first answer*: opening, reading and indexing everything, one recall), then
all get the same questions in turn, one store after the other for each question. A save is one call of `save`
with one new value; when it returns, the value is on disk. All figures are medians of the rounds; ratios are to
the plain files.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
from factmem_encrypted import EncryptedMemoryProvider
from factmem_file import LocalFileMemoryProvider
from factmem_sqlite_vec import SqliteVecMemoryProvider
from rich.console import Console
from rich.table import Table

from factmem import STATEMENT, Memory, MemoryScope, MultipleFacts
from factmem.crypto import SecretKey
from factmem.recall.embedders import default_embedder
from factmem.subjects import MemorySubject

KEY = SecretKey(bytes(range(32)))
STORES = ("encrypted", "file", "sqlite-vec")
THINGS = ("tea", "lamps", "chairs", "bread", "cables", "flags", "paint", "glass")
TASKS = (1, 8, 64)
USER = MemorySubject("user")
SCOPE = MemoryScope.agent("clerk")


def opened(store: str, folder: Path) -> Any:
    """Open a provider of one of the stores."""
    if store == "encrypted":
        return EncryptedMemoryProvider(folder / store, KEY)
    return LocalFileMemoryProvider(folder / store) if store == "file" else SqliteVecMemoryProvider(folder / "facts.db")


async def fill(store: str, folder: Path, facts: int) -> None:
    """Save facts about ten users."""
    async with opened(store, folder) as provider:
        memory = Memory(provider)
        for start in range(0, facts, 500):
            numbers = range(start, min(start + 500, facts))
            said = tuple(f"Note {n}: lot {n * 7} of {THINGS[n % 8]} goes to hall {n % 13}." for n in numbers)
            about = USER.individual(f"user {start // 500 % 10}")
            await memory.save(MultipleFacts(STATEMENT, said), subject=about, scope=SCOPE)


async def recalls(folder: Path, facts: int, queries: int, rounds: int) -> dict[str, Any]:
    """Measure the first answer of each store, and then interleaved recalls."""
    for store in STORES:
        await fill(store, folder, facts)
    await default_embedder().embed(["the model is loaded"])
    first: dict[str, list[float]] = {store: [] for store in STORES}
    medians: dict[str, list[float]] = {store: [] for store in STORES}
    for number in range(rounds):
        times: dict[str, list[float]] = {store: [] for store in STORES}
        async with contextlib.AsyncExitStack() as stack:
            memories = {}
            for store in rotated(STORES, number):
                started = time.perf_counter()
                memories[store] = Memory(await stack.enter_async_context(opened(store, folder)))
                await memories[store].recall("Where does the tea go?")
                first[store].append(time.perf_counter() - started)
            for query in range(queries):
                question = f"Where does the {THINGS[query % 8]} of lot {query * 7} go?"
                for store in rotated(STORES, query):
                    started = time.perf_counter()
                    assert len(await memories[store].recall(question)) == 10
                    times[store].append((time.perf_counter() - started) * 1000)
        for store in STORES:
            medians[store].append(statistics.median(times[store]))
    p50 = {store: statistics.median(medians[store]) for store in STORES}
    answer = {store: statistics.median(first[store]) for store in STORES}
    return {
        "recall_p50_ms": rounded(p50),
        "recall_ratio_to_file": round(p50["encrypted"] / p50["file"], 2),
        "recall_ratio_to_sqlite": round(p50["encrypted"] / p50["sqlite-vec"], 2),
        "first_answer_s": rounded(answer),
        "first_answer_ratio_to_file": round(answer["encrypted"] / answer["file"], 2),
    }


def rotated(stores: tuple[str, ...], by: int) -> list[str]:
    """Return the stores, starting with another one in each round."""
    return [stores[(by + n) % len(stores)] for n in range(len(stores))]


def rounded(figures: dict[str, float]) -> dict[str, float]:
    return {name: round(figure, 2) for name, figure in figures.items()}


async def saves_per_second(store: str, folder: Path, saves: int, tasks: int) -> float:
    """Divide a number of saves between tasks; the first save, which makes the store, is not timed."""
    values: Iterator[str] = (f"thing number {number}" for number in range(saves))

    async with opened(store, folder) as provider:

        async def work() -> None:
            for value in values:
                await provider.save(MultipleFacts(STATEMENT, (value,)), USER, SCOPE)

        await provider.save(MultipleFacts(STATEMENT, ("the first thing",)), USER, SCOPE)
        started = time.perf_counter()
        async with anyio.create_task_group() as group:
            for _ in range(tasks):
                group.start_soon(work)
        took = time.perf_counter() - started
        assert await provider.version(None) == saves + 1, "an acknowledged save is missing"
    return saves / took


async def saves(folder: Path, count: int, rounds: int) -> list[dict[str, Any]]:
    """Measure interleaved saves to encrypted and plain files, each time in a new store."""
    rates: dict[tuple[int, str], list[float]] = {}
    for number, tasks in itertools.product(range(rounds), TASKS):
        for store in rotated(STORES, number):
            place = folder / f"saves-{number}-{tasks}"
            place.mkdir(exist_ok=True)
            rates.setdefault((tasks, store), []).append(await saves_per_second(store, place, count, tasks))
    found = {key: statistics.median(rate) for key, rate in rates.items()}
    return [
        {
            "tasks": tasks,
            **{store: round(found[tasks, store]) for store in STORES},
            "ratio_to_file": round(found[tasks, "encrypted"] / found[tasks, "file"], 2),
        }
        for tasks in TASKS
    ]


async def rotation(folder: Path, facts: int) -> dict[str, Any]:
    """Measure a complete rotation of the encrypted store, after which no old key opens anything."""
    async with opened("encrypted", folder) as provider:
        started = time.perf_counter()
        await provider.rotate(SecretKey.generate())
        took = time.perf_counter() - started
        assert len(await provider.changes(None)) == facts
    return {"rotation_s": round(took, 2), "rotated_facts_per_second": round(facts / took)}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = await recalls(folder, options.facts, options.queries, options.rounds)
        figures["saves_per_second"] = await saves(folder, options.saves, options.rounds)
        return {"facts": options.facts, **figures, **await rotation(folder, options.facts)}


def show(figures: dict[str, Any], console: Console) -> None:
    table = Table("", *STORES, "ratio to file", title=f"{figures['facts']:,} facts (medians)")
    recall, first = figures["recall_p50_ms"], figures["first_answer_s"]
    table.add_row("recall, ms", *(f"{recall[store]}" for store in STORES), f"{figures['recall_ratio_to_file']}")
    table.add_row(
        "first answer, s", *(f"{first[store]}" for store in STORES), f"{figures['first_answer_ratio_to_file']}"
    )
    for row in figures["saves_per_second"]:
        title = f"saves per second, {row['tasks']} tasks"
        table.add_row(title, *(f"{row[store]}" for store in STORES), f"{row['ratio_to_file']}")
    console.print(table)
    console.print(f"rotated in {figures['rotation_s']} s, {figures['rotated_facts_per_second']:,} facts per second")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the cost of encryption.")
    parser.add_argument("--facts", type=int, default=10_000, help="number of facts in the stores")
    parser.add_argument("--queries", type=int, default=40, help="number of questions per round")
    parser.add_argument("--saves", type=int, default=320, help="number of saves per measurement")
    parser.add_argument("--rounds", type=int, default=3, help="number of interleaved rounds")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    figures = anyio.run(measure, options)
    if options.json:
        print(json.dumps(figures))
    else:
        show(figures, Console())


if __name__ == "__main__":
    main()
