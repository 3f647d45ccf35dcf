"""Keys of the encrypted stores: a wrong or missing one changes nothing, and a new one takes the place of another."""

from __future__ import annotations

import contextlib
import random
import shutil
from pathlib import Path

import anyio
import pytest

from factmem.crypto import Passphrase, SecretKey
from factmem.crypto.key_file import RotatesKeys
from factmem.crypto.keys import Argon2id, EnvironmentKey, Keyring, KeySource
from factmem.errors import InvalidDataError, KeyUnavailableError, WrongKeyError
from factmem.providers.registry import open_provider
from tests.conftest import Promise
from tests.packages import need_ciphers
from tests.providers.children import Saving
from tests.providers.sealed import KEY, append, fill, numbers_in, opened_sealed, refused

pytestmark = [pytest.mark.timeout(3_600), pytest.mark.parametrize("anyio_backend", ["asyncio"])]

CHEAP = Argon2id(memory_kib=19 * 1024, passes=2, lanes=1)
COUNT = 20
KINDS = {"encrypted": "facts", "encrypted-sqlite": "facts.db"}
"""Names of stores, by the name of their provider."""


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Name of an encrypted provider."""
    if request.param == "encrypted-sqlite":
        need_ciphers()
    return str(request.param)


@pytest.fixture(scope="module")
def sound(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of some facts, to be copied."""
    path = tmp_path_factory.mktemp("sound") / KINDS[kind]
    anyio.run(fill, path, COUNT)
    return path


@pytest.fixture
def path(sound: Path, tmp_path: Path) -> Path:
    """A store of some facts."""
    return Path(shutil.copytree(sound.parent, tmp_path / "store"), sound.name)


async def opens(path: Path, key: Keyring | KeySource) -> bool:
    """Return whether a key opens a store."""
    async with opened_sealed(path, key) as provider:
        with contextlib.suppress(WrongKeyError):
            await provider.version(None)
            return True
    return False


async def test_a_wrong_key_is_an_error_and_changes_nothing(path: Path, kind: str, big: bool, promise: Promise) -> None:
    """Keys are random, or differ from the right one in one bit."""
    chance = random.Random(1)
    keys = [SecretKey.generate() for _ in range(980 if big else 10)]
    for _ in range(20 if big else 6):
        at, bit = chance.randrange(32), chance.randrange(8)
        keys.append(SecretKey(KEY.secret[:at] + bytes([KEY.secret[at] ^ 1 << bit]) + KEY.secret[at + 1 :]))
    for key in keys:
        await refused(path, key, WrongKeyError)
    await refused(path, Keyring.of(keys[0], "another id"), WrongKeyError)
    await refused(path, Passphrase("not a key", cost=CHEAP), WrongKeyError)
    assert await numbers_in(path) == set(range(COUNT))
    promise(f"wrong keys, {kind}", f"{len(keys)} of {len(keys)} refused on every path, files unchanged")


async def test_a_missing_key_is_an_error_before_anything_is_made(path: Path, tmp_path: Path) -> None:
    missing = EnvironmentKey("FACTMEM_NO_SUCH_KEY")
    await refused(path, missing, KeyUnavailableError)
    async with opened_sealed(tmp_path / "new" / path.name, missing) as provider:
        with pytest.raises(KeyUnavailableError):
            await append(provider, [1])
    assert not (tmp_path / "new").exists()


async def test_a_rotation_to_a_key_that_cannot_be_had_changes_nothing(path: Path) -> None:
    """Neither the disk nor the provider changes, which continues with its key."""
    async with opened_sealed(path) as provider:
        before = await provider.changes(None)
        with pytest.raises(KeyUnavailableError):
            await provider.rotate(EnvironmentKey("FACTMEM_NO_SUCH_KEY"))
        assert await provider.changes(None) == before
        await append(provider, [COUNT])
    assert await numbers_in(path) == set(range(COUNT + 1))


