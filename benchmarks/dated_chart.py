"""Draw the chart of retrieval on the dated sets, for the README and the documentation.

    python benchmarks/dated_chart.py

It reads `results/dated.json`. The chart is an SVG that follows light and dark mode, and the same results give the same
file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dated import BASELINES, FACTMEM
from dated_sets import TITLES

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "dated.json"
CHART = HERE.parent / "docs" / "pages" / "explanation" / "retrieval.svg"
WIDTH, LEFT, BAR, GAP, TOP = 720, 110, 14, 22, 52
"""In pixels: the chart, the names of the sets, a bar, the space between sets, the heading."""
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f } .title { font-weight: 600 } .small { fill: #57606a }
.ours { fill: #0b6e4f } .theirs { fill: #8fa3ad }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9198a1 } .ours { fill: #3fb68b } }
"""


def chart(result: Mapping[str, Any]) -> str:
    """Return the chart: R@10 of each ranker on each set."""
    rankers = [*BASELINES, FACTMEM]
    about = "The baselines rank the same messages by the same analyser and embeddings. factmem was tuned on these sets."
    height = TOP + len(result["stores"]) * (len(rankers) * (BAR + 2) + GAP)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<style>{STYLE}</style>",
            '<text class="title" x="0" y="16">Right messages among the first ten (R@10), without a model</text>',
            f'<text class="small" x="0" y="34">{about}</text>',
            *_bars(result, rankers),
            "</svg>\n",
        ]
    )


def _bars(result: Mapping[str, Any], rankers: list[str]) -> Iterator[str]:
    y = TOP
    for set_ in result["stores"]:
        yield f'<text class="title" x="0" y="{y + 11}">{TITLES[set_]}</text>'
        for name in rankers:
            value = result["figures"][name][f"{set_}/R@10"]
            length = value * (WIDTH - LEFT - 130)
            kind = "ours" if name == FACTMEM else "theirs"
            yield f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{length:.0f}" height="{BAR}" rx="2"/>'
            yield f'<text x="{LEFT + length + 6:.0f}" y="{y + 11}">{value:.3f} {name}</text>'
            y += BAR + 2
        y += GAP


if __name__ == "__main__":
    CHART.write_text(chart(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")
