"""Recall across languages: a question in one language, the fact that answers it in another.

    python benchmarks/languages.py EMBEDDER ... [--lexical-weight 0.5] [--json FILE]

`languages.json` holds 30 pairs: five each in German, French, Spanish, Russian, Chinese and Japanese, with the same in
English. They are asked in both directions: English questions about what was said in the other language, and questions
in the other language about what was said in English. The plain facts of `plain_facts.json`, in English, and the other
questions' facts lie beside them, so that words of the question's own language tempt.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio
from rich.console import Console
from rich.table import Table

from factmem import Memory, RecallSettings
from factmem.recall.embedders import embedder_named

HERE: Final = Path(__file__).parent
DEPTHS: Final = (1, 5)
TO_ENGLISH: Final = "other question, English fact"
FROM_ENGLISH: Final = "English question, other fact"


async def measure(embedder: str, settings: RecallSettings) -> Mapping[str, Mapping[str, float]]:
    """Return the share of facts among the first results, by direction or language and by depth."""
    pairs = json.loads((HERE / "languages.json").read_text(encoding="utf-8"))
    others = [pair["fact"] for pair in json.loads((HERE / "plain_facts.json").read_text(encoding="utf-8"))]
    hits: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for direction, fact, question in (
        (TO_ENGLISH, "english_fact", "question"),
        (FROM_ENGLISH, "fact", "english_question"),
    ):
        async with Memory("memory:", embedder=embedder_named(embedder), settings=settings) as memory:
            await memory.remember_many([*others, *(pair[fact] for pair in pairs)])
            for pair in pairs:
                found = [match.record.value for match in await memory.recall(pair[question], limit=max(DEPTHS))]
                for name in (direction, pair["language"]):
                    for depth in DEPTHS:
                        hits[name][f"@{depth}"].append(pair[fact] in found[:depth])
    return {
        name: {depth: sum(every) / len(every) for depth, every in by_depth.items()} for name, by_depth in hits.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embedders", nargs="+")
    parser.add_argument("--lexical-weight", type=float, metavar="WEIGHT")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    settings = RecallSettings(lexical_weight=options.lexical_weight)
    found = {embedder: anyio.run(measure, embedder, settings) for embedder in options.embedders}
    table = Table("embedder", "questions", *(f"@{depth}" for depth in DEPTHS))
    for embedder, shares in found.items():
        for name, by_depth in shares.items():
            table.add_row(embedder, name, *(f"{share:.3f}" for share in by_depth.values()))
    Console(width=120).print(table)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
