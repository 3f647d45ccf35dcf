"""Full disks, files at their size limit, read-only folders, and a device that rejects writes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from factmem_file.log_storage import LOCK_NAME

from factmem import Concept, FactRecord, Memory
from factmem.errors import ProviderError, ReadOnlyError, StoreUnavailableError
from factmem.testing import HashEmbedder
from tests.conftest import Promise
from tests.forks import in_a_fork
from tests.reliability.loop_mounts import reason_not_to_mount
from tests.reliability.stores import (
    CITY,
    NOON,
    PLANNER,
    STORES,
    USER,
    DurableStore,
    durable_stores,
    loaded_city,
    numbers_in,
)
from tests.reliability.workers import Workers

MISSING = reason_not_to_mount()
on_one_loop = pytest.mark.parametrize("anyio_backend", ["asyncio"])
_OWNER = 65_534
NOTES = Concept.multiple("notes", "What fills the disk")

needs_mounts = pytest.mark.skipif(MISSING is not None, reason=f"FULL DISKS ARE NOT TESTED HERE: no mount ({MISSING})")


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A file system of a given size."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def read_only_mount(folder: Path, of: Path) -> Iterator[Path]:
    """Another way to a folder, for reading only."""
    folder.mkdir()
    subprocess.run(["mount", "--bind", str(of), str(folder)], check=True)
    try:
        remount(folder, "ro,bind")
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def remount(folder: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte and a half, two thirds of it taken by another file."""
    with small_disk(tmp_path / "disk", 1536) as folder:
        (folder / "something else").write_bytes(b"x" * (1 << 20))
        yield folder


def note(number: int) -> Any:
    return NOTES.fact([f"note {number} " + "x" * 2000], timestamp=NOON)


async def fill(provider: Any) -> int:
    """Save until the disk is full, and return the number of acknowledged saves."""
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
    """The refused save is absent, and the same provider saves again once space is freed."""
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


async def forgotten_on(disk: Path, store: DurableStore, notes: int, room: int) -> tuple[bool, int]:
    """Fill the disk except for some space, and forget a note; return whether that was refused, and the notes left."""
    async with store.open(disk / "store") as provider:
        for number in range(notes):
            await provider.save(note(number), USER, PLANNER)
    async with store.open(disk / "store") as provider, Memory(provider, embedder=HashEmbedder()) as memory:
        before = sorted(await memory.list_records(), key=_number)
        take_all_but(disk, room)
        try:
            erased = await memory.forget(before[0].id)
        except StoreUnavailableError:
            assert sorted(await memory.list_records(), key=_number) == before
            return True, len(await notes_in(provider))
        assert erased.erased == 1
        assert sorted(await memory.list_records(), key=_number) == before[1:]
        return False, len(await notes_in(provider))


def _number(record: FactRecord[Any]) -> int:
    return int(record.value.split()[1])


async def _retracted_and_restored(memory: Memory, id: str) -> None:
    await memory.retract(id)
    await memory.restore(id)


def take_all_but(disk: Path, room: int) -> None:
    with (disk / "the rest").open("wb", buffering=0) as rest:
        with suppress(OSError):
            while rest.write(b"x" * 1024):
                pass
        rest.truncate(max(0, rest.tell() - room))


@needs_mounts
@durable_stores
@on_one_loop
async def test_forgetting_on_a_full_disk_is_done_or_leaves_everything(
    store: DurableStore, tmp_path: Path, promise: Promise
) -> None:
    """The space ends at any point; once there is space again, no byte of the forgotten note remains."""
    refused = 0
    rooms = (0, 4096, 16_384, 65_536, 262_144, 1_000_000)
    for room in rooms:
        with small_disk(tmp_path / str(room), 2048) as disk:
            was_refused, left = await forgotten_on(disk, store, 12, room)
            refused += was_refused
            assert left == 12 if was_refused else left == 11
            (disk / "the rest").unlink()
            async with store.open(disk / "store") as provider, Memory(provider, embedder=HashEmbedder()) as memory:
                found = [record for record in await memory.list_records() if record.value.startswith("note 0 ")]
                assert bool(found) == was_refused
                if found:
                    await memory.forget(found[0].id)
                await provider.erase([], tenant=None)
            assert not [file for file in disk.rglob("*") if file.is_file() and b"note 0 " in file.read_bytes()]
    promise(
        f"forget on a full disk, {store}",
        f"{len(rooms)} disks: {len(rooms) - refused} done, {refused} refused, no trace left",
    )


@needs_mounts
@pytest.mark.parametrize("store", [store for store in STORES if store.ignores_folders], ids=str)
@on_one_loop
async def test_an_erasure_on_a_full_disk_writes_over_the_log_of_the_database(
    store: DurableStore, tmp_path: Path
) -> None:
    """The log need not grow once its pages are in the file, which has its final size."""
    with small_disk(tmp_path / "disk", 4096) as disk:
        async with store.open(disk / "store") as provider, Memory(provider, embedder=HashEmbedder()) as memory:
            for number in range(40):
                await memory.save(note(number), subject=USER, scope=PLANNER)
            records = sorted(await memory.list_records(), key=_number)
            await _retracted_and_restored(memory, records[20].id)
        async with store.open(disk / "store") as provider, Memory(provider, embedder=HashEmbedder()) as memory:
            for record in records[1:10]:
                await _retracted_and_restored(memory, record.id)
            take_all_but(disk, 0)
            assert (await memory.forget(records[0].id)).erased == 1
            assert sorted(await memory.list_records(), key=_number)[0].id == records[1].id


