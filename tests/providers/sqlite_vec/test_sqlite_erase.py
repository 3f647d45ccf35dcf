"""After an erasure no file of the store holds a byte of the erased record."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import numpy as np
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.abc.capabilities import Append, EmbedderIdentity, EraseReceipt, StateRequest
from factmem.details import Evidence
from factmem.facts import Concept
from factmem.records import AssertionState, Recorded
from factmem.testing.conformance.samples import said
from factmem.vectors import unit_vector

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])

DIMENSION = 32


def _files(folder: Path) -> bytes:
    return b"\0".join(path.read_bytes() for path in folder.iterdir())


def _words(number: int) -> list[str]:
    """Return the value, keyword, description, reason and quote unique to assertion number n."""
    return [
        hashlib.sha256(f"{kind} {number}".encode()).hexdigest()[:24]
        for kind in ("value", "keyword", "description", "reason", "quote")
    ]


def _traces(number: int) -> list[bytes]:
    # The full-text index omits the beginning of a word that it shares with the previous one.
    vector = unit_vector(_vector(number)).tobytes()
    return [word[6:].encode() for word in _words(number)] + [vector[start : start + 16] for start in (0, 48, 112)]


def _vector(number: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(number).standard_normal(DIMENSION).astype(np.float32)


async def _fill(provider: SqliteVecMemoryProvider, numbers: range) -> dict[int, Recorded]:
    await provider.use_embedder(EmbedderIdentity(name="e", dimension=DIMENSION))
    appends = []
    for number in numbers:
        value, keyword, description, _, quote = _words(number)
        concept = Concept.single(keyword, f"{description} {'wide ' * (number % 40)}")
        evidence = [Evidence(quote=quote)]
        appends.append(Append(assertion=said(concept, value, evidence=evidence), vector=_vector(number)))
    receipts = await provider.append(appends)
    kept = {number: receipt.recorded for number, receipt in zip(numbers, receipts, strict=True)}
    await provider.append(
        [
            StateRequest.of(recorded, state=AssertionState.RETRACTED, reason=_words(number)[3])
            for number, recorded in kept.items()
        ]
    )
    return kept


async def test_copies_that_sqlite_left_when_it_moved_rows_are_gone_too(tmp_path: Path, big: bool) -> None:
    """`secure_delete` alone leaves some: rows and keys move between pages when those are split and merged."""
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        kept: dict[int, Recorded] = {}
        count = 1500 if big else 600
        for start in range(0, count, 50):
            kept |= await _fill(provider, range(start, start + 50))
        numbers = list(kept)
        random.Random(5).shuffle(numbers)
        gone, rest = numbers[: count * 4 // 5], numbers[count * 4 // 5 :]
        for start in range(0, len(gone), 120):
            ids = [kept[number].record_id for number in gone[start : start + 120]]
            assert await provider.erase(ids, tenant=None) == EraseReceipt(erased=120)
        files = _files(tmp_path)
        assert [trace for number in gone for trace in _traces(number) if trace in files] == []
        assert all(trace in files for number in rest for trace in _traces(number)[:5])
