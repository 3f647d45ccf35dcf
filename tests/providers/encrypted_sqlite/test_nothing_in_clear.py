"""No word and no vector of a store is on the disk in plaintext: open, closed, killed, rotated or after an erasure."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.crypto import SecretKey
from factmem.records import Recorded
from tests.conftest import Promise
from tests.providers.sealed import append, files_of, opened, secrets

COUNT = 40


def hits(path: Path) -> list[tuple[str, bytes]]:
    """Return the file and the secret of each secret that is found in plaintext."""
    files = files_of(path)
    assert len(b"".join(files.values())) > 50_000
    return [(name, secret) for name, content in files.items() for secret in secrets(COUNT) if secret in content]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nothing_is_in_clear_while_open_nor_after(tmp_path: Path, promise: Promise) -> None:
    path = tmp_path / "facts.db"
    async with opened(path) as provider:
        await append(provider, range(COUNT))
        assert {"facts.db-wal", "facts.db-shm"} <= files_of(path).keys()
        assert hits(path) == []
        first = next(entry for entry in await provider.changes(None) if isinstance(entry, Recorded))
        await provider.erase([first.record_id], tenant=None)
        assert hits(path) == []
    assert hits(path) == []
    async with opened(path) as provider:
        await provider.rotate(SecretKey.generate())
        assert hits(path) == []
    promise("plaintext search, encrypted-sqlite", f"{len(secrets(COUNT))} texts and vectors: 0 hits in all files")


async def test_every_file_of_the_store_is_named_and_no_other(tmp_path: Path) -> None:
    """This includes files of keys, even one left by a rotation that was killed."""
    path = tmp_path / "facts.db"
    async with opened(path) as provider:
        assert await provider.files() == []
        await append(provider, range(2))
        (tmp_path / "facts.db.keys.tmp").write_bytes(b"half a key file")
        there = set(files_of(path))
        assert {"facts.db", "facts.db-wal", "facts.db.keys", "facts.db.keys.tmp"} < there
        (tmp_path / "facts.db.backup").write_bytes(b"somebody else's")
        assert {file.name for file in await provider.files()} - {"facts.db.keys.lock"} == there


def test_the_search_finds_what_a_plain_store_holds(tmp_path: Path) -> None:
    """Each kind of secret is found there, so that the search is known to work."""

    async def main() -> None:
        async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
            await append(provider, range(COUNT))

    anyio.run(main)
    found = {secret for _, secret in hits(tmp_path / "facts.db")}
    assert {b"absinthium", b"acmetenant", b"SQLite format"} <= found
    assert set(secrets(COUNT)[-4:]) <= found
