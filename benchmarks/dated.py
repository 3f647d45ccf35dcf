"""Retrieval on dated conversations through the public API, with default settings and no model server.

    python benchmarks/dated.py PATH ... [--shift DAYS ...] [--embedder minilm] [--lexical-weight 0.5]
        [--json FILE] [--markdown]

Each store's conversations are remembered in a store of their own. Each question is asked at its own moment. BM25 over
the messages (with factmem's analyser), their cosines (with the same embedder) and the reciprocal rank fusion of both
are measured beside factmem in the same run. `--shift` moves the present by so many days.
"""

from __future__ import annotations

import argparse
import datetime as dt
import functools
import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import attrs
import numpy as np
from dated_sets import TITLES, DatedStore, Question, read_dated
from numpy.typing import NDArray
from retrieval_metrics import Scores, auroc, figures_of, first_seen
from rich.console import Console
from rich.progress import track
from rich.table import Table

from factmem import Embedder, Memory, Message, RecallSettings
from factmem.recall.embedders import embedded, embedder_named
from factmem.recall.text.analysis import analyse
from factmem.testing import FakeClock

FACTMEM: Final = "factmem"
BASELINES: Final = ("BM25", "dense", "RRF")
KINDS_FROM: Final = 25
"""Kinds with fewer questions are shown, but not held against the baselines."""

TOLERANCE: Final = 0.02
DEPTH: Final = 100
"""Results asked for where conversations count: enough for the first five of them."""

SHALLOW: Final = 10
"""Results asked for with the present moved."""

DEFAULTS: Final = RecallSettings()

FIGURES: Final = ("R@5", "R@10", "nDCG@10", "conversation R@5", "any@5", "all@5")


@attrs.frozen
class Ranking:
    """Ids of messages, best first, and the score of the best or the confidence."""

    messages: Sequence[str]
    top: float


class Baselines:
    """BM25, cosines and their reciprocal rank fusion over the messages of one store."""

    def __init__(self, messages: Sequence[Message], vectors: Sequence[NDArray[np.float32] | None]) -> None:
        self._ids = [message.id or "" for message in messages]
        size = next((len(vector) for vector in vectors if vector is not None), 1)
        self._vectors = np.array([np.zeros(size) if vector is None else vector for vector in vectors])
        counts = [Counter(analyse(_text(message))) for message in messages]
        self._lengths = np.array([sum(count.values()) for count in counts], float)
        self._postings: dict[str, list[tuple[int, int]]] = {}
        for row, count in enumerate(counts):
            for term, often in count.items():
                self._postings.setdefault(term, []).append((row, often))

    def rankings(self, question: str, vector: NDArray[np.float32] | None) -> dict[str, Ranking]:
        """Return the ranking of each baseline for a question."""
        words = self._bm25(dict.fromkeys(analyse(question)))
        meaning = np.zeros(len(self._ids)) if vector is None else self._vectors @ vector
        fused = sum(1 / (60 + np.argsort(np.argsort(-scores, kind="stable")) + 1) for scores in (words, meaning))
        return {
            name: self._ranking(np.asarray(scores))
            for name, scores in zip(BASELINES, (words, meaning, fused), strict=True)
        }

    def _bm25(self, terms: Iterable[str], k1: float = 1.2, b: float = 0.75) -> NDArray[np.float64]:
        scores = np.zeros(len(self._ids))
        norms = k1 * (1 - b + b * self._lengths / self._lengths.mean())
        for term in terms:
            rows, often = np.array(self._postings.get(term, []), np.intp).reshape(-1, 2).T
            idf = math.log(1 + (len(scores) - len(rows) + 0.5) / (len(rows) + 0.5))
            scores[rows] += idf * often * (k1 + 1) / (often + norms[rows])
        return scores

    def _ranking(self, scores: NDArray[np.float64]) -> Ranking:
        order = np.argsort(-scores, kind="stable")
        return Ranking([self._ids[row] for row in order[:DEPTH]], float(scores.max()))


@attrs.define
class Figures:
    """Collects the figures of one way of searching."""

    scores: Scores = attrs.field(factory=Scores)
    top: dict[tuple[str, bool], list[float]] = attrs.field(factory=dict)

    def add(self, store: DatedStore, question: Question, ranking: Ranking) -> None:
        """Take in one question's ranking."""
        self.top.setdefault((store.set, question.answerable), []).append(ranking.top)
        figures = figures_of(ranking.messages, question.gold, question.gold_conversations, store.conversation_of)
        for name, value in figures.items():
            self.scores.add(f"{store.set}/{name}", value)
        if question.gold:
            self.scores.add(f"{store.set}/{question.kind}", figures["R@10"])

    def aurocs(self) -> dict[str, float]:
        """By set with questions that nothing answers: how well the top score tells them from the others."""
        return {
            set_: round(auroc(self.top[set_, True], unanswerable), 3)
            for (set_, answerable), unanswerable in self.top.items()
            if not answerable and (set_, True) in self.top
        }


def _text(message: Message) -> str:
    return f"{message.name or message.role}: {message.content}"


async def _search(memory: Memory, question: str, limit: int) -> Ranking:
    matches = await memory.recall(question, limit=limit)
    found = first_seen(item.message_id or "" for match in matches for item in match.record.evidence[:1])
    return Ranking(found, matches.confidence)


