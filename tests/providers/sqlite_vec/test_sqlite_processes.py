"""A second process that holds the file. Concurrent writers and forks are tested in tests/reliability."""

from __future__ import annotations

from pathlib import Path

import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.short_work import at_once
from factmem.testing.conformance.samples import CITY, PLANNER, USER, loaded_value, single

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])


async def test_a_second_process_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    import apsw

    from factmem.errors import StoreUnavailableError

    async with SqliteVecMemoryProvider(tmp_path / "facts.db", busy_timeout="0.1") as provider:
        await provider.save(single(CITY, "Bern"), USER, PLANNER)
        other = apsw.Connection(str(tmp_path / "facts.db"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="busy_timeout"):
            await provider.save(single(CITY, "Basel", 1), USER, PLANNER)
        assert await loaded_value(provider, CITY) == "Bern"
        other.close()
        await provider.save(single(CITY, "Basel", 1), USER, PLANNER)
        assert await loaded_value(provider, CITY) == "Basel"


async def test_the_newest_number_is_read_again_only_after_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import apsw

    asked: list[str] = []

    def trace(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: asked.append(event["sql"]))

    monkeypatch.setattr(apsw, "connection_hooks", [trace])
    path = tmp_path / "facts.db"
    async with SqliteVecMemoryProvider(path) as reader, SqliteVecMemoryProvider(path) as writer:
        assert await reader.version(None) == 0
        for number, provider in enumerate((writer, reader, writer, writer), start=1):
            await provider.save(single(CITY, f"town {number}", number), USER, PLANNER)
            assert await reader.version(None) == number
            asked.clear()
            assert await reader.version(None) == number
            assert asked == ["PRAGMA data_version"]
        assert await writer.version("somebody else") == 0


async def test_the_event_loop_never_waits_for_another_process_that_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import apsw

    path, connections, waits = tmp_path / "facts.db", list[apsw.Connection](), list[int]()
    async with SqliteVecMemoryProvider(path) as writer:
        await writer.save(single(CITY, "Bern"), USER, PLANNER)
    other = apsw.Connection(str(path))
    other.pragma("journal_mode", "delete")  # in which a reader waits for a writer
    monkeypatch.setattr(apsw, "connection_hooks", [connections.append])
    async with SqliteVecMemoryProvider(path, read_only=True, busy_timeout="7") as reader:
        assert [reader.newest(None), at_once(lambda: reader.newest(None))] == [1, 1]
        (connection,) = connections

        def waits_in_vain(count: int) -> bool:
            waits.append(count)
            return False

        connection.set_busy_handler(waits_in_vain)
        other.execute("BEGIN EXCLUSIVE")
        assert at_once(lambda: reader.newest(None)) is None
        other.close()
        assert at_once(lambda: reader.newest(None)) == 1
        assert (connection.pragma("busy_timeout"), len(connections), waits) == (7000, 1, [])
