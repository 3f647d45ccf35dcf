"""Knowledge updates: the share of questions answered with the latest value.

    python benchmarks/typed_updates.py [--streams 20] [--updates 400] [--seed 7] [--embedder minilm] [--json]

Each stream is remembered by a `Memory` of its own on the default store, conversation by conversation, including late
messages, repeated values, removals and distractors. A scripted detector parses the sentences, so that the store is
measured. The store is closed, opened again and queried for the present and for another time.

The baseline is an append-only vector memory with the same embedder and questions. It has every advantage: the
question's scope as a filter, for questions about another time the messages up to then, and a perfect parser of the
sentences found. *Nearest* is the first relevant statement by cosine; *newest arrival* is the last to arrive of the
first
k (for sets: all of them in order of arrival); *newest said* uses the time of the message instead.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
from retrieval_metrics import Scores
from rich.console import Console
from rich.progress import track
from rich.table import Table
from update_streams import (
    CONCEPTS,
    SUBJECTS,
    Answer,
    Question,
    Reading,
    Said,
    ScriptedDetector,
    Stream,
    follow,
    generate,
    read_sentence,
)

from factmem import Conversation, Embedder, Memory
from factmem.abc import Consolidator
from factmem.recall.embedders import embedder_named

if TYPE_CHECKING:
    from numpy.typing import NDArray

FACTMEM = "factmem"


async def remember_stream(memory: Memory, stream: Stream, name: str) -> None:
    for number, (scope, said) in enumerate(stream.conversations):
        conversation = Conversation(messages=[item.message for item in said], id=f"{name}/{number}")
        await memory.remember(conversation, scope=scope)


async def asked(memory: Memory, question: Question) -> Answer:
    reader = memory if question.as_of is None else memory.view(as_of=question.as_of)
    concept = question.theme.concept
    fact = await reader.load(concept, subject=SUBJECTS[question.who], scope=question.scope)
    return frozenset(fact.values if fact else ())


class AppendOnly:
    """A vector memory that keeps every message and changes none.

    Args:
        said: the messages in the order of their arrival.
        rows: their vectors.
        k: number of nearest messages to read.
    """

    def __init__(self, said: Sequence[Said], rows: NDArray[np.float32], k: int) -> None:
        self._said = said
        self._rows = rows
        self._k = k

    def answers(self, question: Question, vector: NDArray[np.float32]) -> dict[str, Answer]:
        until = question.as_of or dt.datetime.max.replace(tzinfo=dt.UTC)
        there = [n for n, item in enumerate(self._said) if item.scope == question.scope and item.at <= until]
        cosines = self._rows[there] @ vector
        nearest = [there[place] for place in np.argsort(-cosines, kind="stable")[: self._k]]
        fitting = [(n, reading) for n in nearest if (reading := self._to_the_point(n, question)) is not None]
        return {
            "nearest": follow([reading for _, reading in fitting[:1]]),
            "newest arrival": follow([reading for _, reading in sorted(fitting, key=lambda pair: pair[0])]),
            "newest said": follow([reading for _, reading in sorted(fitting, key=lambda pair: self._said[pair[0]].at)]),
        }

    def _to_the_point(self, number: int, question: Question) -> Reading | None:
        reading = read_sentence(self._said[number].text)
        fits = reading is not None and (reading.who, reading.theme) == (question.who, question.theme)
        return reading if fits else None


async def score(
    scores: Scores, stream: Stream, name: str, embedder: Embedder, k: int, consolidator: Consolidator | None
) -> int:
    """Remember one stream and ask all of its questions of both; return the number of factmem's wrong answers."""
    wrong = 0
    said = stream.messages
    baseline = AppendOnly(said, await embedder.embed([item.text for item in said]), k)
    vectors = await embedder.embed([question.text for question in stream.questions])
    with tempfile.TemporaryDirectory() as folder:
        address = f"sqlite-vec:{folder}/facts.db"
        async with Memory(
            address,
            embedder=embedder,
            detector=ScriptedDetector(),
            consolidator=consolidator,
            concepts=CONCEPTS,
        ) as memory:
            await remember_stream(memory, stream, name)
        async with Memory(address, embedder=embedder, concepts=CONCEPTS) as memory:
            for question, vector in zip(stream.questions, vectors, strict=True):
                found = {FACTMEM: await asked(memory, question), **baseline.answers(question, vector)}
                wrong += found[FACTMEM] != question.answer
                when = "now" if question.as_of is None else "as of"
                for who, answer in found.items():
                    for group in ("all", when, question.theme.concept.fact_type.name):
                        scores.add(f"{who}: {group}", float(answer == question.answer))
    return wrong


async def measure(
    embedder: Embedder,
    *,
    streams: int,
    updates: int,
    seed: int,
    k: int,
    consolidator: Consolidator | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Remember some streams and ask; ``updates`` is the number of messages of each, including distractors."""
    scores, started, messages, late, wrong = Scores(), time.perf_counter(), 0, 0, 0
    for number in track(range(streams), description="updates", transient=True, disable=quiet):
        stream = generate(f"{seed}/{number}", updates)
        messages += len(stream.messages)
        late += _late(stream.messages)
        wrong += await score(scores, stream, f"stream {number}", embedder, k, consolidator)
    return {
        "benchmark": "updates",
        "embedder": (await embedder.identity()).name,
        "streams": streams,
        "seed": seed,
        "messages": messages,
        "late": late,
        "questions": scores.counts()[f"{FACTMEM}: all"],
        "k": k,
        "wrong": wrong,
        "scores": scores.means(),
        "seconds": round(time.perf_counter() - started, 1),
    }


def _late(said: Sequence[Said]) -> int:
    """Return the number of messages that were submitted after a later one."""
    newest, late = said[0].at, 0
    for item in said:
        late += item.at < newest
        newest = max(newest, item.at)
    return late


def show(result: dict[str, Any], console: Console) -> None:
    title = f"{result['questions']:,} questions over {result['messages']:,} messages, {result['late']:,} of them late"
    groups = ("all", "now", "as of", "SINGLE", "MULTIPLE")
    table = Table("answered with what was last said", *groups, title=f"{title}; {result['embedder']}")
    for who in dict.fromkeys(name.partition(": ")[0] for name in result["scores"]):
        shown = who if who in (FACTMEM, "nearest") else f"{who} of {result['k']}"
        table.add_row(shown, *(f"{result['scores'][f'{who}: {group}']:.4f}" for group in groups))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=20, help="number of streams, each with a store of its own")
    parser.add_argument("--updates", type=int, default=400, help="number of messages per stream")
    parser.add_argument("--seed", type=int, default=7, help="seed of the streams")
    parser.add_argument("--top", type=int, default=10, metavar="K", help="number of statements that the baseline reads")
    parser.add_argument("--embedder", default="wordllama", help="wordllama, minilm or openai:MODEL@DIMENSION")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()

    async def run() -> dict[str, Any]:
        return await measure(
            embedder_named(options.embedder),
            streams=options.streams,
            updates=options.updates,
            seed=options.seed,
            k=options.top,
            quiet=options.json,
        )

    result = anyio.run(run)
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        show(result, Console())
    if result["wrong"]:
        sys.exit(f"{result['wrong']} answers are not what was last said")


if __name__ == "__main__":
    main()
