"""Questions about somebody: whether facts answer what is asked about their subject, and only that.

    python benchmarks/somebody.py [--embedder minilm] [--held] [--json FILE]

Five people have typed facts about themselves, and have said sentences, mostly about others, in four languages. Kinds:

- *named*, *kin*: a question about "Nora" or "my mother", where the viewer has a fact of the same matter.
- *own*, *own mentioning*: a question about the viewer; the second mentions other people, brands or places.
- *agent*: a query of a language model ("user's home city").
- *named fact*: the answer is a typed fact that holds the name.
- *unanswered*: nothing answers; the viewer may have a fact of the matter.
- *who*, *who value*, *own among others*: the facts of eight people are known. The first asks of whom something holds
  ("Who is allergic to nuts?"), the second for a person that the viewer has to do with ("Who is my dentist?").

``@1`` is the share of questions with the right record first; ``wrong person`` the share with a typed fact first where
none answers; ``answers`` the share that `RecallMatches.answers` calls answered.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio
from blind_sets import Half, read
from retrieval_metrics import Scores
from rich.console import Console
from rich.table import Table

from factmem import Concept, Conversation, Memory, MemorySubject, Message, SingleFact
from factmem.recall.embedders import embedder_named

SETS: Final = ("somebody", "anybody")
VIEWER: Final = "viewer"
FIGURES: Final = ("@1", "wrong person", "answers")


async def measure(cases: Sequence[dict[str, Any]], embedder: str, figures: Scores) -> None:
    """Add the figures of one person's store."""
    keys: dict[str, str] = {}
    facts = {case["id"] for case in cases if case["type"] == "fact"}
    async with Memory("memory:", embedder=embedder_named(embedder), viewer=VIEWER) as memory:
        for case in cases:
            if case["type"] == "fact":
                concept = Concept.single(case["keyword"], case["description"], str)
                name = case.get("subject", VIEWER)
                subject = MemorySubject("user") if name == VIEWER else MemorySubject("person").individual(name)
                for record in await memory.save(SingleFact(concept, str(case["value"])), subject=subject):
                    keys[record.id] = case["id"]
            elif case["type"] == "passage":
                await memory.remember(Conversation(id=case["id"], messages=[Message(content=case["text"])]))
                keys[case["text"]] = case["id"]
        await memory.inbox.flush()
        for case in cases:
            if case["type"] != "question":
                continue
            matches = await memory.recall(case["text"], limit=10)
            records = [match.record for match in matches]
            found = [keys.get(record.id) or keys[str(record.value)] for record in records]
            wanted, kind = case.get("answer"), case["kind"]
            if wanted is not None:
                figures.add(f"{kind}/@1", float(found[:1] == [wanted]))
            if wanted not in facts:
                typed = bool(records) and records[0].id in keys
                figures.add(f"{kind}/wrong person", float(typed))
            figures.add(f"{kind}/answers", float(matches.answers))


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", default="wordllama")
    parser.add_argument("--held", action="store_true", help="the half that is opened once, at the end")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    options = parser.parse_args()
    half: Half = "held" if options.held else "building"
    worlds = defaultdict[tuple[str, int], list[dict[str, Any]]](list)
    for name in SETS:
        for case in read(name, half):
            worlds[name, case["world"]].append(case)
    figures = Scores()
    for cases in worlds.values():
        anyio.run(measure, cases, options.embedder, figures)
    means, counts = figures.means(), figures.counts()
    table = Table("kind", "questions", *FIGURES, title=f"about somebody, {half} half")
    for kind in dict.fromkeys(name.split("/")[0] for name in means):
        cells = [f"{means[key]:.3f}" if (key := f"{kind}/{figure}") in means else "" for figure in FIGURES]
        table.add_row(kind, str(counts[f"{kind}/answers"]), *cells)
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(means, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
