"""Vectors are stored beside the facts; damage to their files means missing vectors and never a wrong answer."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pytest
from factmem_file import LocalFileMemoryProvider
from factmem_file.log_storage import framed

from factmem.abc.capabilities import Append, EmbedderIdentity
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
        assert await again.load(LIKES, USER, MemoryScope.agent("a2")) is not None
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
