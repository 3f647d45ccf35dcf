"""A rotation that fails at any stage, or waits, leaves a store that works and goes on. Deaths are simulated."""

from __future__ import annotations

import errno
import importlib
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.from_thread
import apsw
import pytest
from factmem_sqlite_vec.store import Store

from factmem.crypto import SecretKey
from factmem.crypto.keys import Keyring
from factmem.errors import StoreUnavailableError, WrongKeyError
from tests.narrowing import not_none
from tests.providers.sealed import KEY, append, files_of, numbers_in, opened

PAGE = 4096

STAGES: Final = {
    "the key file has both keys": ("factmem_encrypted_sqlite.codec.replace_file", 1),
    "the pages are sealed anew": ("factmem_encrypted_sqlite.provider.rekey", 1),
    "the log is empty": ("factmem_encrypted_sqlite.provider._empty_log", 1),
    "the key file has the new key": ("factmem_encrypted_sqlite.codec.replace_file", 2),
}
"""Stages of a rotation: each is reached by a number of returns of a function."""


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
    async with opened(path) as provider:
        await provider.rotate(new)
        assert before & pages_of(path) == set()


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


async def test_a_rotation_waits_for_whoever_reads_and_can_be_gone_on_with(path: Path) -> None:
    """Old pages stay in the file while a reader uses them, so the old key is kept until then."""
    new = SecretKey.generate()
    async with opened(path) as reader, opened(path, busy_timeout=0.2) as provider:
        await reader.version(None)
        connection = not_none(reader._live().engine.store._borrow())
        connection.execute("BEGIN; SELECT count(*) FROM assertions").fetchall()
        await append(provider, [60])
        with pytest.raises(StoreUnavailableError):
            await provider.rotate(new)
        connection.execute("ROLLBACK")
        reader._live().engine.store._give_back(connection)
        await provider.rotate()
    assert (await opens(path, KEY), await numbers_in(path, new)) == (False, set(range(61)))
