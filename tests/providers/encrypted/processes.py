"""Processes that work on an encrypted store and can be killed; they fork from one that has imported everything."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio

from factmem.crypto.keys import Keyring, KeySource
from factmem.testing import HashEmbedder
from tests.providers.encrypted.worlds import DIMENSION, PLACES, opened, statements

__all__ = ["Child", "Keys", "do_nothing", "erase_and_save", "rotate", "save_everywhere", "save_values"]

Keys: TypeAlias = tuple[dict[str, KeySource], str]
"""A keyring that can be passed to another process: its sources, and the id of the current one."""

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


class Child:
    """A process that does some work and reports its progress; it is killed at the end of the context.

    Args:
        work: a function of this module.
        arguments: its arguments after the connection for its reports; `Keys` for a keyring.
    """

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self._reports, reports = _FORKS.Pipe(duplex=False)
        given = [(dict(one.sources), one.current) if isinstance(one, Keyring) else one for one in arguments]
        self._process = _FORKS.Process(target=work, args=(reports, *given), daemon=True)
        self._process.start()
        reports.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def report(self, timeout: float = 120) -> Any:
        """Wait for the next report.

        Raises:
            EOFError: the process has ended.
        """
        if not self._reports.poll(timeout):
            raise TimeoutError("the process reports nothing")
        return self._reports.recv()

    def all_reports(self) -> list[Any]:
        """Return everything the process reports until it ends."""
        said = []
        try:
            while True:
                said.append(self.report())
        except EOFError:
            return said

    def kill_after(self, seconds: float) -> None:
        """Let the process work for a while after its first report, and kill it."""
        self.report()
        time.sleep(seconds)
        self.kill()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._process.kill()
        self._process.join()

    @property
    def failed(self) -> bool:
        """Whether the process ended by itself, with an error."""
        self._process.join(60)
        return self._process.exitcode not in (0, -9)


def do_nothing(reports: Connection) -> None:
    """Do nothing, for warming up."""
    reports.send("ready")


def rotate(reports: Connection, root: Path, key: Keys, new: Keys | None) -> None:
    """Rotate a store, or resume its rotation."""

    async def main() -> None:
        async with opened(root, Keyring(*key)) as provider:
            reports.send("ready")
            await provider.rotate(Keyring(*new) if new else None)
            reports.send("done")

    anyio.run(main)


def save_values(reports: Connection, root: Path, key: Keys, name: str, count: int) -> None:
    """Save values at one place in succession, reporting each acknowledged one."""

    async def main() -> None:
        async with opened(root, Keyring(*key)) as provider:
            await provider.use_embedder(await HashEmbedder(DIMENSION).identity())
            for number in range(count):
                await provider.append(statements(PLACES[number % len(PLACES)], [f"{name} {number}"]))
                reports.send(f"{name} {number}")

    anyio.run(main)


def save_everywhere(reports: Connection, root: Path, key: Keys, count: int) -> None:
    """Save values at all places at once, reporting each acknowledged one."""

    async def main() -> None:
        async with opened(root, Keyring(*key)) as provider:
            await provider.use_embedder(await HashEmbedder(DIMENSION).identity())
            reports.send("ready")
            for number in range(count):
                await provider.append(
                    [statement for place in PLACES for statement in statements(place, [f"number {number}"])]
                )
                reports.send(number)

    anyio.run(main)


def erase_and_save(reports: Connection, root: Path, key: Keys, values: list[str]) -> None:
    """Save values and erase some of them, without end."""

    async def main() -> None:
        chance = random.Random()
        async with opened(root, Keyring(*key)) as provider:
            await provider.use_embedder(await HashEmbedder(DIMENSION).identity())
            reports.send("ready")
            while True:
                place = chance.choice(PLACES)
                (receipt,) = await provider.append(statements(place, [f"{chance.choice(values)} {chance.random()}"]))
                if chance.random() < 0.4:
                    ids = [receipt.recorded.id]
                    await provider.erase([], assertion_ids=ids, tenant=place.scope.tenant)

    anyio.run(main)
