"""A second process that holds the file, and a fork that uses it. Concurrent writers are tested in tests/reliability."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

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


def _in_a_fork(action: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_process_opens_the_file_for_itself(tmp_path: Path, anyio_backend: str) -> None:
    """Connections do not survive a fork: parent and child continue with the same provider, and lose nothing."""
    provider = SqliteVecMemoryProvider(tmp_path / "facts.db")

    async def save(city: str, minutes: int) -> None:
        await provider.save(single(CITY, city, minutes), USER, PLANNER)

    async def in_the_child() -> None:
        await save("Basel", 1)
        assert await loaded_value(provider, CITY) == "Basel"
        await provider.aclose()

    async def afterwards() -> None:
        assert await loaded_value(provider, CITY) == "Basel"
        await save("Genf", 2)
        assert await loaded_value(provider, CITY) == "Genf"
        await provider.aclose()

    anyio.run(save, "Bern", 0)
    assert _in_a_fork(lambda: anyio.run(in_the_child)) == 0
    anyio.run(afterwards)
