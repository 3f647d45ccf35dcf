"""Cost of writing: facts in batches, durable single saves, and bytes on disk, compared with bare rows and another
commit.

    python benchmarks/writes.py [--facts 10000] [--saves 500] [--rounds 5] [--folder /dev/shm] [--against WORKTREE]

Vectors are precomputed, so that no embedder counts. *Batches* are calls of `remember_many` with 500 messages each,
*singles* calls of `save` through the blocking API; when a call returns, its facts are on disk (WAL, synchronous=FULL).
*Bare rows* are the same texts and vectors, written to one table of SQLite by `sqlite3`, equally often and equally
durable. Each measurement runs in a process of its own, in alternation, and ratios are medians over the rounds. With a
worktree of another commit, its code is measured as well: ``git worktree add ../before COMMIT``.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
from peers.facts import made_up_facts

from factmem import BlockingMemory, Memory, Message
from factmem.abc.capabilities import EmbedderIdentity
from factmem.facts import Concept

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["WAYS", "measure", "ratios"]

BATCH: Final = 500
DIMENSION: Final = 256
SAID_AT: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LIKES: Final = Concept.multiple("likes", "What the user likes")
HERE: Final = Path(__file__).parents[1]


class Watch:
    """Stopwatch of CPU and wall time since construction, in seconds."""

    def __init__(self) -> None:
        self._began = time.process_time(), time.perf_counter()

    def stop(self) -> tuple[float, float]:
        """Return the CPU and the wall time so far."""
        return time.process_time() - self._began[0], time.perf_counter() - self._began[1]


class Given:
    """An embedder with precomputed vectors."""

    def __init__(self, texts: Sequence[str]) -> None:
        import numpy as np

        made = np.random.default_rng(7).standard_normal((len(texts), DIMENSION)).astype(np.float32)
        self._rows = dict(zip(texts, made / np.linalg.norm(made, axis=1, keepdims=True), strict=True))

    async def identity(self) -> EmbedderIdentity:
        return EmbedderIdentity(name="given", dimension=DIMENSION)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        # An older commit embeds a fact with its concept.
        return np.asarray([self._rows[text.rpartition(": ")[2]] for text in texts])

    def row(self, text: str) -> bytes:
        """Return the bytes of a vector."""
        return bytes(self._rows[text].tobytes())


def batches(path: Path, texts: Sequence[str]) -> tuple[float, float]:
    """Remember messages, 500 at once; return the CPU and wall time."""

    async def remember() -> tuple[float, float]:
        said = [Message(content=text, id=str(number), timestamp=SAID_AT) for number, text in enumerate(texts)]
        async with Memory(f"sqlite-vec:{path}", embedder=Given(texts)) as memory:
            await memory.remember(said[0])
            watch = Watch()
            for start in range(1, len(said), BATCH):
                await memory.remember_many(said[start : start + BATCH])
            return watch.stop()

    return anyio.run(remember)


def singles(path: Path, texts: Sequence[str]) -> tuple[float, float]:
    """Save facts one by one through the blocking API; return the CPU and wall time."""
    facts = [LIKES.fact([text], timestamp=SAID_AT) for text in texts]
    with BlockingMemory(Memory(f"sqlite-vec:{path}", embedder=Given(texts))) as memory:
        memory.save(facts[0])
        watch = Watch()
        for fact in facts[1:]:
            memory.save(fact)
        return watch.stop()


def rows_in_batches(path: Path, texts: Sequence[str]) -> tuple[float, float]:
    """Write bare rows, 500 at once; return the CPU and wall time."""
    return _rows(path, texts, BATCH)


def rows_one_by_one(path: Path, texts: Sequence[str]) -> tuple[float, float]:
    """Write bare rows one by one; return the CPU and wall time."""
    return _rows(path, texts, 1)


def _rows(path: Path, texts: Sequence[str], batch: int) -> tuple[float, float]:
    given = Given(texts)
    rows = [(text, given.row(text)) for text in texts]
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE facts(id INTEGER PRIMARY KEY, text TEXT NOT NULL, vector BLOB NOT NULL)")
    watch = Watch()
    for start in range(0, len(rows), batch):
        connection.executemany("INSERT INTO facts(text, vector) VALUES (?, ?)", rows[start : start + batch])
        connection.commit()
    took = watch.stop()
    connection.close()
    return took


WAYS: Final[Mapping[str, Callable[[Path, Sequence[str]], tuple[float, float]]]] = {
    "batches": batches,
    "rows in batches": rows_in_batches,
    "singles": singles,
    "rows one by one": rows_one_by_one,
}
"""Kinds of writing, each followed by the bare rows it is compared with."""


def measure(way: str, facts: int, folder: Path) -> dict[str, float]:
    """Write facts to a new store in one of the ways.

    Returns:
        CPU and wall time per fact, in microseconds, and bytes on disk per fact.
    """
    texts = [item.text for item in made_up_facts(facts)]
    with tempfile.TemporaryDirectory(dir=folder) as place:
        cpu, wall = WAYS[way](Path(place) / "facts.db", texts)
        size = sum(path.stat().st_size for path in Path(place).rglob("*") if path.is_file())
    return {"cpu": cpu / facts * 1e6, "wall": wall / facts * 1e6, "bytes": size / facts}


def ratios(rounds: Sequence[Mapping[str, float]], others: Sequence[Mapping[str, float]], what: str) -> float:
    """Return the median over rounds of a figure relative to the adjacent one."""
    return statistics.median(one[what] / other[what] for one, other in zip(rounds, others, strict=True))


def _in_process(way: str, facts: int, folder: Path, tree: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", way, "--facts", str(facts), "--folder", str(folder)]
    path = os.pathsep.join(map(str, (tree, tree / "providers")))
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path})
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def _figures(options: Any) -> dict[str, Any]:
    trees = {"now": HERE} | ({"before": options.against} if options.against else {})
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for _ in range(options.rounds):
        for way in WAYS:
            facts = options.saves if way in ("singles", "rows one by one") else options.facts
            for name, tree in trees.items():
                if name == "now" or "rows" not in way:
                    figures = _in_process(way, facts, options.folder, tree)
                    found.setdefault((way, name), []).append(figures)
    result: dict[str, Any] = {}
    for way, rows in (("batches", "rows in batches"), ("singles", "rows one by one")):
        now = found[way, "now"]
        result[way] = {
            "cpu_us": round(statistics.median(item["cpu"] for item in now), 1),
            "per_cpu_second": round(1e6 / statistics.median(item["cpu"] for item in now)),
            "cpu_against_rows": round(ratios(now, found[rows, "now"], "cpu"), 2),
        }
        if options.against:
            result[way]["times_as_fast_by_cpu"] = round(ratios(found[way, "before"], now, "cpu"), 2)
            result[way]["times_as_fast_by_clock"] = round(ratios(found[way, "before"], now, "wall"), 2)
            result[way]["cpu_us_before"] = round(statistics.median(item["cpu"] for item in found[way, "before"]), 1)
    for name in trees:
        size = statistics.median(item["bytes"] for item in found["batches", name])
        result[f"bytes_of_10000_facts_{name}"] = round(size * 10_000)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=10_000, help="number of facts written in batches")
    parser.add_argument("--saves", type=int, default=500, help="number of facts saved one by one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="folder of the stores")
    parser.add_argument("--against", type=Path, metavar="WORKTREE", help="a checkout of another commit")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.facts, options.folder)))
        return
    result = _figures(options)
    if options.json:
        print(json.dumps(result))
        return
    for way in ("batches", "singles"):
        figures = result[way]
        print(
            f"{way:>8}: {figures['per_cpu_second']:,} facts a CPU second ({figures['cpu_us']} us each), "
            f"{figures['cpu_against_rows']} x the CPU of bare rows"
        )
        if options.against:
            print(
                f"{'':>10}{figures['times_as_fast_by_cpu']} x as fast as before by CPU "
                f"({figures['cpu_us_before']} us), {figures['times_as_fast_by_clock']} x by the clock"
            )
    for name in ("now", "before"):
        if (size := result.get(f"bytes_of_10000_facts_{name}")) is not None:
            print(f"10,000 facts on disk, {name}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
