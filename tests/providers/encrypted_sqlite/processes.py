"""Work of other processes on an encrypted SQLite store; see `Child`."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from factmem.crypto import SecretKey
from factmem.crypto.keys import Keyring
from tests.providers.encrypted_sqlite.worlds import append, opened

__all__ = ["STAGES", "rotate", "save"]

STAGES: Final = {
    "the key file has both keys": ("factmem_encrypted_sqlite.codec.replace_file", 1),
    "the pages are sealed anew": ("factmem_encrypted_sqlite.provider.rekey", 1),
    "the log is empty": ("factmem_encrypted_sqlite.provider._empty_log", 1),
    "the key file has the new key": ("factmem_encrypted_sqlite.codec.replace_file", 2),
}
"""Points at which a rotation is killed: after a number of returns of a function."""


def rotate(reports: Connection, path: Path, key: bytes, new: bytes | None, stage: str | None = None) -> None:
    """Rotate a store, or resume its rotation; die at a stage."""

    async def main() -> None:
        async with opened(path, SecretKey(key)) as provider:
            await provider.version(None)
            reports.send("ready")
            await provider.rotate(SecretKey(new) if new else None)
            reports.send("done")

    with pytest.MonkeyPatch.context() as patch:
        if stage:
            _die_after(patch, *STAGES[stage])
        anyio.run(main)


def save(reports: Connection, path: Path, keys: dict[str, bytes], current: str, first: int, count: int) -> None:
    """Save numbered facts, reporting each acknowledged one."""
    keyring = Keyring({id: SecretKey(key) for id, key in keys.items()}, current)

    async def main() -> None:
        async with opened(path, keyring, busy_timeout=60) as provider:
            for number in range(first, first + count):
                await append(provider, [number])
                reports.send(number)

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
