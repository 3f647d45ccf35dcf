"""Backups: consistent, verified and refused when damaged; restores that are whole, or finished later."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import anyio
import pytest

from factmem import Concept, FactMemError, InMemoryProvider, open_provider
from factmem.errors import (
    CapabilityError,
    CorruptStoreError,
    InvalidDataError,
    NewerVersionError,
    StoreUnavailableError,
    WrongKeyError,
)
from factmem.providers import back_up
from factmem.providers.backups import read_backup, restore_backup
from tests.fork_server import ForkServer
from tests.narrowing import not_none
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
from tests.reliability.test_full_disks import needs_mounts, remount, small_disk
from tests.reliability.workers import Workers

on_one_loop = pytest.mark.parametrize("anyio_backend", ["asyncio"])
NOTES = Concept.multiple("notes", "What makes a store large")

one_of_each_form = pytest.mark.parametrize(
    "store", [store if store.environment else pytest.param(store, marks=pytest.mark.big) for store in STORES], ids=str
)
"""The encrypted stores: a folder and a database, each with all the files of the plain one and more."""


async def keep(store: DurableStore, path: Path, city: str) -> None:
    async with store.open(path) as provider:
        await provider.save(CITY.fact([city], timestamp=NOON), USER, PLANNER)


async def backed_up(store: DurableStore, path: Path, folder: Path) -> None:
    async with store.open(path) as provider:
        await back_up(provider, folder)


async def restored(store: DurableStore, folder: Path, path: Path, *, replace: bool = False) -> Path | None:
    async with store.open(path) as provider:
        return (await restore_backup(folder, provider, replace=replace)).kept


def contents(folder: Path) -> Mapping[str, bytes]:
    """Return the bytes of all files below a folder but those of locks."""
    files = (file for file in folder.rglob("*") if file.is_file() and not file.name.endswith(".lock"))
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def found(folder: Path, pattern: str = "*") -> list[Path]:
    """Return what lies in a folder; with ``**/``, also below it."""
    return sorted(folder.glob(pattern))


@durable_stores
async def test_a_backup_brings_everything_back_under_any_name(store: DurableStore, tmp_path: Path) -> None:
    await keep(store, tmp_path / "store", "Oslo")
    async with store.open(tmp_path / "store") as provider:
        await back_up(provider, tmp_path / "backups" / "first")
        log = await provider.changes(None)
    assert await restored(store, tmp_path / "backups" / "first", tmp_path / "elsewhere" / "other") is None
    async with store.open(tmp_path / "elsewhere" / "other") as provider:
        assert await provider.changes(None) == log
        await provider.save(CITY.fact(["Rome"], timestamp=NOON), USER, PLANNER)
    assert await loaded_city(store, tmp_path / "elsewhere" / "other") == "Rome"
    assert await loaded_city(store, tmp_path / "store") == "Oslo"


@durable_stores
async def test_a_store_is_replaced_only_when_asked_and_kept_aside(store: DurableStore, tmp_path: Path) -> None:
    path = tmp_path / "place" / "store"
    await keep(store, path, "Oslo")
    await backed_up(store, path, tmp_path / "backup")
    await keep(store, path, "Rome")
    before = contents(path.parent)
    with pytest.raises(StoreUnavailableError, match="replace=True"):
        await restored(store, tmp_path / "backup", path)
    assert contents(path.parent) == before
    kept = not_none(await restored(store, tmp_path / "backup", path, replace=True))
    assert await loaded_city(store, path) == "Oslo"
    assert await loaded_city(store, kept) == "Rome"


@pytest.mark.processes
@durable_stores
@on_one_loop
async def test_a_backup_made_while_four_processes_write_is_whole_and_has_what_was_acknowledged(
    store: DurableStore, tmp_path: Path, workers: Workers, big: bool
) -> None:
    path = tmp_path / "store"
    workers.start("save", store.address(path), processes=4, count=400 if big else 40)
    workers.wait_for_first("kept")
    acknowledged: list[set[int]] = []
    for number in range(8 if big else 3):
        workers.drain()
        acknowledged.append(workers.reported("kept"))
        await backed_up(store, path, tmp_path / f"backup {number}")
    workers.wait()
    everything = workers.reported("kept")
    for number, least in enumerate(acknowledged):
        await restored(store, tmp_path / f"backup {number}", tmp_path / f"store {number}")
        there = await numbers_in(store, tmp_path / f"store {number}")
        assert least <= there <= everything
    assert acknowledged[0] < everything, "they were writing meanwhile"
    assert await numbers_in(store, path) == everything


@durable_stores
@on_one_loop
async def test_a_flipped_byte_a_cut_and_a_missing_file_are_refused_and_nothing_is_touched(
    store: DurableStore, tmp_path: Path
) -> None:
    path, chance = tmp_path / "place" / "store", random.Random(7)
    await keep(store, path, "Oslo")
    await backed_up(store, path, tmp_path / "backup")
    before = contents(path.parent)
    for file in [file for file in found(tmp_path / "backup", "**/*") if file.is_file()]:
        whole = file.read_bytes()
        flipped = bytearray(whole)
        flipped[chance.randrange(len(whole) // 2 if file.name == "backup.json" else len(whole))] ^= 1
        for damaged in (bytes(flipped), whole[:-1], whole + b"x", None):
            file.unlink()
            if damaged is not None:
                file.write_bytes(damaged)
            if file.name == "backup.json" and damaged in (whole[:-1], None):
                file.write_bytes(whole)  # a final line feed is no content
                continue
            with pytest.raises(CorruptStoreError):
                await read_backup(tmp_path / "backup")
            with pytest.raises(CorruptStoreError, match="another backup") as caught:
                await restored(store, tmp_path / "backup", path, replace=True)
            assert "Oslo" not in str(caught.value)
            file.write_bytes(whole)
    assert contents(path.parent) == before
    assert (await read_backup(tmp_path / "backup")).files


@durable_stores
@on_one_loop
async def test_a_damaged_store_is_not_backed_up(store: DurableStore, tmp_path: Path) -> None:
    path = tmp_path / "store"
    await keep(store, path, "Oslo")
    of_facts = {"file": "store/**/user.jsonl", "encrypted": "store/**/*.sealed"}.get(store.name, "store")
    (largest,) = found(tmp_path, of_facts)
    content = largest.read_bytes()
    middle = bytes([content[len(content) // 2] ^ 1])
    flipped = content[: len(content) // 2] + middle + content[len(content) // 2 + 1 :]
    largest.write_bytes(flipped if store.environment else content.replace(b"Oslo", b"Rome"))
    with pytest.raises(CorruptStoreError):
        await backed_up(store, path, tmp_path / "backup")
    assert not found(tmp_path, "backup*")


@pytest.mark.parametrize("store", [store for store in STORES if store.environment], ids=str)
@on_one_loop
async def test_the_backup_of_an_encrypted_store_is_encrypted_and_another_key_does_not_open_it(
    store: DurableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "place" / "store"
    await keep(store, path, "Reykjavik")
    await backed_up(store, path, tmp_path / "backup")
    assert not [name for name, content in contents(tmp_path / "backup").items() if b"Reykjavik" in content]
    before = contents(path.parent)
    monkeypatch.setenv("FACTMEM_TEST_KEY", "6b" * 32)
    for place in (path, tmp_path / "place" / "new"):
        with pytest.raises(WrongKeyError, match="backup needs the key of the time of the backup: the key in"):
            await restored(store, tmp_path / "backup", place, replace=True)
    assert contents(path.parent) == before


@on_one_loop
async def test_a_backup_is_restored_to_its_own_kind_of_store_alone(tmp_path: Path) -> None:
    for store in STORES:
        await keep(store, tmp_path / store.name / "store", "Oslo")
        await backed_up(store, tmp_path / store.name / "store", tmp_path / "backups" / store.name)
    for store in STORES:
        for other in STORES:
            if other != store:
                with pytest.raises(InvalidDataError, match=f"restore it to {store.name}:PATH"):
                    await restored(other, tmp_path / "backups" / store.name, tmp_path / "new")
    assert not found(tmp_path, "new*")


@on_one_loop
async def test_what_is_no_backup_or_cannot_be_backed_up_is_said(tmp_path: Path) -> None:
    store = STORES[0]
    with pytest.raises(CapabilityError, match="pg_dump"):
        await back_up(InMemoryProvider(), tmp_path / "backup")
    with pytest.raises(StoreUnavailableError, match="there is no store"):
        await backed_up(store, tmp_path / "store", tmp_path / "backup")
    with pytest.raises(InvalidDataError, match="is not a backup"):
        await restored(store, tmp_path, tmp_path / "store")
    assert not found(tmp_path)
    await keep(store, tmp_path / "store", "Oslo")
    (tmp_path / "backup").mkdir()
    with pytest.raises(InvalidDataError, match="exists already"):
        await backed_up(store, tmp_path / "store", tmp_path / "backup")


@on_one_loop
async def test_a_backup_inside_of_the_store_is_refused(tmp_path: Path) -> None:
    store = STORES[1]
    await keep(store, tmp_path / "store", "Oslo")
    with pytest.raises(InvalidDataError, match="in the store itself"):
        await backed_up(store, tmp_path / "store", tmp_path / "store" / "backup")
    assert await loaded_city(store, tmp_path / "store") == "Oslo"


@on_one_loop
async def test_two_restores_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    """The second one is refused, or comes after the first and finds a store."""
    store, refused = STORES[0], 0
    await keep(store, tmp_path / "store", "Oslo")
    await backed_up(store, tmp_path / "store", tmp_path / "backup")

    async def restore() -> None:
        nonlocal refused
        try:
            await restored(store, tmp_path / "backup", tmp_path / "new")
        except StoreUnavailableError:
            refused += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(restore)
    assert refused == 2
    assert await loaded_city(store, tmp_path / "new") == "Oslo"
    assert not found(tmp_path, "*.restoring")


@on_one_loop
async def test_a_manifest_that_names_files_elsewhere_or_of_a_newer_factmem_is_refused(tmp_path: Path) -> None:
    store = STORES[0]
    await keep(store, tmp_path / "store", "Oslo")
    await backed_up(store, tmp_path / "store", tmp_path / "backup")
    manifest = tmp_path / "backup" / "backup.json"
    document = json.loads(manifest.read_bytes())
    (entry,) = document["files"].values()
    for name in ("../store", "/etc/passwd", "store/../../x", "", "other", "store\\..\\x", 5):
        manifest.write_text(json.dumps(document | {"files": {name: entry}}))
        with pytest.raises(CorruptStoreError):
            await restored(store, tmp_path / "backup", tmp_path / "new")
    manifest.write_text(json.dumps(document | {"format": 2}))
    with pytest.raises(NewerVersionError):
        await restored(store, tmp_path / "backup", tmp_path / "new")
    assert not found(tmp_path, "new*")


@pytest.mark.parametrize("store", [store for store in STORES if "sqlite" in store.name], ids=str)
async def test_a_store_that_others_have_open_is_not_replaced(store: DurableStore, tmp_path: Path) -> None:
    path = tmp_path / "store"
    await keep(store, path, "Oslo")
    await backed_up(store, path, tmp_path / "backup")
    async with store.open(path) as reader:
        await reader.load(CITY, USER, PLANNER)
        with pytest.raises(StoreUnavailableError, match="another program"):
            await restored(store, tmp_path / "backup", path, replace=True)
        await reader.save(CITY.fact(["Rome"], timestamp=NOON), USER, PLANNER)
    assert await loaded_city(store, path) == "Rome"
    assert not found(tmp_path, "*.before-*")


@durable_stores
@on_one_loop
async def test_a_damaged_store_is_replaced_and_kept(store: DurableStore, tmp_path: Path) -> None:
    path = tmp_path / "place" / "store"
    await keep(store, path, "Oslo")
    await backed_up(store, path, tmp_path / "backup")
    for file in [file for file in found(path.parent, "**/*") if file.is_file()]:
        file.write_bytes(file.read_bytes()[::-1])
    damaged = sorted(contents(path.parent).values())
    kept = await restored(store, tmp_path / "backup", path, replace=True)
    assert await loaded_city(store, path) == "Oslo"
    assert kept is not None
    aside = {name: content for name, content in contents(path.parent).items() if name.startswith(kept.name)}
    assert sorted(aside.values()) == damaged


KILLED_AT = """
import os, signal, sys
import anyio
from pathlib import Path
from factmem import open_provider
from factmem.providers.backups import back_up, restore_backup