@needs_mounts
@durable_stores
@on_one_loop
async def test_a_disk_that_became_read_only_refuses_saves_and_keeps_its_facts(
    store: DurableStore, tmp_path: Path
) -> None:
    """A disk does so when it finds an error on itself."""
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


@needs_mounts
@durable_stores
@on_one_loop
@pytest.mark.parametrize("read_only", [False, True], ids=["writable", "read-only"])
async def test_a_store_on_a_read_only_disk_is_read(store: DurableStore, tmp_path: Path, read_only: bool) -> None:
    """Such as in the image of a container: no lock, and no index of a log, can be put beside it there."""
    with small_disk(tmp_path / "disk", 4096) as disk:
        async with Memory(store.address(disk / "store"), embedder=HashEmbedder()) as memory:
            await memory.save(CITY.fact(["Bern"], timestamp=NOON))
        remount(disk, "ro")
        async with Memory(store.address(disk / "store"), embedder=HashEmbedder(), read_only=read_only) as memory:
            for _ in range(2):
                assert [match.record.value for match in await memory.recall("Bern")] == ["Bern"]
                assert (await memory.admin.info()).records == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("read_only", [False, True], ids=["writable", "read-only"])
@durable_stores
def test_a_store_that_the_process_may_not_write_is_read(store: DurableStore, read_only: bool) -> None:
    """Such as that of a container whose account does not own it; a write is refused."""

    async def written(path: Path) -> None:
        async with Memory(store.address(path), embedder=HashEmbedder()) as memory:
            await memory.save(CITY.fact(["Bern"], timestamp=NOON))

    async def read(path: Path) -> None:
        async with Memory(store.address(path), embedder=HashEmbedder(), read_only=read_only) as memory:
            for _ in range(2):
                assert [match.record.value for match in await memory.recall("Bern")] == ["Bern"]
            assert (await memory.admin.info()).records == 1
            with pytest.raises(ReadOnlyError if read_only else StoreUnavailableError):
                await memory.save(CITY.fact(["Genf"], timestamp=NOON))

    def as_another(folder: Path) -> None:
        if os.geteuid() == 0:  # who may write everything
            os.setuid(_OWNER)
        anyio.run(read, folder / "store")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        anyio.run(written, folder / "store")
        for path in (folder, *folder.rglob("*")):
            if os.geteuid() == 0:
                os.chown(path, _OWNER, -1)
            path.chmod(0o500 if path.is_dir() else 0o400)
        try:
            assert in_a_fork(lambda: as_another(folder)) == 0
        finally:
            for path in (folder, *folder.rglob("*")):
                path.chmod(0o700)


@pytest.mark.skipif("os.geteuid()", reason="WRITING AS ANOTHER ACCOUNT IS NOT TESTED HERE: no root")
@pytest.mark.parametrize("locks", [True, False])
@pytest.mark.parametrize("name", ["file", "encrypted"])
def test_files_in_a_folder_that_may_not_be_written_are_written_only_under_their_lock(name: str, locks: bool) -> None:
    store = next(store for store in STORES if store.name == name)

    async def save(path: Path, city: str) -> None:
        async with store.open(path) as provider:
            await provider.save(CITY.fact([city], timestamp=NOON), USER, PLANNER)

    async def save_beside(path: Path) -> None:
        if locks:
            await save(path, "Genf")
            return
        with pytest.raises(StoreUnavailableError, match="could not be written"):
            await save(path, "Genf")

    def as_another(path: Path) -> None:
        os.setuid(_OWNER)
        anyio.run(save_beside, path)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        anyio.run(save, path, "Bern")
        for it in (path.parent, path, *path.rglob("*")):
            it.chmod(0o755 if it.is_dir() else 0o666)
        if not locks:
            (path / LOCK_NAME).chmod(0o644)
        assert in_a_fork(lambda: as_another(path)) == 0
        assert anyio.run(loaded_city, store, path) == ("Genf" if locks else "Bern")


@needs_mounts
@durable_stores
@on_one_loop
async def test_a_store_that_is_mounted_read_only_shows_what_others_write(store: DurableStore, tmp_path: Path) -> None:
    """Another container may write to the same folder."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with read_only_mount(tmp_path / "mounted", folder) as mounted:
        async with store.open(mounted / "store") as reader:
            for city in ("Bern", "Genf"):
                async with store.open(folder / "store") as writer:
                    await writer.save(CITY.fact([city], timestamp=NOON), USER, PLANNER)
                    assert await loaded_city(store, mounted / "store") == city
                assert (await reader.load(CITY, USER, PLANNER)).values == (city,)


@durable_stores
def test_a_file_that_may_not_grow_keeps_what_was_acknowledged(
    store: DurableStore, workers: Workers, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """The system writes a part, wherever the limit lies, and then fails with EFBIG."""
    path = tmp_path / "store"
    workers.start("save", store.address(path), count=4)
    workers.wait()
    expected, tried = workers.reported("kept"), 0
    largest = max(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    for room in range(1, 12_000, 301 if big else 3001):
        workers.forget()
        limit = largest + room
        workers.start("save", store.address(path), first=100 + tried * 1000, count=1000, max_bytes=limit)
        workers.wait()
        assert workers.refusals
        assert {error for _, error in workers.refusals} == {"StoreUnavailableError"}
        expected |= workers.reported("kept")
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
        await memory.admin.export(Path("/dev/full"))
