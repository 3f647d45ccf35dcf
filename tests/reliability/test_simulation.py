"""Seeded simulations of the disk, the clock and the death of the process, over every store.

With ``--big``, 10,000 histories are run, and the process dies at hundreds of calls inside rotation, erasure and
migration.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
import attrs
import pytest
from factmem_encrypted import EncryptedMemoryProvider
from factmem_encrypted_sqlite import EncryptedSqliteMemoryProvider
from factmem_file import LocalFileMemoryProvider
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.abc.capabilities import Append
from factmem.abc.clock import Clock
from factmem.crypto import SecretKey
from factmem.crypto.keys import Keyring
from factmem.errors import StoreUnavailableError, WrongKeyError
from factmem.facts import Concept
from factmem.providers.memory import InMemoryProvider
from factmem.providers.registry import open_provider
from factmem.records import Place, Recorded, Tombstone, assertions_of
from factmem.testing import FakeClock
from tests.conftest import Promise
from tests.providers.test_old_stores import KEY, OldStore, check
from tests.providers.test_old_stores import STORES as OLD_STORES
from tests.reliability.stores import NOON, PLANNER, USER
from tests.simulation import Lives, SimulatedDisk, SimulatedStore, intercepted, play

pytestmark = [pytest.mark.timeout(14_400), pytest.mark.parametrize("anyio_backend", ["asyncio"])]

WORDS: Final = Concept.multiple("words", "Words that were said")


def keyring(generation: int) -> Keyring:
    """Return a keyring with a key of each generation, the last of which is current."""
    keys = {f"key {number}": SecretKey(bytes([number + 1]) * 32) for number in range(generation + 1)}
    return Keyring(keys, f"key {generation}")


async def rotate(provider: Any, generation: int) -> None:
    """Change the key to that of a generation."""
    await provider.rotate(keyring(generation))


def open_file(path: Path, clock: Clock, _: int) -> LocalFileMemoryProvider:
    return LocalFileMemoryProvider(path, clock=clock)


def open_encrypted(path: Path, clock: Clock, generation: int) -> EncryptedMemoryProvider:
    return EncryptedMemoryProvider(path, keyring(generation), clock=clock)


def open_sqlite(path: Path, clock: Clock, _: int) -> SqliteVecMemoryProvider:
    return SqliteVecMemoryProvider(path, clock=clock)


def open_encrypted_sqlite(path: Path, clock: Clock, generation: int) -> EncryptedSqliteMemoryProvider:
    return EncryptedSqliteMemoryProvider(path, keyring(generation), clock=clock)


def given(provider: Any, path: Path, clock: Clock, generation: int) -> Any:
    """Return an open provider as a factory."""
    return provider


SIMULATED: Final = {
    "sqlite-vec": SimulatedStore(open=open_sqlite, calls=250),
    "file": SimulatedStore(open=open_file, is_atomic_over_places=False),
    "encrypted": SimulatedStore(open=open_encrypted, rotate=rotate, in_clear=False, calls=100),
    "encrypted-sqlite": SimulatedStore(open=open_encrypted_sqlite, rotate=rotate, in_clear=False, calls=250),
}


async def played(store: SimulatedStore, seeds: range, folder: Path) -> Lives:
    """Run histories, and sum up their results."""
    lives = Lives()
    for seed in seeds:
        home = folder / f"{seed}"
        home.mkdir()
        lives += await play(seed, store, home)
        shutil.rmtree(home)
    return lives


@pytest.mark.parametrize("name", SIMULATED)
async def test_no_history_of_faults_and_deaths_breaks_a_promise(
    name: str, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """Acknowledged operations survive, refused ones are complete or absent, erased words stay away, numbers grow."""
    seeds = range(2500 if big else 6)
    lives = await played(SIMULATED[name], seeds, tmp_path)
    assert lives.deaths >= 2 * len(seeds)
    assert lives.faults > len(seeds)
    promise(
        f"simulation, {name}",
        f"{len(seeds):,} seeds: {lives.deaths:,} deaths, {lives.faults:,} of {lives.calls:,} calls failed, "
        f"{lives.acknowledged:,} operations acknowledged: 0 lost, 0 in part, 0 came back; {lives.refused:,} refused",
    )


async def test_a_store_in_memory_keeps_its_promises_while_the_clock_jumps(
    tmp_path: Path, big: bool, promise: Promise
) -> None:
    """It has no disk, and dies with its process: one provider serves a whole history."""
    seeds = range(2500 if big else 6)
    lives = Lives()
    for seed in seeds:
        kept = InMemoryProvider()
        lives += await play(seed, SimulatedStore(open=partial(given, kept), lasts=False), tmp_path)
    promise("simulation, memory", f"{len(seeds):,} seeds: {lives.acknowledged:,} operations acknowledged: 0 lost")


@attrs.frozen
class Interruption:
    """An operation of many disk calls, and the conditions that hold after an interruption.

    Attributes:
        home: folder with the store before the operation.
        work: runs the operation.
        check: checks a store after an interruption.
        finish: runs the operation again, and checks that it is complete.
    """

    home: Path
    work: Callable[[Path], Awaitable[object]]
    check: Callable[[Path], Awaitable[None]]
    finish: Callable[[Path], Awaitable[None]]

    async def calls(self, folder: Path) -> int:
        """Return the number of disk calls of the operation."""
        disk = SimulatedDisk(shutil.copytree(self.home, folder), Random(0))
        with intercepted(disk):
            await self.work(folder)
        return len(disk.calls)

    async def die(self, number: int, folder: Path, chance: Random) -> None:
        """Let the process die at a call, by a kill or a power cut, and check the store left behind."""
        shutil.rmtree(folder, ignore_errors=True)
        disk = SimulatedDisk(shutil.copytree(self.home, folder / "before"), chance, dies_at=number)
        with intercepted(disk):
            try:
                await self.work(disk.root)
            except StoreUnavailableError:
                assert disk.dead
            disk.kill()
        left = disk.root
        if chance.random() < 0.7:
            left = folder / "after"
            left.mkdir()
            disk.cut_power(left)
        await self.check(left)
        await self.finish(left)


async def interrupted_deaths(work: Interruption, folder: Path, count: int, seed: int) -> int:
    """Let the process die at calls spread over the whole operation, and return the number of deaths."""
    chance = Random(seed)
    calls = await work.calls(folder / "counted")
    for death in range(count):
        number = 1 + (death * calls // count + chance.randrange(max(1, calls // count))) % calls
        try:
            await work.die(number, folder / "disk", chance)
        except Exception as error:
            raise AssertionError(f"death {death} at call {number} of {calls}: {error}") from error
    return count


async def spoken(provider: Any) -> dict[str, Recorded]:
    """Return the content of a store, by its words."""
    return {entry.assertion.data: entry for entry in await provider.changes(None) if isinstance(entry, Recorded)}


async def filled(store: SimulatedStore, home: Path) -> Path:
    """A folder with a store of 12 words at 2 places."""
    await anyio.Path(home).mkdir()
    provider = store.open(home / "store", FakeClock(), 0)
    for number in range(12):
        place = Place(USER, PLANNER if number % 2 else PLANNER / "child")
        fact = WORDS.fact([f"word-{number:02}"], timestamp=NOON)
        await provider.append([Append(assertion=said) for said in assertions_of(fact, place)])
    await provider.aclose()
    return home


EVERY: Final = {f"word-{number:02}" for number in range(12)}
ERASED: Final = {f"word-{number:02}" for number in range(4)}


def words_in(folder: Path) -> set[str]:
    """Return the words that can be read in the files of a store."""
    content = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    return {word for word in EVERY if word.encode() in content}


def rotation(store: SimulatedStore, home: Path) -> Interruption:
    """A change of the key: every word stays, and in the end the old key opens nothing."""

    async def work(folder: Path) -> None:
        async with store.open(folder / "store", FakeClock(), 0) as provider:
            await rotate(provider, 1)

    async def check_words(folder: Path) -> None:
        async with store.open(folder / "store", FakeClock(), 1) as provider:
            assert (await spoken(provider)).keys() == EVERY

    async def finish(folder: Path) -> None:
        async with store.open(folder / "store", FakeClock(), 1) as provider:
            await rotate(provider, 1)
        await check_words(folder)
        async with store.open(folder / "store", FakeClock(), 0) as provider:
            with pytest.raises(WrongKeyError):
                await provider.changes(None)

    return Interruption(home, work, check_words, finish)


def erasure(store: SimulatedStore, home: Path) -> Interruption:
    """An erasure of four words: all or nothing, and in the end no byte of them is left."""

    async def erase(folder: Path) -> bool:
        async with store.open(folder / "store", FakeClock(), 0) as provider:
            known = await spoken(provider)
            ids = [known[word].record_id for word in sorted(ERASED & known.keys())]
            return bool((await provider.erase(ids, tenant=None)).pending)

    async def check_words(folder: Path) -> None:
        async with store.open(folder / "store", FakeClock(), 0) as provider:
            assert EVERY - (await spoken(provider)).keys() in (set(), ERASED)

    async def finish(folder: Path) -> None:
        assert not await erase(folder)
        async with store.open(folder / "store", FakeClock(), 0) as provider:
            assert (await spoken(provider)).keys() == EVERY - ERASED
        assert not words_in(folder) & ERASED

    return Interruption(home, erase, check_words, finish)


def migration(name: str, home: Path) -> Interruption:
    """The first write to a store of an older format: its content is unchanged."""
    store = OldStore(name, max(OLD_STORES.glob("*.zip")), home)

    async def migrate(folder: Path) -> None:
        async with open_provider(store.at(folder).address) as provider:
            await provider.put_vectors(None, {})  # type: ignore[attr-defined]

    async def check_all(folder: Path) -> None:
        async with open_provider(store.at(folder).address) as provider:
            await check(provider, store)

    async def finish(folder: Path) -> None:
        await migrate(folder)
        await check_all(folder)

    return Interruption(home, migrate, check_all, finish)


@pytest.mark.parametrize("name", ["encrypted", "encrypted-sqlite"])
async def test_a_death_inside_a_rotation_loses_nothing(name: str, tmp_path: Path, big: bool, promise: Promise) -> None:
    work = rotation(SIMULATED[name], await filled(SIMULATED[name], tmp_path / "home"))
    deaths = await interrupted_deaths(work, tmp_path, 300 if big else 5, seed=21)
    promise(f"deaths inside rotation, {name}", f"{deaths} deaths: 0 words lost, the old key opens nothing afterwards")


@pytest.mark.parametrize("name", SIMULATED)
async def test_a_death_inside_an_erasure_brings_nothing_back(
    name: str, tmp_path: Path, big: bool, promise: Promise
) -> None:
    work = erasure(SIMULATED[name], await filled(SIMULATED[name], tmp_path / "home"))
    deaths = await interrupted_deaths(work, tmp_path, 300 if big else 5, seed=22)
    promise(f"deaths inside erasure, {name}", f"{deaths} deaths: 0 in part, 0 others lost, 0 bytes left afterwards")


@pytest.mark.parametrize("name", SIMULATED)
async def test_an_erasure_that_the_next_process_goes_on_with_outlives_a_power_cut(
    name: str, tmp_path: Path, big: bool
) -> None:
    """The tombstones of a process that was killed may not be on the disk yet when its successor removes the words."""
    store = SIMULATED[name]
    work = erasure(store, await filled(store, tmp_path / "home"))
    async with store.open(work.home / "store", FakeClock(), 0) as provider:
        ids = {entry.id for word, entry in (await spoken(provider)).items() if word in ERASED}
    calls = await work.calls(tmp_path / "counted")
    for number, life in itertools.product(range(1, calls + 1, 1 if big else 2), range(8 if big else 1)):
        home = tmp_path / f"{number}.{life}"
        disk = SimulatedDisk(shutil.copytree(work.home, home / "before"), Random(100 * number + life), dies_at=number)
        with intercepted(disk):
            with contextlib.suppress(StoreUnavailableError):
                await work.work(disk.root)
            disk.kill()
            disk.restart()
            later = assertions_of(WORDS.fact(["later"], timestamp=NOON), Place(USER, PLANNER))
            async with store.open(disk.root / "store", FakeClock(), 0) as provider:
                await provider.append([Append(assertion=said) for said in later])
        for cut in range(8 if big else 2):
            (left := home / f"after {cut}").mkdir()
            disk.cut_power(left)
            async with store.open(left / "store", FakeClock(), 0) as provider:
                log = list(await provider.changes(None))
            gone = ids - {entry.id for entry in log if isinstance(entry, Recorded)}
            assert gone in (set(), ids), f"killed at call {number}: erased in part"
            tombstones = {entry.assertion_id for entry in log if isinstance(entry, Tombstone)}
            assert gone <= tombstones, f"killed at call {number}: words are gone without a tombstone"


@pytest.mark.parametrize("name", ["sqlite-vec", "encrypted-sqlite"])
async def test_a_death_inside_a_migration_loses_nothing(
    name: str, tmp_path: Path, big: bool, promise: Promise, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACTMEM_FIXTURE_KEY", KEY)
    deaths = await interrupted_deaths(migration(name, tmp_path / "home"), tmp_path, 300 if big else 5, seed=23)
    promise(f"deaths inside migration, {name}", f"{deaths} deaths: every store opens and answers as before")
