"""A rotation may be killed anywhere and resumes; other processes with both keys are unaffected."""

from __future__ import annotations

import errno
import importlib
import random
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import apsw
import pytest
from factmem_sqlite_vec.store import Store

from factmem.crypto import SecretKey
from factmem.crypto.key_file import RotatesKeys
from factmem.crypto.keys import Keyring
from factmem.errors import StoreUnavailableError, WrongKeyError
from tests.conftest import Promise
from tests.providers.children import Child
from tests.providers.encrypted_sqlite.processes import STAGES, rotate, save
from tests.providers.encrypted_sqlite.worlds import KEY, append, files_of, fill, numbers_in, opened

PAGE = 4096

pytestmark = pytest.mark.timeout(7_200)


async def opens(path: Path, key: SecretKey) -> bool:
    async with opened(path, key) as provider:
        try:
            await provider.version(None)
        except WrongKeyError:
            return False
        return True


def pages_of(path: Path) -> set[bytes]:
    whole = path.read_bytes()
    return {whole[start : start + PAGE] for start in range(0, len(whole), PAGE)}


async def test_a_rotation_seals_every_page_anew(path: Path) -> None:
    new, before = SecretKey.generate(), pages_of(path)
    steps: list[tuple[int, int]] = []
    async with opened(path) as provider:
        assert isinstance(provider, RotatesKeys)
        await provider.rotate(new, progress=lambda done, pieces: steps.append((done, pieces)))
        assert before & pages_of(path) == set()
        await append(provider, [60])
    assert steps == [(0, 2), (1, 2), (2, 2)]
    assert (await opens(path, KEY), await numbers_in(path, new)) == (False, set(range(61)))


async def test_nothing_is_to_be_gone_on_with(path: Path) -> None:
    before = pages_of(path)
    async with opened(path) as provider:
        await provider.rotate()
    assert pages_of(path) == before


async def test_a_store_that_is_not_there_yet_is_made_under_the_new_key(tmp_path: Path) -> None:
    new = SecretKey.generate()
    async with opened(tmp_path / "facts.db") as provider:
        await provider.rotate()
        assert files_of(tmp_path / "facts.db") == {}
        await provider.rotate(new)
        await append(provider, [1])
    assert (await opens(tmp_path / "facts.db", KEY), await numbers_in(tmp_path / "facts.db", new)) == (False, {1})


def test_a_rotation_killed_anywhere_goes_on(tmp_path: Path, big: bool, promise: Promise) -> None:
    """The kill comes after each stage, and at any time; every fact is readable each time, with exactly one key."""
    facts, kills, chance = (10_000, 500, random.Random(6)) if big else (150, 8, random.Random(6))
    path, keys = tmp_path / "facts.db", [KEY]
    anyio.run(fill, path, facts)
    took = _rotate_whole(path, keys)
    stages = [*STAGES, *(None for _ in range(kills - len(STAGES)))]
    resumed = 0
    for number, stage in enumerate(stages):
        if len(keys) % 2 or anyio.run(opens, path, keys[-1]):
            keys.append(SecretKey.generate())
        with Child(rotate, path, keys[-2].secret, keys[-1].secret, stage) as child:
            child.report()
            if stage is None:
                time.sleep(chance.random() * took)
            else:
                assert child.all_reports() == []
        begun = anyio.run(opens, path, keys[-1])
        assert begun != anyio.run(opens, path, keys[-2])
        if not begun:
            assert stage is None
            keys.pop()
        if number % 10 == 0:
            assert anyio.run(numbers_in, path, keys[-1]) == set(range(facts))
        if number % 2:
            anyio.run(_go_on, path, keys[-1])
            resumed += 1
        keys = keys[-2:]
    anyio.run(_go_on, path, keys[-1])
    assert anyio.run(numbers_in, path, keys[-1]) == set(range(facts))
    assert not anyio.run(opens, path, keys[-2])
    promise(
        "key rotation, encrypted-sqlite",
        f"killed at {len(stages)} points over {facts} facts, {resumed} times gone on with: all readable, old key 0",
    )


