"""Write results to the documentation: the tables of its page of benchmarks, and the picture beside it.

    pip install matplotlib
    python benchmarks/peers/run.py --json benchmarks/peers/results.json
    python benchmarks/peers/publish.py

The picture has no date and no random names in it: the same results give the same file.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

sys.path[:0] = [str(Path(__file__).parents[1])]  # the folder of the package, before anything of it is imported

from peers.page import markdown  # noqa: E402

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs" / "pages" / "explanation" / "benchmarks.md"
PICTURE = PAGE.with_name("side_by_side.svg")
BEGIN, END = "<!-- peers: made by benchmarks/peers/publish.py -->\n\n", "\n<!-- end of peers -->"
OURS, THEIRS, LIMIT = "#0b6e4f", "#8fa3ad", "#d9d2c5"


@attrs.frozen
class Bar:
    """One bar: whose, how long, and in which colour."""

    label: str
    length: float
    colour: str


def main() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{markdown(results)}{END}{rest.partition(END)[2]}", encoding="utf-8")
    draw(results, PICTURE)


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Draw four panels: recall, saves, LoCoMo, LongMemEval."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "peers", "font.family": "sans-serif", "font.size": 8}
    size = str(results["about"]["sizes"][-1])
    panels = (
        (f"recall of {int(size):,} facts, p50 in ms: less is better", list(_recalls(results, size)), True),
        (f"saves/s one by one, {int(size):,} facts: more is better", list(_saves(results, size)), True),
        ("LoCoMo, turn R@10: more is better", list(_found(results, "LoCoMo R@10")), False),
        ("LongMemEval, turn R@10: more is better", list(_found(results, "LongMemEval R@10")), False),
    )
    figure, places = pyplot.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
    for place, (title, bars, logarithmic) in zip(places.flat, panels, strict=True):
        _panel(place, title, bars, logarithmic=logarithmic)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _panel(place: Any, title: str, bars: Sequence[Bar], *, logarithmic: bool) -> None:
    drawn = place.barh(range(len(bars)), [bar.length for bar in bars], color=[bar.colour for bar in bars])
    place.set_title(title, loc="left", fontweight="bold")
    place.set_yticks(range(len(bars)), [bar.label for bar in bars])
    place.invert_yaxis()
    if logarithmic:
        place.set_xscale("log")
        place.margins(x=0.15)
        place.minorticks_off()
    else:
        place.set_xlim(0, 1.1)
    style = "{:,.3g}" if logarithmic else "{:.3f}"
    place.bar_label(drawn, labels=[style.format(bar.length) for bar in bars], padding=2)
    place.spines[["top", "right"]].set_visible(False)


def _recalls(results: Mapping[str, Any], size: str) -> Iterator[Bar]:
    for name, peer in results["peers"].items():
        found = peer["speed"].get(size, {}) if name != "embedder" else {}
        for figure, value in found.items():
            if figure.endswith(" p50_ms"):
                yield Bar(f"{peer['title']}, {figure.removesuffix(' p50_ms')}", value, _colour(name))


def _saves(results: Mapping[str, Any], size: str) -> Iterator[Bar]:
    for name, peer in results["peers"].items():
        found = peer["speed"].get(size, {})
        if "open_to_first_answer_s" in found:  # what is not there in the next process was not saved
            yield Bar(peer["title"], found["saves_per_second"], _colour(name))


def _found(results: Mapping[str, Any], figure: str) -> Iterator[Bar]:
    for name, peer in results["peers"].items():
        for way, figures in peer.get("quality", {}).items():
            if way != "unavailable" and figure in figures:
                yield Bar(f"{peer['title']}, {way}", figures[figure], _colour(name))


def _colour(name: str) -> str:
    return {"factmem": OURS, "scan": LIMIT}.get(name, THEIRS)


if __name__ == "__main__":
    main()
