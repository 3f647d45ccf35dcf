"""A damaged, foreign or newer file is reported and never written to."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.abc.capabilities import Append, EmbedderIdentity, StateRequest
from factmem.errors import CorruptStoreError, NewerVersionError, StoreUnavailableError
from factmem.records import AssertionState, Place, Recorded, assertions_of
from factmem.testing.conformance.samples import CITY, PLANNER, USER, loaded_value, single
from tests.databases import alter
from tests.tables import each_case

HEADER_FLIPS = [0, 15, 16, 18, 21, 60, 68]
"""Bytes of the magic, the page size, the file format, the payload fractions, our version and our mark."""


def _bytes(path: Path) -> bytes:
    return path.read_bytes()


async def _filled(path: Path, *, facts: int = 1) -> bytes:
    async with SqliteVecMemoryProvider(path) as provider:
        for number in range(facts):
            await provider.save(single(CITY, f"Saint-Imier-{number}", number), USER, PLANNER)
    return _bytes(path)


async def _is_refused(path: Path, error: type[Exception]) -> None:
    """Check that reads and writes raise a named error without content, and that the file is unchanged."""
    before = _bytes(path)
    async with SqliteVecMemoryProvider(path, busy_timeout=0.1) as provider:
        with pytest.raises(error, match=re.escape(path.name)) as caught:
            await provider.save(single(CITY, "Basel", 99), USER, PLANNER)
        assert "Basel" not in str(caught.value)
        with pytest.raises(error):
            await provider.load(CITY, USER, PLANNER)
    assert _bytes(path) == before


@pytest.mark.parametrize(
    "rubbish", [b"x", b"SQLite format 3\0", b"\0" * 4096, b"no database at all\n" * 500], ids=range(4)
)
async def test_a_file_of_something_else_is_refused(tmp_path: Path, rubbish: bytes) -> None:
    path = tmp_path / "facts.db"
    path.write_bytes(rubbish)
    await _is_refused(path, CorruptStoreError)


async def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    alter(path, "CREATE TABLE meta(key, value); INSERT INTO meta VALUES ('seq', 7)")
    await _is_refused(path, CorruptStoreError)


@pytest.mark.parametrize("offset", HEADER_FLIPS)
async def test_a_flipped_bit_in_the_header_is_refused(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "facts.db"
    whole = bytearray(await _filled(path))
    whole[offset] ^= 0x40
    path.write_bytes(whole)
    await _is_refused(path, NewerVersionError if offset == 60 else CorruptStoreError)


async def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    await _filled(path)
    alter(path, "PRAGMA journal_mode=DELETE; PRAGMA user_version=99")
    await _is_refused(path, NewerVersionError)


async def test_a_flipped_bit_in_a_value_is_noticed_and_stops_all_writing(tmp_path: Path) -> None:
    """SQLite itself does not notice; every row has a checksum."""
    path = tmp_path / "facts.db"
    whole = await _filled(path)
    path.write_bytes(whole.replace(b'"data":"Saint-Imier', b'"data":"Faint-Imier'))
    async with SqliteVecMemoryProvider(path) as provider:
        with pytest.raises(CorruptStoreError) as caught:
            await provider.load(CITY, USER, PLANNER)
        assert "Imier" not in str(caught.value)
        with pytest.raises(CorruptStoreError):
            await provider.save(single(CITY, "Basel", 99), USER, PLANNER)


async def test_a_folder_in_place_of_the_file_is_unavailable(tmp_path: Path) -> None:
    async with SqliteVecMemoryProvider(tmp_path) as provider:
        with pytest.raises(StoreUnavailableError, match=tmp_path.name):
            await loaded_value(provider, CITY)
        with pytest.raises(StoreUnavailableError):
            await provider.save(single(CITY, "Basel"), USER, PLANNER)


async def _with_history(path: Path) -> None:
    """Save a value that supersedes another, a retraction and an erasure."""
    async with SqliteVecMemoryProvider(path) as provider:
        for minutes, city in enumerate(["Bern", "Basel", "Genf"]):
            await provider.save(single(CITY, city, minutes), USER, PLANNER)
        log = [entry for entry in await provider.changes(None) if isinstance(entry, Recorded)]
        await provider.append([StateRequest.of(log[1], state=AssertionState.RETRACTED, reason="typo")])
        await provider.erase([], tenant=None, assertion_ids=[log[0].id])


@each_case("damage")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_is_missing_or_was_changed_is_noticed(tmp_path: Path, damage: str) -> None:
    """An index that lost a row is unnoticed by SQLite, and found by reads of a place and of a tenant."""
    path = tmp_path / "facts.db"
    await _with_history(path)
    alter(path, damage)
    async with SqliteVecMemoryProvider(path) as provider:
        with pytest.raises(CorruptStoreError):  # noqa: PT012  # one of them notices
            await provider.version(None)
            await provider.entries(Place(USER, PLANNER))
            await provider.changes(None)


EMBEDDER = EmbedderIdentity(name="four", dimension=4)


async def _with_vectors(path: Path) -> None:
    async with SqliteVecMemoryProvider(path) as provider:
        await provider.use_embedder(EMBEDDER)
        for number, tenant in enumerate([None, None, "acme"]):
            scope = PLANNER if tenant is None else PLANNER.within(tenant)
            (said,) = assertions_of(single(CITY, f"city {number}", number), Place(USER, scope))
            await provider.append([Append(assertion=said, vector=np.eye(4, dtype=np.float32)[number])])


def _damage(path: Path, statement: str) -> None:
    alter(path, statement)


async def _vectors(provider: SqliteVecMemoryProvider, tenant: str | None = None) -> dict[int, bytes]:
    seqs, rows = await provider.vectors(tenant)
    return {seq: row.tobytes() for seq, row in zip(seqs, rows, strict=True)}


@each_case("damage")
async def test_a_vector_that_was_changed_is_noticed_and_can_be_made_again(tmp_path: Path, damage: str) -> None:
    """Only the checksum reveals it, because any number is valid. Facts are unaffected and remain readable."""
    path = tmp_path / "facts.db"
    await _with_vectors(path)
    _damage(path, damage)
    async with SqliteVecMemoryProvider(path) as provider:
        with pytest.raises(CorruptStoreError, match="factmem reembed"):
            await provider.vectors(None)
        await provider.save(single(CITY, "Basel", 99), USER, PLANNER)
        await provider.use_embedder(EMBEDDER, replace=True)
        await provider.put_vectors(None, {1: np.ones(4, dtype=np.float32)})
        assert await _vectors(provider) == {1: np.full(4, 0.5, dtype=np.float32).tobytes()}


async def test_vectors_that_come_and_go_leave_the_sum_right(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    await _with_vectors(path)
    async with SqliteVecMemoryProvider(path) as provider:
        for tenant, seq in ((None, 2), ("acme", 1)):
            await provider.put_vectors(tenant, {seq: np.ones(4, dtype=np.float32)})
        log = [entry for entry in await provider.changes(None) if isinstance(entry, Recorded)]
        await provider.erase([log[0].record_id], tenant=None)
        assert (await _vectors(provider)).keys() <= {2}
        assert (await _vectors(provider, "acme")).keys() == {1}


async def test_a_store_from_before_vectors_had_sums_is_read_and_brought_up_to_date(tmp_path: Path) -> None:
    with zipfile.ZipFile(Path(__file__).parents[1] / "stores" / "a65994e.zip") as packed:
        path = Path(packed.extract("sqlite-vec/facts.db", tmp_path))
    _damage(path, "DELETE FROM sums WHERE place = CAST('vectors' AS BLOB); PRAGMA user_version=3")
    async with SqliteVecMemoryProvider(path, read_only=True) as provider:
        assert (await _vectors(provider, "acme")).keys() == {6}
    async with SqliteVecMemoryProvider(path) as provider:
        await provider.save(single(CITY, "Basel", 99), USER, PLANNER)
        assert (await _vectors(provider)).keys() == {1, 2, 3, 4, 5, 8, 9}
        assert (await _vectors(provider, "acme")).keys() == {6}
    _damage(path, "UPDATE sums SET sum = sum + 1 WHERE place = CAST('vectors' AS BLOB)")
    async with SqliteVecMemoryProvider(path) as provider:
        with pytest.raises(CorruptStoreError):
            await provider.vectors("acme")
