"""Shared fixtures for the tests of the encrypted SQLite store."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import apsw
import pytest

from tests.providers.encrypted_sqlite.worlds import Told, fill, told_by


@pytest.fixture(autouse=True, scope="session")
def _ciphers() -> None:
    if not hasattr(apsw, "mc_version"):
        pytest.skip("apsw here cannot encrypt: apsw-sqlite3mc is not installed, or apsw lies over it")


@pytest.fixture(scope="session")
def _sound(_ciphers: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Told]:
    path = tmp_path_factory.mktemp("sound") / "facts.db"
    anyio.run(fill, path)
    return path, anyio.run(told_by, path)


@pytest.fixture
def path(_sound: tuple[Path, Told], tmp_path: Path) -> Path:
    """The database of a small sound store, to be spoilt."""
    shutil.copytree(_sound[0].parent, tmp_path / "store")
    return tmp_path / "store" / _sound[0].name


@pytest.fixture
def sound(_sound: tuple[Path, Told]) -> Told:
    """Return the answers of all read paths for the sound store."""
    return _sound[1]
