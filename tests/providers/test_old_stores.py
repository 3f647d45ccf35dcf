"""Stores written by earlier versions open, migrate and keep everything.

The stores are made by ``tests/providers/stores/make_stores.py``; add those of each released format.
"""

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import json
import zipfile
from pathlib import Path
from typing import Any, Final

import apsw
import numpy as np
import pytest

from factmem import AgentMemoryProvider, Concept, InMemoryProvider, Memory, open_provider
from factmem.abc.capabilities import Append, KeepsLog, UpgradesFormat
from factmem.codec import decode_entry
from factmem.memory.moves import move
from factmem.providers import back_up
from factmem.providers.backups import restore_backup
from factmem.recall import CallableEmbedder
from factmem.records import Recorded, Tombstone, assertions_of
from factmem.store_findings import FindingKind

STORES: Final = Path(__file__).with_name("stores")
KEY: Final = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
ADDRESSES: Final = {
    "sqlite-vec": "sqlite-vec:{folder}/facts.db",
    "file": "file:{folder}/facts",
    "encrypted": "encrypted:{folder}/facts?key_env=FACTMEM_FIXTURE_KEY",
    "encrypted-sqlite": "encrypted-sqlite:{folder}/facts.db?key_env=FACTMEM_FIXTURE_KEY",
}
NOON: Final = dt.datetime(2026, 3, 4, 12, tzinfo=dt.UTC)
LIKES: Final = Concept.multiple("likes", "What the person likes")


class OldStore:
    """A store of an earlier version, unpacked.

    Attributes:
        provider: name of its provider.
        folder: folder of the unpacked store.
        tenants: its original content, by tenant.
    """

    def __init__(self, provider: str, archive: Path, folder: Path) -> None:
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder, [name for name in packed.namelist() if name.startswith(f"{provider}/")])
            expected = json.loads(packed.read("expected.json"))[provider]
        self.provider = provider
        self.folder = folder / provider
        self.tenants: dict[str, Any] = expected["tenants"]

    @property
    def address(self) -> str:
        return ADDRESSES[self.provider].format(folder=self.folder)

    def at(self, folder: Path) -> OldStore:
        """Return the same store at the path of a copy."""
        moved = copy.copy(self)
        moved.folder = folder / self.provider
        return moved

    def last(self, tenant: str) -> int:
        """Return the last number of a tenant, whose sequence is its own since then."""
        return max(int(entry.seq) for entry in self.log(tenant))

    def log(self, tenant: str) -> list[Any]:
        return [decode_entry(document) for document in self.tenants[tenant]["log"]]


