"""Everyday questions to an assistant: short stories, asked on their day, beside BM25, cosines and their fusion.

    python benchmarks/everyday.py [--embedder minilm] [--held] [--json FILE]

Forty stories of 8 to 25 messages in several conversations over weeks, in nine languages: a person, a family, a team, a
support desk, a group. Some of it changes later. A question is asked when all messages before its day have been
remembered. ``@1``, ``@3`` and ``@10`` are the shares of questions with a message that answers so far up; ``newest
first`` is the share of questions about what has changed with the newest message above the outdated ones. ``silent``
is the share of unanswerable questions that `RecallMatches.answers` calls so, and ``answers`` that of the others.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import json
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
from blind_sets import Half, read
from dated import BASELINES, Baselines
from retrieval_metrics import Scores, auroc
from rich.console import Console
from rich.table import Table

from factmem import Conversation, Memory, Message
from factmem.recall.embedders import embedded, embedder_named
from factmem.testing.fakes import FakeClock

FACTMEM: Final = "factmem"
FIGURES: Final = ("@1", "@3", "@10", "newest first", "silent", "answers")


def place(ranking: Sequence[str], wanted: Collection[str]) -> float:
    """Return the place of the first of some messages, from 1; infinity if there is none."""
    return next((place for place, id in enumerate(ranking, 1) if id in wanted), math.inf)


def add(figures: Scores, way: str, question: dict[str, Any], ranking: Sequence[str]) -> None:
    """Add the figures of one ranking."""
    if not question["gold"]:
        return
    first = place(ranking, question["gold"])
    for depth in (1, 3, 10):
        figures.add(f"{way}/@{depth}", float(first <= depth))
    if question["outdated"]:
        figures.add(f"{way}/newest first", float(first < place(ranking, question["outdated"])))


def conversations_of(story: dict[str, Any]) -> list[Conversation]:
    """Return the conversations of a story."""
    said = [
        Message(
            id=each["id"],
            role=each["role"],
            content=each["text"],
            name=each["speaker"],
            timestamp=dt.datetime.fromisoformat(each["at"]),
        )
        for each in story["messages"]
    ]
    return [
        Conversation(id=id, messages=[said[number] for number, _ in group])
        for id, group in itertools.groupby(enumerate(story["messages"]), key=lambda item: item[1]["conversation"])
    ]


async def measure(story: dict[str, Any], embedder: str, figures: Scores, sure: dict[bool, list[float]]) -> None:
    """Add the figures of one story, and the confidences by whether something answers."""
    model = embedder_named(embedder)
    talks = conversations_of(story)
    told: list[Message] = []
    clock = FakeClock(dt.datetime.fromisoformat(story["messages"][0]["at"]))
    async with Memory("memory:", embedder=model, clock=clock) as memory:
        for question in sorted(story["questions"], key=lambda question: str(question["asked"])):
            now = dt.datetime.fromisoformat(question["asked"])
            due = [
                talk
                for talk in talks
                if all(message.timestamp <= now for message in talk.messages if message.timestamp)
            ]
            talks = [talk for talk in talks if talk not in due]
            told += [message for talk in due for message in talk.messages]
            for talk in due:
                clock.set(max(message.timestamp for message in talk.messages if message.timestamp))
                await memory.remember(talk)
            clock.set(now)
            matches = await memory.recall(question["question"], limit=10)
            cited = [[item.message_id or "" for item in match.record.evidence] for match in matches]
            add(figures, FACTMEM, question, [ids[0] for ids in cited if ids])
            answered = bool(question["gold"])
            sure[answered].append(matches.confidence)
            figures.add(f"{FACTMEM}/{'answers' if answered else 'silent'}", float(matches.answers is answered))
            baselines = Baselines(told, await embedded(model, [message.content for message in told]))
            (vector,) = await embedded(model, [question["question"]], query=True)
            for name, ranking in baselines.rankings(question["question"], vector).items():
                add(figures, name, question, ranking.messages)


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", default="wordllama")
    parser.add_argument("--held", action="store_true", help="the half that is opened once, at the end")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    options = parser.parse_args()
    half: Half = "held" if options.held else "building"
    figures, sure = Scores(), dict[bool, list[float]]({True: [], False: []})
    for story in read("everyday", half):
        anyio.run(measure, story, options.embedder, figures, sure)
    means, counts = figures.means(), figures.counts()
    table = Table("", *FIGURES, title=f"everyday questions, {half} half, {options.embedder}")
    table.add_row("questions", *(str(counts[f"{FACTMEM}/{figure}"]) for figure in FIGURES))
    for way in (*BASELINES, FACTMEM):
        table.add_row(way, *(f"{means[key]:.3f}" if (key := f"{way}/{name}") in means else "" for name in FIGURES))
    console = Console()
    console.print(table)
    means["auroc of the confidence"] = round(auroc(sure[True], sure[False]), 4)
    console.print(f"AUROC of the confidence: {means['auroc of the confidence']:.3f}")
    if options.json:
        options.json.write_text(json.dumps(means, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
