"""Power cuts at any moment: acknowledged saves are on the disk, and the store opens.

The store is on a file system in a file. The writing process is stopped with all its threads, the file is copied, and
the
copy is mounted: it holds all flushed data, and nothing that the kernel has yet to write.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import pytest

from tests.conftest import Promise
from tests.reliability.loop_mounts import cut, mounted, new_disk, reason_not_to_mount, stopped
from tests.reliability.stores import DurableStore, durable_stores, numbers_in
from tests.reliability.workers import Workers

CUTS_PER_DISK = 5
MISSING = reason_not_to_mount()

pytestmark = [
    pytest.mark.timeout(7200),
    pytest.mark.skipif(MISSING is not None, reason=f"POWER CUTS ARE NOT TESTED HERE: no loop mount ({MISSING})"),
]


@contextmanager
def power_cut(pid: int, disk: Path, workers: Workers) -> Iterator[Path]:
    """Cut the power while a process is at work, and yield the root of the disk's content."""
    with stopped(pid):
        workers.drain()
        copy = cut(disk, disk.with_name("copy"))
    with mounted(copy, disk.with_name("after")) as root:
        yield root


@contextmanager
def at_work(workers: Workers, pid: int) -> Iterator[None]:
    """End a process at the end of the context."""
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # the process had ended before
            os.kill(pid, signal.SIGKILL)
        workers.wait()


@durable_stores
def test_no_acknowledged_save_is_lost_to_a_power_cut(
    store: DurableStore, workers: Workers, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """The cut comes while the store is created, while it is written to, and again on the store left by a cut."""
    chance = random.Random(12)
    cuts, acknowledged, most = 0, 0, 0
    for _ in range((500 if big else 5) // CUTS_PER_DISK):
        disk = new_disk(tmp_path / "disk")
        for start in range(CUTS_PER_DISK):
            workers.forget()
            with mounted(disk, tmp_path / "mount") as root:
                before = anyio.run(numbers_in, store, root / "deep" / "store") if start else set[int]()
                address = store.address(root / "deep" / "store")
                (pid,) = workers.start("save", address, first=start * 100_000, count=100_000)
                with at_work(workers, pid):
                    if start % 3:
                        workers.wait_for_first("kept")
                    time.sleep(chance.random() * 0.1)
                    with power_cut(pid, disk, workers) as after:
                        kept = workers.reported("kept")
                        found = anyio.run(numbers_in, store, after / "deep" / "store")
                        assert before | kept <= found
            cuts += 1
            acknowledged += len(kept)
            most = max(most, len(found))
            disk.with_name("copy").replace(disk)
    promise(
        f"power cuts, {store}",
        f"{cuts} cuts, {acknowledged:,} acknowledged (up to {most:,} facts in a store): 0 lost, 0 corrupt",
    )


@durable_stores
def test_a_power_cut_while_erasing_brings_nothing_back(
    store: DurableStore, workers: Workers, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """Acknowledged erasures survive the power cut, and other facts are kept."""
    chance = random.Random(13)
    cuts, gone = 50 if big else 2, 0
    for _ in range(cuts):
        workers.forget()
        disk = new_disk(tmp_path / "disk")
        with mounted(disk, tmp_path / "mount") as root:
            workers.start("save", store.address(root / "store"), count=30)
            workers.wait()
            (pid,) = workers.start("erase", store.address(root / "store"), count=20)
            with at_work(workers, pid):
                workers.wait_for_first("gone")
                time.sleep(chance.random() * 0.1)
                with power_cut(pid, disk, workers) as after:
                    erased = workers.reported("gone")
                    found = anyio.run(numbers_in, store, after / "store")
                    remains = _words(after)
        assert not erased & found
        assert set(range(20, 30)) <= found
        assert len(found) >= 30 - len(erased) - 1
        assert not [number for number in erased if f'"{number} a"'.encode() in remains]
        gone += len(erased)
    promise(f"power cuts while erasing, {store}", f"{cuts} cuts, {gone} erased: 0 came back, 0 others lost")


def _words(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
