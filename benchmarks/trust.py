"""Promises of factmem about its data, each with its goal and the measured figure.

    python benchmarks/trust.py [--only kill --only walls] [--small] [--json]

Each promise is proven by tests, which run here one promise after another at full size (hours on two cores; ``--small``
runs the usual size in minutes). A promise is kept if its tests pass and report every figure that it requires. A test
that is skipped, because the machine cannot mount or trace, reports none.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("FACTMEM_DATA", ROOT.parent / "shared" / "data"))
DURABLE = ("sqlite-vec", "file", "encrypted", "encrypted-sqlite")


def any_figure(_: str) -> bool:
    """Accept any figure, because the test itself asserts the goal."""
    return True


def is_hardly_slower(figure: str) -> bool:
    """Return whether recall on the encrypted store takes at most 1.5 times as long as on the plain one."""
    found = re.search(r"p50 ([\d.]+) ×", figure)
    return found is not None and float(found[1]) <= 1.5


def takes_a_second(figure: str) -> bool:
    """Return whether the slowest answer took at most a second of CPU; no test asserts a time."""
    found = re.match(r"([\d.]+) s", figure)
    return found is not None and float(found[1]) <= 1


@attrs.frozen
class Promise:
    """One line of the table.

    Attributes:
        name: the promise.
        goal: the required figure.
        tests: arguments of pytest, or one benchmark.
        figures: prefixes of the names of the required figures. Without any, the number of passed tests is the figure.
        of_data: those of the figures that need the public data sets.
        of_packages: those that need a package which is not a dependency, with the name that it is imported by.
        good: whether a figure is good enough.
        small: arguments of a benchmark for its usual size.
    """

    name: str
    goal: str
    tests: Sequence[str]
    figures: Sequence[str] = attrs.field(kw_only=True)
    of_data: Sequence[str] = attrs.field(default=(), kw_only=True)
    of_packages: Mapping[str, str] = attrs.field(factory=dict, kw_only=True)
    good: Callable[[str], bool] = attrs.field(default=any_figure, kw_only=True)
    small: Sequence[str] = attrs.field(default=(), kw_only=True)

    def lacks(self, figure: str) -> str | None:
        """Return the name of what a figure needs and this machine does not have; None for nothing."""
        if figure in self.of_data and not DATA.is_dir():
            return "the data sets (FACTMEM_DATA)"
        package = self.of_packages.get(figure)
        return package if package is not None and importlib.util.find_spec(package) is None else None


def each(what: str, stores: Sequence[str] = DURABLE) -> list[str]:
    """Return the prefix of a figure for each store."""
    return [f"{what}, {store}" for store in stores]


HOPS = (
    "remember",
    "generate",
    "ingest_events",
    "remember, call by call",
    "AgentMemory",
    "a page that the user pastes",
    "repeated later",
    "summaries",
    "pages",
    "edits of files",
)
BY_MODEL = (
    "save_memory",
    "save_memory in the user's name",
    "said, result out of sight",
    "files of a deep agent",
    "an edit of the model's own bullet",
    "AGENTS.md of an agent",
    "MCP remember",
    "MCP save_fact",
    "MCP over an agent's memory",
    "ready facts",
    "saved facts",
)
RELIABILITY, ENCRYPTED, SEALED = "tests/reliability", "tests/providers/encrypted", "tests/providers/encrypted_sqlite"
PROMISES = (
    Promise(
        "AES-GCM vectors",
        "all 66 of Wycheproof, all 34 of chunked-encryption",
        ["tests/crypto/test_vectors.py"],
        figures=["AES-GCM vectors"],
    ),
    Promise(
        "bit flips and truncations of an encrypted store",
        "each a typed error, 0 accepted",
        [f"{ENCRYPTED}/test_encrypted_damage.py", f"{SEALED}/test_changed_files.py"],
        figures=[
            "bit flips and truncations of a store",
            "bit flips, encrypted-sqlite",
            "truncations, encrypted-sqlite",
            "page swaps, encrypted-sqlite",
        ],
    ),
    Promise(
        "bit flips and truncations of every store",
        "a typed error or the same answers, never others; found by `check`",
        [f"{RELIABILITY}/test_damaged_files.py"],
        figures=[*each("flipped bits"), *each("cut files")],
    ),
    Promise(
        "swaps of any two of 100 encrypted files",
        "0 accepted",
        [f"{ENCRYPTED}/test_encrypted_damage.py"],
        figures=["swaps of any two of 100 encrypted files", "rolled back files"],
    ),
    Promise(
        "files of encrypted stores removed, emptied, cut, changed, put back",
        "24 and more a store: a typed error or every fact, never less",
        [f"{RELIABILITY}/test_mutated_stores.py"],
        figures=[
            "mutated files, encrypted",
            "mutated files, encrypted-sqlite",
            "flipped bytes of the log, encrypted-sqlite",
        ],
    ),
    Promise(
        "files for their owner alone, and no planted link followed",
        "600 and 700 with every umask; 0 victims overwritten",
        ["tests/providers/test_owner_alone.py"],
        figures=each("owner alone"),
    ),
    Promise(
        "wrong keys",
        "1,000 of 1,000 refused as wrong keys, store unchanged",
        ["tests/providers/test_keys_of_stores.py"],
        figures=each("wrong keys", DURABLE[2:]),
    ),
    Promise(
        "plaintext search over the files of encrypted stores",
        "0 hits",
        [f"{ENCRYPTED}/test_encrypted_plaintext.py", f"{SEALED}/test_nothing_in_clear.py"],
        figures=["plaintext search", "plaintext search, encrypted-sqlite"],
    ),
    Promise(
        "kill -9",
        "10,000 a store: 0 acknowledged lost, 0 unreadable",
        [f"{RELIABILITY}/test_kills.py"],
        figures=[
            *each("kill -9"),
            *each("kill -9 while erasing"),
            *each("kill -9 while the embedder changes"),
        ],
    ),
    Promise(
        "power cuts",
        "500 a store: 0 lost, 0 corrupt",
        [f"{RELIABILITY}/test_power_cuts.py"],
        figures=[*each("power cuts"), *each("power cuts while erasing")],
    ),
    Promise(
        "I/O faults at every call",
        "typed error, old value intact, no flush retried",
        [f"{RELIABILITY}/test_io_faults.py", f"{RELIABILITY}/test_full_disks.py"],
        figures=[
            *each("I/O faults while saving"),
            *each("I/O faults while making the store"),
            *each("full disk"),
            *each("short writes"),
        ],
    ),
    Promise(
        "8 processes × 1,000 saves; 1,000 tasks in one process",
        "8,000 and 1,000 facts",
        [f"{RELIABILITY}/test_kills.py"],
        figures=[*each("8 processes"), *each("1,000 tasks"), *each("two processes make one store")],
    ),
    Promise(
        "cancellations in the middle of a save",
        "1,000: 0 torn",
        [f"{RELIABILITY}/test_cancellation.py"],
        figures=[f"cancellations, {store}, {loop}" for store in DURABLE for loop in ("asyncio", "trio")],
    ),
    Promise(
        "seeded simulation of the disk, the clock and the death of the process",
        "10,000 seeds: 0 acknowledged lost, 0 in part, 0 erased come back, every store opens",
        [f"{RELIABILITY}/test_simulation.py"],
        figures=[
            *each("simulation", [*DURABLE, "memory"]),
            *each("deaths inside rotation", DURABLE[2:]),
            *each("deaths inside erasure"),
            *each("deaths inside migration", [DURABLE[0], DURABLE[3]]),
        ],
    ),
    Promise(
        "clocks that jump",
        "0 lost, 0 answers changed; after a step back the later save is current, and the program is warned once",
        [f"{RELIABILITY}/test_clocks.py"],
        figures=[*each("clock jumps"), *each("clock steps back", ("memory", *DURABLE))],
    ),
    Promise(
        "names",
        "100,000 fuzzed: 0 escapes, 0 collisions",
        ["tests/providers/file/test_file_names.py"],
        figures=["names"],
    ),
    Promise(
        "malformed stores, documents and imports",
        "1,000,000 inputs: 0 untyped exceptions",
        ["tests/malformed"],
        figures=[
            *("malformed documents", "malformed values", "malformed shapes", "malformed imports"),
            *each("malformed stores"),
        ],
    ),
    Promise(
        "tenancy, private facts",
        "10,000 random cases (what one read path tells one caller): 0 leaks",
        ["tests/walls"],
        figures=["tenancy, private facts"],
    ),
    Promise(
        "forget on a full disk",
        "done, or a typed error that leaves the store as it was; no trace once there is room",
        [f"{RELIABILITY}/test_full_disks.py"],
        figures=each("forget on a full disk"),
    ),
    Promise(
        "erase",
        "0 hits afterwards, every provider",
        ["tests/forgetting"],
        figures=each("erase"),
    ),
    Promise(
        "stateful model checking against a plain dict",
        "100,000 steps: 0 differences",
        ["tests/models"],
        figures=[*each("stateful model"), "stateful model of the memory"],
    ),
    Promise(
        "recall on an encrypted store of 10,000 facts",
        "within 1.5 × the plain store's p50; the first answer reported",
        ["benchmarks/encrypted.py"],
        figures=["recall"],
        good=is_hardly_slower,
        small=["--facts", "1000", "--rounds", "1"],
    ),
    Promise(
        "poisoning",
        "AMSB 15 of 15, 0 of 6 false; 0.1% on real dialogue at most",
        ["tests/poison"],
        figures=["poisoning, AMSB", "poisoning, false positives on real dialogue"],
        of_data=["poisoning, false positives on real dialogue"],
        of_packages={"poisoning, AMSB": "agent_memory_guard"},
    ),
    Promise(
        "evidence supports the value",
        "no verifier: forged, 4 of 150 believed (old: 1%); honest, 70% in English and 55% in others, 0.5% dropped",
        ["benchmarks/evidence.py"],
        figures=[f"{sort}, {name}" for sort in ("forged", "honest") for name in ("old", "new")],
    ),
    Promise(
        "a model's answer of 10 MB",
        "1 s of CPU at most",
        ["tests/detection/test_long_answers.py"],
        figures=["an answer of 10 MB"],
        good=takes_a_second,
    ),
    Promise(
        "regular expressions",
        "every one linear at 1 MB",
        ["tests/malformed/test_words.py"],
        figures=["regular expressions"],
    ),
    Promise(
        "a lie in several hops: a tool, a page or a file, the assistant, the next session",
        "474 cases: 0 believed; at most 1% of honest statements held back",
        ["tests/poison/test_taint.py"],
        figures=[
            *each("poisoning in several hops", HOPS),
            "poisoning in several hops, honest statements held back",
        ],
        of_data=["poisoning in several hops, honest statements held back"],
    ),
    Promise(
        "a lie that a model writes down itself: by its tools, in files, over MCP, as ready facts",
        "700 cases: 0 believed",
        ["tests/poison/test_taint_by_model.py"],
        figures=each("poisoning in several hops", BY_MODEL),
    ),
    Promise(
        "views of scopes and subjects, a server confined to either",
        "1,000 worlds: 0 answers differ by what lies outside",
        ["tests/walls/test_noninterference.py"],
        figures=["views: scores, order, counts, errors", "views: a server confined to subjects"],
    ),
    Promise(
        "two event loops on one memory",
        "a typed error at once",
        ["tests/memory/test_loops.py"],
        figures=[],
    ),
    Promise(
        "MCP clients that are not trusted, or send malformed lines",
        "nothing trusted erased, quotas kept, every line answered; tools/list of 12 KB at most",
        ["tests/mcp/test_trust.py", "tests/mcp/test_malformed_lines.py", "tests/mcp/test_schema.py"],
        figures=[],
    ),
    Promise(
        "sequences of other organizations, words forgotten by another process",
        "numbers and pages tell nothing of others; forgotten words are dropped",
        ["tests/walls/test_every_path.py", "tests/forgetting/test_mirrors.py"],
        figures=[],
    ),
    Promise(
        "a lie in other words, all of them everyday words",
        "no goal but more: 66 paraphrases, at once and later",
        ["tests/poison/test_taint.py"],
        figures=["paraphrases in everyday words, at once", "paraphrases in everyday words, later"],
    ),
    Promise(
        "trust before time: the assistant changes nothing that the user said",
        "0 values replaced, removed or hidden, in the fold, in plans and in every store",
        ["tests/vocabulary/test_folding.py", "tests/consolidation/test_hostile_plans.py"],
        figures=["hostile plans of a lower origin"],
    ),
)


@attrs.frozen
class Outcome:
    """Outcome of checking a promise.

    Attributes:
        promise: the promise.
        figures: the reported figures, with their names.
        missing: the required figures that were not reported.
        skipped: the figures that need something which is absent, and what that is.
        passed: whether the tests passed.
        seconds: their duration.
        command: the command that ran them.
    """

    promise: Promise
    figures: Sequence[tuple[str, str]]
    missing: Sequence[str]
    skipped: Mapping[str, str]
    passed: bool
    seconds: float
    command: str

    @property
    def kept(self) -> bool:
        """Whether the promise was kept."""
        return self.passed and not self.missing and all(self.promise.good(figure) for _, figure in self.figures)


def keep(promise: Promise, *, big: bool) -> Outcome:
    """Run the tests of a promise, or its benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        promises = Path(folder) / "promises"
        arguments = _arguments(promise, big)
        started = time.perf_counter()
        run = subprocess.run(
            [sys.executable, *arguments, *(["--promises", str(promises)] if "pytest" in arguments else [])],
            cwd=ROOT,
            check=False,
            stdout=subprocess.PIPE,
            text=True,
        )
        seconds = time.perf_counter() - started
        lines = promises.read_text(encoding="utf-8").splitlines() if promises.exists() else []
    if run.returncode:
        print(run.stdout, file=sys.stderr)
    figures = list(dict.fromkeys((line["promise"], line["figure"]) for line in map(json.loads, lines)))
    if "pytest" not in arguments and run.stdout:
        figures = _measured(json.loads(run.stdout))
    if not promise.figures:
        figures = [("tests", counted[0] if (counted := re.search(r"\d+ passed", run.stdout)) else "none passed")]
    unreported = [name for name in promise.figures if not any(found.startswith(name) for found, _ in figures)]
    skipped = {name: lack for name in unreported if (lack := promise.lacks(name)) is not None}
    missing = [name for name in unreported if name not in skipped]
    command = " ".join(["python", *arguments])
    return Outcome(promise, figures, missing, skipped, run.returncode == 0, seconds, command)


