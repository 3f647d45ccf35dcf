"""Processes that save to an encrypted store; they fork from one that has imported everything."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import anyio

from factmem.crypto.keys import Keyring, KeySource
from tests.providers.sealed import append, opened_sealed

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.providers.children"])


class Saving:
    """A process that saves numbered facts one by one, and ends.

    Args:
        path: Path of the store.
        keyring: Keyring that it opens the store with.
        numbers: Numbers of the facts.
    """

    def __init__(self, path: Path, keyring: Keyring, numbers: range) -> None:
        self._reports, reports = _FORKS.Pipe(duplex=False)
        given = (reports, path, dict(keyring.sources), keyring.current, numbers)
        self._process = _FORKS.Process(target=_save, args=given, daemon=True)
        self._process.start()
        reports.close()

    def saved(self) -> int:
        """Wait for the next acknowledged save, and return its number.

        Raises:
            EOFError: The process has ended.
        """
        assert self._reports.poll(120), "the process reports nothing"
        number: int = self._reports.recv()
        return number

    def rest(self) -> list[int]:
        """Return the numbers of all further saves, once the process has ended without an error."""
        found: list[int] = []
        try:
            while True:
                found.append(self.saved())
        except EOFError:
            self._process.join(60)
            assert self._process.exitcode == 0
            return found


def _save(reports: Connection, path: Path, sources: dict[str, KeySource], current: str, numbers: range) -> None:
    async def main() -> None:
        async with opened_sealed(path, Keyring(sources, current), wait=60) as provider:
            for number in numbers:
                await append(provider, [number])
                reports.send(number)

    anyio.run(main)
