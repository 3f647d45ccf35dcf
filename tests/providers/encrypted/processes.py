"""Processes that work on an encrypted store and can be killed; they fork from one that has all imported."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio

from factmem.crypto import Keyring, KeySource
from factmem.testing import HashEmbedder
from tests.providers.encrypted.worlds import DIMENSION, PLACES, opened, statements

__all__ = ["Child", "Keys", "be_told", "erase_and_save", "rotate", "save_everywhere", "save_values"]

Keys: TypeAlias = tuple[dict[str, KeySource], str]
"""A keyring that can be handed to another process: its sources, and the id of the current one."""

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


class Child:
    """A process that does some work and says what it has done; killed at the latest when this is left.

    Args:
        work: a function of this module.
        arguments: for it, behind the connection that it speaks through; of a keyring, its `Keys`.
    """

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self._told, telling = _FORKS.Pipe(duplex=False)
        given = [(dict(one.sources), one.current) if isinstance(one, Keyring) else one for one in arguments]
        self._process = _FORKS.Process(target=work, args=(telling, *given), daemon=True)
        self._process.start()
        telling.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def told(self, timeout: float = 120) -> Any:
        """Wait for the next thing it says.

        Raises:
            EOFError: it says nothing more.
        """
        if not self._told.poll(timeout):
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

    def kill_after(self, seconds: float) -> None:
        """Let it work for a while once it has begun, and kill it."""
        self.told()
        time.sleep(seconds)
        self.kill()

    def kill(self) -> None:
        """Kill it, whatever it does, with SIGKILL."""
        self._process.kill()
        self._process.join()

    @property
    def failed(self) -> bool:
        """Whether it ended by itself, with an error."""
        self._process.join(60)
        return self._process.exitcode not in (0, -9)


def be_told(telling: Connection) -> None:
    """Do nothing, for warming up."""
    telling.send("ready")


def rotate(telling: Connection, root: Path, key: Keys, new: Keys | None) -> None:
    """Rotate a store, or go on with it."""

    async def main() -> None:
        async with opened(root, Keyring(*key)) as provider:
            telling.send("ready")
            await provider.rotate(Keyring(*new) if new else None)
            telling.send("done")

    anyio.run(main)


def save_values(telling: Connection, root: Path, key: Keys, name: str, count: int) -> None:
    """Save values at one place after the other, saying each that was acknowledged."""

    async def main() -> None:
        async with opened(root, Keyring(*key)) as provider:
            await provider.use_embedder(await HashEmbedder(DIMENSION).identity())
            for number in range(count):
                await provider.append(statements(PLACES[number % len(PLACES)], [f"{name} {number}"]))
                telling.send(f"{name} {number}")

    anyio.run(main)


def save_everywhere(telling: Connection, root: Path, key: Keys, count: int) -> None:
    """Save values at all places at once, saying each that was acknowledged."""

    async def main() -> None:
        async with opened(root, Keyring(*key)) as provider:
            await provider.use_embedder(await HashEmbedder(DIMENSION).identity())
            telling.send("ready")
            for number in range(count):
                await provider.append(
                    [statement for place in PLACES for statement in statements(place, [f"number {number}"])]
                )
                telling.send(number)

    anyio.run(main)


def erase_and_save(telling: Connection, root: Path, key: Keys, values: list[str]) -> None:
    """Save values and erase some again, for ever."""

    async def main() -> None:
        chance = random.Random()
        async with opened(root, Keyring(*key)) as provider:
            await provider.use_embedder(await HashEmbedder(DIMENSION).identity())
            telling.send("ready")
            while True:
                place = chance.choice(PLACES)
                (receipt,) = await provider.append(statements(place, [f"{chance.choice(values)} {chance.random()}"]))
                if chance.random() < 0.4:
                    ids = [receipt.recorded.id]
                    await provider.erase([], assertion_ids=ids, tenant=place.scope.tenant)

    anyio.run(main)
