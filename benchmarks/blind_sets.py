"""Sets of cases that are written apart from the code, in two halves: one for building, one opened once at the end.

    python benchmarks/blind_sets.py pack FOLDER     split the files of a folder (JSON Lines) and pack both halves
    python benchmarks/blind_sets.py unpack FOLDER   write the building halves there; --held for the others

The halves are kept compressed, so that no search of the code shows a case to the authors of the rules that it judges.
A case belongs to a half by its place in the order of its own kind, so that both halves hold the same kinds. Lines of
what is asked about (``type`` is ``fact`` or ``passage``) are in both.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

Case: TypeAlias = dict[str, Any]
Half: TypeAlias = Literal["building", "held"]
HALVES: Final[tuple[Half, Half]] = ("building", "held")
PACKED: Final = Path(__file__).with_name("blind")
SHARED: Final = ("fact", "passage")
STRATA: Final = ("honest", "standing", "type", "style", "hops", "language", "kind")


def read(name: str, half: Half) -> list[Case]:
    """Return the cases of one half of a set."""
    text = lzma.decompress((PACKED / f"{name}.{half}.xz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def split(cases: Iterable[Case]) -> tuple[list[Case], list[Case]]:
    """Return two halves of about equal size and alike in their kinds."""
    strata: defaultdict[str, list[Case]] = defaultdict(list)
    halves: tuple[list[Case], list[Case]] = ([], [])
    for case in sorted(cases, key=_digest):
        if case.get("type") in SHARED:
            halves[0].append(case)
            halves[1].append(case)
        else:
            strata[json.dumps([case.get(name) for name in STRATA])].append(case)
    turn = 0
    for _, alike in sorted(strata.items()):
        for case in alike:
            halves[turn].append(case)
            turn = 1 - turn
    return halves


def pack(folder: Path) -> None:
    """Split and compress each ``*.jsonl`` of a folder."""
    PACKED.mkdir(exist_ok=True)
    for path in sorted(folder.glob("*.jsonl")):
        cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        halves = split(cases)
        for half, part in zip(HALVES, halves, strict=True):
            (PACKED / f"{path.stem}.{half}.xz").write_bytes(lzma.compress(_lines(part)))
        print(f"{path.stem}: {len(cases)} lines, {len(halves[0])} for building, {len(halves[1])} held")


def unpack(folder: Path, half: Half) -> None:
    """Write the packed sets of one half as JSON Lines."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(PACKED.glob(f"*.{half}.xz")):
        name = path.name.removesuffix(f".{half}.xz")
        (folder / f"{name}.jsonl").write_bytes(_lines(read(name, half)))
        print(folder / f"{name}.jsonl")


def _digest(case: Case) -> bytes:
    return hashlib.sha256(json.dumps(case, sort_keys=True).encode()).digest()


def _lines(cases: Sequence[Case]) -> bytes:
    return "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description="Pack or unpack the sets that nobody has seen.")
    parser.add_argument("action", choices=["pack", "unpack"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--held", action="store_true", help="the half that is opened once, at the end")
    options = parser.parse_args()
    if options.action == "pack":
        pack(options.folder)
    else:
        unpack(options.folder, "held" if options.held else "building")


if __name__ == "__main__":
    main()
