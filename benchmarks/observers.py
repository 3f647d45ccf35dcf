"""Cost of observers: recall with none, with one that does nothing, and with OpenTelemetry.

    python benchmarks/observers.py [--facts 10000] [--queries 300] [--json]

One memory for each, over the same store, gets the same queries; they alternate query by query, so that other load of
the
machine affects all of them alike. The figures are medians in ms of wall time and CPU time (which is more reliable on a
busy machine), and ratios to the memory without observers.
OpenTelemetry is measured without an SDK, and with one that drops its data.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import anyio
from opentelemetry.sdk.trace import TracerProvider

from factmem import STATEMENT, Memory, MultipleFacts
from factmem.abc import MemoryObserver, OperationEvent
from factmem.integrations.opentelemetry import OpenTelemetryObserver

THINGS = ("tea", "lamps", "chairs", "bread", "cables", "flags", "paint", "glass")


def nothing(event: OperationEvent, /) -> None:
    """Ignore an event."""


def observers() -> Mapping[str, tuple[MemoryObserver, ...]]:
    """Return the sets of observers to compare, by name."""
    return {
        "nobody": (),
        "one observer": (nothing,),
        "OpenTelemetry, no SDK": (OpenTelemetryObserver(),),
        "OpenTelemetry, SDK": (OpenTelemetryObserver(tracer_provider=TracerProvider()),),
    }


async def measured(facts: int, queries: int) -> dict[str, tuple[float, float]]:
    """Return the medians of recall in ms, of wall time and CPU time, by set of observers."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"sqlite-vec:{Path(folder) / 'facts.db'}"
        async with Memory(address) as memory:
            for start in range(0, facts, 1000):
                numbers = range(start, min(start + 1000, facts))
                said = tuple(f"Note {n}: lot {n * 7} of {THINGS[n % 8]} goes to hall {n % 13}." for n in numbers)
                await memory.save(MultipleFacts(STATEMENT, said))
        memories = {name: Memory(address, observers=watching) for name, watching in observers().items()}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in memories}
        for number in range(-10, queries):
            query = f"where does the {THINGS[number % 8]} of lot {number * 7} go?"
            for name, memory in memories.items():
                began, worked = time.perf_counter(), time.process_time()
                await memory.recall(query)
                if number >= 0:
                    times[name].append((time.perf_counter() - began, time.process_time() - worked))
        for memory in memories.values():
            await memory.aclose()
    return {name: (_median(spent, 0), _median(spent, 1)) for name, spent in times.items()}


def _median(times: list[tuple[float, float]], which: int) -> float:
    return statistics.median(both[which] for both in times) * 1000


def _row(both: tuple[float, float], nobody: tuple[float, float]) -> dict[str, float]:
    (ms, cpu), (alone, cpu_alone) = both, nobody
    figures = {"ms": ms, "ratio": ms / alone, "cpu_ms": cpu, "cpu_ratio": cpu / cpu_alone}
    return {name: round(figure, 3) for name, figure in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = anyio.run(measured, options.facts, options.queries)
    rows = {name: _row(both, found["nobody"]) for name, both in found.items()}
    if options.json:
        print(json.dumps({"facts": options.facts, "queries": options.queries, **rows}))
        return
    for name, row in rows.items():
        print(f"{name:24} {row['ms']:8.3f} ms {row['ratio']:6.3f}x   {row['cpu_ms']:8.3f} ms {row['cpu_ratio']:6.3f}x")


if __name__ == "__main__":
    main()
