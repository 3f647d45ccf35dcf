"""Files and folders are private to their owner, whatever the umask, and no planted link is followed."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from factmem import Memory, SingleFact
from factmem.errors import InvalidDataError, ProviderError, StoreUnavailableError
from factmem.private_files import FlushError, leftovers, make_folders, replace_file, replacing
from factmem.providers.registry import default_store
from tests.conftest import Promise
from tests.reliability.stores import CITY, USER, DurableStore, durable_stores

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes")

on_one_loop = pytest.mark.parametrize("anyio_backend", ["asyncio"])

umasks = pytest.mark.parametrize("mask", [0o000, 0o777], ids=oct)


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTMEM_TEST_KEY", "5a" * 32)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes_below(folder: Path) -> dict[str, str]:
    """Return the modes of all files and folders below one that other users may access."""
    wanted = {True: 0o700, False: 0o600}
    found = {path: path.lstat().st_mode for path in folder.rglob("*")}
    assert found
    return {
        str(path.relative_to(folder)): oct(mode)
        for path, mode in found.items()
        if stat.S_IMODE(mode) != wanted[stat.S_ISDIR(mode)]
    }


async def work_on(store: DurableStore, path: Path) -> None:
    """Save, read, erase, rotate and export, and check the files while they are open."""
    async with store.open(path) as provider:
        async with Memory(provider, access_statistics=True) as memory:
            (saved,) = await memory.save(SingleFact(CITY, "Bern"), subject=USER)
            await memory.remember("The venue has 120 seats.")
            await memory.recall("venue")
            await memory.admin.export(path.parent / "facts.jsonl")
            assert modes_below(path.parents[1]) == {}
            await memory.forget(saved.id)
            assert modes_below(path.parents[1]) == {}
        if hasattr(provider, "rotate"):
            from factmem.crypto import SecretKey

            await provider.rotate(SecretKey.generate())
            assert modes_below(path.parents[1]) == {}


@on_one_loop
@durable_stores
@umasks
async def test_every_file_and_folder_is_for_its_owner_alone(
    store: DurableStore, mask: int, tmp_path: Path, promise: Promise
) -> None:
    with umask(mask):
        await work_on(store, tmp_path / "new" / "deep" / "store")
    assert modes_below(tmp_path) == {}
    promise(f"owner alone, {store}", f"umask {mask:03o}: stores, logs, locks, keys and exports are 600, folders 700")


@umasks
def test_the_folder_of_the_default_store_is_for_its_owner_alone(
    mask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("APPDATA", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path / "data"))
    with umask(mask):
        default_store()
    assert modes_below(tmp_path) == {}


@on_one_loop
@durable_stores
async def test_a_planted_link_is_not_followed(store: DurableStore, tmp_path: Path) -> None:
    """Links to a victim's file replace every file that a store makes, under its name and former temporary names."""
    example, victim = tmp_path / "example" / "store", tmp_path / "victim"
    async with store.open(example) as provider, Memory(provider) as memory:
        await memory.save(SingleFact(CITY, "Bern"), subject=USER)
        names = {str(path.relative_to(example.parent)) for path in example.parent.rglob("*") if path.is_file()}
    names = {name for name in names if name != "store" and not name.endswith("factmem.json")}
    names |= {f"{name}.tmp" for name in names} | {"store.keys.tmp", "store.tmp"}
    if store.name in {"file", "encrypted"}:
        names |= {"store/factmem.json.tmp", "store/store.keys.tmp", "store/head.note.tmp"}
    for name in sorted(names):
        victim.write_text("precious")
        path = tmp_path / "planted" / name.replace("/", "-") / "store"
        link = path.parent / name
        link.parent.mkdir(parents=True)
        link.symlink_to(victim)
        with suppress(ProviderError):
            async with store.open(path) as provider, Memory(provider) as memory:
                await memory.save(SingleFact(CITY, "Bern"), subject=USER)
        assert victim.read_text() == "precious"


@on_one_loop
@durable_stores
async def test_a_link_to_nothing_makes_no_file_elsewhere(store: DurableStore, tmp_path: Path) -> None:
    (tmp_path / "store").symlink_to(tmp_path / "elsewhere")
    async with store.open(tmp_path / "store") as provider, Memory(provider) as memory:
        with pytest.raises(StoreUnavailableError):
            await memory.save(SingleFact(CITY, "Bern"), subject=USER)
    assert not (tmp_path / "elsewhere").exists()


@on_one_loop
async def test_an_export_replaces_a_file_whole_and_follows_no_link(tmp_path: Path) -> None:
    target, victim, link = tmp_path / "facts.jsonl", tmp_path / "victim", tmp_path / "link"
    target.write_text("earlier")
    target.chmod(0o644)
    victim.write_text("precious")
    link.symlink_to(victim)
    async with Memory("memory:") as memory:
        await memory.save(SingleFact(CITY, "Bern"))
        for there in (target, link):
            with pytest.raises(InvalidDataError, match="exists already: name another file, or pass replace=True"):
                await memory.admin.export(there)
        assert target.read_text() == "earlier"
        await memory.admin.export(target, replace=True)
        with pytest.raises(StoreUnavailableError, match="is a link"):
            await memory.admin.export(link, replace=True)
    assert (stat.S_IMODE(target.stat().st_mode), "Bern" in target.read_text()) == (0o600, True)
    assert victim.read_text() == "precious"
    assert leftovers(target) == leftovers(link) == []


def test_a_replacement_that_fails_leaves_the_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(path, b"before")

    def fail() -> None:
        with replacing(path) as file:
            file.write(b"half")
            assert leftovers(path) != []
            raise FlushError

    with pytest.raises(FlushError):
        fail()
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_that_exist_keep_their_modes(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o750)
    make_folders(tmp_path / "shared" / "new" / "newer")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("shared", "shared/new", "shared/new/newer")]
    assert modes == [0o750, 0o700, 0o700]
