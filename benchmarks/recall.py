"""Time of recall, compared with a bare numpy scan of the same vectors, or with another commit, in the same run.

    python benchmarks/recall.py [--sizes 10000 100000] [--big] [--queries 60] [--json]
    python benchmarks/recall.py --against WORKTREE [--sizes 10000 100000] [--queries 60] [--rounds 5] [--json]

Each size is a store of generated statements with the word frequencies of a language, half of them in conversations of
20, over 100 scopes, with clustered vectors of 256 dimensions. The embedder looks vectors up, so that embedding costs
nothing.

*The scan* is ``M @ q`` and ``argpartition`` over the same float32 matrix, and knows neither words nor time. The scan,
recall by meaning alone, recall by both, and recall in one scope of a hundred alternate query by query; the figures are
the medians and their ratios to the scan. Further figures: the time of a save with the
recall after it, and of a retraction; and the longest time for which the event loop was blocked meanwhile, with the
garbage collector on. `--big` adds a million.

*Opening* is a new process from opening the store to the first answer: its CPU time in user mode, and the growth of its
memory over a process with numpy and the embedder, at the end and at the peak. It alternates with a *bare* process that
reads the same vectors and outlines with SQLite and numpy, and does nothing else.

With a worktree of another commit (``git worktree add ../before COMMIT``), both commits fill stores of their own with
the same facts, and two processes alternate query by query, so that both run on the same machine at the same load.
*First* is the first run of a query, *again* the fastest of the later rounds. Figures are CPU time, and medians of the
ratios of adjacent runs. A commit that ranks by other formulas may return the same few records for every query, and then
reads hardly any: the number of *new records* per query shows it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import apsw
import numpy as np
from factmem_sqlite_vec import SqliteVecMemoryProvider
from rich.console import Console
from rich.table import Table

from factmem import STATEMENT, Concept, FactDetails, Memory, MultipleFacts, SingleFact
from factmem.abc.capabilities import Append, EmbedderIdentity
from factmem.details import Evidence
from factmem.records import Place, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
DIMENSION = 256
BATCH = 2000
SCOPES = 100
TOPICS = 500
ONE = "/product/p7"
NOTE = Concept.single("note", "A note")


class KnownEmbedder:
    """An embedder that looks vectors up: a query's text is its number, and any other text has one fixed direction."""

    def __init__(self, queries: NDArray[np.float32]) -> None:
        self._queries = queries

    async def identity(self) -> EmbedderIdentity:
        return EmbedderIdentity(name="known", dimension=DIMENSION)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), DIMENSION), np.float32)
        rows[:, 0] = 1
        for row, text in enumerate(texts):
            number = text.rpartition(" q")[2]
            if number.isdigit():
                rows[row] = self._queries[int(number)]
        return rows


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    made: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return made


def near(centres: NDArray[np.float32], count: int, random_numbers: np.random.Generator) -> NDArray[np.float32]:
    noise = random_numbers.standard_normal((count, DIMENSION), dtype=np.float32)
    rows = centres[random_numbers.integers(0, TOPICS, count)]
    rows += noise * np.float32(1 / 12)
    return unit(rows)


COMMON = (
    "people year day work home family child friend school food house city car trip travel music book money job "
    "company doctor health water dog cat garden party birthday movie game team phone computer photo picture story "
    "letter plan meeting project class teacher student language love wedding holiday summer winter morning night "
    "weekend dinner lunch breakfast coffee tea bread fruit kitchen store price market bank insurance hospital "
    "medicine pain sleep dream walk run swim bike train flight airport hotel beach mountain river forest weather "
    "rain snow sun colour paint art museum song guitar piano dance sport football race film camera clothes shoes "
    "dress hair eye heart hand baby mother father sister brother daughter son parent husband wife neighbour "
    "street road building office room door window table chair bed light fire power machine tool paper pen idea "
    "question answer problem reason change decision interest hobby skill career business customer product service "
    "order delivery gift ticket address news internet website email message call voice video science history "
    "nature animal bird horse fish plant flower tree "
)
"""The most frequent words are real ones, which have related words."""


