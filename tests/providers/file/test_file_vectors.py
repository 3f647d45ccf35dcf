"""Vectors are stored beside the facts; damage to their files means missing vectors and never a wrong answer."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pytest
from factmem_file import LocalFileMemoryProvider
from factmem_file.frames import framed

from factmem.abc.capabilities import Append, EmbedderIdentity
from factmem.errors import EmbedderMismatchError, InvalidVectorError
from factmem.facts import Concept
from factmem.records import Place, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

USER = MemorySubject("user")
LIKES = Concept.multiple("likes", "likes")
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
SMALL = EmbedderIdentity(name="small", dimension=2)
BIG = EmbedderIdentity(name="big", dimension=3)


def _append(value: str, vector: list[float] | None, tenant: str | None = None) -> Append:
    scope = MemoryScope.agent(f"a{value[-1]}").within(tenant)
    (assertion,) = assertions_of(LIKES.fact([value], timestamp=NOON), Place(USER, scope))
    return Append(assertion=assertion, vector=None if vector is None else np.array(vector, dtype=np.float32))


def _sidecars(root: Path) -> list[Path]:
    return sorted(root.rglob("*.vectors"))


async def _filled(provider: LocalFileMemoryProvider) -> None:
    await provider.use_embedder(SMALL)
    await provider.append([_append("v1", [3, 0]), _append("v2", [0, 2]), _append("v3", None), _append("w1", [1, 1])])
    await provider.append([_append("v1", [1, 0], "acme")])


async def test_vectors_are_there_after_reopening_each_with_its_fact(tmp_path: Path) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await _filled(provider)
    async with LocalFileMemoryProvider(tmp_path) as again:
        assert await again.embedder() == SMALL
        seqs, rows = await again.vectors(None)
        assert list(seqs) == [1, 2, 4]
        np.testing.assert_allclose(rows, [[1, 0], [0, 1], [0.5**0.5, 0.5**0.5]], rtol=1e-6)
        assert rows.dtype == np.float32
        await again.put_vectors(None, {3: np.array([1, 2], dtype=np.float32), 99: np.array([1, 0], dtype=np.float32)})
        assert list((await again.vectors(None))[0]) == [1, 2, 3, 4]
        assert list((await again.vectors(None, since=2))[0]) == [3, 4]
        assert list((await again.vectors("acme"))[0]) == [1]


async def test_another_provider_sees_vectors_put_later(tmp_path: Path) -> None:
    async with LocalFileMemoryProvider(tmp_path) as one, LocalFileMemoryProvider(tmp_path) as two:
        await _filled(one)
        assert len((await two.vectors(None))[0]) == 3
        await one.put_vectors(None, {3: np.array([1, 2], dtype=np.float32)})
        assert len((await two.vectors(None))[0]) == 4


async def test_another_embedder_is_refused_or_starts_anew(tmp_path: Path) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider, LocalFileMemoryProvider(tmp_path) as other:
        await _filled(provider)
        assert len((await other.vectors(None))[0]) == 3
        with pytest.raises(EmbedderMismatchError):
            await provider.use_embedder(BIG)
        await provider.use_embedder(BIG, replace=True)
        assert await other.embedder() == BIG
        for each in (provider, other):
            seqs, rows = await each.vectors(None)
            assert (list(seqs), rows.shape) == ([], (0, 3))
        await other.put_vectors(None, {1: np.array([1, 0, 0], dtype=np.float32)})
        assert list((await provider.vectors(None))[0]) == [1]


async def test_wrong_vectors_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await _filled(provider)
        for wrong in ([1.0], [0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]):
            with pytest.raises(InvalidVectorError):
                await provider.append([_append("v9", wrong)])
            with pytest.raises(InvalidVectorError):
                await provider.put_vectors(None, {3: np.array(wrong, dtype=np.float32)})
        assert (await provider.version(None), await provider.version("acme")) == (4, 1)
        assert len((await provider.vectors(None))[0]) == 3


async def test_a_damaged_sidecar_is_missing_vectors_that_can_be_put_again(tmp_path: Path) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await _filled(provider)
    sidecar = next(path for path in _sidecars(tmp_path) if "a2" in str(path))
    sound = sidecar.read_bytes()
    for at in range(len(sound)):
        sidecar.write_bytes(sound[:at] + bytes([sound[at] ^ 4]) + sound[at + 1 :])
        async with LocalFileMemoryProvider(tmp_path) as again:
            assert list((await again.vectors(None))[0]) == [1, 4]
    async with LocalFileMemoryProvider(tmp_path) as again:
        fact = await again.load(LIKES, USER, MemoryScope.agent("a2"))
        assert fact is not None
        await again.put_vectors(None, {2: np.array([0, 1], dtype=np.float32)})
        assert list((await again.vectors(None))[0]) == [1, 2, 4]


@pytest.mark.parametrize("note", [b"rubbish", framed(b'{"name": "other", "dimension": true}'), framed(b"[]")])
async def test_a_damaged_or_lost_note_of_the_embedder_mixes_no_vectors(tmp_path: Path, note: bytes) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await _filled(provider)
    (tmp_path / "embedder.note").write_bytes(note)
    other = EmbedderIdentity(name="other", dimension=2)
    async with LocalFileMemoryProvider(tmp_path) as again:
        assert await again.embedder() is None
        assert list((await again.vectors(None))[0]) == []
        await again.use_embedder(other)
        assert list((await again.vectors(None))[0]) == []


async def test_without_its_sidecars_a_store_lacks_vectors_only(tmp_path: Path) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await _filled(provider)
        for sidecar in _sidecars(tmp_path):
            sidecar.unlink()
        assert list((await provider.vectors(None))[0]) == []
        await provider.append([_append("x1", [1, 0])])
        assert list((await provider.vectors(None))[0]) == [5]
        assert len(await provider.changes(None)) == 5
