"""Worker processes on a store, as controlled by a test that starts, stops and kills them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import pytest


class Workers:
    """The process that forks the workers; see `working_processes.py` for its commands and reports."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._orders = _pipe(process.stdin)
        self._reports = _pipe(process.stdout)
        self._unread = b""
        self._pids: list[int] = []
        self._told: dict[str, set[int]] = defaultdict(set)
        self._loaded: list[str] = []
        self._refusals: list[tuple[int, str]] = []
        self._ended = True

    def start(self, do: str, address: str, *, processes: int = 1, **more: Any) -> list[int]:
        """Send a command, and return the ids of the processes that run it."""
        order = {"do": do, "address": address, "processes": processes, **more}
        self._ended = False
        self._orders.write(json.dumps(order).encode() + b"\n")
        self._orders.flush()
        while len(self._pids) < processes:
            self._read()
        pids, self._pids = self._pids, []
        return pids

    def wait_for_first(self, what: str) -> None:
        """Wait until one piece of work has returned, or all processes have ended."""
        while not self._told[what] and not self._ended:
            self._read()

    def wait(self) -> None:
        """Wait until the processes have ended."""
        while not self._ended:
            self._read()

    def drain(self) -> None:
        """Read the reports so far."""
        while select.select([self._reports], [], [], 0)[0]:
            self._read()

    def reported(self, what: str) -> set[int]:
        """Return the numbers reported with this word since `forget`."""
        return set(self._told[what])

    @property
    def refusals(self) -> list[tuple[int, str]]:
        """Return the refused numbers, each with its error, since `forget`."""
        return list(self._refusals)

    @property
    def loaded(self) -> list[str]:
        """Return the values that were loaded since `forget`."""
        return list(self._loaded)

    def forget(self) -> None:
        """Forget all reports."""
        self._told.clear()
        self._refusals.clear()
        self._loaded.clear()

    def _read(self) -> None:
        data = os.read(self._reports.fileno(), 1 << 16)
        if not data:
            pytest.fail("the working process is gone")
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._take(line.decode())

    def _take(self, line: str) -> None:
        match line.split(maxsplit=2):
            case ["started", pid]:
                self._pids.append(int(pid))
            case ["kept" | "gone" | "pending" | "bound" | "ready" | "closed" as what, number]:
                self._told[what].add(int(number))
            case ["refused", number, error]:
                self._refusals.append((int(number), error))
            case ["loaded", *_]:
                self._loaded.append(line.partition(" ")[2])
            case ["ended"]:
                self._ended = True
            case _:
                pytest.fail(line)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._orders.close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


@contextmanager
def workers_running() -> Iterator[Workers]:
    """Start worker processes for the duration of a test."""
    command = [sys.executable, str(Path(__file__).with_name("working_processes.py"))]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        try:
            with Workers(process) as workers:
                yield workers
        finally:
            process.kill()
