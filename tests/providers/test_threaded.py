"""The base class of providers whose engine blocks: options, closing, and compaction after a migration."""

from __future__ import annotations

import asyncio
import threading
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.errors import InvalidDataError
from factmem.providers.threaded import GroupCommit, Request, flag_option, seconds_option
from factmem.testing.conformance.samples import CITY, PLANNER, USER, single


@pytest.mark.parametrize(("given", "read"), [(True, True), ("yes", True), (" ON ", True), (False, False), ("0", False)])
def test_a_flag_is_read_from_text_too(given: bool | str, read: bool, anyio_backend: str) -> None:
    assert flag_option(given, "read_only") is read


@pytest.mark.parametrize("given", ["perhaps", "", None, 2])
def test_what_is_no_flag_is_refused_by_name(given: Any, anyio_backend: str) -> None:
    with pytest.raises(InvalidDataError, match="read_only"):
        flag_option(given, "read_only")


@pytest.mark.parametrize("given", ["soon", "nan", "inf", -1, 1e9, None, []])
def test_what_is_no_number_of_seconds_is_refused_by_name(given: Any, anyio_backend: str) -> None:
    with pytest.raises(InvalidDataError, match="busy_timeout"):
        seconds_option(given, "busy_timeout")
    assert seconds_option("1.5", "busy_timeout") == 1.5


async def test_an_old_file_is_compacted_when_it_is_closed_after_its_migration(tmp_path: Path) -> None:
    path, before = _unpacked(tmp_path)
    async with SqliteVecMemoryProvider(path) as provider:
        await provider.save(single(CITY, "Bern"), USER, PLANNER)
    after, free, tables = _looked_at(path)
    assert after < before
    assert (free, "texts" in tables, "heads" in tables) == (0, False, True)


def _unpacked(folder: Path) -> tuple[Path, int]:
    with zipfile.ZipFile(Path(__file__).parent / "stores" / "a65994e.zip") as packed:
        path = Path(packed.extract("sqlite-vec/facts.db", folder))
    return path, path.stat().st_size


def _looked_at(path: Path) -> tuple[int, int, set[str]]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        tables = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        ((free,),) = connection.execute("PRAGMA freelist_count").fetchall()
    finally:
        connection.close()
    return path.stat().st_size, int(str(free)), tables


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("steps", range(6))
async def test_what_a_cancelled_task_had_taken_to_write_is_written_nevertheless(anyio_backend: str, steps: int) -> None:
    """A task takes the requests of others with its own, and asyncio cancels it some steps later."""
    written: list[Request] = []
    go_on = threading.Event()

    def commit(requests: Sequence[Request]) -> None:
        go_on.wait(60)
        for request in requests:
            written.append(request)
            request.settle()

    group = GroupCommit(commit)
    first, taker, other = Request(()), Request(()), Request(())
    tasks = [asyncio.create_task(group.submit(request)) for request in (first, taker, other)]
    await asyncio.sleep(0.01)
    go_on.set()
    await tasks[0]
    for _ in range(steps):
        await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert other.done
    assert {id(request) for request in written} >= {id(first), id(other)}
    assert len(written) == len(set(map(id, written)))
