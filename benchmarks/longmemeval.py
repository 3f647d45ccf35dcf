"""Retrieval on LongMemEval through the public API, default settings, no model server.

    python benchmarks/longmemeval.py PATH/TO/longmemeval_s.jsonl.gz [--embedder minilm] [--limit 20] [--json]

Each question has a haystack of its own, remembered in a store of its own: user and assistant turns.
Sessions are ranked by their best record. The definitions are those of the benchmark's own script;
figures are given over all questions, and without the abstention questions, which that script leaves out.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
from retrieval_metrics import Scores, ndcg_longmemeval, sessions_of
from rich.progress import track

from factmem import Conversation, Embedder, Memory
from factmem.detection import conversations_in
from factmem.recall import embedder_named


def questions_of(path: Path) -> Iterator[dict[str, Any]]:
    """Read the questions, from JSON or JSON Lines, packed or not."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        yield from map(json.loads, data.splitlines())
    else:
        yield from json.loads(data)


def haystack_of(question: dict[str, Any]) -> Iterator[Conversation]:
    """The sessions of one question, as the reader of conversation files gives them."""
    return conversations_in(io.BytesIO(json.dumps([question]).encode()))


def figures_of(gold: set[str], sessions: Sequence[str]) -> dict[str, float]:
    """What a ranking of sessions gets for a question, by the definitions of the benchmark's own script."""
    return {
        "any@5": float(bool(gold & set(sessions[:5]))),
        "all@5": float(gold <= set(sessions[:5])),
        "any@10": float(bool(gold & set(sessions[:10]))),
        "all@10": float(gold <= set(sessions[:10])),
        "NDCG@10": ndcg_longmemeval(sessions, gold, 10),
    }


def is_abstention(question: dict[str, Any]) -> bool:
    """Whether nothing in the haystack answers it; the benchmark's own script leaves these out."""
    return str(question["question_id"]).endswith("_abs")


async def measure(path: Path, store: str, embedder: Embedder, limit: int | None) -> dict[str, Any]:
    every, answerable, by_type = Scores(), Scores(), Scores()
    questions = list(questions_of(path))[:limit]
    started, kept, asked = time.perf_counter(), 0, 0.0
    for question in track(questions, description="LongMemEval", transient=True):
        with tempfile.TemporaryDirectory() as folder:
            async with Memory(f"{store}:{folder}/store", embedder=embedder) as memory:
                for conversation in haystack_of(question):
                    kept += len(await memory.remember(conversation))
                before = time.perf_counter()
                _, sessions = await sessions_of(memory, question["question"])
                asked += time.perf_counter() - before
        for name, value in figures_of(set(question["answer_session_ids"]), sessions).items():
            every.add(name, value)
            if not is_abstention(question):
                answerable.add(name, value)
            by_type.add(f"{question['question_type']} {name}", value)
    return {
        "benchmark": "LongMemEval",
        "embedder": (await embedder.identity()).name,
        "store": store,
        "questions": len(questions),
        "statements": kept,
        "all_questions": every.means(),
        "without_abstention": answerable.means(),
        "by_type": by_type.means(),
        "seconds": {"all": round(time.perf_counter() - started, 1), "recall": round(asked, 1)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="the LongMemEval file")
    parser.add_argument("--embedder", default="wordllama", help="wordllama, minilm or openai:MODEL@DIMENSION")
    parser.add_argument("--store", choices=("sqlite-vec", "file"), default="sqlite-vec")
    parser.add_argument("--limit", type=int, help="only the first so many questions")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = anyio.run(measure, options.path, options.store, embedder_named(options.embedder), options.limit)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    head = f"LongMemEval, {result['embedder']}, {result['store']}, {result['questions']} questions"
    print(f"{head}, {result['statements']} statements, {result['seconds']}")
    for title in ("all_questions", "without_abstention", "by_type"):
        print(f"  {title}")
        for name, value in result[title].items():
            print(f"    {name:42} {value:.4f}")


if __name__ == "__main__":
    main()
