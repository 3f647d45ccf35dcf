"""The whole comparison: every peer, with finished measurements reused."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import attrs
from peers.cases import Case, cases_of
from peers.environments import CannotInstallError, cache_folder, python_of
from peers.field import FACTMEM, FIELD, Contestant
from peers.quality import quality_of
from peers.session import PeerFailedError, Worker
from peers.short_cases import SHORT, short_case
from peers.speed import Round, Workload, medians_of, ratios_of, take_turns
from peers.vectors import embedder_name
from rich.console import Console
from rich.progress import Progress

__all__ = ["Plan", "drive"]

T = TypeVar("T")
HERE = Path(__file__).parent
MODULES = {"quality": ("quality", "cases"), "speed": ("speed", "facts")}


@attrs.frozen(kw_only=True)
class Plan:
    """Plan of the measurements.

    Attributes:
        peers: names in `FIELD` of the peers to measure.
        sizes: numbers of facts, for the speed.
        rounds: number of rounds, for the speed.
        files: files of dated conversations, for the quality.
        questions: number of questions of each file; None for all.
        measures: ``speed``, ``quality`` or both.
        again: repeat finished measurements.
        kept: measure nothing, and report finished measurements.
    """

    peers: tuple[str, ...]
    sizes: tuple[int, ...]
    rounds: int = 3
    files: tuple[Path, ...] = ()
    questions: int | None = None
    measures: tuple[str, ...] = ("quality", "speed")
    again: bool = False
    kept: bool = False


def drive(plan: Plan) -> dict[str, Any]:
    """Run all measurements of a plan, and return the results as one JSON object."""
    rounds: dict[str, dict[int, Any]] = {}
    peers: dict[str, dict[str, Any]] = {}
    with Progress(console=Console(stderr=True)) as progress, tempfile.TemporaryDirectory(dir=_folder("work")) as work:
        names = (FACTMEM, *plan.peers)
        bar = progress.add_task("peers", total=len(names))
        for name in names:
            progress.update(bar, description=name)
            measurer = _Measurer(plan, Path(work), progress)
            peers[name] = measurer.described(name)
            rounds[name] = measurer.rounds
            progress.advance(bar)
    for size in plan.sizes:
        own = [each for name in plan.peers for each in rounds[name].get(size, {}).get("factmem", [])]
        if own:
            peers[FACTMEM]["speed"][str(size)] = medians_of(own)
    return {"about": _about(plan), "peers": peers}


@attrs.define
class _Measurer:
    """Measurements of one contestant, with finished ones reused."""

    plan: Plan
    work: Path
    progress: Progress
    rounds: dict[int, Any] = attrs.field(init=False, factory=dict)

    def described(self, name: str) -> dict[str, Any]:
        contestant = FIELD[name]
        found: dict[str, Any] = {"title": contestant.title, "versions": contestant.versions}
        try:
            worker = self._worker(contestant)
        except CannotInstallError as error:
            return found | {"unavailable": str(error)}
        measures = set(contestant.measures) & set(self.plan.measures)
        if "quality" in measures:
            found["quality"] = self._quality_of_all(name, worker)
        found["speed"] = {}
        for size in self.plan.sizes if name != FACTMEM and "speed" in measures else ():
            load = Workload(size=size, rounds=self.plan.rounds, singles=min(50, size // 4))
            self.rounds[size] = self._kept(name, "speed", partial(self._speed, worker, load), [str(load), _library()])
            found["speed"][str(size)] = _result(self.rounds[size])
        return found

    def _worker(self, contestant: Contestant) -> Worker:
        python = python_of(contestant.requirements)
        return Worker(contestant.adapter, python, home=self.work / "home" / contestant.adapter)

    def _quality_of_all(self, name: str, worker: Worker) -> dict[str, Any]:
        """Return the figures of all files for each kind of search."""
        merged: dict[str, Any] = {}
        for title, cases, data in self._sets():
            found = self._kept(name, "quality", partial(self._quality, worker, title, cases), data)
            for way, figures in found.items():
                if way == "unavailable":
                    merged[way] = "; ".join(filter(None, [merged.get(way), f"{title}: {figures}"]))
                else:
                    merged[way] = merged.get(way, {}) | figures
        return merged

    def _sets(self) -> Iterator[tuple[str, Callable[[], Iterable[Case]], list[str]]]:
        """Yield each set of questions: its title, its cases, and digests of the data."""
        for path in self.plan.files:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            yield path.stem, partial(cases_of, path, self.plan.questions), [digest, str(self.plan.questions)]
        for name in SHORT:
            case = short_case(name)
            yield name, partial(iter, [case]), [name, repr(case), *(item.text for item in case.items)]

    def _quality(self, worker: Worker, title: str, read: Callable[[], Iterable[Case]]) -> dict[str, Any]:
        cases = list(read())
        return self._with_bar(f"quality, {title}", len(cases), partial(_asked, worker, cases, self.work / "quality"))

    def _speed(self, worker: Worker, load: Workload) -> dict[str, list[Round]]:
        own = self._worker(FIELD[FACTMEM])
        title = f"speed, {load.size:,} facts"
        return self._with_bar(title, load.rounds * 2, partial(take_turns, worker, own, load, self.work / "speed"))

    def _with_bar(self, title: str, total: int, do: Callable[[Callable[[], None]], T]) -> T:
        bar = self.progress.add_task(f"  {title}", total=total)
        try:
            return do(partial(self.progress.advance, bar))
        finally:
            self.progress.remove_task(bar)

    def _kept(self, name: str, kind: str, do: Callable[[], Any], depends: Iterable[str]) -> Any:
        """Return the result of an earlier run of the same code and data, or measure and store it."""
        contestant = FIELD[name]
        modules = (f"adapters/{contestant.adapter}", "worker", "protocol", *MODULES[kind])
        code = [(HERE / f"{module}.py").read_text(encoding="utf-8") for module in modules]
        own = [_library()] if name == FACTMEM else []
        digest = _digest([embedder_name(), *depends, *own, *contestant.versions, *code])
        kept = _folder("finished") / f"{name}-{kind}-{digest}.json"
        earlier = (
            json.loads(kept.read_text(encoding="utf-8"))
            if kept.exists()
            else {"unavailable": "not measured in this run"}
        )
        if self.plan.kept or ("unavailable" not in earlier and not self.plan.again):
            return earlier
        try:
            found = do()
        except PeerFailedError as error:
            found = {"unavailable": str(error)}
        kept.write_text(json.dumps(found), encoding="utf-8")
        return found


def _asked(worker: Worker, cases: list[Case], folder: Path, tick: Callable[[], None]) -> dict[str, Any]:
    return quality_of(worker, cases, folder, tick)


def _result(rounds: dict[str, Any]) -> dict[str, Any]:
    if "unavailable" in rounds:
        return rounds
    return medians_of(rounds["peer"]) | {"factmem_is_faster": ratios_of(rounds)}


def _library() -> str:
    """Return a digest of factmem's own code."""
    found = [find_spec(package) for package in ("factmem", "factmem_sqlite_vec")]
    folders = [Path(spec.origin).parent for spec in found if spec and spec.origin]
    return _digest(path.read_text(encoding="utf-8") for folder in folders for path in sorted(folder.rglob("*.py")))


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _folder(name: str) -> Path:
    folder = cache_folder() / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _about(plan: Plan) -> dict[str, Any]:
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "sizes": plan.sizes,
        "rounds": plan.rounds,
        "files": [path.name for path in plan.files],
        "questions": plan.questions or "all",
    }
