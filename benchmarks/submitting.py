"""Cost of submission: until it is on disk, and until it is read, compared with saving the same texts one by one.

    python benchmarks/submitting.py [--texts 1000] [--json]

The analyst answers at once, so that the store is measured and not a model, which would add its own time in the
background. Every text is kept in the default store and embedded by the default embedder. Ratios are to saving.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import anyio

from factmem import STATEMENT, Memory, MemoryScope, MultipleFacts
from factmem.abc.analyst import Analysis, AnalysisRequest
from factmem.recall.embedders import default_embedder


class AtOnce:
    """An analyst that puts every text into one scope, without a model."""

    async def analyse(self, text: str, request: AnalysisRequest) -> Analysis:
        return Analysis(scope="/product/alpha", categories=("notes",), importance=0.6)

    async def extract(self, text: str) -> list[str]:
        return [text]


async def measure(texts: int) -> dict[str, float | int]:
    said = [f"Note {number}: the delivery of lot {number * 7} goes to hall {number % 13}." for number in range(texts)]
    embedder = default_embedder()
    await embedder.embed(["the model is loaded"])
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with Memory(f"sqlite-vec:{Path(folder) / 'saved.db'}", embedder=embedder) as memory:
            started = time.perf_counter()
            for text in said:
                await memory.save(MultipleFacts(STATEMENT, (text,)), scope=MemoryScope.product("alpha"))
            times["saved"] = time.perf_counter() - started
        address = f"sqlite-vec:{Path(folder) / 'handed.db'}"
        async with Memory(address, embedder=embedder, analyst=AtOnce()) as memory:
            started = time.perf_counter()
            submission = await memory.remember_many(said)
            times["submitted"] = time.perf_counter() - started
            await submission.wait()
            times["read"] = time.perf_counter() - started
            assert len(await memory.list_records(scope="/product/alpha")) == texts
    return {
        "texts": texts,
        "save_us_per_text": round(times["saved"] / texts * 1e6, 1),
        "submit_us_per_text": round(times["submitted"] / texts * 1e6, 1),
        "read_us_per_text": round(times["read"] / texts * 1e6, 1),
        "submit_ratio": round(times["submitted"] / times["saved"], 3),
        "read_ratio": round(times["read"] / times["saved"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the cost of submission.")
    parser.add_argument("--texts", type=int, default=1000, help="number of texts")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    result = anyio.run(measure, options.texts)
    if options.json:
        print(json.dumps(result))
        return
    print(f"saved one by one        {result['save_us_per_text']:>8} µs a text")
    print(f"submitted, on disk      {result['submit_us_per_text']:>8} µs a text   ({result['submit_ratio']} ×)")
    print(f"read, all texts         {result['read_us_per_text']:>8} µs a text   ({result['read_ratio']} ×)")


if __name__ == "__main__":
    main()
