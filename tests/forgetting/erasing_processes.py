"""Programs that the tests of forgetting run in other processes, each of which may be killed."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection
from pathlib import Path

import anyio

from factmem import Concept, Memory, SingleFact
from tests.forgetting.stores import STORES, DenseEmbedder, likes, word


def keep_erasing(kind: str, folder: Path, start: int, pipe: Connection) -> None:
    """Save and forget in turn without end, and print a line before and after each."""
    anyio.run(_keep_erasing, kind, folder, start, pipe)


async def _keep_erasing(kind: str, folder: Path, start: int, pipe: Connection) -> None:
    async with STORES[kind](folder) as provider:
        memory = Memory(provider, embedder=DenseEmbedder())
        for number in range(start, sys.maxsize):
            single = Concept.single(word("keyword", number), "")
            (record,) = await memory.save(SingleFact(single, word("a", number)))
            others = await memory.save(likes(word("b", number), word("kept", number)))
            pipe.send(("erasing", number))
            await memory.forget(record.id, others[0].id)
            pipe.send(("erased", number))


def hold_a_reading_transaction(path: Path, pipe: Connection) -> None:
    """Read a SQLite file and hold the same snapshot of it until stdin closes."""
    import apsw

    connection = apsw.Connection(str(path))
    connection.execute("BEGIN; SELECT count(*) FROM assertions").fetchall()
    pipe.send("reading")
    pipe.recv()
    connection.close()
    pipe.send("done")
