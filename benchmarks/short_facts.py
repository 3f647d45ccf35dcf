"""Short facts asked for in other words: typed facts, statements, passages, other languages, and the assistant's words.

    python benchmarks/short_facts.py [EMBEDDER ...] [--held] [--sets family people ...] [--json FILE] [--markdown]

The sets are those of `blind_sets.py`: the building halves unless ``--held`` is given. BM25 with factmem's analyser, the
cosine of question and text by the same embedder, and the reciprocal rank fusion of both are measured beside recall.
*behind* tells by how much factmem's R@10 is below the best of them, and the half width of the paired 95 % interval.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import attrs
import numpy as np
from blind_sets import Half, read
from dated import BASELINES, FACTMEM, Baselines
from hops import subject_of
from rich.console import Console
from rich.table import Table

from factmem import Concept, Conversation, Embedder, Memory, Message, RecallMatch, SingleFact
from factmem.recall.embedders import embedded, embedder_named

HERE: Final = Path(__file__).parent
SETS: Final = ("family", "software", "docs", "people", "assistant", "to English", "from English")
DEPTH: Final = 10


@attrs.frozen(kw_only=True)
class FactSet:
    """A store to make, and questions about it.

    Attributes:
        fill: makes the store.
        texts: the text of each fact by its key, for the baselines.
        questions: questions, each with the keys that answer it.
        key: returns the key of a match.
    """

    fill: Callable[[Memory], Awaitable[object]]
    texts: Mapping[str, str]
    questions: Sequence[tuple[str, frozenset[str]]]
    key: Callable[[RecallMatch], str]


def _of_texts(texts: Sequence[str], questions: Sequence[tuple[str, frozenset[str]]]) -> FactSet:
    return FactSet(
        fill=lambda memory: memory.remember_many(list(texts)),
        texts={text: text for text in texts},
        questions=questions,
        key=lambda match: str(match.record.value),
    )


def fact_set(name: str, half: Half) -> FactSet:
    """Return a set by its name."""
    if name in ("to English", "from English"):
        pairs = read("crosslingual", half)
        fact, question = ("english_fact", "question") if name == "to English" else ("fact", "english_question")
        others = [of["fact"] for of in json.loads((HERE / "plain_facts.json").read_text(encoding="utf-8"))]
        questions = [(str(pair[question]), frozenset([str(pair[fact])])) for pair in pairs]
        return _of_texts([*others, *(pair[fact] for pair in pairs)], questions)
    cases = read(name, half)
    if name == "assistant":
        return _of_talks(cases)
    facts = [case for case in cases if case["type"] != "question"]
    asked = [case for case in cases if case["type"] == "question"]
    if name == "people":
        return _of_people(facts, asked)
    texts = {fact["id"]: fact["text"] for fact in facts}
    return _of_texts(
        list(texts.values()), [(case["text"], frozenset(texts[id] for id in case["gold"])) for case in asked]
    )


def _of_people(facts: Sequence[dict[str, Any]], asked: Sequence[dict[str, Any]]) -> FactSet:
    async def fill(memory: Memory) -> None:
        for fact in facts:
            concept = Concept.single(fact["keyword"], fact["description"], str)
            await memory.save(SingleFact(concept, str(fact["value"])), subject=subject_of(fact["subject"]))

    return FactSet(
        fill=fill,
        texts={
            f"{fact['subject']}|{fact['keyword']}": f"{fact['subject']}, {fact['description']}: {fact['value']}"
            for fact in facts
        },
        questions=[
            (case["text"], frozenset(f"{gold['subject']}|{gold['keyword']}" for gold in case["gold"])) for case in asked
        ],
        key=lambda match: f"{match.record.subject}|{match.record.concept.keyword}",
    )


def _of_talks(cases: Sequence[dict[str, Any]]) -> FactSet:
    talks = [
        Conversation(
            id=f"{number}",
            messages=[
                Message(id=f"{number}:{turn}", role=said["role"], content=said["text"])
                for turn, said in enumerate(case["turns"])
            ],
        )
        for number, case in enumerate(cases)
    ]

    async def fill(memory: Memory) -> None:
        for talk in talks:
            await memory.remember(talk)

    return FactSet(
        fill=fill,
        texts={said.id or "": f"{said.role}: {said.content}" for talk in talks for said in talk.messages},
        questions=[
            (question["text"], frozenset(f"{number}:{turn}" for turn in question["gold"]))
            for number, case in enumerate(cases)
            for question in case["questions"]
        ],
        key=lambda match: (match.record.evidence[0].message_id or "") if match.record.evidence else "",
    )


def figures_of(keys: Sequence[str], gold: frozenset[str]) -> dict[str, float]:
    """Return the figures of a ranking by name: whether its first key is right, and shares of the right ones found."""
    hits = [key in gold for key in dict.fromkeys(keys)][:DEPTH]
    recall = {f"R@{depth}": sum(hits[:depth]) / len(gold) for depth in (5, DEPTH)}
    return {"@1": float(hits[0]) if hits else 0.0} | recall


async def measure(given: FactSet, embedder: Embedder) -> dict[str, dict[str, list[float]]]:
    """Return the figures of each question, by way and figure; questions that nothing answers are left out."""
    messages = [Message(id=key, role="user", content=text) for key, text in given.texts.items()]
    baselines = Baselines(messages, await embedded(embedder, list(given.texts.values())))
    asked = [(text, gold) for text, gold in given.questions if gold]
    vectors = await embedded(embedder, [text for text, _ in asked], query=True)
    found: dict[str, dict[str, list[float]]] = {}
    async with Memory("memory:", embedder=embedder) as memory:
        await given.fill(memory)
        await memory.inbox.flush()
        for (text, gold), vector in zip(asked, vectors, strict=True):
            rankings = {name: ranking.messages for name, ranking in baselines.rankings(text, vector).items()}
            rankings[FACTMEM] = [given.key(match) for match in await memory.recall(text, limit=DEPTH)]
            for way, keys in rankings.items():
                for figure, value in figures_of(keys, gold).items():
                    found.setdefault(way, {}).setdefault(figure, []).append(value)
    return found


def behind(found: Mapping[str, Mapping[str, Sequence[float]]], figure: str) -> tuple[float, float]:
    """Return by how much factmem is below the best baseline, and the half width of the paired 95 % interval."""
    best = max(BASELINES, key=lambda name: float(np.mean(found[name][figure])))
    lost = np.array(found[best][figure]) - np.array(found[FACTMEM][figure])
    return float(lost.mean()), float(1.96 * lost.std() / np.sqrt(len(lost)))


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embedders", nargs="*", default=["wordllama"])
    parser.add_argument("--held", action="store_true", help="the halves that are opened once, at the end")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    parser.add_argument("--markdown", action="store_true", help="print the table of the documentation")
    options = parser.parse_args()
    rows: list[list[str]] = []
    result: dict[str, Any] = {}
    for embedder in options.embedders:
        for name in options.sets:
            found = anyio.run(measure, fact_set(name, "held" if options.held else "building"), embedder_named(embedder))
            means = {way: {k: float(np.mean(of)) for k, of in figures.items()} for way, figures in found.items()}
            lost, width = behind(found, "R@10")
            count = len(found[FACTMEM]["@1"])
            result.setdefault(embedder, {})[name] = {"questions": count, "behind": [lost, width], **means}
            cells = [f"{means[way]['@1']:.2f} / {means[way]['R@10']:.2f}" for way in (*BASELINES, FACTMEM)]
            rows.append([embedder, name, str(count), *cells, f"{lost:+.3f} ± {width:.3f}"])
    head = ["embedder", "@1 / R@10", "questions", *BASELINES, FACTMEM, "behind"]
    table = Table(*head)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if options.markdown:
        for row in (head, ["---", "---", *["---:"] * (len(head) - 2)], *rows):
            print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
