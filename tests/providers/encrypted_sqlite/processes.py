"""Processes that work on a store and can be killed; they fork from one that has all imported."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from factmem.crypto import Keyring, SecretKey
from tests.providers.encrypted_sqlite.worlds import append, opened

__all__ = ["STAGES", "Child", "rotate", "save"]

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])

STAGES: Final = {
    "the key file has both keys": ("factmem_encrypted_sqlite.key_file.replace_file", 1),
    "the pages are sealed anew": ("factmem_encrypted_sqlite.provider.rekey", 1),
    "the log is empty": ("factmem_encrypted_sqlite.provider._empty_log", 1),
    "the key file has the new key": ("factmem_encrypted_sqlite.key_file.replace_file", 2),
}
"""Where a rotation may be killed exactly: when a function has returned so often."""


class Child:
    """A process that does some work and says what it has done; killed at the latest when this is left.

    Args:
        work: a function of this module.
        arguments: for it, behind the connection that it speaks through.
    """

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self._told, telling = _FORKS.Pipe(duplex=False)
        self.process = _FORKS.Process(target=work, args=(telling, *arguments), daemon=True)
        self.process.start()
        telling.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def told(self) -> Any:
        """Wait for the next thing it says.

        Raises:
            EOFError: it says nothing more.
        """
        if not self._told.poll(120):
            raise TimeoutError("the process says nothing")
        return self._told.recv()

    def all_told(self) -> list[Any]:
        """Return everything the process reports until it ends."""
        said = []
        try:
            while True:
                said.append(self.told())
        except EOFError:
            return said

    def kill(self) -> None:
        """Kill it, whatever it does, with SIGKILL."""
        self.process.kill()
        self.process.join()


def rotate(telling: Connection, path: Path, key: bytes, new: bytes | None, stage: str | None = None) -> None:
    """Rotate a store, or go on with it; die at a stage."""

    async def main() -> None:
        async with opened(path, SecretKey(key)) as provider:
            await provider.version(None)
            telling.send("ready")
            await provider.rotate(SecretKey(new) if new else None)
            telling.send("done")

    with pytest.MonkeyPatch.context() as patch:
        if stage:
            _die_after(patch, *STAGES[stage])
        anyio.run(main)


def save(telling: Connection, path: Path, keys: dict[str, bytes], current: str, first: int, count: int) -> None:
    """Save numbered facts, saying each that was acknowledged."""
    keyring = Keyring({id: SecretKey(key) for id, key in keys.items()}, current)

    async def main() -> None:
        async with opened(path, keyring, busy_timeout=60) as provider:
            for number in range(first, first + count):
                await append(provider, [number])
                telling.send(number)

    anyio.run(main)


def _die_after(patch: pytest.MonkeyPatch, name: str, calls: int) -> None:
    module, _, function = name.rpartition(".")
    real = getattr(__import__(module, fromlist=[function]), function)
    left = [calls]

    def dying(*arguments: Any, **options: Any) -> None:
        real(*arguments, **options)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    patch.setattr(name, dying)
