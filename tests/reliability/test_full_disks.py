"""A disk that is full, a file that may not grow, a folder that may not be written, a device that takes nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem import Memory
from factmem.errors import ProviderError, StoreUnavailableError
from factmem.facts import Concept
from factmem.records import Place, Recorded
from tests.conftest import Promise
from tests.reliability.loop_mounts import reason_not_to_mount
from tests.reliability.stores import CITY, NOON, PLANNER, USER, DurableStore, durable_stores, loaded_city, numbers_in
from tests.reliability.workers import Workers

MISSING = reason_not_to_mount()
on_one_loop = pytest.mark.parametrize("anyio_backend", ["asyncio"])
NOTES = Concept.multiple("notes", "What fills the disk")

needs_mounts = pytest.mark.skipif(MISSING is not None, reason=f"FULL DISKS ARE NOT TESTED HERE: no mount ({MISSING})")


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A file system of this size."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def remount(folder: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte and a half, two thirds of it taken by something else."""
    with small_disk(tmp_path / "disk", 1536) as folder:
        (folder / "something else").write_bytes(b"x" * (1 << 20))
        yield folder


def note(number: int) -> Any:
    return NOTES.fact([f"note {number} " + "x" * 2000], timestamp=NOON)


async def fill(provider: Any) -> int:
    """Save until the disk is full; return how many saves returned."""
    for number in range(10_000):
        try:
            await provider.save(note(number), USER, PLANNER)
        except StoreUnavailableError:
            return number
    raise AssertionError("the disk never got full")


async def notes_in(provider: Any) -> list[int]:
    fact = await provider.load(NOTES, USER, PLANNER)
    return [int(value.split()[1]) for value in fact.values] if fact else []


@needs_mounts
@durable_stores
async def test_a_full_disk_keeps_what_was_acknowledged_and_goes_on_when_there_is_room(
    store: DurableStore, disk: Path, promise: Promise
) -> None:
    """The refused save is not there by half, and the same provider saves again once something was deleted."""
    async with store.open(disk / "store") as provider:
        count = await fill(provider)
        assert count > 5
        assert await notes_in(provider) == list(range(count))
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                await provider.save(note(count), USER, PLANNER)
        (disk / "something else").unlink()
        await provider.save(note(count), USER, PLANNER)
        assert await notes_in(provider) == list(range(count + 1))
    async with store.open(disk / "store") as again:
        assert await notes_in(again) == list(range(count + 1))
    promise(f"full disk, {store}", f"{count} acknowledged until it was full, {count} there; goes on afterwards")


@needs_mounts
@durable_stores
@on_one_loop
async def test_a_store_on_a_full_disk_can_be_read_and_erased_from(store: DurableStore, disk: Path) -> None:
    """An erasure that finds no room for what it must write is a typed error or pending, and harms nothing else."""
    async with store.open(disk / "store") as provider:
        count = await fill(provider)
    async with store.open(disk / "store") as provider:
        assert await notes_in(provider) == list(range(count))
        entries = await provider.entries(Place(USER, PLANNER))
        doomed = next(entry.record_id for entry in entries if isinstance(entry, Recorded))
        try:
            receipt = await provider.erase([doomed], tenant=None)
        except StoreUnavailableError:
            assert await notes_in(provider) in (list(range(count)), list(range(1, count)))
        else:
            assert receipt.erased == 1
            assert await notes_in(provider) == list(range(1, count))
        (disk / "something else").unlink()
        receipt = await provider.erase([doomed], tenant=None)
        assert not receipt.pending
        assert await notes_in(provider) == list(range(1, count))


@needs_mounts
@durable_stores
@on_one_loop
async def test_a_store_cannot_be_made_on_a_full_disk_but_later(store: DurableStore, disk: Path) -> None:
    """A store whose creation failed on a full disk can be created once there is space."""
    with (disk / "the rest").open("wb", buffering=0) as rest:
        try:
            while rest.write(b"x" * 1024):
                pass
        except OSError:
            pass
    async with store.open(disk / "store") as provider:
        with pytest.raises(StoreUnavailableError):
            await provider.save(note(0), USER, PLANNER)
        assert await notes_in(provider) == []
    (disk / "the rest").unlink()
    async with store.open(disk / "store") as provider:
        await provider.save(note(0), USER, PLANNER)
        assert await notes_in(provider) == [0]


@needs_mounts
@durable_stores
@on_one_loop
async def test_a_disk_that_became_read_only_refuses_saves_and_keeps_its_facts(
    store: DurableStore, tmp_path: Path
) -> None:
    """As a disk does that found an error on itself."""
    with small_disk(tmp_path / "disk", 4096) as disk:
        async with store.open(disk / "store") as provider:
            await provider.save(CITY.fact(["Bern"], timestamp=NOON), USER, PLANNER)
        remount(disk, "ro")
        async with store.open(disk / "store") as provider:
            with pytest.raises(StoreUnavailableError):
                await provider.save(CITY.fact(["Genf"], timestamp=NOON), USER, PLANNER)
            with pytest.raises(StoreUnavailableError):
                await store.open(disk / "another").save(CITY.fact(["Genf"], timestamp=NOON), USER, PLANNER)
        remount(disk, "rw")
        assert await loaded_city(store, disk / "store") == "Bern"


@durable_stores
def test_a_file_that_may_not_grow_keeps_what_was_acknowledged(
    store: DurableStore, workers: Workers, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """The system takes what is written in part, wherever the limit lies, and then fails (EFBIG)."""
    path = tmp_path / "store"
    workers.start("save", store.address(path), count=4)
    workers.wait()
    expected, tried = workers.told("kept"), 0
    largest = max(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    for room in range(1, 12_000, 301 if big else 3001):
        workers.forget()
        limit = largest + room
        workers.start("save", store.address(path), first=100 + tried * 1000, count=1000, most_bytes=limit)
        workers.wait()
        assert workers.refusals
        assert {error for _, error in workers.refusals} == {"StoreUnavailableError"}
        expected |= workers.told("kept")
        assert anyio.run(numbers_in, store, path) == expected
        tried += 1
        largest = max(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    promise(f"short writes, {store}", f"{tried} limits, {len(expected)} acknowledged: 0 lost, 0 by half")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /dev/full")
@pytest.mark.parametrize("path", ["/dev/full", "/dev/full/store"])
@durable_stores
async def test_a_device_that_takes_nothing_is_no_store(store: DurableStore, path: str) -> None:
    async with store.open(Path(path)) as provider:
        with pytest.raises(ProviderError):
            await provider.save(CITY.fact(["Bern"], timestamp=NOON), USER, PLANNER)


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    """A memory of one fact."""
    async with Memory("memory:") as opened:
        await opened.save(CITY.fact(["Bern"], timestamp=NOON), subject=USER, scope=PLANNER)
        yield opened


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /dev/full")
async def test_an_export_that_the_disk_does_not_take_is_a_typed_error(memory: Memory) -> None:
    with pytest.raises(StoreUnavailableError):
        await memory.export(Path("/dev/full"))