class Words:
    """Generator of sentences with the word frequencies of content words; the rarer words are artificial."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        letters = "abcdefghijklmnoprstuvz"
        self._words = ["".join(self._random.choices(letters, k=self._random.randint(3, 9))) for _ in range(30_000)]
        common = COMMON.split()
        self._words[: len(common)] = common
        self._weights = [1 / (rank + 30) for rank in range(len(self._words))]

    def sentence(self, length: int) -> str:
        return " ".join(self._random.choices(self._words, self._weights, k=length))


async def fill(path: Path, size: int, centres: NDArray[np.float32]) -> None:
    words, numbers = Words(1), np.random.default_rng(1)
    provider = SqliteVecMemoryProvider(path)
    await provider.use_embedder(EmbedderIdentity(name="known", dimension=DIMENSION))
    for start in range(0, size, BATCH):
        count = min(BATCH, size - start)
        vectors = near(centres, count, numbers)
        await provider.append(
            [
                Append(assertion=said, vector=vectors[row])
                for row in range(count)
                for said in [statement(words.sentence(12), start + row)]
            ]
        )
    await provider.aclose()
    async with memory_over(path, centres[:1]) as memory:
        await memory.list_records(limit=1)  # missing outlines are made now


def statement(text: str, number: int) -> Any:
    talk, position = divmod(number, 20)
    evidence = Evidence(
        quote=text,
        role="user",
        message_id=f"m{number}",
        conversation_id=f"c{talk}" if talk % 2 else None,
        position=position,
    )
    said_at = NOW - dt.timedelta(hours=number % 5000)
    details = FactDetails(evidence=(evidence,), importance=number % 10 / 10)
    place = Place(MemorySubject.EVERYTHING, MemoryScope.product(f"p{talk % SCOPES}"))
    (said,) = assertions_of(MultipleFacts(STATEMENT, (f"{text} n{number}",), timestamp=said_at), place, details)
    return said


def memory_over(path: Path, queries: NDArray[np.float32]) -> Memory:
    return Memory(f"sqlite-vec:{path}", embedder=KnownEmbedder(queries), clock=lambda: NOW)


async def timed(call: Awaitable[Any]) -> float:
    started = time.perf_counter()
    await call
    return time.perf_counter() - started


async def compare(path: Path, centres: NDArray[np.float32], queries: int) -> dict[str, list[float]]:
    """Measure the scan and the kinds of recall in alternation."""
    vectors = near(centres, queries, np.random.default_rng(2))
    words = Words(2)
    provider = SqliteVecMemoryProvider(path)
    _, matrix = await provider.vectors(None)
    await provider.aclose()
    took: dict[str, list[float]] = {
        "scan": [],
        "semantic": [],
        "hybrid": [],
        "one scope, semantic": [],
        "one scope": [],
    }
    async with memory_over(path, vectors) as memory:
        for number in [*range(5), *range(queries)]:
            query, vector = f"{words.sentence(5)} q{number}", vectors[number]
            started = time.perf_counter()
            scores = matrix @ vector
            np.argpartition(-scores, 10)[:10]
            took["scan"].append(time.perf_counter() - started)
            took["semantic"].append(await timed(memory.recall(query, lexical=False)))
            took["hybrid"].append(await timed(memory.recall(query)))
            took["one scope, semantic"].append(await timed(memory.recall(query, lexical=False, scope=ONE)))
            took["one scope"].append(await timed(memory.recall(query, scope=ONE)))
    return {kind: times[5:] for kind, times in took.items()}


class StillLoop:
    """Measurement of the time for which an event loop is blocked."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        while True:
            started = time.perf_counter()
            await anyio.sleep(0.001)
            self.longest = max(self.longest, time.perf_counter() - started - 0.001)


