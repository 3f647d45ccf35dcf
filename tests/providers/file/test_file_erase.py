"""Erasure from a folder of files: erased facts are left in no file, even after failures on the way."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pytest
from factmem_file import LocalFileMemoryProvider
from factmem_file.log_storage import LocalLogStorage

from factmem.abc.capabilities import Append, EmbedderIdentity
from factmem.details import FactDetails
from factmem.errors import StoreUnavailableError
from factmem.facts import Concept
from factmem.records import Place, Recorded, Tombstone, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

USER = MemorySubject("user")
SCOPE = MemoryScope.agent("planner")
PLACE = Place(USER, SCOPE)
SECRET = Concept.multiple("topsecretkeyword", "topsecretdescription")
LIKES = Concept.multiple("likes", "likes")
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
EMBEDDER = EmbedderIdentity(name="test", dimension=4)
VECTOR = np.array([0.1, 0.7, 0.3, 0.2], dtype=np.float32)


def _holds(root: Path, text: str) -> list[str]:
    return [
        path.name
        for path in root.rglob("*")
        if text in path.name or (path.is_file() and text.encode() in path.read_bytes())
    ]


async def _secret(provider: LocalFileMemoryProvider, place: Place = PLACE) -> Recorded:
    fact = SECRET.fact(["classified"], timestamp=NOON)
    details = FactDetails(metadata={"note": "classified"})
    (assertion,) = assertions_of(fact, place, details)
    await provider.use_embedder(EMBEDDER)
    (receipt,) = await provider.append([Append(assertion=assertion, vector=VECTOR)])
    return receipt.recorded


async def test_a_place_that_is_empty_goes_with_its_folders(tmp_path: Path) -> None:
    place = Place(USER.individual("alice"), MemoryScope.agent("planner").within("acme") / "affair")
    async with LocalFileMemoryProvider(tmp_path) as provider:
        secret = await _secret(provider, place)
        assert (await provider.erase([secret.record_id], tenant=None)).erased == 0
        assert (await provider.erase([secret.record_id], tenant="acme")).erased == 1
    for text in ("alice", "affair", "planner", "classified"):
        assert _holds(tmp_path, text) == []
    async with LocalFileMemoryProvider(tmp_path) as again:
        assert [entry.seq for entry in await again.changes("acme")] == [2]
        assert (await _secret(again, place)).seq == 3


async def test_an_erasure_broken_off_hides_at_once_and_is_finished_by_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer dies after the tombstones are written and before the text is removed."""
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await provider.save(LIKES.fact(["tea"], timestamp=NOON), USER, SCOPE)
        secret = await _secret(provider)

        def dies(*args: object, **kwargs: object) -> None:
            raise StoreUnavailableError("no power")

        with monkeypatch.context() as patch:
            patch.setattr(LocalLogStorage, "replace", dies)
            receipt = await provider.erase([secret.record_id], tenant=None)
        assert (receipt.erased, receipt.pending) == (1, True)
        assert _holds(tmp_path, "classified") != []
    async with LocalFileMemoryProvider(tmp_path) as again:
        assert await again.load(SECRET, USER, SCOPE) is None
        assert await again.entries(PLACE, SECRET.keyword) == []
        assert [type(entry) for entry in await again.changes(None)] == [Recorded, Tombstone]
        await again.save(LIKES.fact(["jazz"], timestamp=NOON), USER, SCOPE)
        assert _holds(tmp_path, "classified") == []


async def test_saying_it_again_after_an_erasure_broken_off_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        secret = await _secret(provider)

        def dies(*args: object, **kwargs: object) -> None:
            raise StoreUnavailableError("no power")

        with monkeypatch.context() as patch:
            patch.setattr(LocalLogStorage, "replace", dies)
            receipt = await provider.erase([secret.record_id], tenant=None)
        assert (receipt.erased, receipt.pending) == (1, True)
    async with LocalFileMemoryProvider(tmp_path) as again:
        anew = await _secret(again)
        assert anew.id != secret.id
        assert await again.entries(PLACE) == [anew]
