"""Cost of ``import factmem``: interleaved runs of a new interpreter, against one that imports nothing.

    python benchmarks/import_time.py [--runs 21] [--module factmem] [--json]

Times are wall-clock medians in milliseconds; the first round warms the file cache and is not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time


def seconds(statement: str) -> float:
    """Return the seconds that a new interpreter takes for one statement."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - started


def measure(module: str, runs: int) -> dict[str, float | int | str]:
    statements = {"nothing": "pass", "import": f"import {module}"}
    times: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(runs + 1):
        for name, statement in statements.items():
            times[name].append(seconds(statement))
    nothing, imported = (statistics.median(times[name][1:]) * 1000 for name in statements)
    return {
        "module": module,
        "runs": runs,
        "interpreter_ms": round(nothing, 2),
        "with_import_ms": round(imported, 2),
        "import_ms": round(imported - nothing, 2),
        "ratio": round(imported / nothing, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the import time of factmem.")
    parser.add_argument("--runs", type=int, default=21, help="number of interleaved rounds")
    parser.add_argument("--module", default="factmem", help="module to import")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    result = measure(options.module, options.runs)
    if options.json:
        print(json.dumps(result))
        return
    print(f"python -c pass            {result['interpreter_ms']:>8} ms")
    print(f"python -c 'import {options.module}' {result['with_import_ms']:>6} ms")
    print(f"the import alone          {result['import_ms']:>8} ms   ({result['ratio']} times the bare interpreter)")


if __name__ == "__main__":
    main()