@pytest.fixture(params=sorted(STORES.glob("*.zip")), ids=lambda path: path.stem)
def archive(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture(params=ADDRESSES)
def store(request: pytest.FixtureRequest, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OldStore:
    monkeypatch.setenv("FACTMEM_FIXTURE_KEY", KEY)
    return OldStore(request.param, archive, tmp_path)


async def check(provider: AgentMemoryProvider, store: OldStore) -> None:
    """Compare the whole content of a store with its original content."""
    assert isinstance(provider, KeepsLog)
    for tenant, expected in store.tenants.items():
        log = store.log(tenant)
        assert list(await provider.changes(tenant or None)) == log
        assert list(await provider.changes(tenant or None, log[1].seq)) == log[2:]
        seqs, rows = await provider.vectors(tenant or None)
        np.testing.assert_array_equal(rows, np.reshape(list(expected["vectors"].values()), rows.shape))
        assert list(seqs) == list(map(int, expected["vectors"]))
        records = {entry.record_id for entry in log if isinstance(entry, Recorded)}
        accesses = await provider.accesses(tenant or None, records)
        assert {id: [item.count, item.last and item.last.isoformat()] for id, item in accesses.items()} == (
            expected["accesses"]
        )
        for place in {entry.assertion.place for entry in log if isinstance(entry, Recorded)}:
            here = {entry.id for entry in log if isinstance(entry, Recorded) and entry.assertion.place == place}
            assert list(await provider.entries(place)) == [
                entry for entry in log if getattr(entry, "assertion_id", getattr(entry, "id", None)) in here
            ]


async def test_the_backup_of_an_old_store_brings_it_back_and_is_upgraded_on_request(
    store: OldStore, tmp_path: Path
) -> None:
    async with open_provider(store.address) as provider:
        await back_up(provider, tmp_path / "backup")
    there = store.at(tmp_path / "restored")
    async with open_provider(there.address) as provider:
        await restore_backup(tmp_path / "backup", provider)
    async with open_provider(there.address) as provider:
        await check(provider, store)
        if isinstance(provider, UpgradesFormat):
            assert isinstance(provider, KeepsLog)
            steps: list[tuple[int, int]] = []
            before, newest = await provider.format_versions()
            await provider.upgrade(progress=lambda done, of: steps.append((done, of)))
            assert await provider.format_versions() == (newest, newest)
            assert before == newest or (steps[0][0], steps[-1][0]) == (0, steps[-1][1])
            found = {finding.kind for finding in await provider.check()}
            assert not {FindingKind.OLDER, FindingKind.PENDING_ERASURE} & found
        await check(provider, store)


async def test_an_old_store_gives_what_it_held_before_and_once_it_is_migrated(store: OldStore) -> None:
    """The first write migrates, and changes nothing else."""
    async with open_provider(store.address) as provider:
        await check(provider, store)
        assert isinstance(provider, KeepsLog)
        assert await provider.version(None) == store.last("")
        await provider.put_vectors(None, {})
        await check(provider, store)
        (said,) = [entry for entry in store.log("acme") if isinstance(entry, Recorded)]
        (receipt,) = await provider.append([Append(assertion=said.assertion)])
        assert not receipt.new, "the repeated assertion is found"
        assert receipt.recorded == said
    async with open_provider(store.address) as provider:
        await check(provider, store)


async def test_an_old_store_opened_for_reading_only_is_read_as_it_is(store: OldStore) -> None:
    if "sqlite" not in store.address:
        pytest.skip("only the stores of one SQLite file can be opened for reading only")
    before = (store.folder / "facts.db").read_bytes()
    sign = "&" if "?" in store.address else "?"
    async with open_provider(f"{store.address}{sign}read_only=true") as provider:
        await check(provider, store)
    assert (store.folder / "facts.db").read_bytes() == before


async def test_an_old_store_is_written_to_and_erased_from(store: OldStore) -> None:
    old = store.log("")
    first = next(entry for entry in old if isinstance(entry, Recorded))
    async with open_provider(store.address) as opened:
        provider: Any = opened
        (new,) = assertions_of(LIKES.fact(["mint"], timestamp=NOON), first.assertion.place)
        (receipt,) = await provider.append([Append(assertion=new)])
        assert receipt.recorded.seq == store.last("") + 1
        assert (await provider.erase((), tenant=None, assertion_ids=[first.id])).erased == 1
    async with open_provider(store.address) as opened:
        log = list(await opened.changes(None))  # type: ignore[attr-defined]
    kept = [entry for entry in old if entry != first]
    assert log == [*kept, receipt.recorded, Tombstone(assertion_id=first.id, seq=store.last("") + 2)]
    if not store.address.startswith("encrypted:"):  # whose files are letters and digits, so that any word may occur
        assert not any(b"Bern" in path.read_bytes() for path in store.folder.rglob("*") if path.is_file())


async def test_an_old_store_is_recalled_from(store: OldStore) -> None:
    embedder = CallableEmbedder(lambda texts: [[1.0, 0.0, 0.0, 0.0]] * len(texts), name="fixture", dimension=4)
    async with Memory(store.address, embedder=embedder, clock=lambda: NOON) as memory:
        assert (await memory.recall("green tea", limit=1))[0].record.value == "green tea"


@pytest.mark.parametrize("version", [2, 3])
async def test_formats_before_the_first_archive_are_migrated(version: int, tmp_path: Path) -> None:
    """They had no sums of vectors, and the one before that no sums at all."""
    store = OldStore("sqlite-vec", STORES / "a65994e.zip", tmp_path)
    with contextlib.closing(apsw.Connection(str(store.folder / "facts.db"))) as connection:
        connection.execute("DELETE FROM sums WHERE place = CAST('vectors' AS BLOB)")
        if version < 3:
            connection.execute("DROP TABLE sums; DELETE FROM meta WHERE key = 'seq again'")
        connection.execute(f"PRAGMA user_version = {version}")
    async with open_provider(store.address) as provider:
        assert isinstance(provider, UpgradesFormat)
        assert isinstance(provider, KeepsLog)
        await check(provider, store)
        await provider.upgrade()
        await check(provider, store)
        assert FindingKind.DAMAGED not in [finding.kind for finding in await provider.check()]


async def test_an_old_store_is_moved_without_being_changed(store: OldStore) -> None:
    async with open_provider(store.address) as provider, InMemoryProvider() as target:
        before = await _versions(provider)
        receipt = await move(provider, target)
        assert receipt.behind == 0
        for tenant in store.tenants:
            assert isinstance(provider, KeepsLog)
            assert list(await target.changes(tenant or None)) == list(await provider.changes(tenant or None))
        assert await _versions(provider) == before


async def _versions(provider: AgentMemoryProvider) -> tuple[int, int] | None:
    return await provider.format_versions() if isinstance(provider, UpgradesFormat) else None
