"""Recall counts: kept in memory, written in batches, stored beside the facts and erased with them."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from factmem_encrypted import EncryptedMemoryProvider

from factmem import AgentMemoryProvider, InMemoryProvider, Memory, MemoryScope, MultipleFacts, NoMemory, SingleFact
from factmem.abc import system_clock
from factmem.abc.capabilities import Access, KeepsFiles, KeepsLog
from factmem.errors import CapabilityError, InvalidDataError, RecordNotFoundError, StoreUnavailableError
from factmem.testing import FakeClock, HashEmbedder
from tests.memory.shelves import two_of
from tests.memory.telling import CITY, PETS, SEATS
from tests.stores import STORES

DURABLE = [name for name in STORES if name not in ("memory", "postgres")]


def opened_at(path: Path, store: str) -> AgentMemoryProvider:
    """Return a store that keeps access statistics."""
    provider: AgentMemoryProvider = STORES[store](path, system_clock)
    return provider


@pytest.fixture(params=two_of(["memory", *DURABLE]))
async def provider(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AgentMemoryProvider]:
    """Every store that keeps access statistics."""
    async with opened_at(tmp_path, request.param) as opened:
        yield opened


@pytest.fixture
def anyio_backend() -> str:
    """Use one event loop only: the counts do not depend on it, and there are many stores."""
    return "asyncio"


def counting(provider: AgentMemoryProvider, **options: Any) -> Memory:
    """A counting memory with alice as its viewer."""
    return Memory(provider, **{"viewer": "alice", "embedder": HashEmbedder(), "access_statistics": True, **options})


async def test_a_recall_counts_what_it_found(provider: AgentMemoryProvider) -> None:
    """A record counts once per recall, with the time of the last one; a record that was not found has no statistics."""
    clock = FakeClock(dt.datetime.now(dt.UTC), step=dt.timedelta(seconds=1))
    async with counting(provider, clock=clock) as memory:
        (seats,) = await memory.save(SingleFact(SEATS, 5))
        (city,) = await memory.save(SingleFact(CITY, "Lima"))
        (pet,) = await memory.save(MultipleFacts(PETS, ("cat",)))
        await memory.recall("seats", concepts=[SEATS])
        await memory.recall("seats", concepts=[SEATS, CITY])
        before = clock()
        await memory.view(as_of=clock()).recall("seats", concepts=[SEATS])
        found = await memory.admin.accesses(seats.id, city.id, pet.id)
    assert [access.count for access in found.values()] == [3, 1, 0]
    assert found[pet.id].last is None
    assert (found[seats.id].last or before) > before


async def test_reads_write_nothing_until_the_memory_is_closed(provider: AgentMemoryProvider) -> None:
    """Neither counts nor any entry or revision are written."""
    assert isinstance(provider, KeepsLog)
    async with counting(provider) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 5))
        log = await provider.changes(None)
        for _ in range(5):
            await memory.recall("seats")
        assert await provider.accesses(None, [record.id]) == {}
        assert (await memory.admin.accesses(record.id))[record.id].count == 5
    kept = await provider.accesses(None, [record.id])
    assert kept[record.id].count == 5
    assert await provider.changes(None) == log


async def test_a_full_batch_is_written_in_the_background(
    provider: AgentMemoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next read writes a batch that is old enough."""
    assert isinstance(provider, KeepsLog)
    async with counting(provider) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 5))
        await memory.recall("seats")
        monkeypatch.setattr("factmem.memory.backend._LONGEST", 0.0)
        await memory.recall("seats")
        kept: Mapping[str, Access] = {}
        while record.id not in kept:
            kept = await provider.accesses(None, [record.id])
            await anyio.sleep(0.002)
        assert kept[record.id].count == 2


@pytest.mark.parametrize("store", DURABLE)
async def test_what_several_memories_count_sums_up(store: str, tmp_path: Path) -> None:
    """This holds for two open at once, as in two processes, and for one opened later."""
    stores = opened_at(tmp_path, store), opened_at(tmp_path, store)
    async with stores[0], stores[1], counting(stores[0]) as mine, counting(stores[1]) as theirs:
        (record,) = await mine.save(SingleFact(SEATS, 5))
        for _ in range(3):
            await mine.recall("seats")
            await theirs.view(viewer="bob").recall("seats")
    async with opened_at(tmp_path, store) as again, counting(again) as memory:
        await memory.recall("seats")
        assert (await memory.admin.accesses(record.id))[record.id].count == 7


@pytest.mark.parametrize("provider", ["memory", *DURABLE], indirect=True)
async def test_many_batches_come_to_the_same(provider: AgentMemoryProvider) -> None:
    """The sums are the same however a store groups the batches."""
    assert isinstance(provider, KeepsLog)
    async with counting(provider) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 5))
    last = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
    for number in range(70):
        await provider.add_accesses(None, {record.id: Access(count=2, last=last - dt.timedelta(seconds=number))})
    assert await provider.accesses(None, [record.id]) == {record.id: Access(count=140, last=last)}


