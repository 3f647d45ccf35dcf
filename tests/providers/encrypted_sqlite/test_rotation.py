"""A rotation that fails or waits leaves a store that works and goes on; processes with all keys do not notice it."""

from __future__ import annotations

import errno
import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.from_thread
import apsw
import pytest
from anyio import to_thread
from factmem_encrypted_sqlite import codec
from factmem_sqlite_vec.store import Store

from factmem.crypto import SecretKey
from factmem.crypto.keys import Keyring
from factmem.errors import StoreUnavailableError, TamperedStoreError, WrongKeyError
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


# Rotation by another process, at every stage


CHANGES = 6
SHORT = 1.0
"""Seconds to wait for the seal, which a rotation that halts at its last stage keeps locked; saves do not need it."""

pytestmark = pytest.mark.timeout(120)


class Stops:
    """A control that halts a rotation after each of its stages until released."""

    def __init__(self) -> None:
        self._reached = threading.Semaphore(0)
        self._go_on = threading.Semaphore(0)

    @contextmanager
    def at_every_stage(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        """Make rotations halt; on exit all of them continue."""
        for name in {name for name, _ in STAGES.values()}:
            module, _, function = name.rpartition(".")
            patch.setattr(name, self._halting(getattr(importlib.import_module(module), function)))
        try:
            yield
        finally:
            self._go_on.release(len(STAGES))

    def _halting(self, real: Callable[..., Any]) -> Callable[..., None]:
        def halting(*arguments: Any, **options: Any) -> None:
            real(*arguments, **options)
            self._reached.release()
            assert self._go_on.acquire(timeout=60)

        return halting

    async def halted(self) -> None:
        """Wait until the rotation halts."""
        assert await to_thread.run_sync(partial(self._reached.acquire, timeout=60))

    def go_on(self) -> None:
        """Let the rotation continue to the next stage."""
        self._go_on.release()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_at_every_stage_of_two_rotations_all_who_have_the_keys_read_and_save(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Providers opened before, used at every stage, or opened at that moment can all read and save."""
    ring = {"default": KEY, "second": SecretKey.generate(), "third": SecretKey.generate()}
    keys, stops, saved = Keyring(ring, "default"), Stops(), 60
    async with (
        opened(path, keys) as rotating,
        opened(path, keys, busy_timeout=SHORT) as always,
        anyio.create_task_group() as tasks,
    ):
        waiting = [opened(path, keys, busy_timeout=SHORT) for _ in range(2 * len(STAGES))]
        for provider in waiting:
            await provider.version(None)
            await append(provider, [saved])
            saved += 1
        with stops.at_every_stage(monkeypatch):
            for name in ("second", "third"):
                tasks.start_soon(rotating.rotate, Keyring(ring, name))
                for stage in STAGES:
                    await stops.halted()
                    async with waiting.pop() as late, opened(path, keys, busy_timeout=SHORT) as new:
                        for provider in (late, always, new):
                            assert (
                                sum([await provider.version(tenant) for tenant in (None, "acmetenant")]),
                                stage,
                            ) == (saved, stage)
                            await append(provider, [saved])
                            saved += 1
                    stops.go_on()
    assert await numbers_in(path, Keyring(ring, "third")) == set(range(saved))


async def test_the_key_may_change_between_any_two_tries_to_open(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key changes on every attempt, so each attempt uses an outdated one."""
    ring = {"default": KEY, **{str(number): SecretKey.generate() for number in range(CHANGES)}}
    left, real = [str(number) for number in range(CHANGES)], codec._opened
    async with opened(path, Keyring(ring, "default")) as rotating:

        def too_late(*arguments: Any) -> apsw.Connection | None:
            with monkeypatch.context() as patch:
                patch.setattr(codec, "_opened", real)
                if left:
                    anyio.from_thread.run(rotating.rotate, Keyring(ring, left.pop(0)))
            return real(*arguments)

        async with opened(path, Keyring(ring, "default")) as late:
            monkeypatch.setattr(codec, "_opened", too_late)
            assert len(await late.changes(None)) > 0
            assert left == []
    assert await numbers_in(path, Keyring(ring, str(CHANGES - 1))) == set(range(60))


async def test_a_rotation_that_goes_on_between_two_tries_to_open_is_no_tampering(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages are re-encrypted after the old key was found to fit, and again after the new one was not."""
    ring, stops = {"default": KEY, "second": SecretKey.generate()}, Stops()
    keys, tries, real = Keyring(ring, "default"), [0], codec._opened
    async with opened(path, keys) as rotating, opened(path, keys) as late, anyio.create_task_group() as tasks:
        await rotating.version(None)
        with stops.at_every_stage(monkeypatch):
            tasks.start_soon(rotating.rotate, Keyring(ring, "second"))
            await stops.halted()

            def goes_on(*arguments: Any) -> apsw.Connection | None:
                connection = real(*arguments)
                tries[0] += 1
                if tries[0] == 1:
                    with monkeypatch.context() as patch:
                        patch.setattr(codec, "_opened", real)
                        stops.go_on()
                        anyio.from_thread.run(stops.halted)
                return connection

            monkeypatch.setattr(codec, "_opened", goes_on)
            await append(late, [60])
            assert len(await late.changes(None)) > 0
    assert await numbers_in(path, Keyring(ring, "second")) == set(range(61))


async def test_a_first_page_that_was_changed_is_an_error_at_once_also_while_there_are_two_keys(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are no repeated attempts, whether the store was open before or not."""
    ring, tries, real = {"default": KEY, "second": SecretKey.generate()}, [0], codec._opened
    keys = Keyring(ring, "default")

    def counting(*arguments: Any) -> apsw.Connection | None:
        tries[0] += 1
        return real(*arguments)

    async with opened(path, keys) as provider:
        live = provider._live()
        await to_thread.run_sync(provider._begin_rotation, live.engine.store, Keyring(ring, "second"))
    with path.open("r+b") as file:
        file.seek(2000)
        file.write(bytes(64))
    monkeypatch.setattr(codec, "_opened", counting)
    async with opened(path, keys) as provider:
        with pytest.raises(TamperedStoreError):
            await provider.changes(None)
        assert 2 <= tries[0] <= 2 * codec._TRIES
        with pytest.raises(TamperedStoreError):
            await append(provider, [60])
