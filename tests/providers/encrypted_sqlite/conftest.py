"""Fixtures of the tests of the encrypted SQLite store."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest

from tests.packages import need_ciphers
from tests.providers.sealed import Answers, answers_of, fill


@pytest.fixture(autouse=True, scope="session")
def _ciphers() -> None:
    need_ciphers()


@pytest.fixture(scope="session")
def _sound(_ciphers: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answers]:
    path = tmp_path_factory.mktemp("sound") / "facts.db"
    anyio.run(fill, path)
    return path, anyio.run(answers_of, path)


@pytest.fixture
def path(_sound: tuple[Path, Answers], tmp_path: Path) -> Path:
    """The database of a small intact store, to be damaged."""
    shutil.copytree(_sound[0].parent, tmp_path / "store")
    return tmp_path / "store" / _sound[0].name


@pytest.fixture
def sound(_sound: tuple[Path, Answers]) -> Answers:
    """Return the answers of all read paths for the intact store."""
    return _sound[1]
