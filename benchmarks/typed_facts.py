"""Typed facts in first place: questions in other words that one typed fact of one person answers.

    python benchmarks/typed_facts.py [--set typed_second] [--people 1 10 200] [--embedder minilm] [--held] [--failures]

Everybody has a fact of each concept of a blind set, and says some of them in a sentence as well, among other people's
sentences. The viewer is one of the people: a question that names nobody asks for the viewer's own fact. Questions of
*typed_second* share no word with the keyword and the description, but some with the sentence, which answers as well:
*said @1* counts either.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import attrs
from blind_sets import Half, read
from hops import FIRST, LAST
from retrieval_metrics import Scores
from rich.console import Console
from rich.table import Table

from factmem import Concept, Conversation, Memory, MemorySubject, Message, SingleFact
from factmem.facts import STATEMENT
from factmem.recall.embedders import embedder_named

HERE: Final = Path(__file__).parent
SAID: Final = 0.1
"""Share of the facts of others that are also said in a sentence; the viewer says all of theirs."""

DEPTH: Final = 10


@attrs.frozen(kw_only=True)
class Asked:
    """A question, and the subject and keyword of the fact that answers it."""

    text: str
    way: str
    subject: MemorySubject
    keyword: str


def people_of(count: int, rng: random.Random) -> list[MemorySubject]:
    """Return people, the viewer first; a single one is the user."""
    if count == 1:
        return [MemorySubject("user")]
    names = [f"{first} {last}" for first in FIRST for last in LAST]
    rng.shuffle(names)
    return [MemorySubject("person").individual(name) for name in names[:count]]


async def fill(memory: Memory, people: Sequence[MemorySubject], facts: Sequence[dict[str, Any]]) -> None:
    """Save everybody's facts, and remember the sentences."""
    rng = random.Random(11)
    sentences: list[tuple[str | None, str]] = [
        (None, pair["fact"]) for pair in json.loads((HERE / "plain_facts.json").read_text(encoding="utf-8"))
    ]
    for person in people:
        for fact in facts:
            value = rng.choice(fact["values"])
            concept = Concept.single(fact["keyword"], fact["description"], str)
            await memory.save(SingleFact(concept, value), subject=person)
            if person is people[0] or rng.random() < SAID:
                sentences.append((person.individual_name, fact["said"].format(value)))
    rng.shuffle(sentences)
    for number, (name, text) in enumerate(sentences):
        said = Message(role="user", name=name, content=text, id=f"{number}")
        await memory.remember(Conversation(id=f"{number}", messages=[said]))
    await memory.inbox.flush()


def questions_of(people: Sequence[MemorySubject], asked: Sequence[dict[str, Any]], rng: random.Random) -> list[Asked]:
    """Return the questions: those that name nobody about the viewer, the others about anybody else."""
    questions = [
        Asked(text=text, way="own", subject=people[0], keyword=case["keyword"])
        for case in asked
        for text in case["own"]
    ]
    for case in asked if len(people) > 1 else ():
        for text in case["named"]:
            person = rng.choice(people[1:])
            name = person.individual_name or ""
            first = name.split()[0]
            alone = sum((other.individual_name or "").split()[0] == first for other in people) == 1
            named = text.format(first if alone and rng.random() < 0.5 else name)
            questions.append(Asked(text=named, way="named", subject=person, keyword=case["keyword"]))
    return questions


async def measure(name: str, people: int, embedder: str, half: Half, failures: list[str]) -> Scores:
    """Return the figures of a store of so many people."""
    cases = read(name, half)
    facts = [case for case in cases if case["type"] == "fact"]
    subjects = people_of(people, random.Random(7))
    viewer = subjects[0].individual_name
    figures = Scores()
    async with Memory("memory:", embedder=embedder_named(embedder), viewer=viewer) as memory:
        await fill(memory, subjects, facts)
        found = await memory.list_records(limit=None)
        values = {(str(record.subject), record.concept.keyword): str(record.value) for record in found}
        asked = [case for case in cases if case["type"] == "question"]
        for question in questions_of(subjects, asked, random.Random(13)):
            matches = await memory.recall(question.text, limit=DEPTH)
            keys = [(str(match.record.subject), match.record.concept.keyword) for match in matches]
            wanted = (str(question.subject), question.keyword)
            place = keys.index(wanted) if wanted in keys else DEPTH
            figures.add(f"{question.way}/@1", float(place == 0))
            figures.add(f"{question.way}/@10", float(place < DEPTH))
            value = values[str(question.subject), question.keyword]
            best = matches[0].record if matches else None
            said = best is not None and best.concept.keyword == STATEMENT.keyword and value in str(best.value)
            figures.add(f"{question.way}/said @1", float(place == 0 or said))
            if place:
                first = matches[0]
                failures.append(
                    f"{people} {question.text}\n    wanted {wanted} at {place + 1 if place < DEPTH else '-'}; "
                    f"first {first.record.subject} {first.record.concept.keyword}: {first.record.value} "
                    f"{first.score:.3f}"
                )
    return figures


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=["typed", "typed_second"], default="typed")
    parser.add_argument("--people", type=int, nargs="+", default=[1, 10, 200])
    parser.add_argument("--embedder", default="wordllama")
    parser.add_argument("--held", action="store_true", help="the half that is opened once, at the end")
    parser.add_argument("--failures", action="store_true", help="print what stands in first place instead")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    options = parser.parse_args()
    result: dict[str, dict[str, float]] = {}
    keys = [f"{way}/{figure}" for way in ("own", "named") for figure in ("@1", "said @1", "@10")]
    table = Table("people", "questions", *(key.replace("/", " ") for key in keys), title="typed facts first")
    failures: list[str] = []
    half: Half = "held" if options.held else "building"
    for people in options.people:
        figures = anyio.run(measure, options.set, people, options.embedder, half, failures)
        means, counts = figures.means(), figures.counts()
        result[str(people)] = means
        cells = [f"{means[key]:.3f}" if key in means else "" for key in keys]
        table.add_row(str(people), str(sum(counts[key] for key in counts if key.endswith("/@1"))), *cells)
    Console().print(table)
    if options.failures:
        print("\n".join(failures))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
