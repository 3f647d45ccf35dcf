"""An erasure beside a process that still reads the previous state: reported as pending and finished later."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem import FactRecord, Memory
from tests.forgetting.reading_process import hold_a_reading_transaction
from tests.forgetting.stores import DenseEmbedder, hits, likes, word

CONTEXT = multiprocessing.get_context("forkserver")


@pytest.fixture
def kind() -> str:
    return "sqlite-vec"


@contextlib.contextmanager
def a_reader(folder: Path) -> Iterator[Callable[[], None]]:
    """Start another process that reads, and yield the function that ends it."""
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=hold_a_reading_transaction, args=(folder / "facts.db", theirs))
    process.start()
    assert ours.recv() == "reading"

    def end() -> None:
        if process.is_alive():
            ours.send("stop")
            assert ours.recv() == "done"
            process.join()

    try:
        yield end
    finally:
        end()


def store(folder: Path) -> SqliteVecMemoryProvider:
    return SqliteVecMemoryProvider(folder / "facts.db", busy_timeout=0.1)


async def two(memory: Memory) -> list[FactRecord[str]]:
    return [*await memory.save(likes(word("gone"), word("kept")))]


async def test_it_is_pending_until_somebody_finishes_it(folder: Path) -> None:
    """The record is forgotten at once for every reader; only its bytes remain for a while."""
    async with store(folder) as provider:
        memory = Memory(provider, embedder=DenseEmbedder())
        gone, kept = await two(memory)
        with a_reader(folder) as end:
            receipt = await memory.forget(gone.id)
            assert (receipt.erased, receipt.pending) == (1, True)
            assert [record.id for record in await memory.list_records()] == [kept.id]
            assert (await memory.admin.expire()).pending
            assert hits(folder, [word("gone")]) != []
            end()
            finished = await memory.admin.expire()
            assert (finished.erased, finished.pending) == (0, False)
            assert hits(folder, [word("gone")]) == []


async def test_trying_again_does_not_write_the_file_again(folder: Path) -> None:
    """Otherwise each attempt beside a lasting reader would grow the WAL by the size of the store."""
    async with store(folder) as provider:
        memory = Memory(provider, embedder=DenseEmbedder())
        gone, _ = await two(memory)
        with a_reader(folder):
            await memory.forget(gone.id)
            size = (folder / "facts.db-wal").stat().st_size
            for _ in range(3):
                await memory.admin.expire()
            assert (folder / "facts.db-wal").stat().st_size == size


async def test_another_process_finishes_it_by_erasing_something_else(folder: Path) -> None:
    async with store(folder) as provider:
        memory = Memory(provider, embedder=DenseEmbedder())
        gone, kept = await two(memory)
        with a_reader(folder) as end:
            await memory.forget(gone.id)
            async with store(folder) as second:
                other = Memory(second, embedder=DenseEmbedder())
                end()
                assert not (await other.forget(kept.id)).pending
                assert hits(folder, [word("gone"), word("kept")]) == []


async def test_whoever_closes_the_store_last_finishes_it(folder: Path) -> None:
    async with store(folder) as provider:
        memory = Memory(provider, embedder=DenseEmbedder())
        gone, _ = await two(memory)
        with a_reader(folder) as end:
            assert (await memory.forget(gone.id)).pending
            end()
    assert hits(folder, [word("gone")]) == []


async def test_an_erasure_beside_a_pending_one_is_not_taken_for_done_by_it(folder: Path) -> None:
    async with store(folder) as provider, store(folder) as second:
        memory, other = (Memory(item, embedder=DenseEmbedder()) for item in (provider, second))
        gone, kept = await two(memory)
        with a_reader(folder) as end:
            assert (await memory.forget(gone.id)).pending
            assert (await other.forget(kept.id)).pending
            end()
            assert not (await memory.admin.expire()).pending
            assert hits(folder, [word("gone"), word("kept")]) == []
