"""Calls of Python functions, in all threads, of one warm recall and one save.

    python benchmarks/calls.py [--facts 10000] [--rounds 20] [--functions 30] [--json]

The store is that of `benchmarks/recall.py`. *First* is the first run of a query, whose records are read from the disk,
and *again* its second. A save is of one value into a product's scope. Unlike times, the figures hardly depend on the
machine. With ``--functions``, the most frequent functions are listed as well.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import numpy as np
from recall import DIMENSION, NOW, ONE, TOPICS, Words, fill, memory_over, near, unit

from factmem import Concept

LIKES = Concept.multiple("likes", "What the user likes")


class Calls:
    """A count of the calls of Python functions in all threads that are started after it."""

    def __init__(self) -> None:
        self._functions: Counter[str] = Counter()
        self._counting = False
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    async def of(self, work: Awaitable[Any]) -> Counter[str]:
        """Await something, and return the number of calls of each function meanwhile."""
        self._functions, self._counting = Counter(), True
        try:
            await work
        finally:
            self._counting = False
        return self._functions

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and self._counting:
            self._functions[f"{Path(frame.f_code.co_filename).name}: {frame.f_code.co_qualname}"] += 1


async def measure(facts: int, rounds: int, functions: int) -> dict[str, Any]:
    """Return the median numbers of calls, and the median calls of the most frequent functions of each operation."""
    centres = unit(np.random.default_rng(0).standard_normal((TOPICS, DIMENSION), dtype=np.float32))
    vectors, words = near(centres, 2 * rounds, np.random.default_rng(2)), Words(2)
    queries = [f"{words.sentence(5)} q{number}" for number in range(2 * rounds)]
    counts: dict[str, list[int]] = {}
    found: dict[str, Any] = {}
    calls = Calls()  # before the first thread is started
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "facts.db"
        await fill(path, facts, centres)
        async with memory_over(path, vectors) as memory:
            for warming in queries[rounds:]:
                await memory.recall(warming)
                await memory.save(LIKES.fact([warming], timestamp=NOW), scope=ONE)
            await memory.recall(queries[-1])
            works: dict[str, Callable[[str], Awaitable[Any]]] = {
                "hybrid, first": lambda query: memory.recall(query),
                "hybrid, again": lambda query: memory.recall(query),
                "semantic": lambda query: memory.recall(query, lexical=False),
                "save": lambda query: memory.save(LIKES.fact([f"tea of {query}"], timestamp=NOW), scope=ONE),
            }
            for name, work in works.items():
                called = [await calls.of(work(query)) for query in queries[:rounds]]
                counts[name] = [of.total() for of in called]
                usual = Counter({it: statistics.median(of[it] for of in called) for it in set().union(*called)})
                found[name] = dict(usual.most_common(functions))
        sys.setprofile(None)
        threading.setprofile(None)
    return {"calls": {name: statistics.median(numbers) for name, numbers in counts.items()}, "functions": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--functions", type=int, default=0, help="number of functions to list")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    result = anyio.run(measure, options.facts, options.rounds, options.functions)
    if options.json:
        print(json.dumps(result))
        return
    for name, number in result["calls"].items():
        print(f"{name:>16}: {number:,.0f} calls")
        for function, often in result["functions"][name].items():
            print(f"{often:>26.1f} {function}")


if __name__ == "__main__":
    main()
