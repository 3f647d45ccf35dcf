"""Cost of the seal beside an encrypted database: commits with and without it, in alternating blocks on one store."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import anyio
from factmem_encrypted_sqlite import EncryptedSqliteMemoryProvider
from factmem_encrypted_sqlite.codec import SealedCodec

from factmem.crypto import SecretKey
from factmem.facts import Concept
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

NOTES: Final = Concept.multiple("notes", "Something noted")
USER: Final = MemorySubject("user")
PLANNER: Final = MemoryScope.agent("planner")
NOON: Final = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


async def block(provider: EncryptedSqliteMemoryProvider, first: int, commits: int) -> tuple[float, float]:
    """Commit one fact at a time; return the CPU and wall time of a commit, in milliseconds."""
    cpu, elapsed = time.process_time(), time.perf_counter()
    for number in range(first, first + commits):
        await provider.save(NOTES.fact([f"note {number}"], timestamp=NOON), USER, PLANNER)
    return (time.process_time() - cpu) / commits * 1e3, (time.perf_counter() - elapsed) / commits * 1e3


async def measured(path: Path, pairs: int, commits: int) -> dict[str, Any]:
    """Measure pairs of blocks."""
    sealed, unsealed = [], []
    async with EncryptedSqliteMemoryProvider(path, SecretKey.generate()) as provider:
        await block(provider, 0, commits)
        for pair in range(1, 2 * pairs, 2):
            sealed.append(await block(provider, pair * commits, commits))
            with patch.object(SealedCodec, "committed", lambda *_: None):
                unsealed.append(await block(provider, (pair + 1) * commits, commits))
    ratios = [tuple(a / b for a, b in zip(*both, strict=True)) for both in zip(sealed, unsealed, strict=True)]
    return {
        "pairs": pairs,
        "commits": commits,
        "cpu_ms": round(statistics.median(cpu for cpu, _ in sealed), 3),
        "cpu_ms_without": round(statistics.median(cpu for cpu, _ in unsealed), 3),
        "cpu_ratio": round(statistics.median(cpu for cpu, _ in ratios), 3),
        "elapsed_ratio": round(statistics.median(elapsed for _, elapsed in ratios), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20, help="number of pairs of blocks")
    parser.add_argument("--commits", type=int, default=50, help="number of commits per block")
    parser.add_argument("--folder", type=Path, help="folder of the store (default: a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print(json.dumps(anyio.run(measured, Path(folder) / "facts.db", options.pairs, options.commits)))


if __name__ == "__main__":
    main()
