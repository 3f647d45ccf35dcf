"""First page of `factmem browse --web` in a large store: CPU time beside that of one recall.

    python benchmarks/browse.py [--facts 100000] [--rounds 5]

A store is filled once. A process opens it, as the command does before it prints the address, and asks for each page
through ASGI, with everything that a request goes through but the socket. The first page is measured once, then each
page several times; the minimum of these is shown. The ratio is that of the first page to a `Memory.recall` of ten.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import httpx

from factmem import Concept, Memory, MemorySubject, SingleFact
from factmem.browse.browser import Browser
from factmem.browse.web.app import make_app
from factmem.testing import HashEmbedder

HOST: Final = "127.0.0.1:8000"
LIMIT: Final = 0.3
"""CPU seconds that the first page may take."""


async def fill(address: str, facts: int) -> None:
    """Save facts of 200 concepts about many users in 40 scopes."""
    concepts = [Concept.single(f"c{number}", f"concept {number}") for number in range(200)]
    async with Memory(address, embedder=HashEmbedder()) as memory:
        for start in range(0, facts, 5_000):
            await memory.save_many(
                (
                    SingleFact(concepts[number % 200], f"value {number}"),
                    MemorySubject("user").individual(f"u{number // 200}"),
                    f"/product/p{number % 40}",
                )
                for number in range(start, min(start + 5_000, facts))
            )


async def measure(address: str, rounds: int) -> Mapping[str, float]:
    """Return the CPU seconds of opening the store, of the first page, and of each page once it was open."""
    found: dict[str, float] = {}
    async with Memory(address, embedder=HashEmbedder(), read_only=True) as memory:
        browser = Browser(memory)
        found["opening"] = await _cost(browser.mark)
        app = make_app(browser, token="once", hosts=[HOST])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            await client.get("/", params={"token": "once"})

            async def get(path: str) -> None:
                (await client.get(path)).raise_for_status()

            found["first page"] = await _cost(partial(get, "/"))
            record = (await memory.list_records(limit=1))[0]
            pages = {
                "overview": "/",
                "records": "/records",
                "records of a scope": "/records?scope=/product/p7",
                "search": "/search?q=value+700",
                "record": f"/record/{record.id}",
                "subject": "/subject?name=user:u7",
                "inbox": "/inbox",
                "agent": "/agent?question=value+700&user=u7",
                "changes": "/changes",
            }
            for name, path in pages.items():
                found[name] = min([await _cost(partial(get, path)) for _ in range(rounds)])
        found["recall"] = min([await _cost(partial(memory.recall, "value 700")) for _ in range(rounds)])
    return found


async def _cost(run: Callable[[], Awaitable[object]]) -> float:
    began = time.process_time()
    await run()
    return time.process_time() - began


def main() -> None:
    """Measure in a process of its own, and print the figures and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given: Any = parser.parse_args()
    if given.measure:
        print(json.dumps(anyio.run(measure, given.measure, given.rounds)))
        return
    with tempfile.TemporaryDirectory() as folder:
        address = f"sqlite-vec:{Path(folder) / 'facts.db'}"
        anyio.run(fill, address, given.facts)
        command = [sys.executable, __file__, "--measure", address, "--rounds", str(given.rounds)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    for name, seconds in found.items():
        print(f"{name:>20}  {seconds * 1000:7.1f} ms CPU")
    print(f"first page / recall: {found['first page'] / found['recall']:.2f}")
    kept = found["first page"] <= LIMIT
    print(f"first page within {LIMIT * 1000:.0f} ms CPU: {'yes' if kept else 'NO'}")
    sys.exit(not kept)


if __name__ == "__main__":
    main()