async def test_a_rotation_replaces_the_key_and_shows_its_progress(path: Path) -> None:
    new, steps = SecretKey.generate(), list[tuple[int, int]]()
    async with opened_sealed(path) as provider:
        assert isinstance(provider, RotatesKeys)
        await provider.rotate(new, progress=lambda done, pieces: steps.append((done, pieces)))
        await append(provider, [COUNT])
    assert steps == [(number, len(steps) - 1) for number in range(len(steps))]
    assert (await opens(path, KEY), await numbers_in(path, new)) == (False, set(range(COUNT + 1)))


async def test_a_process_without_the_new_key_gets_an_error_and_changes_nothing(path: Path) -> None:
    new = SecretKey.generate()
    async with opened_sealed(path) as stale, opened_sealed(path) as provider:
        await append(stale, [COUNT])
        await stale.changes(None)
        await provider.rotate(new)
        for _ in range(2):
            with pytest.raises(WrongKeyError):
                await stale.changes(None)
            with pytest.raises(WrongKeyError):
                await append(stale, [COUNT + 1])
    assert await numbers_in(path, new) == set(range(COUNT + 1))


async def test_processes_with_all_keys_go_on_while_it_is_changed_twice(path: Path, big: bool) -> None:
    """They have the store open with the first key, and lose nothing; so does a reader of this process."""
    keys = {"default": KEY, "second": SecretKey.generate(), "third": SecretKey.generate()}
    ring, count = Keyring(keys, "default"), 1000 if big else 25
    numbers = [range(first, first + count) for first in (1000, 5000)]
    processes = [Saving(path, ring, each) for each in numbers]
    saved = {process.saved() for process in processes}
    async with opened_sealed(path, ring) as reader:
        assert await reader.changes(None)
        async with opened_sealed(path, ring, wait=60) as provider:
            for name in ("second", "third"):
                await provider.rotate(Keyring(keys, name))
                assert await reader.changes(None)
        saved |= {number for process in processes for number in process.rest()}
        await append(reader, [COUNT])
    assert saved == {number for each in numbers for number in each}
    assert await numbers_in(path, Keyring(keys, "third")) == {*range(COUNT + 1), *saved}
    assert not await opens(path, KEY)


async def test_a_process_with_both_keys_goes_on_while_another_rotates_by_key_alone(path: Path) -> None:
    """Neither knows the id that the other gave the new key, and it opens under any."""
    new = SecretKey.generate()
    async with opened_sealed(path, Keyring({"default": KEY, "next": new}, "default")) as service:
        await append(service, [COUNT])
        async with opened_sealed(path) as provider:
            assert await provider.rotate(new)
        await append(service, [COUNT + 1])
    assert await numbers_in(path, new) == set(range(COUNT + 2))


async def test_a_rotation_is_finished_with_the_key_that_it_began_with(path: Path) -> None:
    """Also by a process whose keyring names the former key as its current one."""
    new, steps = SecretKey.generate(), list[int]()

    def dies(done: int, pieces: int) -> None:
        steps.append(done)
        if len(steps) == 2:
            raise InterruptedError

    async with opened_sealed(path) as provider:
        with pytest.raises(InterruptedError):
            await provider.rotate(new, progress=dies)
    async with opened_sealed(path, Keyring({"default": KEY, "next": new}, "default")) as provider:
        assert await provider.rotate()
        await append(provider, [COUNT])
    assert (await opens(path, KEY), await numbers_in(path, new)) == (False, set(range(COUNT + 1)))


async def test_a_rotation_that_was_not_interrupted_is_not_continued(path: Path) -> None:
    async with opened_sealed(path) as provider:
        assert not await provider.rotate()
    assert await numbers_in(path) == set(range(COUNT))


@pytest.mark.parametrize("options", ["", f"?key={KEY.to_text()}", "?key_env=A&passphrase_env=B", "?key_env="])
async def test_an_address_without_one_key_is_refused_and_shows_none(kind: str, options: str) -> None:
    with pytest.raises(InvalidDataError, match=None if "?key=" in options else kind) as caught:
        open_provider(f"{kind}:facts{options}")
    assert KEY.to_text() not in str(caught.value)
