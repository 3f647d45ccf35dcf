"""After an erasure no file of the store holds a byte of the erased record."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import apsw
import numpy as np
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.abc.capabilities import Append, EmbedderIdentity, EraseReceipt, StateRequest
from factmem.facts import Concept
from factmem.records import AssertionState, Evidence, Recorded
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


async def test_nothing_of_an_erased_record_is_left_in_any_file(tmp_path: Path) -> None:
    """Text, keyword, index entry, evidence, reason and vector are erased; other records are intact."""
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        kept = await _fill(provider, range(40))
        before = _files(tmp_path)
        assert all(trace in before for trace in [*_traces(7), *_traces(8)])
        receipt = await provider.erase([kept[7].record_id, kept[8].record_id, "nobody"], tenant=None)
        assert receipt == EraseReceipt(erased=2)
        files = _files(tmp_path)
        assert [trace for trace in [*_traces(7), *_traces(8)] if trace in files] == []
        assert kept[7].record_id.encode() not in files
        assert kept[7].assertion.fingerprint not in files
        assert all(trace in files for trace in _traces(9))
        assert kept[7].seq not in (await provider.vectors(None))[0]
    assert [trace for trace in _traces(7) if trace in _files(tmp_path)] == []


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


async def test_an_erasure_beside_a_reader_is_pending_until_it_is_asked_for_again(tmp_path: Path) -> None:
    """Another process that still reads an old state keeps the WAL, and the bytes in it."""
    async with SqliteVecMemoryProvider(tmp_path / "facts.db", busy_timeout=0.1) as provider:
        kept = await _fill(provider, range(5))
        reader = apsw.Connection(str(tmp_path / "facts.db"))
        reader.execute("BEGIN; SELECT count(*) FROM assertions").fetchall()
        assert await provider.erase([kept[3].record_id], tenant=None) == EraseReceipt(erased=1, pending=True)
        assert kept[3].id not in [getattr(entry, "id", None) for entry in await provider.changes(None)]
        assert await provider.erase([], tenant=None) == EraseReceipt(erased=0, pending=True)
        reader.close()
        assert await provider.erase([], tenant=None) == EraseReceipt(erased=0)
        assert [trace for trace in _traces(3) if trace in _files(tmp_path)] == []


async def test_a_pending_erasure_is_finished_by_another_process(tmp_path: Path) -> None:
    async with SqliteVecMemoryProvider(tmp_path / "facts.db", busy_timeout=0.1) as provider:
        kept = await _fill(provider, range(5))
        reader = apsw.Connection(str(tmp_path / "facts.db"))
        reader.execute("BEGIN; SELECT count(*) FROM assertions").fetchall()
        assert (await provider.erase([kept[3].record_id], tenant=None)).pending
        reader.close()
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        assert await provider.erase([], tenant=None) == EraseReceipt(erased=0)
    assert [trace for trace in _traces(3) if trace in _files(tmp_path)] == []


async def test_a_keyword_stays_where_another_owner_still_uses_it(tmp_path: Path) -> None:
    """The type of the erased fact no longer binds the keyword."""
    number, text = Concept.single("size", "", int), Concept.single("size", "", str)
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        statements = [Append(assertion=said(number, 7, owner=owner)) for owner in (None, "alice")]
        mine, hers = [receipt.recorded for receipt in await provider.append(statements)]
        await provider.erase([mine.record_id], tenant=None)
        (again,) = await provider.append([Append(assertion=said(text, "large"))])
        assert again.recorded.record_id != mine.record_id
        (still,) = await provider.append([Append(assertion=said(number, 8, 1, owner="alice"))])
        assert still.recorded.record_id == hers.record_id
        assert await provider.erase([hers.record_id], tenant="acme") == EraseReceipt(erased=0)
        assert len(await provider.entries(still.recorded.assertion.place)) == 3
