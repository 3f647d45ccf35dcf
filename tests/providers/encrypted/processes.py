"""Work of other processes on an encrypted store; see `Child`."""

from __future__ import annotations

import random
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeAlias

import anyio

from factmem.crypto.keys import Keyring, KeySource
from factmem.testing import HashEmbedder
from tests.providers.encrypted.worlds import DIMENSION, PLACES, opened, statements

__all__ = ["Keys", "do_nothing", "erase_and_save", "rotate", "save_everywhere", "save_values"]

Keys: TypeAlias = tuple[dict[str, KeySource], str]
"""A keyring that can be passed to another process: its sources, and the id of the current one."""


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
