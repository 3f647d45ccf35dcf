"""Several processes share a file; a process may be killed, forked or out of space at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.records import Recorded
from factmem.testing.conformance.samples import CITY, PLANNER, USER, loaded_value, single

PROVIDERS = Path(__file__).parents[3] / "providers"

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])


def _worker(store: Path, name: str, count: int, limit: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).parent / "worker.py"), str(store), name, str(count), str(limit)]
    path = os.pathsep.join(filter(None, [str(PROVIDERS), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})


async def _kept(store: Path) -> set[str]:
    async with SqliteVecMemoryProvider(store) as provider:
        changes = await provider.changes(None)
        assert [entry.seq for entry in changes] == list(range(1, len(changes) + 1))
        return {entry.assertion.data for entry in changes if isinstance(entry, Recorded)}


async def test_four_processes_lose_nothing_to_each_other(tmp_path: Path, big: bool) -> None:
    """They make the file together, too, and the sequence has neither gap nor double."""
    count = 250 if big else 50
    workers = [_worker(tmp_path / "new" / "facts.db", f"w{number}", count) for number in range(4)]
    said = {line.strip() for worker in workers for line in worker.communicate(timeout=150)[0].splitlines()}
    assert len(said) == 4 * count
    assert await _kept(tmp_path / "new" / "facts.db") == said


async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, big: bool) -> None:
    """Killed after ever more saves; the last one may be there or not."""
    acknowledged: set[str] = set()
    rounds = 200 if big else 15
    for round_number in range(rounds):
        worker = _worker(tmp_path / "facts.db", f"r{round_number}", 10_000)
        assert worker.stdout is not None
        for _ in range(1 + round_number % 7):
            acknowledged.add(worker.stdout.readline().strip())
        worker.send_signal(signal.SIGKILL)
        acknowledged.update(worker.stdout.read().split())
        worker.wait()
        worker.stdout.close()
    kept = await _kept(tmp_path / "facts.db")
    assert acknowledged <= kept
    assert len(kept - acknowledged) <= rounds


async def test_a_disk_without_space_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    store = tmp_path / "facts.db"
    (first,) = _worker(store, "first", 1).communicate(timeout=60)[:1]
    assert first.split() == ["first-0"]
    *acknowledged, refused = _worker(store, "full", 10_000, limit=400_000).communicate(timeout=100)[0].splitlines()
    assert refused.startswith("refused facts.db cannot")
    assert len(acknowledged) > 5
    assert await _kept(store) == {"first-0", *acknowledged}


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
    """Connections do not survive a fork: parent and child go on with the same provider, and lose nothing."""
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
