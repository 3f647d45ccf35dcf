"""Stores with damaged files: every way to read and to write them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import numpy as np
import pytest

from factmem import STATEMENT, FactMemError, Memory
from factmem.abc.capabilities import Append, EmbedderIdentity, StateRequest
from factmem.records import AssertionState, Place, assertions_of
from factmem.testing import FakeClock, HashEmbedder
from tests.conftest import Promise
from tests.malformed.damage import DAMAGES, Files, raw
from tests.malformed.feeding import fed_async
from tests.malformed.samples import NOW, assertions
from tests.models.stores import STORES, FullProvider, Store

_DURABLE = [store for store in STORES if store.durable]
_CLOCK = FakeClock(NOW)
_PLACES = list({said.place.key: said.place for said in assertions()}.values())
_ONES = np.array([1, 1, 1, 1], dtype=np.float32)
_EMBEDDER = EmbedderIdentity(name="factmem-hash-1", dimension=4)


@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("store", _DURABLE, ids=lambda store: store.name)
def test_a_store_that_was_changed_is_refused_or_served(
    store: Store, tmp_path: Path, big: bool, promise: Promise
) -> None:
    files = anyio.run(_made, store, tmp_path)

    async def feed(rng: random.Random) -> None:
        damaged = DAMAGES.get(store.name, raw)(rng, files, tmp_path)
        for name, content in damaged.items():
            (tmp_path / name).write_bytes(content)
        try:
            await _use(store, tmp_path, rng)
        finally:
            _put_back(tmp_path, files)

    count = 1_000 if big else 12
    promise(f"malformed stores, {store.name}", fed_async(f"{store.name} store", count, feed))


async def _made(store: Store, folder: Path) -> Files:
    """Make a store with every kind of entry, and return its files."""
    async with store.open(folder, _CLOCK) as provider:
        await provider.use_embedder(_EMBEDDER)
        vectors = np.eye(4, dtype=np.float32)
        said = assertions()
        receipts = await provider.append(
            [Append(assertion=item, vector=vectors[number % 4]) for number, item in enumerate(said)]
        )
        ids = [receipt.recorded.id for receipt in receipts]
        await provider.append(
            [StateRequest(assertion_id=ids[0], tenant=None, state=AssertionState.RETRACTED, reason="because")]
        )
        await provider.erase([], tenant=None, assertion_ids=ids[-3:])
    return _files(folder)


def _files(folder: Path) -> Files:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _put_back(folder: Path, files: Files) -> None:
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        name = path.relative_to(folder).as_posix()
        if name not in files:
            path.unlink()
        elif path.read_bytes() != files[name]:
            path.write_bytes(files[name])
    for name, content in files.items():
        if not (folder / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)


async def _use(store: Store, folder: Path, rng: random.Random) -> None:
    """Run every operation in random order; each may be refused by itself."""
    provider = store.open(folder, _CLOCK)
    memory = Memory(provider, viewer="alice", embedder=HashEmbedder(4), clock=_CLOCK)
    uses = [*_reads(provider), *_writes(provider), *_of_memory(memory)]
    rng.shuffle(uses)
    try:
        for use in uses:
            with contextlib.suppress(FactMemError):
                await use()
    finally:
        with contextlib.suppress(FactMemError):
            await provider.aclose()


def _reads(provider: FullProvider) -> list[Callable[[], Awaitable[object]]]:
    place = _PLACES[0]
    return [
        lambda: provider.version(None),
        provider.embedder,
        lambda: provider.changes(None),
        lambda: provider.changes("acme", 3),
        *(_read(provider, place) for place in _PLACES),
        lambda: provider.load(STATEMENT, place.subject, place.scope),
        lambda: provider.load_by_description("what", place.subject, place.scope),
        lambda: provider.vectors(None),
    ]


def _of_memory(memory: Memory) -> list[Callable[[], Awaitable[object]]]:
    return [memory.list_records, memory.admin.tree, lambda: memory.recall("Oslo")]


def _read(provider: FullProvider, place: Place) -> Callable[[], Awaitable[object]]:
    async def read() -> None:
        await provider.entries(place)
        await provider.load_all(place.subject, place.scope)

    return read


def _writes(provider: FullProvider) -> list[Callable[[], Awaitable[object]]]:
    place = _PLACES[0]
    fact = STATEMENT.fact(["Something new."], timestamp=NOW)
    (said,) = assertions_of(fact, place)

    async def change() -> None:
        (receipt,) = await provider.append([Append(assertion=said)])
        id = receipt.recorded.id
        await provider.append([StateRequest(assertion_id=id, tenant=None, state=AssertionState.QUARANTINED)])
        await provider.put_vectors(None, {receipt.recorded.seq: _ONES})
        await provider.erase([], tenant=None, assertion_ids=[id])

    return [lambda: provider.save(fact, place.subject, place.scope), change, lambda: provider.use_embedder(_EMBEDDER)]
