"""Gain of a reranker that is right with probability p, on dated conversations.

    python benchmarks/rerank.py PATH ... [--right 0.6 0.8 1] [--weight 0.5 1] [--top 50] [--embedder minilm]
        [--questions 300] [--seed 7]

The oracle says of each text whether it answers, and is right with probability p, for each text by itself: a reranker
of p = .5 knows nothing. Its scores are put in order as those of a real one, by `factmem.reranking.bounds.reordered`.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

import anyio
import attrs
from dated_sets import TITLES, DatedStore, Question, read_dated
from retrieval_metrics import Scores, figures_of, first_seen
from rich.console import Console
from rich.progress import track
from rich.table import Table

from factmem import Embedder, Memory
from factmem.recall.embedders import embedder_named
from factmem.reranking import Reranking
from factmem.reranking.bounds import reordered
from factmem.testing import FakeClock

SHOWN = ("R@5", "R@10", "nDCG@10")


@attrs.frozen
class Asked:
    """A question, and the ids of the messages found for it, best first."""

    store: DatedStore
    question: Question
    found: Sequence[str]


async def searched(stores: Sequence[DatedStore], embedder: Embedder, top: int, most: int) -> list[Asked]:
    """Ask up to ``most`` answerable questions of the stores, the same number of each."""
    asked = list[Asked]()
    for store in track(stores, description="rerank", transient=True, console=Console(stderr=True)):
        clock = FakeClock(max(question.asked_at for question in store.questions))
        with tempfile.TemporaryDirectory() as folder:
            async with Memory(f"sqlite-vec:{folder}/facts.db", embedder=embedder, clock=clock) as memory:
                for talk in store.conversations:
                    await memory.remember(talk)
                questions = [question for question in store.questions if question.answerable and question.gold]
                for question in questions[:: max(1, len(questions) * len(stores) // most)]:
                    clock.set(question.asked_at)
                    matches = await memory.recall(question.text, limit=top)
                    found = [item.message_id or "" for match in matches for item in match.record.evidence[:1]]
                    asked.append(Asked(store, question, first_seen(found)))
    return asked


def oracle(found: Sequence[str], gold: Collection[str], right: float, rng: random.Random) -> list[float]:
    """Return 1 for a message that is said to answer, else 0."""
    return [float((message in gold) == (rng.random() < right)) for message in found]


def figures(asked: Sequence[Asked], right: float | None, weight: float, seed: int) -> dict[str, float]:
    """Return the mean figures, reranked by an oracle that is right with a probability; None for no reranker."""
    rng, scores = random.Random(seed), Scores()
    for one in asked:
        ranking, gold = one.found, one.question.gold
        if right is not None:
            order = reordered(oracle(ranking, gold, right, rng), weight)
            ranking = [ranking[row] for row in order]
        found = figures_of(ranking, gold, one.question.gold_conversations, one.store.conversation_of)
        for name in SHOWN:
            scores.add(name, found[name])
    return scores.means()


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--right", nargs="+", type=float, default=[0.6, 0.8, 1.0], help="probabilities")
    parser.add_argument("--weight", nargs="+", type=float, default=[Reranking().weight], help="of the reranker")
    parser.add_argument("--top", type=int, default=Reranking().top)
    parser.add_argument("--embedder", default="wordllama")
    parser.add_argument("--questions", type=int, default=10_000, help="at most so many of each file")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    table = Table("set", "questions", "right", "weight", *SHOWN)
    for path in options.paths:
        stores = list(read_dated(path))
        asked = anyio.run(searched, stores, embedder_named(options.embedder), options.top, options.questions)
        ways = [(None, 0.0), *((right, weight) for weight in options.weight for right in options.right)]
        for right, weight in ways:
            means = figures(asked, right, weight, options.seed)
            named = ("none", "") if right is None else (f"{right:g}", f"{weight:g}")
            title = TITLES.get(stores[0].set, stores[0].set)
            table.add_row(title, str(len(asked)), *named, *(f"{means[name]:.3f}" for name in SHOWN))
    Console().print(table)


if __name__ == "__main__":
    main()