async def live(path: Path, queries: NDArray[np.float32]) -> dict[str, float]:
    """Open in this process, write and query, while the event loop is measured."""
    async with Memory("memory:", embedder=KnownEmbedder(queries)) as nothing:
        await nothing.recall("hello q0")  # imports on first use are done now
    still = StillLoop()
    saves: list[float] = []
    asks: list[float] = []
    retractions: list[float] = []
    async with anyio.create_task_group() as group:
        group.start_soon(still.watch)
        memory = memory_over(path, queries)
        await memory.__aenter__()
        await memory.recall("hello q0")
        gc.collect()
        still.longest = 0.0
        for number in range(15):
            value = f"note {number} {time.time_ns()}"
            note = SingleFact(NOTE, value, timestamp=NOW)
            saves.append(await timed(memory.save(note, scope=f"/agent/a{number}")))
            asks.append(await timed(memory.recall("note q1")))
            (record,) = await memory.list_records(scope=f"/agent/a{number}", limit=1)
            retractions.append(await timed(memory.retract(record.id)))
            await anyio.sleep(0.01)
            gc.collect(0)
        gc.collect()
        await anyio.sleep(0.01)
        await memory.__aexit__(None, None, None)
        group.cancel_scope.cancel()
    return {
        "save": statistics.median(saves),
        "recall_after_save": statistics.median(asks),
        "retract": statistics.median(retractions),
        "loop_stood_still": still.longest,
    }


def resident(what: str = "VmRSS") -> int:
    """Return the resident memory of this process, in bytes; its peak for ``VmHWM``."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(what)) * 1024


KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "semantic": {"lexical": False},
    "hybrid": {},
    "words": {"semantic": False},
    "one scope": {"scope": ONE},
}
"""Kinds of recall for the comparison of commits."""

COSTS: Final = {"user": "user s", "cpu": "CPU s", "mb": "MB", "peak": "MB at the peak"}
"""Figures of openings, with their units."""

HERE: Final = Path(__file__).parents[1]


async def answer(path: Path, count: int) -> None:
    """Read lines with a kind and the number of a query, and print its CPU time and the number of its new records."""
    words = Words(2)
    async with memory_over(path, queries_of(count)) as memory:
        texts = [f"{words.sentence(5)} q{number}" for number in range(count)]
        for options in KINDS.values():
            await memory.recall("hello q0", **options)
        print("ready", flush=True)
        seen: set[str] = set()
        for line in sys.stdin:
            kind, _, number = line.rpartition(" ")
            started = time.process_time()
            found = await memory.recall(texts[int(number)], **KINDS[kind])
            took = time.process_time() - started
            new = {match.record.id for match in found} - seen
            seen |= new
            print(json.dumps([took, len(new)]), flush=True)


async def opened(path: Path) -> dict[str, float]:
    """Open a store, and run the first query."""
    queries = np.eye(2, DIMENSION, dtype=np.float32)
    async with Memory("memory:", embedder=KnownEmbedder(queries)) as nothing:
        await nothing.recall("hello q0")  # imports on first use are done now
    cost = Cost()
    async with memory_over(path, queries) as memory:
        await memory.recall("hello q0")
        return cost.since()


def read_bare(path: Path) -> dict[str, float]:
    """Read all vectors and outlines of a store, with SQLite and numpy alone."""
    cost = Cost()
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    ((count,),) = connection.execute("SELECT count(*) FROM assertions")
    rows = b"".join([row for (row,) in connection.execute("SELECT embeddings FROM vectors ORDER BY chunk")])
    matrix = np.frombuffer(rows, np.float32).reshape(-1, DIMENSION)[:count]
    bodies = [body for (body,) in connection.execute("SELECT outline FROM assertions")]
    outlines = np.frombuffer(b"".join(bodies), np.uint8)
    assert len(outlines) > count == len(matrix)
    return cost.since()


class Cost:
    """CPU time, in seconds, and growth of memory, in MB, of a part of this process that begins now."""

    def __init__(self) -> None:
        self._resident, self._began = resident(), os.times()

    def since(self) -> dict[str, float]:
        ended = os.times()
        user, system = ended.user - self._began.user, ended.system - self._began.system
        gc.collect()
        grown, most = ((resident(what) - self._resident) / 1e6 for what in ("VmRSS", "VmHWM"))
        return {"user": user, "cpu": user + system, "mb": grown, "peak": most}


def openings(path: Path, rounds: int) -> dict[str, float]:
    """Return medians of opening a store, and of bare reading."""
    runs = [
        {way: json.loads(in_tree(HERE, f"--{way}", str(path))[-1]) for way in ("open", "bare")} for _ in range(rounds)
    ]
    return {f"{way}_{what}": statistics.median(run[way][what] for run in runs) for way in runs[0] for what in COSTS}


def in_tree(tree: Path, *arguments: str) -> list[str]:
    """Run this file with the code of a commit, and return its output."""
    done = subprocess.run(_command(*arguments), env=_environment(tree), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _command(*arguments: str) -> Sequence[str]:
    return (sys.executable, __file__, *arguments)


def _environment(tree: Path) -> dict[str, str]:
    path = os.pathsep.join(map(str, (tree, tree / "providers")))
    return os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}  # threads of BLAS burn CPU while they wait


class Worker:
    """A process that answers queries with the code of a commit.

    Args:
        tree: The worktree of the commit.
        path: The store.
        count: Number of queries.
    """

    def __init__(self, tree: Path, path: Path, count: int) -> None:
        command = _command("--answer", str(path), "--queries", str(count))
        self._process = subprocess.Popen(
            command, env=_environment(tree), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read()

    def ask(self, kind: str, number: int) -> tuple[float, int]:
        """Return the CPU time of a query, in seconds, and the number of its records that no query before returned."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{kind} {number}\n")
        self._process.stdin.flush()
        took, new = json.loads(self._read())
        return took, new

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def against(trees: Mapping[str, Path], paths: Mapping[str, Path], queries: int, rounds: int) -> dict[str, Any]:
    """Compare two commits over stores of the same facts.

    Args:
        trees: The worktrees, ``now`` and ``before``.
        paths: Their stores.
        queries: Number of queries.
        rounds: Number of repetitions of each query, and of openings of the stores.
    """
    result: dict[str, Any] = {}
    for kind in KINDS:
        workers = {name: Worker(tree, paths[name], queries) for name, tree in trees.items()}
        asked = [_in_turns(workers, kind, queries) for _ in range(rounds + 1)]
        for worker in workers.values():
            worker.close()
        first = {name: [took for took, _ in asked[0][name]] for name in trees}
        again = {
            name: [min(times) for times in zip(*([took for took, _ in turn[name]] for turn in asked[1:]), strict=True)]
            for name in trees
        }
        result[kind] = {
            "first": _compared(first, 1e3),
            "again": _compared(again, 1e3),
            "new_records": {name: sum(new for _, new in asked[0][name]) / queries for name in trees},
        }
    runs = [
        {name: json.loads(in_tree(tree, "--open", str(paths[name]))[-1]) for name, tree in trees.items()}
        for _ in range(rounds)
    ]
    for what in COSTS:
        result.setdefault("opening", {})[what] = _compared(
            {name: [run[name][what] for run in runs] for name in trees}, 1.0
        )
    return result


