"""Cold load of one fact at an exact place: `Memory.load` against `provider.load`, CPU time and memory.

    python benchmarks/load_place.py [--statements 8000] [--rounds 5]

A store is filled once. Each load runs in a process of its own, after the same load from a store with one fact, so that
imports do not count. The minimum CPU time of the rounds is shown, with the growth of the resident memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anyio

from factmem import Memory, MemoryScope, MemorySubject, MultipleFacts, SingleConcept, SingleFact
from factmem.facts import STATEMENT
from factmem.providers.registry import open_provider
from factmem.testing import HashEmbedder

USER: Final = MemorySubject("user", "The user", priority_level=0)
SEATS: Final = SingleConcept("seats", "Number of seats", value_type=int)
PLACE: Final = MemoryScope.parse("/product/alpha")


async def fill(address: str, statements: int) -> None:
    """Save statements and one typed fact."""
    async with Memory(address, embedder=HashEmbedder()) as memory:
        for start in range(0, statements, 1000):
            texts = tuple(f"Statement number {number} says something." for number in range(start, start + 1000))
            await memory.save(MultipleFacts(STATEMENT, texts), subject=USER, scope=PLACE)
        await memory.save(SingleFact(SEATS, 5), subject=USER, scope=PLACE)


async def load(address: str, way: str) -> Mapping[str, float]:
    """Load the fact through one of the two, and measure it."""
    with tempfile.TemporaryDirectory() as folder:
        small = f"sqlite-vec:{Path(folder) / 'small.db'}"
        await fill(small, 0)
        await _loaded(small, way)
    memory_before, cpu_before = _resident(), time.process_time()
    await _loaded(address, way)
    return {"cpu": time.process_time() - cpu_before, "grown": _resident() - memory_before}


async def _loaded(address: str, way: str) -> None:
    store = Memory(address, embedder=HashEmbedder()) if way == "memory" else open_provider(address)
    found = await store.load(SEATS, subject=USER, scope=PLACE)
    assert found is not None
    assert found.value == 5
    await store.aclose()


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    """Measure both and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load", nargs=2, help=argparse.SUPPRESS)
    given: Any = parser.parse_args()
    if given.load:
        print(json.dumps(anyio.run(load, *given.load)))
        return
    with tempfile.TemporaryDirectory() as folder:
        address = f"sqlite-vec:{Path(folder) / 'facts.db'}"
        anyio.run(fill, address, given.statements)
        best: dict[str, dict[str, float]] = {}
        for way in ("provider", "memory"):
            runs = []
            for _ in range(given.rounds):
                command = [sys.executable, __file__, "--load", address, way]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                runs.append(json.loads(done.stdout))
            best[way] = min(runs, key=lambda run: float(run["cpu"]))
            print(f"{way:>8}.load  {best[way]['cpu'] * 1000:6.1f} ms CPU  +{best[way]['grown']:.1f} MB")
    print(f"ratio of CPU: {best['memory']['cpu'] / best['provider']['cpu']:.2f}")


if __name__ == "__main__":
    main()
