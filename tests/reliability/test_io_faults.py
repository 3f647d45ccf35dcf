"""Every system call of a save fails once: the error is typed, the old value is kept, and no flush is retried.

A process is traced while it saves a city, saves another one, loads and closes. A first run without a fault counts the
calls; then each call has a run with a fault.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from factmem.errors import FactMemError
from tests.conftest import Promise
from tests.reliability.stores import CITY, NOON, PLANNER, USER, DurableStore, durable_stores, loaded_city
from tests.reliability.tracing import (
    CHANGES,
    FLUSHES,
    READS,
    WRITES,
    Fault,
    Traced,
    read_trace,
    reason_not_to_trace,
    traced,
)
from tests.reliability.workers import Workers

MISSING = reason_not_to_trace()
OLD, FIRST, SECOND = "city 0", "city 1", "city 2"
SAMPLE = 1
"""Number of faults of each kind to try without `--big`."""

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(MISSING is not None, reason=f"I/O FAULTS ARE NOT TESTED HERE: {MISSING}"),
]


scenarios = pytest.mark.parametrize("scenario", ["saving", "making the store"])


class Stage:
    """A store that is set up again for every fault."""

    def __init__(self, store: DurableStore, workers: Workers, folder: Path, *, exists: bool) -> None:
        self.store = store
        self._workers = workers
        self._folder = folder
        self._exists = exists
        self.path = folder / "now" / "store"
        if exists:
            anyio.run(self._fill, folder / "before" / "store")

    async def _fill(self, path: Path) -> None:
        async with self.store.open(path) as provider:
            await provider.save(CITY.fact([OLD], timestamp=NOON), USER, PLANNER)

    def play(self, fault: Fault | None = None) -> Traced:
        """Save twice, load and close, with a fault, and return the calls."""
        shutil.rmtree(self.path.parent, ignore_errors=True)
        if self._exists:
            shutil.copytree(self._folder / "before", self.path.parent)
        log = self._folder / "log"
        self._workers.forget()
        scratch = self._folder / "scratch"
        address, elsewhere = self.store.address(self.path), self.store.address(scratch / "store")
        (pid,) = self._workers.start("move", address, scratch=elsewhere, first=1, count=2)
        self._workers.wait_for_first("ready")
        with traced(pid, log, fault):
            os.kill(pid, signal.SIGUSR1)
            self._workers.wait()
        shutil.rmtree(scratch, ignore_errors=True)
        return read_trace(log)

    @property
    def old(self) -> str | None:
        """Return the city before the first save."""
        return OLD if self._exists else None

    def check(self, trace: Traced, fault: Fault | None = None) -> None:
        """Check that acknowledged saves are kept, refused ones are not, errors are typed, and no flush is retried."""
        kept = self._workers.reported("kept")
        errors = {name for _, name in self._workers.refusals}
        # A temporary read error is not damage, whatever SQLite reports.
        assert errors <= {"StoreUnavailableError"}
        newest = SECOND if 2 in kept else FIRST if 1 in kept else self.old
        assert anyio.run(loaded_city, self.store, self.path) == newest
        assert self._workers.loaded in ([str(newest)], [])
        if fault and fault.call in FLUSHES and self._workers.refusals:
            # Unflushed data is not reliable, nor is anything built upon it.
            assert 2 not in kept
        assert trace.flushes_tried_again(files_only=self.store.ignores_folders) == []


def faults(calls: Counter[str], names: Iterable[str], effect: str, *, big: bool) -> list[Fault]:
    """Yield a fault at every call of these names, or without `--big` at one call of some of them."""
    numbers = {name: range(1, calls[name] + 1) for name in names if calls[name]}
    if big:
        return [Fault(name, number, effect) for name in numbers for number in numbers[name]]
    chance = random.Random(14)
    some = chance.sample(sorted(numbers), min(SAMPLE, len(numbers)))
    return [Fault(name, chance.choice(numbers[name]), effect) for name in some]


@scenarios
@durable_stores
def test_a_call_that_fails_is_a_typed_error_and_the_old_value_stays(
    store: DurableStore, scenario: str, workers: Workers, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """EIO on reads, writes and flushes; ENOSPC on calls that create, extend, rename or truncate a file."""
    stage = Stage(store, workers, tmp_path, exists=scenario == "saving")
    calls = stage.play().calls(stage.path, until="closed")
    stage.check(stage.play())
    tried = faults(calls, FLUSHES, "error=EIO", big=big)
    tried += faults(calls, READS, "error=EIO", big=big)
    tried += faults(calls, WRITES, "error=EIO", big=big)
    tried += faults(calls, CHANGES, "error=ENOSPC", big=big)
    if not big:
        # A file that could not be removed makes a store look unfinished.
        tried += faults(calls, ["unlink"], "error=ENOSPC", big=True)
    refused = 0
    for fault in tried:
        trace = stage.play(fault)
        assert trace.injected, fault
        with naming(fault):
            stage.check(trace, fault)
        refused += bool(workers.refusals)
    figure = f"{len(tried)} calls failed, {refused} made a save fail: 0 untyped, 0 old values lost, 0 flushes retried"
    promise(f"I/O faults while {scenario}, {store}", figure)


@contextmanager
def naming(fault: Fault) -> Iterator[None]:
    """Name the fault in the message of a failing assertion."""
    try:
        yield
    except (AssertionError, FactMemError) as error:
        raise AssertionError(f"{fault}: {error}") from error
