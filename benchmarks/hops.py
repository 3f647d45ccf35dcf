"""Questions of two and three hops over a store of typed facts whose values may be subjects.

    python benchmarks/hops.py [FOLDER] [--embedder minilm] [--people 200] [--questions 90] [--seed 7] [--failures]

FOLDER holds `hops.jsonl`: facts (`{"type": "fact", "n", "subject", "keyword", "value", "is_subject"}`) and questions
(`{"type": "question", "text", "path": [n, …], "gold": n, "hops"}`). Without one, a program
makes some two thousand facts, and questions in other words. The cosine of question and fact, by the same embedder, is
measured beside recall.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import attrs
import numpy as np
from rich.console import Console
from rich.table import Table

from factmem import Concept, Embedder, Memory, MemorySubject, SingleFact
from factmem.recall.embedders import embedded, embedder_named

FIRST: Final = (
    *("Ada", "Bo", "Cleo", "Dag", "Eva", "Finn", "Greta", "Hugo", "Ines", "Jan", "Kaja", "Leo", "Mona", "Nils"),
    *("Olga", "Per", "Rosa", "Sven", "Tara", "Uwe", "Vera", "Wim", "Xenia", "Yara", "Zoe"),
)
LAST: Final = (
    *("Berg", "Dahl", "Ek", "Frost", "Gran", "Holm", "Krog", "Lind", "Moe"),
    *("Ness", "Quist", "Rask", "Sand", "Thorn", "Vik", "Wold"),
)
LINKS: Final = {
    "manager": ("boss", "manager", "supervisor"),
    "spouse": ("wife", "husband", "partner", "spouse"),
    "sister": ("sister",),
    "best_friend": ("best friend", "closest friend"),
    "doctor": ("doctor", "physician"),
    "landlord": ("landlord",),
}
FACTS: Final = {
    "city": ("Where does {} live?", "In which town is {} at home?", "city of {}?"),
    "employer": ("Where does {} work?", "Which company employs {}?", "Who is the employer of {}?"),
    "favourite_dish": ("What does {} like to eat most?", "What is the favourite food of {}?"),
    "pet": ("What animal does {} keep?", "Which pet does {} have?"),
    "instrument": ("What does {} play in the band?", "Which instrument does {} play?"),
    "birthday": ("When was {} born?", "On which day is the birthday of {}?"),
}
VALUES: Final = {
    "city": ["Oslo", "Turku", "Bergen", "Lund", "Aarhus", "Malmo", "Tromso", "Visby", "Umea", "Kiruna"],
    "employer": ["Acme", "Globex", "Initech", "Umbrella", "Hooli", "Vandelay", "Wonka", "Stark", "Tyrell", "Cyberdyne"],
    "favourite_dish": ["lasagne", "fish soup", "dumplings", "ramen", "moussaka", "pancakes", "goulash", "tacos"],
    "pet": ["cat", "parrot", "tortoise", "two dogs", "goldfish", "rabbit", "ferret"],
    "instrument": ["cello", "drums", "oboe", "banjo", "piano", "trumpet", "harp"],
    "birthday": [f"{day} {month}" for day in (3, 9, 14, 27) for month in ("March", "June", "August", "November")],
}


@attrs.frozen
class Hops:
    """Facts by number, and the questions."""

    facts: dict[int, dict[str, Any]]
    questions: Sequence[dict[str, Any]]


def read(folder: Path) -> Hops:
    """Read a set."""
    lines = [json.loads(line) for line in (folder / "hops.jsonl").read_text(encoding="utf-8").splitlines() if line]
    return Hops(
        {line["n"]: line for line in lines if line["type"] == "fact"},
        [line for line in lines if line["type"] == "question"],
    )


def made(people: int, count: int, rng: random.Random) -> Hops:
    """Return a set made by a program: people with links to others and facts of their own."""
    names = [f"{first} {last}" for first in FIRST for last in LAST]
    rng.shuffle(names)
    names = names[:people]
    held: dict[tuple[str, str], dict[str, Any]] = {}
    for name in names:
        for keyword in LINKS:
            if rng.random() < 0.7:
                other = rng.choice([other for other in names if other != name])
                held[name, keyword] = {"value": other, "is_subject": True}
        for keyword in FACTS:
            held[name, keyword] = {"value": rng.choice(VALUES[keyword]), "is_subject": False}
    facts = {
        n: {"n": n, "subject": name, "keyword": keyword, **fact}
        for n, ((name, keyword), fact) in enumerate(held.items())
    }
    numbers = {(fact["subject"], fact["keyword"]): n for n, fact in facts.items()}
    questions = list[dict[str, Any]]()
    while len(questions) < count:
        hops, name = 2 + len(questions) % 2, rng.choice(names)
        path, who, at = list[int](), name, name
        for keyword in rng.sample(sorted(LINKS), hops - 1):
            if (at, keyword) not in numbers:
                break
            path.append(numbers[at, keyword])
            said = rng.choice(LINKS[keyword])
            who = f"{who}'s {said}" if " of " not in who and rng.random() < 0.7 else f"the {said} of {who}"
            at = facts[path[-1]]["value"]
        if len(path) == hops - 1 and at != name:
            keyword = rng.choice(sorted(FACTS))
            gold = numbers[at, keyword]
            text = rng.choice(FACTS[keyword]).format(who)
            questions.append({"text": text, "path": [*path, gold], "gold": gold, "hops": hops})
    return Hops(facts, questions)


def subject_of(text: str) -> MemorySubject:
    """Return the subject of a text such as ``person:ada``."""
    name, colon, individual = text.partition(":")
    return MemorySubject(name).individual(individual) if colon else MemorySubject(name)


async def measure(given: Hops, embedder: Embedder, *, failures: bool) -> None:
    """Ask every question, and print the shares whose gold fact is among the first results."""
    concepts = {
        fact["keyword"]: Concept.single(fact["keyword"], "", MemorySubject if fact["is_subject"] else str)
        for fact in given.facts.values()
    }
    ranks: dict[tuple[str, int], list[int]] = {}
    spent = 0.0
    async with Memory("memory:", embedder=embedder, concepts=concepts.values()) as memory:
        ids: dict[str, int] = {}
        for n, fact in given.facts.items():
            value = subject_of(fact["value"]) if fact["is_subject"] else fact["value"]
            (record,) = await memory.save(
                SingleFact(concepts[fact["keyword"]], value), subject=subject_of(fact["subject"])
            )
            ids[record.id] = n
        texts = [
            f"{fact['subject']}, {fact['keyword'].replace('_', ' ')}: {fact['value']}" for fact in given.facts.values()
        ]
        rows = np.array(await embedded(embedder, texts))
        numbers = list(given.facts)
        await memory.recall("Who?")
        for question in given.questions:
            begun = time.perf_counter()
            matches = await memory.recall(question["text"], limit=10)
            spent += time.perf_counter() - begun
            found = [ids[match.record.id] for match in matches]
            (vector,) = await embedded(embedder, [question["text"]], query=True)
            dense = [numbers[row] for row in np.argsort(-(rows @ vector))[:10]] if vector is not None else []
            for way, ranking in (("factmem", found), ("dense", dense)):
                rank = ranking.index(question["gold"]) if question["gold"] in ranking else 10
                ranks.setdefault((way, question["hops"]), []).append(rank)
                if failures and way == "factmem" and rank >= 5:
                    print(rank, question["text"], [given.facts[n] for n in question["path"]])
                    for match in matches[:5]:
                        path = [f"{link.subject} {link.concept.keyword}" for link in match.path]
                        print(f"    {match.score:.2f} {match.record.subject} {match.record.concept.keyword}", path)
    table = Table("way", "hops", "questions", "@1", "@5", "@10")
    for (way, hops), places in sorted(ranks.items(), reverse=True):
        shares = (f"{sum(place < k for place in places) / len(places):.3f}" for k in (1, 5, 10))
        table.add_row(way, str(hops), str(len(places)), *shares)
    Console().print(table, f"{len(given.facts)} facts, {1000 * spent / len(given.questions):.1f} ms a recall")


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--embedder", default="wordllama")
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--questions", type=int, default=90)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--failures", action="store_true", help="show questions whose answer is not among the first five"
    )
    options = parser.parse_args()
    rng = random.Random(options.seed)
    given = made(options.people, options.questions, rng) if options.folder is None else read(options.folder)

    async def run() -> None:
        await measure(given, embedder_named(options.embedder), failures=options.failures)

    anyio.run(run)


if __name__ == "__main__":
    main()
