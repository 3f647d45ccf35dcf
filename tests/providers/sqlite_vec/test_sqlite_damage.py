"""A damaged, foreign or newer file is told of and never written to."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.abc import StateRequest
from factmem.errors import CorruptStoreError, NewerVersionError, StoreUnavailableError
from factmem.records import AssertionState, Place, Recorded
from factmem.testing.conformance.samples import CITY, PLANNER, USER, loaded_value, single

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
    """Neither read nor written, by name, without a word of the facts; the file stays as it is."""
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
    foreign = apsw.Connection(str(path))
    foreign.execute("CREATE TABLE meta(key, value); INSERT INTO meta VALUES ('seq', 7)")
    foreign.close()
    await _is_refused(path, CorruptStoreError)


@pytest.mark.parametrize("left", [50, 600, 5000, 0.5])
async def test_a_truncated_file_is_refused(tmp_path: Path, left: float) -> None:
    path = tmp_path / "facts.db"
    whole = await _filled(path, facts=40)
    path.write_bytes(whole[: int(left if left > 1 else len(whole) * left)])
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
    newer = apsw.Connection(str(path))
    newer.execute("PRAGMA journal_mode=DELETE; PRAGMA user_version=99").fetchall()
    newer.close()
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


async def test_a_lost_table_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    await _filled(path)
    vandal = apsw.Connection(str(path))
    vandal.execute("DROP TABLE tracks")
    vandal.close()
    async with SqliteVecMemoryProvider(path) as provider:
        with pytest.raises(CorruptStoreError):
            await provider.save(single(CITY, "Basel", 99), USER, PLANNER)


async def test_a_folder_in_place_of_the_file_is_unavailable(tmp_path: Path) -> None:
    async with SqliteVecMemoryProvider(tmp_path) as provider:
        with pytest.raises(StoreUnavailableError, match=tmp_path.name):
            await loaded_value(provider, CITY)
        with pytest.raises(StoreUnavailableError):
            await provider.save(single(CITY, "Basel"), USER, PLANNER)


async def _with_history(path: Path) -> None:
    """A value that follows another, a retraction and an erasure."""
    async with SqliteVecMemoryProvider(path) as provider:
        for minutes, city in enumerate(["Bern", "Basel", "Genf"]):
            await provider.save(single(CITY, city, minutes), USER, PLANNER)
        log = [entry for entry in await provider.changes(None) if isinstance(entry, Recorded)]
        await provider.append([StateRequest(assertion_id=log[1].id, state=AssertionState.RETRACTED, reason="typo")])
        await provider.erase([], tenant=None, assertion_ids=[log[0].id])


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE meta SET value = 9 WHERE key = 'seq'",
        "UPDATE state_changes SET reason = 'type'",
        "UPDATE state_changes SET assertion = 3",
        "DELETE FROM state_changes",
        "DELETE FROM assertions WHERE seq = 2",
        "UPDATE tombstones SET assertion_id = 'x'",
        "DELETE FROM tombstones",
        "DELETE FROM tracks",
        "UPDATE tracks SET place = x'00'",
        "DELETE FROM sums",
    ],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_is_missing_or_was_changed_is_noticed(tmp_path: Path, damage: str) -> None:
    """As if an index had lost a row, which SQLite does not notice: by whoever reads a place, or a tenant."""
    path = tmp_path / "facts.db"
    await _with_history(path)
    vandal = apsw.Connection(str(path))
    vandal.execute(damage)
    vandal.close()
    async with SqliteVecMemoryProvider(path) as provider:
        with pytest.raises(CorruptStoreError):  # noqa: PT012  # one of them notices
            await provider.version()
            await provider.entries(Place(USER, PLANNER))
            await provider.changes(None)
