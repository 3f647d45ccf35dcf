"""Statements that overtake others: whether the newest stands first, and the others are marked.

    python benchmarks/updates.py [--set updates_changes] [--held] [--embedder minilm] [--cases]

The cases are written apart from the code (`blind_sets.py`). Each is said in a store of its own among other statements,
the second statement days after the first. An *update* replaces what was said, in the same words (verbatim) or in others
(natural): its question is asked, the newer statement has to stand above the older one, and the older one has to be
marked with it. An *additive* pair holds together, and no statement of it may be marked.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import anyio
import attrs
from blind_sets import Case, read
from rich.console import Console
from rich.table import Table

from factmem import Embedder, Memory, Message
from factmem.recall.embedders import embedder_named

AMONG: Final = 24
"""Number of other statements in a store."""

APART: Final = 30
"""Days between the statements of an additive pair."""


@attrs.frozen
class Seen:
    """Outcome of a pair in recall.

    Attributes:
        first: whether the newer statement stands above the older one.
        marked: whether the older statement is marked with the newer one.
        wrongly: whether the newer one is marked with the older one.
    """

    first: bool
    marked: bool
    wrongly: bool


async def seen(case: Case, others: Sequence[str], embedder: Embedder) -> Seen:
    """Say the statements of a case among others, and ask."""
    older, newer = (case["first"], case["second"]) if case["type"] == "additive" else (case["old"], case["new"])
    now = dt.datetime.now(dt.UTC)
    apart = dt.timedelta(days=case.get("days", APART))
    began = now - apart - dt.timedelta(days=1)
    async with Memory("memory:", embedder=embedder) as memory:
        said = [(older, began), *((text, began + apart / 2) for text in others), (newer, began + apart)]
        for text, at in said:
            await memory.remember(Message(content=text, timestamp=at))
        matches = await memory.recall(case.get("question") or older, limit=AMONG + 2)
    places = {match.record.value: place for place, match in enumerate(matches)}
    by = {match.record.value: match.newer.value for match in matches if match.newer is not None}
    last = len(places)
    return Seen(places.get(newer, last) < places.get(older, last), by.get(older) == newer, by.get(newer) == older)


async def measure(cases: Sequence[Case], embedder: Embedder) -> list[tuple[Case, Seen]]:
    """Return what recall makes of each case."""
    found = []
    for number, case in enumerate(cases):
        chance = random.Random(number)
        additive = [other["first"] for other in cases if other["type"] == "additive" and other is not case]
        found.append((case, await seen(case, chance.sample(additive, AMONG), embedder)))
    return found


def show(found: Sequence[tuple[Case, Seen]], console: Console, *, title: str) -> None:
    """Print the shares by type and style."""
    kinds: defaultdict[tuple[str, str], list[Seen]] = defaultdict(list)
    for case, result in found:
        kinds[case["type"], case["style"]].append(result)
    table = Table("pairs", "number", "newest above the older", "marked", title=title)
    for (kind, style), results in sorted(kinds.items(), reverse=True):
        first = _share(results, "first") if kind == "update" else ""
        table.add_row(f"{kind}, {style}", str(len(results)), first, _share(results, "marked"))
    additive = [result for case, result in found if case["type"] == "additive"]
    wrong = sum(result.marked or result.wrongly for result in additive)
    table.add_row("additive, all", str(len(additive)), "", f"{wrong / len(additive):.3f}")
    console.print(table)


def _share(results: Sequence[Seen], name: str) -> str:
    return f"{sum(getattr(result, name) for result in results) / len(results):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--set", choices=("updates", "updates_second", "updates_changes"), default="updates", help="the set of pairs"
    )
    parser.add_argument("--held", action="store_true", help="the half that is opened once, at the end")
    parser.add_argument("--embedder", default="wordllama", help="wordllama, minilm or openai:MODEL@DIMENSION")
    parser.add_argument("--cases", action="store_true", help="print the cases that fail")
    options = parser.parse_args()
    cases: list[dict[str, Any]] = read(options.set, "held" if options.held else "building")
    found = anyio.run(measure, cases, embedder_named(options.embedder))
    console = Console()
    show(found, console, title=f"{len(cases)} pairs, {options.embedder}")
    if options.cases:
        for case, result in found:
            if (case["type"] == "additive") == (result.marked or result.wrongly):
                console.print(case, result)


if __name__ == "__main__":
    main()
