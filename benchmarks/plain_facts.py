"""Recall of plain facts of two months ago, each a single sentence among many long conversations.

    python benchmarks/plain_facts.py PATH [--json FILE]

PATH is a dated file of LongMemEval; see `dated_sets`. Its conversations, 12,000 messages of them, are spread evenly
over the last 120 days. Each fact of `plain_facts.json` was said once, 60 days ago, in a conversation of its own,
and is asked for in other words. The baselines are those of `dated.py`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import functools
import itertools
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio
import attrs
from dated import FACTMEM, Baselines, Ranking
from dated_sets import read_dated
from retrieval_metrics import Scores, first_seen, fraction_found
from rich.console import Console
from rich.table import Table

from factmem import Conversation, Memory, Message
from factmem.recall.embedders import embedded, embedder_named
from factmem.testing import FakeClock

NOW: Final = dt.datetime(2024, 6, 1, 12, tzinfo=dt.UTC)
DAYS: Final = 120
MESSAGES: Final = 12_000
AGE: Final = dt.timedelta(days=60)
PAUSE: Final = dt.timedelta(seconds=30)
DEPTHS: Final = (1, 5, 10)
FACTS: Final = Path(__file__).with_name("plain_facts.json")


def haystack(path: Path) -> list[Conversation]:
    """Return the conversations of a file, shuffled and spread evenly over the last days."""
    talks = {talk.id: talk for store in read_dated(path) for talk in store.conversations}
    chosen = [talks[key] for key in sorted(talks, key=str)]
    random.Random(7).shuffle(chosen)
    ends = itertools.accumulate(len(talk.messages) for talk in chosen)
    chosen = [talk for talk, end in zip(chosen, ends, strict=True) if end - len(talk.messages) < MESSAGES]
    step = dt.timedelta(days=DAYS) / len(chosen)
    return [_said_at(talk, NOW - (len(chosen) - number) * step) for number, talk in enumerate(chosen)]


def _said_at(talk: Conversation, start: dt.datetime) -> Conversation:
    messages = [
        attrs.evolve(message, id=f"{talk.id}/{number}", timestamp=start + number * PAUSE)
        for number, message in enumerate(talk.messages)
    ]
    return attrs.evolve(talk, messages=messages)


def spoken_facts(facts: Sequence[str]) -> list[Conversation]:
    """Return a conversation of one message for each fact."""
    return [
        Conversation(
            id=f"fact {number}",
            messages=[Message(role="user", content=fact, id=f"fact {number}", timestamp=NOW - AGE + number * PAUSE)],
        )
        for number, fact in enumerate(facts)
    ]


async def measure(path: Path, embedder_name: str) -> Mapping[str, Mapping[str, float]]:
    """Return the share of facts among the first results, by kind of search and depth."""
    pairs = json.loads(FACTS.read_text(encoding="utf-8"))
    talks = sorted(
        [*haystack(path), *spoken_facts([pair["fact"] for pair in pairs])],
        key=lambda talk: (talk.messages[0].timestamp or NOW, talk.id or ""),
    )
    embedder = embedder_named(embedder_name)
    messages = [message for talk in talks for message in talk.messages]
    questions = [pair["question"] for pair in pairs]
    texts = [f"{message.name or message.role}: {message.content}" for message in messages]
    baselines = Baselines(messages, await embedded(embedder, texts))
    vectors = await embedded(embedder, questions, query=True)
    figures: dict[str, Scores] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with Memory(f"sqlite-vec:{folder}/facts.db", embedder=embedder, clock=FakeClock(NOW)) as memory:
            for talk in talks:
                await memory.remember(talk)
            for number, (question, vector) in enumerate(zip(questions, vectors, strict=True)):
                matches = await memory.recall(question, limit=max(DEPTHS))
                found = first_seen(item.message_id or "" for match in matches for item in match.record.evidence[:1])
                rankings = {**baselines.rankings(question, vector), FACTMEM: Ranking(found, 0.0)}
                for name, ranking in rankings.items():
                    for depth in DEPTHS:
                        hit = fraction_found(ranking.messages, {f"fact {number}"}, depth)
                        figures.setdefault(name, Scores()).add(f"@{depth}", hit)
    return {name: scores.means() for name, scores in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, metavar="PATH", help="a dated file of LongMemEval")
    parser.add_argument("--embedder", default="wordllama", help="wordllama, minilm or openai:MODEL@DIMENSION")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    options = parser.parse_args()
    result = anyio.run(functools.partial(measure, options.path, options.embedder))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    table = Table("", *(f"@{depth}" for depth in DEPTHS), title="plain facts of 60 days ago")
    for name, shares in result.items():
        table.add_row(name, *(f"{shares[f'@{depth}']:.3f}" for depth in DEPTHS))
    Console().print(table)


if __name__ == "__main__":
    main()
