"""Retrieval on LoCoMo through the public API, default settings, no model server.

    python benchmarks/locomo.py PATH/TO/locomo.json [--embedder minilm] [--store file] [--json]

Each conversation is remembered in a store of its own. Session-level R@5 and R@10 are over the
questions of all five categories that have valid evidence; turn-level figures over categories 1 to 4.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from retrieval_metrics import Scores, fraction_found, ndcg, sessions_of
from rich.progress import track

from factmem import Embedder, Memory
from factmem.detection import read_conversations
from factmem.recall import embedder_named


def gold_turns(question: dict[str, Any], turns: set[str]) -> set[str]:
    """The turns named as evidence that exist; some ids in the data are misspelt or joined by semicolons."""
    named = re.findall(r"D(\d+):(\d+)", " ".join(question.get("evidence", [])))
    return {f"D{session}:{turn}" for session, turn in named} & turns


def figures_of(
    question: dict[str, Any], gold: set[str], prefix: str, sessions: Sequence[str], turns: Sequence[str]
) -> dict[str, float]:
    """What a ranking of sessions and one of turns get for a question; turns count in categories 1 to 4 only."""
    gold_sessions = {f"{prefix}{turn[1:].split(':')[0]}" for turn in gold}
    figures = {f"session R@{k}": fraction_found(sessions, gold_sessions, k) for k in (5, 10)}
    if question["category"] in (1, 2, 3, 4):
        figures |= {"turn R@10": fraction_found(turns, gold, 10), "turn nDCG@10": ndcg(turns, gold, 10)}
    return figures


async def measure(path: Path, store: str, embedder: Embedder) -> dict[str, Any]:
    scores, by_category = Scores(), Scores()
    samples = json.loads(await anyio.Path(path).read_text())
    conversations = list(read_conversations(path))
    started, turns_kept, asked = time.perf_counter(), 0, 0.0
    for sample in track(samples, description="LoCoMo", transient=True):
        prefix = f"{sample['sample_id']}/session_"
        with tempfile.TemporaryDirectory() as folder:
            async with Memory(f"{store}:{folder}/store", embedder=embedder) as memory:
                own = [item for item in conversations if (item.id or "").startswith(prefix)]
                for conversation in own:
                    turns_kept += len(await memory.remember(conversation))
                turns = {message.id for conversation in own for message in conversation.messages if message.id}
                for question in sample["qa"]:
                    gold = gold_turns(question, turns)
                    if not gold:
                        continue
                    before = time.perf_counter()
                    matches, sessions = await sessions_of(memory, question["question"])
                    asked += time.perf_counter() - before
                    ranked = [item.message_id or "" for match in matches for item in match.record.evidence[:1]]
                    for name, value in figures_of(question, gold, prefix, sessions, ranked).items():
                        scores.add(name, value)
                        if name.startswith("session"):
                            by_category.add(f"category {question['category']} {name}", value)
    return {
        "benchmark": "LoCoMo",
        "embedder": (await embedder.identity()).name,
        "store": store,
        "turns": turns_kept,
        "scores": scores.means(),
        "questions": scores.counts(),
        "by_category": by_category.means(),
        "seconds": {"all": round(time.perf_counter() - started, 1), "recall": round(asked, 1)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="the LoCoMo file")
    parser.add_argument("--embedder", default="wordllama", help="wordllama, minilm or openai:MODEL@DIMENSION")
    parser.add_argument("--store", choices=("sqlite-vec", "file"), default="sqlite-vec")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = anyio.run(measure, options.path, options.store, embedder_named(options.embedder))
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"LoCoMo, {result['embedder']}, {result['store']}, {result['turns']} turns, {result['seconds']}")
    for name, value in result["scores"].items():
        print(f"  {name:14} {value:.4f}   over {result['questions'][name]} questions")
    for name, value in result["by_category"].items():
        print(f"    {name:28} {value:.4f}")


if __name__ == "__main__":
    main()