async def measure(
    stores: Sequence[DatedStore],
    embedder: Embedder,
    *,
    settings: RecallSettings = DEFAULTS,
    shifts: Sequence[int] = (0,),
) -> dict[str, Any]:
    """Ask every question of every store, in every way.

    Args:
        stores: the stores.
        embedder: of factmem and of the baseline by cosines.
        settings: of factmem.
        shifts: by how many days to move the present; the first is that of all tables.
    """
    ways: dict[str, Figures] = {}
    asked, seconds = 0, 0.0
    for store in track(stores, description="dated", transient=True, console=Console(stderr=True)):
        messages = [message for talk in store.conversations for message in talk.messages]
        baselines = Baselines(messages, await embedded(embedder, [_text(message) for message in messages]))
        questions = await embedded(embedder, [question.text for question in store.questions], query=True)
        said_at = [message.timestamp for message in messages if message.timestamp]
        clock = FakeClock(max(*said_at, *(question.asked_at for question in store.questions)))
        with tempfile.TemporaryDirectory() as folder:
            address = f"sqlite-vec:{folder}/facts.db"
            async with Memory(address, embedder=embedder, clock=clock, settings=settings) as memory:
                for talk in store.conversations:
                    await memory.remember(talk)
                for question, vector in zip(store.questions, questions, strict=True):
                    for name, ranking in baselines.rankings(question.text, vector).items():
                        ways.setdefault(name, Figures()).add(store, question, ranking)
                    for days in shifts:
                        clock.set(question.asked_at + dt.timedelta(days=days))
                        before = time.perf_counter()
                        ranking = await _search(memory, question.text, DEPTH if days == shifts[0] else SHALLOW)
                        asked, seconds = asked + 1, seconds + time.perf_counter() - before
                        name = FACTMEM if days == shifts[0] else f"{FACTMEM} {days:+} days"
                        ways.setdefault(name, Figures()).add(store, question, ranking)
    return {
        "embedder": (await embedder.identity()).name,
        "stores": dict(Counter(store.set for store in stores)),
        "figures": {name: way.scores.means() for name, way in ways.items()},
        "questions": ways[FACTMEM].scores.counts(),
        "auroc of the top score": {name: way.aurocs() for name, way in ways.items()},
        "milliseconds a recall": round(1000 * seconds / asked, 1),
    }


def _tables(result: Mapping[str, Any]) -> Iterator[Table]:
    figures, counts = result["figures"], result["questions"]
    sets = list(result["stores"])
    shown = [name for name in figures if not name.startswith(f"{FACTMEM} ")]
    whole = Table("set", "questions", "figure", *shown, title="by set")
    for set_ in sets:
        for figure in FIGURES:
            key = f"{set_}/{figure}"
            if key in counts:
                whole.add_row(set_, str(counts[key]), figure, *(f"{figures[name][key]:.3f}" for name in shown))
    yield whole
    kinds = Table("set", "kind", "questions", *shown, "behind", title="R@10 by kind")
    for key, count in counts.items():
        set_, _, kind = key.partition("/")
        if kind not in FIGURES:
            behind = max(figures[name][key] for name in BASELINES) - figures[FACTMEM][key]
            late = f"{behind:.3f}" if count >= KINDS_FROM and behind > TOLERANCE else ""
            kinds.add_row(set_, kind, str(count), *(f"{figures[name][key]:.3f}" for name in shown), late)
    yield kinds
    rest = [name for name in figures if name not in shown]
    if rest:
        other = Table("", *(f"{set_} {figure}" for set_ in sets for figure in ("R@10", "nDCG")), title="R@10, nDCG@10")
        for name in (FACTMEM, *rest):
            keys = [f"{set_}/{figure}" for set_ in sets for figure in ("R@10", "nDCG@10")]
            other.add_row(name, *(f"{figures[name][key]:.3f}" if key in figures[name] else "" for key in keys))
        yield other
    tops = result["auroc of the top score"]
    if tops[FACTMEM]:
        table = Table("set", *shown, title="AUROC of the confidence or the top score, answerable against not")
        for set_ in tops[FACTMEM]:
            table.add_row(set_, *(f"{tops[name][set_]:.3f}" for name in shown))
        yield table


def markdown(result: Mapping[str, Any]) -> str:
    """Return the table of the documentation: R@10 and nDCG@10 of each set, and R@10 with the present moved."""
    figures, counts = result["figures"], result["questions"]
    shifted = [name for name in figures if name.startswith(f"{FACTMEM} ")]
    shown = [*BASELINES, FACTMEM]
    moved = " / ".join(name.removeprefix(f"{FACTMEM} ").removesuffix(" days") for name in shifted)
    head = ["R@10 / nDCG@10", "questions", *shown, f"R@10 {moved} days"]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for set_ in result["stores"]:
        cells = [f"{figures[name][f'{set_}/R@10']:.3f} / {figures[name][f'{set_}/nDCG@10']:.3f}" for name in shown]
        later = " / ".join(f"{figures[name][f'{set_}/R@10']:.3f}" for name in shifted)
        lines.append([TITLES[set_], str(counts[f"{set_}/R@10"]), *cells, later])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH", help="files of dated stores")
    parser.add_argument("--shift", type=int, nargs="+", default=[0], metavar="DAYS", help="move the present")
    parser.add_argument("--embedder", default="wordllama", help="name of an embedder, such as minilm")
    parser.add_argument("--lexical-weight", type=float, metavar="WEIGHT")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    parser.add_argument("--markdown", action="store_true", help="also print the table of the documentation")
    options = parser.parse_args()
    stores = [store for path in options.paths for store in read_dated(path)]
    embedder = embedder_named(options.embedder)
    settings = RecallSettings(lexical_weight=options.lexical_weight)
    measuring = functools.partial(measure, settings=settings, shifts=options.shift)
    result = anyio.run(measuring, stores, embedder)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    console = Console()
    for table in _tables(result):
        console.print(table)
    console.print(f"{result['milliseconds a recall']} ms a recall, {result['embedder']}")
    if options.markdown:
        print(markdown(result))


if __name__ == "__main__":
    main()
