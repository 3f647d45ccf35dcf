"""Speed of a peer's saves, opening and searches, compared with factmem in the same run."""

from __future__ import annotations

import itertools
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from peers.facts import made_up_facts, made_up_questions
from peers.protocol import Item, VectorTable
from peers.session import Worker
from peers.vectors import vectors_of

__all__ = ["Round", "Workload", "medians_of", "ratios_of", "take_turns"]

Round = dict[str, float]
"""The figures of one round, by name."""

TOP = 10
WARM_UP = 5


@attrs.frozen(kw_only=True)
class Workload:
    """Workload that is the same for every peer.

    Attributes:
        size: final number of facts in the store.
        rounds: number of rounds.
        singles: number of the facts saved one by one, after the others.
        queries: number of questions for each kind of search.
        patience: seconds of filling after which a store is copied in later rounds.
    """

    size: int
    rounds: int = 3
    singles: int = 50
    queries: int = 40
    patience: float = 8.0


@attrs.frozen
class Arena:
    """A workload with its facts, its questions, their vectors, and the result of an exact search."""

    load: Workload
    facts: list[Item] = attrs.field(repr=False)
    questions: list[str] = attrs.field(repr=False, kw_only=True)
    vectors: Path = attrs.field(kw_only=True)
    nearest: list[set[str]] = attrs.field(repr=False, kw_only=True)


def take_turns(
    peer: Worker, factmem: Worker, load: Workload, folder: Path, tick: Callable[[], None]
) -> dict[str, list[Round]]:
    """Run factmem and a peer on the same workload, alternating round by round.

    Returns:
        The rounds of the ``peer`` and those of ``factmem``; the n-th of both are adjacent in time.

    Raises:
        PeerFailedError: one of them fails.
    """
    arena = _arena(load)
    rounds: dict[str, list[Round]] = {"factmem": [], "peer": []}
    shutil.rmtree(folder, ignore_errors=True)
    for _ in range(load.rounds):
        for name, worker in (("factmem", factmem), ("peer", peer)):
            rounds[name].append(_once(worker, arena, folder / name))
            tick()
    shutil.rmtree(folder, ignore_errors=True)
    return rounds


def medians_of(rounds: Sequence[Round]) -> Round:
    """Return the median of each figure over the rounds that have it."""
    names = dict.fromkeys(name for figures in rounds for name in figures)
    return {name: _rounded(statistics.median(figures[name] for figures in rounds if name in figures)) for name in names}


def ratios_of(rounds: Mapping[str, Sequence[Round]]) -> Round:
    """Return the speedup of factmem: the median over adjacent rounds.

    Search by meaning alone is compared with the same kind; any other kind with factmem's default. Searches are
    compared by wall time, and by CPU time, which other load of the machine does not affect.
    """
    found: dict[str, list[float]] = {}
    for own, peer in zip(rounds["factmem"], rounds["peer"], strict=True):
        for name in ("saves_per_second", "batched_saves_per_second"):
            if name in own and name in peer:
                found.setdefault(name, []).append(own[name] / peer[name])
        for name in peer:
            if name.endswith((" p50_ms", " cpu_ms")):
                default = own[f"hybrid {name.rpartition(' ')[2]}"]
                found.setdefault(name, []).append(peer[name] / own.get(name, default))
    return {name: _rounded(statistics.median(values)) for name, values in found.items()}


def _arena(load: Workload) -> Arena:
    facts, questions = made_up_facts(load.size), made_up_questions(load.queries)
    folder = vectors_of(itertools.chain((fact.text for fact in facts), questions))
    table = VectorTable(folder)
    matrix = np.asarray([table.row(fact.text) for fact in facts])
    nearest = [
        {facts[row].id for row in np.argsort(-(matrix @ np.asarray(table.row(question))))[:TOP]}
        for question in questions
    ]
    return Arena(load, facts, questions=questions, vectors=folder, nearest=nearest)


def _once(worker: Worker, arena: Arena, folder: Path) -> Round:
    store, copy = folder / "store", folder / "copy"
    shutil.rmtree(store, ignore_errors=True)
    first, singles = arena.facts[: -arena.load.singles], arena.facts[-arena.load.singles :]
    figures: Round = {}
    with worker:
        if copy.exists():
            shutil.copytree(copy, store)
            worker.open(store, arena.vectors)
        else:
            opened = worker.open(store, arena.vectors)
            took = worker.add(first, opened["batch"])
            figures["batched_saves_per_second"] = len(first) / took
            if opened["durable"] and took > arena.load.patience:
                worker.close()
                # Some continue background work for a while after closing.
                shutil.copytree(store, copy, ignore=shutil.ignore_patterns(".tmp*"))
                worker.open(store, arena.vectors)
        figures["saves_per_second"] = len(singles) / worker.add(singles, 1)
        figures["writer_peak_mb"] = worker.close()
    figures["disk_mb"] = sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) / 1e6
    return figures | _reading(worker, arena, store)


def _reading(worker: Worker, arena: Arena, store: Path) -> Round:
    """Measure a new process: the time to its first answer, and the times of the others."""
    figures: Round = {}
    with worker:
        opened: dict[str, Any] = worker.open(store, arena.vectors)
        figures["import_s"] = opened["import_seconds"]
        if not opened["durable"]:
            worker.add(arena.facts, opened["batch"])
        for way in opened["ways"]:
            _, warm_up, _ = worker.search(arena.questions[:WARM_UP], TOP, way)
            if opened["durable"] and "open_to_first_answer_s" not in figures:
                figures["open_to_first_answer_s"] = opened["seconds"] + warm_up[0]
            found, seconds, busy = worker.search(arena.questions, TOP, way)
            figures[f"{way} p50_ms"] = statistics.median(seconds) * 1e3
            figures[f"{way} cpu_ms"] = statistics.median(busy) * 1e3
            figures[f"{way} p95_ms"] = float(np.quantile(seconds, 0.95)) * 1e3
            if way == "semantic":
                hits = [len(nearest & set(ids)) for nearest, ids in zip(arena.nearest, found, strict=True)]
                figures["exactness"] = statistics.fmean(hits) / TOP
        figures["reader_peak_mb"] = worker.close()
    return figures


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
