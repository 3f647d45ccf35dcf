"""Results as a file, as a table in the terminal, and as the tables of the documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["QUALITY", "SHORT_FACTS", "markdown", "rows_of_quality", "rows_of_speed", "show", "written"]

QUALITY = {
    "LoCoMo R@10": "LoCoMo: R@10",
    "LoCoMo nDCG@10": "nDCG@10",
    "REALTALK R@10": "REALTALK: R@10",
    "REALTALK nDCG@10": "nDCG@10",
    "BEAM R@10": "BEAM: R@10",
    "BEAM nDCG@10": "nDCG@10",
    "LongMemEval R@10": "LongMemEval: R@10",
    "LongMemEval nDCG@10": "nDCG@10",
    "LongMemEval all@5": "conversations, all@5",
}
"""Figures of retrieval, and the heads of their columns."""

SHORT_FACTS = {
    f"{name} {figure}": f"{name}: {figure}" if figure == "@1" else figure
    for name in ("family", "software", "docs", "people")
    for figure in ("@1", "R@10")
}
"""The same of short facts."""

Results = Mapping[str, Any]
Rows = Sequence[Sequence[str]]


def written(results: Results) -> str:
    """Results as JSON, to be kept."""
    return json.dumps(results, indent=1, ensure_ascii=False) + "\n"


def show(results: Results) -> None:
    """Print all tables, and what is unavailable."""
    console = Console(soft_wrap=True, width=None if (plain := Console()).is_terminal else max(plain.width, 170))
    tables = {
        "speed": rows_of_speed(results),
        "retrieval": rows_of_quality(results, QUALITY),
        "retrieval of short facts": rows_of_quality(results, SHORT_FACTS),
    }
    for title, rows in tables.items():
        table = Table(*rows[0], title=title)
        for row in rows[1:]:
            table.add_row(*row)
        console.print(table)
    for line in unavailable(results):
        console.print(line, markup=False)


def markdown(results: Results) -> str:
    """Return all tables and the unavailable measurements, in the documentation's form."""
    retrieval = [_table(rows_of_quality(results, figures)) for figures in (QUALITY, SHORT_FACTS)]
    parts = [_table(rows_of_speed(results)), *retrieval]
    missing = [f"- {line}" for line in unavailable(results)]
    return "\n\n".join([*parts, *(["\n".join(missing)] if missing else [])]) + "\n"


def rows_of_speed(results: Results) -> Rows:
    """A head, and a row for each way in which each peer can be searched, at the biggest size."""
    *smaller, size = results["about"]["sizes"]
    head = [
        "",
        "recall by",
        *(f"p50 ms, {count:,}" for count in smaller),
        f"p50 ms, {size:,}",
        "p95",
        "CPU ms",
        "× factmem",
        "saves/s",
        "in batches",
        "open s",
        "disk MB",
        "peak MB",
        "exact",
    ]
    return [head, *_speed_rows(results, list(map(str, smaller)), str(size))]


def rows_of_quality(results: Results, heads: Mapping[str, str]) -> Rows:
    """A head, and a row for each way in which each peer can be searched.

    Args:
        results: The results.
        heads: Figures, and the heads of their columns.
    """
    rows = [
        [peer["title"], way, *(f"{figures[name]:.3f}" if name in figures else "–" for name in heads)]
        for peer in results["peers"].values()
        for way, figures in peer.get("quality", {}).items()
        if way != "unavailable"
    ]
    return [["", "recall by", *heads.values()], *rows]


def unavailable(results: Results) -> list[str]:
    """Return a line for each peer or measurement that is unavailable, with the reason."""
    lines = []
    for peer in results["peers"].values():
        parts = {"": peer, "'s retrieval": peer.get("quality", {})}
        parts |= {f"'s speed at {int(size):,} facts": found for size, found in peer.get("speed", {}).items()}
        lines += [
            f"{peer['title']}{part} is unavailable: {found['unavailable']}"
            for part, found in parts.items()
            if "unavailable" in found
        ]
    return lines


def _speed_rows(results: Results, smaller: Sequence[str], size: str) -> Iterator[list[str]]:
    for peer in results["peers"].values():
        speed = peer.get("speed", {})
        found = speed.get(size, {})
        ways = [name.removesuffix(" p50_ms") for name in found if name.endswith(" p50_ms")]
        for number, way in enumerate(ways):
            ratio = found.get("factmem_is_faster", {}).get(f"{way} p50_ms")
            kept = "open_to_first_answer_s" in found or way == "embedding"
            rest = [
                found["saves_per_second"] if kept else None,
                found["batched_saves_per_second"] if kept else None,
                found.get("open_to_first_answer_s"),
                found["disk_mb"] or None,
                max(found["reader_peak_mb"], found["writer_peak_mb"]),
            ]
            yield [
                peer["title"] if number == 0 else "",
                way,
                *(_number(speed.get(count, {}).get(f"{way} p50_ms")) for count in smaller),
                _number(found[f"{way} p50_ms"]),
                _number(found[f"{way} p95_ms"]),
                _number(found[f"{way} cpu_ms"]),
                "–" if ratio is None or way == "embedding" else f"{_number(ratio)}×",
                *(_number(value) if number == 0 else "" for value in rest),
                _number(found["exactness"]) if way == "semantic" else "",
            ]


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{float(f'{value:.2g}'):g}"


def _table(rows: Rows) -> str:
    head, *body = rows
    lines = [head, ["---", "---", *["---:"] * (len(head) - 2)], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
