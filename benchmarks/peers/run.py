"""factmem and its peers, compared on the same data and vectors, in alternation.

    python benchmarks/peers/run.py [--only crewai mem0] [--small] [--json FILE]

Each peer runs in an environment of its own, which is made on first use and kept with the finished figures in a cache
folder (``FACTMEM_PEERS``, or ``factmem-peers`` below the user's cache): an interrupted run resumes, unless ``--again``
is given. Speed is measured on generated facts with precomputed vectors, so that no embedder counts; retrieval on the
files of dated conversations in ``--data`` and on the short facts of `short_facts.py`. A peer that cannot be installed
or run is reported with the reason.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]  # the folder of the package, before any import from it

from peers.driving import Plan, drive  # noqa: E402
from peers.field import FACTMEM, FIELD  # noqa: E402
from peers.page import show, written  # noqa: E402

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "dated"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[name for name in FIELD if name != FACTMEM], metavar="PEER")
    parser.add_argument("--small", action="store_true", help="small numbers, as a quick check")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=DATA, help="folder with files of dated conversations")
    parser.add_argument("--questions", type=int, help="number of questions of each file (default: all)")
    parser.add_argument("--measure", nargs="+", choices=("quality", "speed"), default=["quality", "speed"])
    parser.add_argument("--again", action="store_true", help="repeat finished measurements")
    parser.add_argument("--kept", action="store_true", help="measure nothing, and report finished measurements")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to a file")
    given = parser.parse_args()
    files = tuple(sorted(given.data.glob("*.jsonl*")))
    if "quality" in given.measure and not files:
        print(f"No files of dated conversations in {given.data}: only short facts are asked for.", file=sys.stderr)
    plan = Plan(
        peers=tuple(given.only or (name for name in FIELD if name != FACTMEM)),
        sizes=(200,) if given.small else tuple(given.sizes),
        rounds=1 if given.small else given.rounds,
        questions=3 if given.small else given.questions,
        files=files,
        measures=tuple(given.measure),
        again=given.again,
        kept=given.kept,
    )
    results = drive(plan)
    if given.json:
        given.json.write_text(written(results), encoding="utf-8")
    show(results)


if __name__ == "__main__":
    main()