@pytest.mark.parametrize("stage", STAGES)
async def test_a_rotation_that_fails_leaves_a_store_that_works_and_goes_on(
    path: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full before each of its steps: the provider reads and writes with the current key."""
    new = SecretKey.generate()
    name, calls = STAGES[stage]
    module, _, function = name.rpartition(".")
    real, left = getattr(importlib.import_module(module), function), [calls]

    def failing(*arguments: Any, **options: Any) -> None:
        left[0] -= 1
        if not left[0]:
            raise OSError(errno.ENOSPC, "no space left on device")
        real(*arguments, **options)

    async with opened(path) as provider:
        with monkeypatch.context() as patch:
            patch.setattr(name, failing)
            with pytest.raises(StoreUnavailableError):
                await provider.rotate(new)
        await append(provider, [60])
        assert await opens(path, KEY) == (stage == "the key file has both keys")
        await provider.rotate(new)
        await append(provider, [61])
    assert (await opens(path, KEY), await numbers_in(path, new)) == (False, set(range(62)))


def _rotate_whole(path: Path, keys: list[SecretKey]) -> float:
    keys.append(SecretKey.generate())
    with Child(rotate, path, keys[-2].secret, keys[-1].secret) as child:
        child.report()
        started = time.monotonic()
        assert child.all_reports() == ["done"]
        return time.monotonic() - started


async def _go_on(path: Path, key: SecretKey) -> None:
    async with opened(path, key) as provider:
        await provider.rotate()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_processes_with_both_keys_go_on_saving(tmp_path: Path, big: bool) -> None:
    """The processes have the file open with the old key, and lose nothing; reading continues too."""
    path, count = tmp_path / "facts.db", 1000 if big else 30
    await fill(path, 10)
    keys = {"default": KEY.secret, "second": SecretKey.generate().secret, "third": SecretKey.generate().secret}
    ring = {id: SecretKey(secret) for id, secret in keys.items()}
    reader = opened(path, Keyring(ring, "default"))
    with (
        Child(save, path, keys, "default", 1000, count) as one,
        Child(save, path, keys, "default", 5000, count) as two,
    ):
        one.report()
        two.report()
        assert len(await reader.changes(None)) >= 6
        async with opened(path, Keyring(ring, "default"), busy_timeout=60) as provider:
            await provider.rotate(Keyring(ring, "second"))
            assert len(await reader.changes(None)) >= 6
            await provider.rotate(Keyring(ring, "third"))
        assert len(await reader.changes(None)) >= 6
        assert one.all_reports() == list(range(1001, 1000 + count))
        assert two.all_reports() == list(range(5001, 5000 + count))
    await append(reader, [10])
    await reader.aclose()
    expected = {*range(11), *range(1000, 1000 + count), *range(5000, 5000 + count)}
    assert await numbers_in(path, Keyring(ring, "third")) == expected
    assert not await opens(path, KEY)


async def test_a_key_may_change_again_while_a_save_opens_the_file_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The save opened it with the second key, and waits for the lock while the third key is set."""
    ring = {"default": KEY, "second": SecretKey.generate(), "third": SecretKey.generate()}
    async with opened(path, Keyring(ring, "default")) as saving, opened(path, Keyring(ring, "default")) as other:
        await append(saving, [60])
        await other.rotate(Keyring(ring, "second"))
        real, times = Store._open_writer, [0]

        def rotated_afterwards(store: Store) -> apsw.Connection:
            writer = real(store)
            if store is saving._live().engine.store:
                times[0] += 1
                if times[0] == 2:
                    anyio.from_thread.run(other.rotate, Keyring(ring, "third"))
            return writer

        monkeypatch.setattr(Store, "_open_writer", rotated_afterwards)
        await append(saving, [61])
    assert await numbers_in(path, Keyring(ring, "third")) == set(range(62))


async def test_a_process_without_the_new_key_gets_an_error_and_changes_nothing(path: Path) -> None:
    new = SecretKey.generate()
    async with opened(path) as stale, opened(path) as provider:
        await append(stale, [60])
        await stale.changes(None)
        await provider.rotate(new)
        for _ in range(2):
            with pytest.raises(WrongKeyError):
                await stale.changes(None)
            with pytest.raises(WrongKeyError):
                await append(stale, [61])
    assert await numbers_in(path, new) == set(range(61))


async def test_a_rotation_waits_for_whoever_reads_and_can_be_gone_on_with(path: Path) -> None:
    """Old pages stay in the file while a reader uses them, so the old key is kept until then."""
    new = SecretKey.generate()
    async with opened(path) as reader, opened(path, busy_timeout=0.2) as provider:
        await reader.version(None)
        connection = reader._live().engine.store._borrow()
        assert connection is not None
        connection.execute("BEGIN; SELECT count(*) FROM assertions").fetchall()
        await append(provider, [60])
        with pytest.raises(StoreUnavailableError):
            await provider.rotate(new)
        connection.execute("ROLLBACK")
        reader._live().engine.store._give_back(connection)
        await provider.rotate()
    assert (await opens(path, KEY), await numbers_in(path, new)) == (False, set(range(61)))
