"""`kill -9` at any moment: no acknowledged save is lost, none is partial, and every store opens.

Deaths while erasing, rotating, migrating and changing the embedder are simulated.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import anyio
import pytest

from tests.conftest import Promise
from tests.reliability.stores import DurableStore, every_store, numbers_in
from tests.reliability.workers import Workers

KILLS_PER_STORE = 8


def killed(workers: Workers, pid: int, pause: float) -> None:
    """Kill a process after a pause, and read its reports."""
    time.sleep(pause)
    with contextlib.suppress(ProcessLookupError):  # the process had ended before
        os.kill(pid, signal.SIGKILL)
    workers.wait()


@pytest.mark.timeout(3600)
@every_store
def test_no_acknowledged_save_is_lost_to_a_kill(
    store: DurableStore, workers: Workers, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """The kill comes while opening, while saving four facts at once, and again on the store left by a kill."""
    chance = random.Random(9)
    kills, kept, unacknowledged = 0, 0, 0
    for life in range((10_000 if big else 24) // KILLS_PER_STORE):
        path = tmp_path / str(life)
        workers.forget()
        for kill in range(KILLS_PER_STORE):
            (pid,) = workers.start("save", store.address(path), first=kill * 100_000, count=100_000)
            if kill % 3:
                workers.wait_for_first("kept")
            killed(workers, pid, chance.random() * 0.02)
            kills += 1
        found = anyio.run(numbers_in, store, path)
        assert workers.reported("kept")
        assert workers.reported("kept") <= found
        kept += len(workers.reported("kept"))
        unacknowledged += len(found) - len(workers.reported("kept"))
    promise(
        f"kill -9, {store}",
        f"{kills:,} kills, {kept:,} acknowledged: 0 lost, 0 unreadable ({unacknowledged} kept unacknowledged)",
    )
