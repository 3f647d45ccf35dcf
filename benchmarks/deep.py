"""Deep recall on dated conversations: its confidence, and the effect of additional questions. Needs no model.

    python benchmarks/deep.py PATH/TO/dated/*.jsonl.gz [--stores 3] [--pairs 100] [--set LOW HIGH]

A scripted analyst replaces the model. For the first stores of each set the benchmark prints:

- the distribution of the confidence in questions whose evidence is all among the first ten, in other answerable ones,
  in unanswerable ones, and in questions made of two; and the share of each below ``confidence_threshold_low`` and
  ``confidence_threshold_high`` of `DeepSettings`. Set these two accordingly: the second so that most questions made of
  two
  are below it, the first so that few questions with found evidence are.
- turn R@10 of plain recall and of deep recall with three irrelevant questions, every question being analysed: from the
  same conversation, and about another topic.
- turn R@10 of questions made of two: plain, with their two parts at any confidence, and with the default thresholds;
  for LoCoMo, also of twelve questions written for it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gzip
import itertools
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import attrs
import numpy as np
from retrieval_metrics import Scores, fraction_found
from rich.progress import track

from factmem import InMemoryProvider, Memory, Message, RecallMatch
from factmem.abc.consolidator import Known
from factmem.abc.detector import Conversation
from factmem.abc.question_analyst import Gap, QuestionAnalysis, QuestionRequest, SubQuestion
from factmem.recall import DeepSettings
from factmem.recall.deep import confidence_of
from factmem.recall.embedders import embedder_named
from factmem.testing import FakeClock

ALWAYS: Final = DeepSettings(confidence_threshold_high=1.0, confidence_threshold_low=0.0, complex_query_threshold=0.0)
ELSEWHERE: Final = (
    "How is sourdough bread baked?",
    "Which train leaves for the airport at noon?",
    "Who won the football match on Sunday?",
    "What does the new printer cost?",
    "When is the dentist's appointment?",
    "How tall is the lighthouse?",
)
Part = tuple[str, str]
WRITTEN: Final[dict[str, Sequence[tuple[str, Part, Part]]]] = {
    "conv-26": (
        (
            "What country is Caroline's grandma from, and what pets does Melanie have?",
            ("What country is Caroline's grandma from?", "D4:3"),
            ("What pets does Melanie have?", "D13:4"),
        ),
        (
            "Where did Oliver hide his bone, and which song motivates Caroline to be courageous?",
            ("Where did Oliver hide his bone?", "D13:6"),
            ("Which song motivates Caroline to be courageous?", "D15:23"),
        ),
        (
            "When did Melanie sign up for pottery, and when did Caroline go to the LGBTQ conference?",
            ("When did Melanie sign up for pottery?", "D5:4"),
            ("When did Caroline go to the LGBTQ conference?", "D7:1"),
        ),
        (
            "What did the posters at the poetry reading say, and what sign did Melanie see at the café?",
            ("What did the posters at the poetry reading say?", "D17:19"),
            ("What sign did Melanie see at the café?", "D16:16"),
        ),
        (
            "How often does Melanie take her kids to the beach, and how long has she been married?",
            ("How often does Melanie take her kids to the beach?", "D10:10"),
            ("How long has Melanie been married?", "D3:16"),
        ),
        (
            "Who performed at the concert for Melanie's daughter, and which classical musicians does Melanie enjoy?",
            ("Who performed at the concert for Melanie's daughter?", "D11:3"),
            ("Which classical musicians does Melanie enjoy?", "D15:28"),
        ),
    ),
    "conv-41": (
        (
            "What is the name of Maria's second puppy, and when did John get Max?",
            ("What is the name of Maria's second puppy?", "D31:4"),
            ("When did John get Max?", "D17:1"),
        ),
        (
            "What happened to John's job, and what disaster struck his old area?",
            ("What happened to John's job?", "D28:1"),
            ("What disaster struck John's old area?", "D23:1"),
        ),
        (
            "Who inspired Maria to volunteer, and why did John decide to run for office again?",
            ("Who inspired Maria to volunteer?", "D5:8"),
            ("Why did John decide to run for office again?", "D7:4"),
        ),
        (
            "How long was Max in John's family, and how often does John take his kids to the park?",
            ("How long was Max in John's family?", "D17:1"),
            ("How often does John take his kids to the park?", "D8:8"),
        ),
        (
            "What did Maria make to remind her of England, and what did John receive a certificate for?",
            ("What did Maria make to remind her of England?", "D8:15"),
            ("What did John receive a certificate for?", "D9:2"),
        ),
        (
            "What recognition did Maria receive at the shelter, and which cause did John's charity run support?",
            ("What recognition did Maria receive at the shelter?", "D29:1"),
            ("Which cause did John's charity run support?", "D29:4"),
        ),
    ),
}


@attrs.define
class Scripted:
    """An analyst that returns scripted sub-questions for every question."""

    parts: Sequence[str] = ()

    async def analyse_question(self, question: str, request: QuestionRequest) -> QuestionAnalysis:
        return QuestionAnalysis(questions=tuple(map(SubQuestion, self.parts)))

    async def find_gaps(self, question: str, known: Sequence[Known], *, asked: Sequence[str] = ()) -> Sequence[Gap]:
        return ()


@attrs.define
class Figures:
    """The figures of one set.

    Attributes:
        confidences: confidences by kind of question.
        scores: turn R@10 by name.
    """

    confidences: dict[str, list[float]] = attrs.field(factory=lambda: defaultdict(list))
    scores: Scores = attrs.field(factory=Scores)


def stores_in(path: Path, count: int) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") as lines:
        for line in itertools.islice(lines, count):
            yield json.loads(line)


def turns(matches: Sequence[RecallMatch]) -> list[str]:
    return [item.message_id or "" for match in matches for item in match.record.evidence[:1]]


def joined(first: str, second: str) -> str:
    return f"{first.rstrip('?. ')}, and {second[0].lower()}{second[1:]}"


async def measure(store: dict[str, Any], figures: Figures, pairs: int, settings: DeepSettings) -> None:
    now = dt.datetime.fromisoformat(max(question["asked_at"] for question in store["questions"]))
    analyst, clock = Scripted(), FakeClock(now)
    memory = Memory(
        InMemoryProvider(clock=clock),
        embedder=embedder_named("wordllama"),
        clock=clock,
        question_analyst=analyst,
        deep=ALWAYS,
    )

    async def deep(question: str, parts: Sequence[str], gold: Sequence[str], given: DeepSettings = ALWAYS) -> float:
        analyst.parts = parts
        found = await memory.recall(question, depth="deep", deep=given)
        return fraction_found(turns(found), set(gold), 10)

    async with memory:
        for item in store["conversations"]:
            said = [
                Message(
                    content=message["content"],
                    role=message["role"],
                    name=message.get("name"),
                    id=message["id"],
                    timestamp=dt.datetime.fromisoformat(message["at"]),
                )
                for message in item["messages"]
            ]
            await memory.remember(Conversation(messages=tuple(said), id=item["id"]))
        chance = random.Random(store["id"])
        texts = [question["question"] for question in store["questions"]]
        answerable = [item for item in store["questions"] if item["gold"] and item["kind"] not in UNANSWERABLE]
        for item in store["questions"]:
            matches = await memory.recall(item["question"])
            confidence = confidence_of([matches])
            if item["kind"] in UNANSWERABLE:
                figures.confidences["unanswerable"].append(confidence)
            elif item["gold"]:
                found = fraction_found(turns(matches), set(item["gold"]), 10)
                figures.confidences["found" if found == 1 else "not all found"].append(confidence)
                others = chance.sample([text for text in texts if text != item["question"]], 3)
                figures.scores.add("single questions, plain", found)
                for name, parts in (
                    ("of the conversation", others),
                    ("about something else", chance.sample(ELSEWHERE, 3)),
                ):
                    value = await deep(item["question"], parts, item["gold"])
                    figures.scores.add(f"single questions, three others {name}", value)
        made = [chance.sample(answerable, 2) for _ in range(pairs if len(answerable) > 1 else 0)]
        of_two = [
            ("pairs", joined(one["question"], two["question"]), [(it["question"], it["gold"]) for it in (one, two)])
            for one, two in made
        ]
        of_two += [
            ("written pairs", whole, [(text, [gold]) for text, gold in parts])
            for whole, *parts in WRITTEN.get(store["id"], ())
        ]
        for name, whole, parts in of_two:
            matches = await memory.recall(whole)
            figures.confidences[name].append(confidence_of([matches]))
            asked = [text for text, _ in parts]
            for _, gold in parts:
                figures.scores.add(f"{name}, plain", fraction_found(turns(matches), set(gold), 10))
                figures.scores.add(f"{name}, with their parts", await deep(whole, asked, gold))
                figures.scores.add(f"{name}, default thresholds", await deep(whole, asked, gold, settings))


UNANSWERABLE: Final = ("category 5", "abstention")


def auroc(high: Sequence[float], low: Sequence[float]) -> float:
    """Return the probability that one of the first is higher than one of the second; ties count half."""
    one, two = np.array(high)[:, None], np.array(low)
    return float(np.mean((one > two) + 0.5 * (one == two)))


def show(name: str, figures: Figures, settings: DeepSettings) -> None:
    low, high = settings.confidence_threshold_low, settings.confidence_threshold_high
    print(f"{name}\n  confidence           n   5 %  25 %  50 %  75 %  95 %   below {low:g}   below {high:g}")
    for kind, values in figures.confidences.items():
        numbers = "  ".join(f"{value:.2f}" for value in np.percentile(values, (5, 25, 50, 75, 95)))
        below = [float(np.mean(np.array(values) < bound)) for bound in (low, high)]
        print(f"  {kind:15} {len(values):6}  {numbers}   {below[0]:10.2f}   {below[1]:9.2f}")
    by = figures.confidences
    if by["found"] and by["not all found"]:
        print(f"  AUROC, found against not all found: {auroc(by['found'], by['not all found']):.3f}")
    if by["unanswerable"]:
        known = by["found"] + by["not all found"]
        print(f"  AUROC, answerable against unanswerable: {auroc(known, by['unanswerable']):.3f}")
    for text, value in figures.scores.means().items():
        print(f"  turn R@10 {text:50} {value:.3f}")


async def run(options: argparse.Namespace) -> None:
    low, high = options.set
    settings = DeepSettings(
        confidence_threshold_low=low, confidence_threshold_high=high, complex_query_threshold=(low + high) / 2
    )
    for path in options.paths:
        figures, stores = Figures(), list(stores_in(path, options.stores))
        for store in track(stores, description=path.stem, transient=True):
            await measure(store, figures, options.pairs, settings)
        show(path.name.split(".")[0], figures, settings)


def main() -> None:
    default = DeepSettings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+", help="dated sets, one store per line")
    parser.add_argument("--stores", type=int, default=3, help="number of stores of each set")
    parser.add_argument("--pairs", type=int, default=100, help="number of questions made of two, for each store")
    parser.add_argument(
        "--set",
        type=float,
        nargs=2,
        metavar=("LOW", "HIGH"),
        default=(default.confidence_threshold_low, default.confidence_threshold_high),
        help="thresholds of confidence",
    )
    anyio.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