def compare_commits(size: int, before: Path, queries: int, rounds: int) -> dict[str, Any]:
    """Fill stores with the code of this commit and of another one, and compare them."""
    trees = {"now": HERE, "before": before}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{name}.db" for name in trees}
        for name, tree in trees.items():
            in_tree(tree, "--fill", str(paths[name]), "--sizes", str(size))
        return {"facts": size, **against(trees, paths, queries, rounds)}


def _in_turns(workers: Mapping[str, Worker], kind: str, queries: int) -> dict[str, list[tuple[float, int]]]:
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in workers}
    for number in range(queries):
        for name, worker in workers.items():
            found[name].append(worker.ask(kind, number))
    return found


def _compared(figures: Mapping[str, Sequence[float]], scale: float) -> dict[str, float]:
    """Return the medians of both commits, and of the ratios of adjacent runs."""
    pairs = zip(figures["now"], figures["before"], strict=True)
    medians = {name: round(statistics.median(values) * scale, 3) for name, values in figures.items()}
    return {**medians, "ratio": round(statistics.median(now / before for now, before in pairs), 2)}


def show_against(found: Mapping[str, Any]) -> None:
    table = Table(f"{found['facts']:,} facts", "now", "before", "ratio", "new records, now and before")
    for kind in KINDS:
        new = found[kind]["new_records"]
        for when in ("first", "again"):
            figures = found[kind][when]
            row = (f"{kind}, {when}, ms", f"{figures['now']}", f"{figures['before']}", f"{figures['ratio']}")
            table.add_row(*row, f"{new['now']:.1f}, {new['before']:.1f}" if when == "first" else "")
    for what, unit in COSTS.items():
        figures = found["opening"][what]
        table.add_row(f"opening, {unit}", f"{figures['now']:.2f}", f"{figures['before']:.2f}", f"{figures['ratio']}")
    Console().print(table)