async def test_what_is_forgotten_is_not_counted_any_more(provider: AgentMemoryProvider) -> None:
    """Earlier counts of it are dropped when they are written later; another record's counts stay."""
    assert isinstance(provider, KeepsLog)
    async with counting(provider) as memory:
        cat, dog = await memory.save(MultipleFacts(PETS, ("cat", "dog")))
        await memory.recall("pets")
        async with counting(provider) as other:
            await other.recall("pets")
        await memory.forget(cat.id)
        assert (await memory.admin.accesses(dog.id))[dog.id].count == 2
        with pytest.raises(RecordNotFoundError):
            await memory.admin.accesses(cat.id)
    found = await provider.accesses(None, [cat.id, dog.id])
    assert {id: access.count for id, access in found.items()} == {dog.id: 2}
    async with counting(provider) as memory:
        await memory.forget(dog.id)
    assert await provider.accesses(None, [cat.id, dog.id]) == {}


@pytest.mark.parametrize("store", DURABLE)
async def test_no_file_holds_the_counts_of_a_forgotten_record(store: str, tmp_path: Path) -> None:
    """Its id is in no file of counts; only its tombstone remains of its bytes."""
    async with opened_at(tmp_path, store) as provider:
        assert isinstance(provider, KeepsFiles)
        async with counting(provider) as memory:
            cat, dog = await memory.save(MultipleFacts(PETS, ("cat", "dog")))
            await memory.recall("pets")
        async with counting(provider) as memory:
            await memory.forget(cat.id)
        held = [path.read_bytes() for path in await provider.files()]
        if store in ("file", "sqlite-vec"):
            assert any(dog.id.encode() in content for content in held)
        counts = [path.read_bytes() for path in await provider.files() if path.suffix == ".accesses"]
        assert [content for content in counts if cat.id.encode() in content] == []


@pytest.mark.parametrize("store", ["encrypted", "encrypted-sqlite"])
async def test_counts_are_sealed(store: str, tmp_path: Path) -> None:
    """No record id and no name of a place is in clear in any file."""
    async with opened_at(tmp_path, store) as provider:
        assert isinstance(provider, KeepsFiles)
        async with counting(provider) as memory:
            (record,) = await memory.save(SingleFact(SEATS, 5), scope=MemoryScope.product("orchard"))
            await memory.recall("seats")
        files = list(await provider.files())
        assert [path for path in files if record.id.encode() in path.read_bytes()] == []
        assert [path for path in files if "orchard" in str(path)] == []
        assert not isinstance(provider, EncryptedMemoryProvider) or await provider.verify() >= 2


async def test_without_the_option_nothing_is_counted(provider: AgentMemoryProvider) -> None:
    """Counts made by other memories can still be read."""
    async with counting(provider, access_statistics=False) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 5))
        await memory.recall("seats")
        assert await memory.admin.accesses(record.id) == {record.id: Access()}


class Failing(InMemoryProvider):
    """A store that writes no counts while it has an error to raise."""

    error: Exception | None = None

    async def add_accesses(self, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        if self.error is not None:
            raise self.error
        await super().add_accesses(tenant, accesses)


async def test_what_cannot_be_written_is_counted_on(caplog: pytest.LogCaptureFixture) -> None:
    """A store that is away fails neither a recall nor the closing; an error of its own is raised. No count is lost."""
    provider = Failing()
    async with provider, counting(provider) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 5))
        await memory.recall("seats")
        provider.error = StoreUnavailableError("it is away")
        with caplog.at_level(logging.WARNING, logger="factmem"):
            await memory.aclose()
        assert "StoreUnavailableError" in caplog.text
        provider.error = OverflowError()
        with pytest.raises(OverflowError):
            await memory.aclose()
        provider.error = None
        await memory.recall("seats")
        await memory.aclose()
        assert (await provider.accesses(None, [record.id]))[record.id].count == 2


async def test_a_cancelled_write_keeps_the_counts(provider: AgentMemoryProvider) -> None:
    """A cancelled write and a cancelled close neither lose nor double a count."""
    async with counting(provider) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 5))
        await memory.recall("seats")
        with anyio.CancelScope() as cancelled:
            cancelled.cancel()
            await memory.aclose()
        assert (await memory.admin.accesses(record.id))[record.id].count == 1
    with anyio.CancelScope() as cancelled:
        async with counting(provider) as memory:
            await memory.recall("seats")
            cancelled.cancel()
            await anyio.sleep_forever()
    async with counting(provider, access_statistics=False) as memory:
        assert (await memory.admin.accesses(record.id))[record.id].count == 2


async def test_counting_without_the_capability_is_an_error() -> None:
    """The error is raised on opening, not by the first recall."""
    with pytest.raises(CapabilityError, match="NoMemory"):
        Memory(NoMemory(), access_statistics=True)
    with pytest.raises(InvalidDataError, match="read-only"):
        Memory(InMemoryProvider(), access_statistics=True, read_only=True)