event, number, what, folder, address = sys.argv[1:]
left, here = int(number), str(Path(folder).parent)

def count(name, arguments):
    global left
    if name == event and any(str(argument).startswith(here) for argument in arguments):
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

async def run():
    async with open_provider(address) as provider:
        sys.addaudithook(count)
        if what == "backup":
            await back_up(provider, Path(folder))
        else:
            await restore_backup(Path(folder), provider, replace=True)

anyio.run(run)
"""
"""Back up or restore, and die at the n-th call of some kind about files of the test."""


def runs_until(forks: ForkServer, event: str, what: str, folder: Path, address: str, *, step: int = 1) -> Iterator[int]:
    """Run again and again, killed at an ever later call of some kind, until one run ends by itself."""
    script = folder.with_name("killed_at.py")
    script.write_text(KILLED_AT, encoding="utf-8")
    for number in range(1, 1_000, step):
        words, here = (event, str(number), what, str(folder), address), folder.parent
        done = forks.run(str(script), *words, cwd=here, env=os.environ, timeout=120, outputs=here)
        if done.returncode != -signal.SIGKILL:
            assert done.returncode == 0, done.stderr
            return
        yield number
    raise AssertionError("it never ended")


@pytest.mark.processes
@one_of_each_form
@on_one_loop
async def test_a_backup_killed_at_any_moment_leaves_nothing_under_its_name(
    store: DurableStore, tmp_path: Path, fork_server: ForkServer, big: bool
) -> None:
    await keep(store, tmp_path / "store", "Oslo")
    killed = 0
    address, step = store.address(tmp_path / "store"), 1 if big else 13
    for _ in runs_until(fork_server, "open", "backup", tmp_path / "backup", address, step=step):
        killed += 1
        if (tmp_path / "backup").exists():
            await read_backup(tmp_path / "backup")  # it died when everything was done
            shutil.rmtree(tmp_path / "backup")
    assert killed >= 2
    assert (await read_backup(tmp_path / "backup")).kind == store.name
    assert await loaded_city(store, tmp_path / "store") == "Oslo"


@pytest.mark.processes
@one_of_each_form
@on_one_loop
@pytest.mark.parametrize("event", ["os.rename", "os.remove", "open"])
async def test_a_restore_killed_at_any_moment_leaves_the_old_store_or_is_finished_by_the_next_one(
    store: DurableStore, tmp_path: Path, fork_server: ForkServer, event: str, big: bool
) -> None:
    path = tmp_path / "store"
    await keep(store, path, "Oslo")
    await backed_up(store, path, tmp_path / "backup")
    await keep(store, path, "Rome")
    killed = closed = 0
    step = 1 if big or event != "open" else 37
    for _ in runs_until(fork_server, event, "restore", tmp_path / "backup", store.address(path), step=step):
        killed += 1
        try:
            city = await loaded_city(store, path)
        except StoreUnavailableError as error:
            assert "run the same `factmem restore` again" in str(error)  # noqa: PT017
            closed += 1
            await restored(store, tmp_path / "backup", path, replace=True)
            city = await loaded_city(store, path)
            assert city == "Oslo"
        assert city in ("Oslo", "Rome")
        if city == "Oslo":
            await keep(store, path, "Rome")
    assert killed
    assert closed or event != "os.rename"
    assert await loaded_city(store, path) == "Oslo"
    assert not found(tmp_path, "*.restoring")


@needs_mounts
@durable_stores
@on_one_loop
async def test_a_full_disk_refuses_a_backup_and_a_restore_and_leaves_nothing(
    store: DurableStore, tmp_path: Path
) -> None:
    path = tmp_path / "place" / "store"
    async with store.open(path) as provider:
        for number in range(20):
            await provider.save(NOTES.fact([f"{number} {'x' * 40_000}"], timestamp=NOON), USER, PLANNER)
    before = contents(path.parent)
    with small_disk(tmp_path / "disk", 512) as disk:
        with pytest.raises(StoreUnavailableError, match="cannot be written"):
            await backed_up(store, path, disk / "backup")
        assert not found(disk)
        await backed_up(store, path, tmp_path / "backup")
        with pytest.raises(StoreUnavailableError, match="cannot be written"):
            await restored(store, tmp_path / "backup", disk / "store")
        assert not found(disk)
        remount(disk, "size=16384k")
        await restored(store, tmp_path / "backup", disk / "store")
        async with store.open(disk / "store") as provider:
            assert len((await provider.load(NOTES, USER, PLANNER)).values) == 20
    assert contents(path.parent) == before


async def test_errors_of_paths_are_errors_of_factmem_and_name_no_fact(tmp_path: Path) -> None:
    store = STORES[0]
    await keep(store, tmp_path / "store", "Oslo")
    (tmp_path / "file").write_text("no folder")
    for folder in (tmp_path / "file" / "backup", Path("/proc/nothing/backup")):
        with pytest.raises(FactMemError) as caught:
            await backed_up(store, tmp_path / "store", folder)
        assert "Oslo" not in str(caught.value)
    async with open_provider(str(tmp_path / "file" / "store")) as provider:
        with pytest.raises(FactMemError):
            await restore_backup(tmp_path / "file" / "backup", provider)