def summary(size: int, took: dict[str, list[float]], other: dict[str, float]) -> dict[str, Any]:
    medians = {kind: statistics.median(times) for kind, times in took.items()}
    return {
        "facts": size,
        "ms": {kind: round(median * 1e3, 3) for kind, median in medians.items()},
        "times_the_scan": {kind: round(median / medians["scan"], 2) for kind, median in medians.items()},
        "one_scope_of_the_whole": round(medians["one scope"] / medians["hybrid"], 2),
        **{name: round(value, 4) for name, value in other.items()},
    }


def show(results: Sequence[dict[str, Any]]) -> None:
    table = Table("facts", *(f"{found['facts']:,}" for found in results))
    table.add_row("the scan, ms", *(f"{found['ms']['scan']:.2f}" for found in results))
    for kind in ("semantic", "hybrid"):
        table.add_row(f"{kind}, times the scan", *(f"{found['times_the_scan'][kind]}" for found in results))
    table.add_row("one scope, of the whole", *(f"{found['one_scope_of_the_whole']}" for found in results))
    for what in ("save", "recall_after_save", "retract", "loop_stood_still"):
        table.add_row(f"{what.replace('_', ' ')}, ms", *(f"{found[what] * 1e3:.1f}" for found in results))
    for what, unit in COSTS.items():
        figures = [f"{found[f'open_{what}']:.2f}, {found[f'bare_{what}']:.2f}" for found in results]
        table.add_row(f"opening, bare: {unit}", *figures)
    Console().print(table)


def centres_of_topics() -> NDArray[np.float32]:
    return unit(np.random.default_rng(0).standard_normal((TOPICS, DIMENSION), dtype=np.float32))


def queries_of(count: int) -> NDArray[np.float32]:
    return near(centres_of_topics(), count, np.random.default_rng(2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--big", action="store_true", help="measure a million facts as well")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--against", type=Path, metavar="WORKTREE", help="a checkout of another commit")
    parser.add_argument("--rounds", type=int, default=5, help="number of repetitions of queries and of openings")
    for hidden in ("--live", "--fill", "--answer", "--open", "--bare"):
        parser.add_argument(hidden, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.live:
        print(json.dumps(anyio.run(live, given.live, np.eye(2, DIMENSION, dtype=np.float32))))
        return
    centres, sizes = centres_of_topics(), [*given.sizes, *([1_000_000] if given.big else [])]
    if given.fill:
        anyio.run(fill, given.fill, sizes[0], centres)
    elif given.answer:
        anyio.run(answer, given.answer, given.queries)
    elif given.open:
        print(json.dumps(anyio.run(opened, given.open)))
    elif given.bare:
        print(json.dumps(read_bare(given.bare)))
    elif given.against:
        for size in sizes:
            compared = compare_commits(size, given.against.resolve(), given.queries, given.rounds)
            print(json.dumps(compared)) if given.json else show_against(compared)
    if given.fill or given.answer or given.open or given.bare or given.against:
        return
    results = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "facts.db"
            anyio.run(fill, path, size, centres)
            took = anyio.run(compare, path, centres, given.queries)
            writes = json.loads(in_tree(HERE, "--live", str(path))[-1])
            results.append(summary(size, took, writes | openings(path, given.rounds)))
    print(json.dumps(results, indent=2)) if given.json else show(results)


if __name__ == "__main__":
    main()
