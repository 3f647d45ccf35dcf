"""Reading makes no store, and works where writing is impossible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import numpy as np
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider
from numpy.typing import NDArray

from factmem import Concept, InMemoryProvider, Memory, SingleFact
from factmem.abc.capabilities import KeepsLog
from factmem.errors import EmbedderMismatchError, StoreUnavailableError
from factmem.providers.registry import open_provider
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import HashEmbedder

NOTE = Concept.single("note", "A note")
STORES = (
    "sqlite-vec:{path}",
    "file:{path}",
    "encrypted:{path}?key_env=FACTMEM_TEST_KEY",
    "encrypted-sqlite:{path}?key_env=FACTMEM_TEST_KEY",
)


class Full(InMemoryProvider):
    """A store whose disk is full when vectors are written."""

    full = True

    async def put_vectors(self, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """See `factmem.abc.capabilities.KeepsLog.put_vectors`."""
        if self.full:
            raise StoreUnavailableError("the disk is full")
        await super().put_vectors(tenant, vectors)


class Waiting(HashEmbedder):
    """An embedder that answers when its gate is opened."""

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.asked = anyio.Event()
        self.until: anyio.Event | None = None

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.Embedder.embed`."""
        if self.until is not None:
            self.asked.set()
            await self.until.wait()
        return await super().embed(texts)


async def without_vectors(provider: InMemoryProvider | SqliteVecMemoryProvider) -> None:
    """Save a fact through the four verbs, without a vector."""
    await provider.save(SingleFact(NOTE, "harbour"), MemorySubject.EVERYTHING, MemoryScope.CROSS_PRODUCT)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def read_only(path: Path, dimension: int = 8) -> Memory:
    return Memory(f"sqlite-vec:{path}?read_only=true", embedder=HashEmbedder(dimension), read_only=True)


@pytest.fixture(params=STORES)
def address(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a store in a folder, neither of which exists yet."""
    monkeypatch.setenv("FACTMEM_TEST_KEY", "5a" * 32)
    template: str = request.param
    return template.format(path=tmp_path / "typo" / "facts")


async def test_reading_what_is_not_there_makes_no_store_and_no_folder(address: str, tmp_path: Path) -> None:
    async with Memory(address, embedder=HashEmbedder(8)) as memory:
        assert await memory.recall("harbour") == []
        assert await memory.list_records() == []
        assert await memory.load(NOTE) is None
        assert not await memory.inbox.quarantine.list()
    assert names(tmp_path) == []


async def test_a_store_made_after_it_was_looked_for_is_bound_by_the_first_save(address: str) -> None:
    async with Memory(address, embedder=HashEmbedder(8)) as memory:
        assert await memory.recall("harbour") == []
        await memory.save(SingleFact(NOTE, "harbour"))
    async with open_provider(address) as provider:
        assert isinstance(provider, KeepsLog)
        assert await provider.embedder() == await HashEmbedder(8).identity()
        assert len((await provider.vectors(None))[0]) == 1
    async with Memory(address, embedder=HashEmbedder(9)) as memory:
        with pytest.raises(EmbedderMismatchError, match="reembed"):
            await memory.recall("harbour")


async def test_a_store_bound_meanwhile_by_another_embedder_is_refused(address: str) -> None:
    async with (
        Memory(address, embedder=HashEmbedder(8)) as early,
        Memory(address, embedder=HashEmbedder(9)) as late,
    ):
        assert await early.recall("harbour") == []
        await late.save(SingleFact(NOTE, "harbour"))
        with pytest.raises(EmbedderMismatchError, match="reembed"):
            await early.recall("harbour")


async def test_what_has_no_vectors_is_recalled_from_a_store_opened_for_reading_only(tmp_path: Path) -> None:
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        await without_vectors(provider)
    async with read_only(tmp_path / "facts.db") as memory:
        assert len(await memory.list_records()) == 1
        (match,) = await memory.recall("harbour")
        assert match.parts.cosine > 0
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        assert await provider.embedder() is None


async def test_one_fact_without_a_vector_does_not_hide_the_others_from_a_reader(tmp_path: Path) -> None:
    async with Memory(f"sqlite-vec:{tmp_path / 'facts.db'}", embedder=HashEmbedder(8)) as memory:
        await memory.remember("We meet at the pier.")
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        await without_vectors(provider)
    async with read_only(tmp_path / "facts.db") as memory:
        assert {match.record.value for match in await memory.recall("harbour")} == {"harbour", "We meet at the pier."}


async def test_a_reader_with_another_embedder_gets_a_mismatch_error(tmp_path: Path) -> None:
    async with Memory(f"sqlite-vec:{tmp_path / 'facts.db'}", embedder=HashEmbedder(8)) as memory:
        await memory.remember("We meet at the pier.")
    async with read_only(tmp_path / "facts.db", 9) as memory:
        with pytest.raises(EmbedderMismatchError, match="reembed"):
            await memory.recall("pier")


async def test_a_store_that_takes_no_vectors_now_is_recalled_from_all_the_same() -> None:
    provider = Full()
    await without_vectors(provider)
    async with Memory(provider, embedder=HashEmbedder(8)) as memory:
        (match,) = await memory.recall("harbour")
        assert match.parts.cosine > 0
        with pytest.raises(StoreUnavailableError):
            await memory.admin.reembed()
        provider.full = False
        assert await memory.admin.reembed() == 1


async def test_embedding_anew_while_it_is_embedded_anew_embeds_everything() -> None:
    embedder = Waiting(8)
    async with Memory(InMemoryProvider(), embedder=embedder) as memory:
        await memory.remember("We meet at the harbour.")
        embedder.until = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(memory.admin.reembed)
            await anyio.wait_all_tasks_blocked()
            await embedder.asked.wait()
            tasks.start_soon(memory.admin.reembed)
            await anyio.wait_all_tasks_blocked()
            embedder.until.set()
        assert (await memory.recall("harbour"))[0].parts.cosine > 0
