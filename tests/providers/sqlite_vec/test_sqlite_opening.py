"""Opening, closing and creating the file, and its options."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.errors import (
    InvalidDataError,
    MissingPackageError,
    ProviderClosedError,
    ReadOnlyError,
    StoreUnavailableError,
)
from factmem.providers.registry import open_provider
from factmem.testing.conformance.samples import CITY, LANGUAGES, PLANNER, USER, loaded_value, multiple, single


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_an_empty_file_is_a_new_store(tmp_path: Path) -> None:
    (tmp_path / "facts.db").touch()
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        assert await loaded_value(provider, CITY) is None
        await provider.save(single(CITY, "Bern"), USER, PLANNER)
        assert await loaded_value(provider, CITY) == "Bern"


async def test_first_calls_at_the_same_time_open_the_file_once_for_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers: list[apsw.Connection] = []

    def seen(connection: apsw.Connection) -> None:
        if connection.open_flags & apsw.SQLITE_OPEN_READWRITE and connection.filename:
            writers.append(connection)

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, seen])
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider, anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(provider.save, multiple(LANGUAGES, f"language {number}"), USER, PLANNER)
    assert len(writers) == 1


async def test_closing_leaves_one_file_and_is_harmless_twice(tmp_path: Path) -> None:
    provider = SqliteVecMemoryProvider(tmp_path / "facts.db")
    await provider.save(single(CITY, "Bern"), USER, PLANNER)
    await provider.load(CITY, USER, PLANNER)
    await provider.aclose()
    await provider.aclose()
    assert _names(tmp_path) == ["facts.db"]
    for call in (lambda: provider.version(None), provider.embedder, lambda: provider.erase(["x"], tenant=None)):
        with pytest.raises(ProviderClosedError):
            await call()


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be removed")
@pytest.mark.parametrize("replaced", [False, True])
async def test_what_would_be_written_to_a_removed_file_is_refused(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "facts.db"
    async with SqliteVecMemoryProvider(path) as provider:
        await provider.save(single(CITY, "Bern"), USER, PLANNER)
        path.unlink()
        if replaced:
            path.touch()
        with pytest.raises(StoreUnavailableError, match="removed or replaced"):
            await provider.save(single(CITY, "Rome"), USER, PLANNER)


async def test_a_cancelled_scope_still_closes(tmp_path: Path) -> None:
    provider = SqliteVecMemoryProvider(tmp_path / "facts.db")
    await provider.save(single(CITY, "Bern"), USER, PLANNER)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await provider.aclose()
    assert _names(tmp_path) == ["facts.db"]


async def test_read_only_reads_and_refuses_to_write(tmp_path: Path) -> None:
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        await provider.save(single(CITY, "Bern"), USER, PLANNER)
    async with open_provider(f"sqlite-vec:{tmp_path}/facts.db?read_only=yes&busy_timeout=60") as reader:
        assert await loaded_value(reader, CITY) == "Bern"
        with pytest.raises(ReadOnlyError, match=r"facts\.db"):
            await reader.save(single(CITY, "Basel", 1), USER, PLANNER)
        assert await loaded_value(reader, CITY) == "Bern"
    async with SqliteVecMemoryProvider(tmp_path / "none.db", read_only=True) as reader:
        with pytest.raises(StoreUnavailableError, match=r"none\.db"):
            await reader.load(CITY, USER, PLANNER)


async def test_a_missing_extension_is_an_error_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is not installed, or its library does not load on this machine."""
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        monkeypatch.setitem(sys.modules, "sqlite_vec", None)
        with pytest.raises(MissingPackageError, match="pip install"):
            await provider.load(CITY, USER, PLANNER)
        broken = types.SimpleNamespace(loadable_path=lambda: str(tmp_path / "none.so"))
        monkeypatch.setitem(sys.modules, "sqlite_vec", broken)
        with pytest.raises(StoreUnavailableError, match="pip install"):
            await provider.load(CITY, USER, PLANNER)
    assert _names(tmp_path) == []


@pytest.mark.parametrize("options", [{"busy_timeout": "soon"}, {"busy_timeout": -1}, {"read_only": "perhaps"}])
def test_an_option_that_cannot_be_read_is_refused(options: dict[str, Any], anyio_backend: str) -> None:
    with pytest.raises(InvalidDataError, match=next(iter(options))):
        SqliteVecMemoryProvider("facts.db", **options)
