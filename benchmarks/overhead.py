"""Overhead of memory on one turn of an agent, without any model: loading known facts, submitting the history.

    python benchmarks/overhead.py [--facts 100 10000 100000] [--turns 30] [--json]

In each turn, one of several users asks a new question: the user's facts are loaded and rendered into the request
(``load``), and the history with the answer is submitted until it is on disk (``save``). The memory is in the default
store with the default embedder, in its own thread, as in an agent.

The baseline of the ratios is the bare numpy scan over the same vectors, with the embedding of the same query. A
task in the agent's event loop wakes every millisecond; its longest delay is the time for which the loop was blocked:
by memory, and in the same run by the scan in a worker thread.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from anyio import to_thread

from factmem import STATEMENT, Memory, MemoryScope, MultipleFacts
from factmem.agent.config import USER, AgentMemoryConfig
from factmem.agent.plugin import AgentMemory
from factmem.recall.embedders import default_embedder

ANSWER = {"role": "assistant", "content": "I shall see to it."}
USERS = 10


async def filled(address: str, facts: int) -> None:
    """Save facts about several users in one scope."""
    async with Memory(address) as memory:
        for start in range(0, facts, 1000):
            numbers = range(start, min(start + 1000, facts))
            said = tuple(f"Note {n}: lot {n * 7} of {THINGS[n % 8]} goes to hall {n % 13}." for n in numbers)
            about = USER.individual(f"user {start // 1000 % USERS}")
            await memory.save(MultipleFacts(STATEMENT, said), subject=about, scope=MemoryScope.agent("clerk"))


THINGS = ("tea", "lamps", "chairs", "bread", "cables", "flags", "paint", "glass")


@contextlib.asynccontextmanager
async def watched() -> AsyncIterator[list[float]]:
    """Yield the delays, in ms, of a task of this loop beyond the millisecond it asked for."""
    waits: list[float] = [0.0]

    async def beat() -> None:
        while True:
            asked = time.perf_counter()
            await anyio.sleep(0.001)
            waits.append((time.perf_counter() - asked) * 1000 - 1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        yield waits
        tasks.cancel_scope.cancel()


async def timed(work: Callable[[int], Any], turns: int) -> tuple[list[float], float]:
    """Call a function in each turn, and return the times in ms and the longest time for which the loop was blocked."""
    times = []
    async with watched() as waits:
        for turn in range(turns):
            started = time.perf_counter()
            await work(turn)
            times.append((time.perf_counter() - started) * 1000)
            await anyio.sleep(0.005)
    return times, max(waits)


async def measure(facts: int, turns: int) -> dict[str, float | int]:
    embedder = default_embedder()
    await embedder.embed(["the model is loaded"])
    vectors = np.random.default_rng(7).standard_normal((facts, 256), dtype=np.float32)
    questions = [f"Where does the {THINGS[turn % 8]} of lot {turn * 7} go?" for turn in range(turns + 1)]

    async def scan(turn: int) -> None:
        (query,) = await embedder.embed([questions[turn]])
        await to_thread.run_sync(lambda: np.argpartition(vectors @ np.asarray(query), -min(50, facts))[-50:])

    with tempfile.TemporaryDirectory() as folder:
        address = f"sqlite-vec:{Path(folder) / 'facts.db'}"
        await filled(address, facts)
        async with AgentMemory(AgentMemoryConfig(store=address, agent_name="clerk")) as memory:

            async def load(turn: int) -> None:
                with memory.run("user 0", f"session {turn}"):
                    rendered = await memory.load_all_facts_to_agent([{"role": "user", "content": questions[turn]}])
                assert len(rendered) == 2

            async def save(turn: int) -> None:
                with memory.run("user 0", f"session {turn}"):
                    await memory.save_facts_from_history([{"role": "user", "content": questions[turn]}, ANSWER])

            started = time.perf_counter()
            await load(turns)
            opened = (time.perf_counter() - started) * 1000
            bare, blocked_by_scan = await timed(scan, turns)
            loaded, blocked_by_load = await timed(load, turns)
            saved, blocked_by_save = await timed(save, turns)
            after, blocked_after = await timed(load, turns)
    baseline = statistics.median(bare)
    return {
        "facts": facts,
        "open_ms": round(opened, 1),
        "scan_ms": round(baseline, 2),
        "load_ms": round(statistics.median(loaded), 2),
        "load_ratio": round(statistics.median(loaded) / baseline, 1),
        "save_ms": round(statistics.median(saved), 2),
        "save_ratio": round(statistics.median(saved) / baseline, 1),
        "load_after_saves_ms": round(statistics.median(after), 2),
        "first_load_after_saves_ms": round(after[0], 2),
        "blocked_ms": round(max(blocked_by_load, blocked_by_save, blocked_after), 1),
        "blocked_by_scan_ms": round(blocked_by_scan, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the overhead of memory on a turn of an agent.")
    parser.add_argument("--facts", type=int, nargs="+", default=[100, 10_000, 100_000], help="numbers of stored facts")
    parser.add_argument("--turns", type=int, default=30, help="number of turns")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    options = parser.parse_args()
    for facts in options.facts:
        result = anyio.run(measure, facts, options.turns)
        if options.json:
            print(json.dumps(result))
            continue
        print(f"{facts:,} facts, opened and asked for the first time in {result['open_ms']} ms")
        for name in ("load", "save"):
            print(f"  {name}   {result[f'{name}_ms']:>9} ms   ({result[f'{name}_ratio']} × the bare scan)")
        after, first = result["load_after_saves_ms"], result["first_load_after_saves_ms"]
        print(f"  load after saves {after} ms, the first one {first} ms")
        print(f"  loop blocked {result['blocked_ms']} ms at the most (by the scan: {result['blocked_by_scan_ms']} ms)")


if __name__ == "__main__":
    main()
