"""A peer as a process: reads commands from standard input and answers on standard output, JSON line by line.

    python -m peers.worker ADAPTER

It runs in the peer's environment, so it uses only the standard library and the adapter. The peer's own output goes to
standard error. A command is an object with ``do``: ``open``, ``add``, ``search``, ``close``.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import IO, Any, TypeVar

from peers.protocol import Item, Peer, VectorTable

__all__ = ["main"]

T = TypeVar("T")


class Server:
    """A server of commands for one peer. It times the work of the peer, without the transfer of data."""

    def __init__(self, make: Callable[[], Peer], import_seconds: float) -> None:
        self._make = make
        self._import_seconds = import_seconds
        self._peer = make()

    async def serve(self, commands: IO[str], answers: IO[str]) -> None:
        """Answer every command, until there are no more."""
        for line in commands:
            command = json.loads(line)
            do: Callable[..., Awaitable[dict[str, Any]]] = getattr(self, f"_{command.pop('do')}")
            try:
                answer = await do(**command)
            except Exception as error:  # any error of a peer is an answer
                answer = {"error": f"{type(error).__name__}: {error}"[:500]}
            print(json.dumps(answer), file=answers, flush=True)

    async def _open(self, folder: str, vectors: str) -> dict[str, Any]:
        table = VectorTable(Path(vectors))
        self._peer = self._make()
        started = time.perf_counter()
        await _done(self._peer.open(Path(folder), table))
        took = time.perf_counter() - started
        about = {"ways": self._peer.ways, "batch": self._peer.batch, "durable": self._peer.durable}
        return {"seconds": took, "import_seconds": self._import_seconds} | about

    async def _add(self, items: list[list[Any]], batch: int) -> dict[str, Any]:
        kept = [Item(*item) for item in items]
        started = time.perf_counter()
        for start in range(0, len(kept), batch):
            await _done(self._peer.add(kept[start : start + batch]))
        return {"seconds": time.perf_counter() - started}

    async def _search(self, queries: list[str], limit: int, way: str) -> dict[str, Any]:
        found, seconds, busy = [], [], []
        for query in queries:
            started, worked = time.perf_counter(), time.process_time()
            found.append(await _done(self._peer.search(query, limit, way)))
            seconds.append(time.perf_counter() - started)
            busy.append(time.process_time() - worked)
        return {"found": found, "seconds": seconds, "busy": busy}

    async def _close(self) -> dict[str, Any]:
        started = time.perf_counter()
        await _done(self._peer.close())
        return {"seconds": time.perf_counter() - started, "peak_mb": round(peak_bytes() / 1e6, 1)}


async def _done(given: Awaitable[T] | T) -> T:
    if inspect.isawaitable(given):
        awaited: T = await given
        return awaited
    return given


def peak_bytes() -> int:
    """Return the peak memory of this process, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # the counter of `resource` starts with the parent's
        lines = status.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _run(work: Coroutine[Any, Any, None], *, in_loop: bool) -> None:
    """Run the server; a peer that is not asynchronous must not run inside an event loop."""
    if in_loop:
        asyncio.run(work)
        return
    try:
        work.send(None)
    except StopIteration:
        return
    raise RuntimeError("an adapter that is not asynchronous waited for something")


def main() -> None:
    """Serve the adapter named on the command line."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    started = time.perf_counter()
    adapter = importlib.import_module(f"peers.adapters.{sys.argv[1]}").Adapter
    server = Server(adapter, time.perf_counter() - started)
    _run(server.serve(sys.stdin, answers), in_loop=inspect.iscoroutinefunction(adapter.open))


if __name__ == "__main__":
    main()
