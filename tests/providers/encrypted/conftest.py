"""Fixtures of the tests of the encrypted store."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from tests.providers.encrypted.answers import Answers, answers_of
from tests.providers.encrypted.worlds import fill


@pytest.fixture
def without_flushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip flushes, in tests of the contents of files, not of their durability."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="session")
def _sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answers]:
    root = tmp_path_factory.mktemp("sound") / "facts"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        anyio.run(fill, root)
        return root, anyio.run(answers_of, root)


@pytest.fixture
def sound_root(_sound: tuple[Path, Answers]) -> Path:
    """A small intact store of several tenants, to be copied and never changed."""
    return _sound[0]


@pytest.fixture
def sound_answers(_sound: tuple[Path, Answers]) -> Answers:
    """Return the answers of all read paths for the intact store."""
    return _sound[1]
