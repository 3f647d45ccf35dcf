"""A second process that holds the file. Concurrent writers and forks are tested in tests/reliability."""

from __future__ import annotations

from pathlib import Path

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
