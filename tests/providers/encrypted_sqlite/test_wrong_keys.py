"""A wrong key, a missing key, and a database of another kind are distinguished, and nothing is changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.errors import (
    DowngradedStoreError,
    MissingPackageError,
    NewerVersionError,
    RolledBackStoreError,
    StoreUnavailableError,
    TamperedStoreError,
)
from tests.providers.sealed import KEY, append, files_of, fill, opened, refused


async def test_a_plain_database_is_no_encrypted_one(tmp_path: Path) -> None:
    """A plain database put in place of an encrypted one is refused: neither read nor written to in plaintext."""
    path = tmp_path / "facts.db"
    async with SqliteVecMemoryProvider(path) as plain:
        await append(plain, range(3))
    await refused(path, KEY, DowngradedStoreError)


def spoil(path: Path, database: str) -> None:
    if database == "missing":
        path.unlink()
    elif database == "empty":
        path.write_bytes(b"")


@pytest.mark.parametrize("database", ["whole", "missing", "empty"])
async def test_an_encrypted_database_is_not_opened_as_a_plain_one(path: Path, database: str) -> None:
    """The error names the address to use, and no plain database is started beside leftover keys either."""
    spoil(path, database)
    before = files_of(path)
    async with SqliteVecMemoryProvider(path) as plain:
        with pytest.raises(StoreUnavailableError, match=r"encrypted-sqlite:facts\.db"):
            await plain.version(None)
        with pytest.raises(StoreUnavailableError, match="encrypted-sqlite"):
            await append(plain, [1])
    assert files_of(path) == before


async def test_lost_keys_are_an_error_and_never_replaced(path: Path) -> None:
    path.with_name("facts.db.keys").unlink()
    await refused(path, KEY, RolledBackStoreError)


async def test_the_keys_of_another_store_are_an_error(path: Path, tmp_path: Path) -> None:
    await fill(tmp_path / "other.db", 3)
    shutil.copy(tmp_path / "other.db.keys", path.with_name("facts.db.keys"))
    await refused(path, KEY, TamperedStoreError)


async def test_newer_keys_are_an_error(path: Path) -> None:
    keys = path.with_name("facts.db.keys")
    keys.write_bytes(keys.read_bytes().replace(b'"version":1', b'"version":2'))
    await refused(path, KEY, NewerVersionError)


async def test_an_apsw_without_ciphers_is_an_error_with_the_command_that_repairs_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip lets apsw and apsw-sqlite3mc overwrite each other; nothing may be written in plaintext then."""
    monkeypatch.setattr(apsw, "vfs_names", lambda: ["unix", "memdb"])
    await refused(path, KEY, MissingPackageError)
    async with opened(tmp_path / "facts.db") as provider:
        with pytest.raises(MissingPackageError, match="--force-reinstall --no-deps apsw-sqlite3mc"):
            await append(provider, [1])
    assert not (tmp_path / "facts.db").exists()