def _arguments(promise: Promise, big: bool) -> list[str]:
    if promise.tests[0].startswith("benchmarks/"):
        return [*promise.tests, "--json", *([] if big else promise.small)]
    return ["-m", "pytest", "-q", *promise.tests, *(["--big"] if big else [])]


def _measured(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the figures that a benchmark printed: those it names, or those of recall."""
    if "figures" in found:
        return list(found["figures"].items())
    ratio, first = found["recall_ratio_to_file"], found["first_answer_s"]["encrypted"]
    figure = f"{found['facts']:,} facts: p50 {ratio} × that of the plain files, the first answer after {first} s"
    return [("recall", figure)]


def table_of(outcomes: Sequence[Outcome]) -> Table:
    """Return the outcomes as a table."""
    table = Table("promise", "goal", "figure", "kept", "command", show_lines=True)
    for outcome in outcomes:
        lines = [f"{name}: {figure}" for name, figure in outcome.figures]
        lines += [f"{name}: not reported" for name in outcome.missing]
        lines += [f"{name}: skipped, this needs {lack}" for name, lack in outcome.skipped.items()]
        kept = "yes" if outcome.kept else "NO"
        table.add_row(outcome.promise.name, outcome.promise.goal, "\n".join(lines), kept, outcome.command)
    return table


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as a JSON object."""
    return {
        "promise": outcome.promise.name,
        "goal": outcome.promise.goal,
        "figures": [{"name": name, "figure": figure} for name, figure in outcome.figures],
        "missing": list(outcome.missing),
        "skipped": dict(outcome.skipped),
        "kept": outcome.kept,
        "seconds": round(outcome.seconds),
        "command": outcome.command,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Test every promise, and show its figures.")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a part of a promise's name")
    parser.add_argument("--small", action="store_true", help="run the tests at their usual size")
    parser.add_argument("--json", action="store_true", help="print one JSON object per promise")
    options = parser.parse_args()
    wanted = [promise for promise in PROMISES if not options.only or any(part in promise.name for part in options.only)]
    outcomes = []
    for promise in wanted:
        outcome = keep(promise, big=not options.small)
        outcomes.append(outcome)
        if options.json:
            print(json.dumps(as_json(outcome), ensure_ascii=False), flush=True)
        else:
            kept = "kept" if outcome.kept else "NOT KEPT"
            print(f"{promise.name}: {kept} after {outcome.seconds:.0f} s", file=sys.stderr, flush=True)
    if not options.json:
        Console(width=None if sys.stdout.isatty() else 200).print(table_of(outcomes))
    sys.exit(not all(outcome.kept for outcome in outcomes))


if __name__ == "__main__":
    main()
