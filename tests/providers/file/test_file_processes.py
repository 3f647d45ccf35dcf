"""Several processes share a store; a process may be killed at any moment."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from factmem_file import LocalFileMemoryProvider, LocalStorage

from factmem.abc import StateRequest
from factmem.errors import StoreUnavailableError
from factmem.facts import Concept
from factmem.records import AssertionState, Place, Recorded
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

USER = MemorySubject("user")
SCOPE = MemoryScope.agent("planner")
LIKES = Concept.multiple("likes", "likes")
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
PROVIDERS = Path(__file__).parents[3] / "providers"


def _worker(root: Path, name: str, count: int, limit: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).parent / "worker.py"), str(root), name, str(count), str(limit)]
    path = os.pathsep.join(filter(None, [str(PROVIDERS), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})


def _logs(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*.jsonl")}


async def _kept(root: Path) -> set[str]:
    async with LocalFileMemoryProvider(root) as provider:
        changes = await provider.changes(None)
        assert len({entry.seq for entry in changes}) == len(changes)
        return {entry.assertion.data for entry in changes if isinstance(entry, Recorded)}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_four_processes_lose_nothing_to_each_other(tmp_path: Path, big: bool) -> None:
    count = 250 if big else 50
    workers = [_worker(tmp_path / "store", f"w{number}", count) for number in range(4)]
    said = {line.strip() for worker in workers for line in worker.communicate(timeout=120)[0].splitlines()}
    assert len(said) == 4 * count
    assert await _kept(tmp_path / "store") == said


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, big: bool) -> None:
    """Killed after ever more saves; the last one may be there or not, but never in part."""
    acknowledged: set[str] = set()
    rounds = 200 if big else 15
    for round_number in range(rounds):
        worker = _worker(tmp_path, f"r{round_number}", 10_000)
        assert worker.stdout is not None
        for _ in range(1 + round_number % 7):
            acknowledged.add(worker.stdout.readline().strip())
        worker.send_signal(signal.SIGKILL)
        acknowledged.update(worker.stdout.read().split())
        worker.wait()
        worker.stdout.close()
    kept = await _kept(tmp_path)
    assert acknowledged <= kept
    assert len(kept - acknowledged) <= rounds


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_file_that_may_not_grow_keeps_what_it_had(tmp_path: Path) -> None:
    """The system takes the frame in part and then fails (EFBIG): the part is taken back."""
    first = _worker(tmp_path, "first", 6)
    assert len(first.communicate(timeout=60)[0].splitlines()) == 6
    before = _logs(tmp_path)
    limit = max(map(len, before.values())) + 100
    output, _ = _worker(tmp_path, "second", 3, limit).communicate(timeout=60)
    assert output.startswith("refused 0 the store at")
    assert _logs(tmp_path) == before
    assert await _kept(tmp_path) == {f"first-{number}" for number in range(6)}
    third = _worker(tmp_path, "third", 1)
    assert third.communicate(timeout=60)[0] == "third-0\n"


async def test_two_providers_see_each_others_saves_states_and_erasures(tmp_path: Path) -> None:
    place = Place(USER, SCOPE)
    async with LocalFileMemoryProvider(tmp_path) as one, LocalFileMemoryProvider(tmp_path) as two:
        for number in range(10):
            writer, reader = (one, two) if number % 2 else (two, one)
            await writer.save(LIKES.fact([f"v{number}"], timestamp=NOON), USER, SCOPE)
            assert await reader.version() == number + 1
            fact = await reader.load(LIKES, USER, SCOPE)
            assert fact is not None
            assert len(fact.values) == number + 1
        (v0, v1, *_) = (entry for entry in await one.entries(place) if isinstance(entry, Recorded))
        await two.append([StateRequest(assertion_id=v0.id, state=AssertionState.RETRACTED)])
        assert (await one.erase([v1.record_id], tenant=None)).erased == 1
        assert (await two.erase([v1.record_id], tenant=None)).erased == 0
        for provider in (one, two):
            fact = await provider.load(LIKES, USER, SCOPE)
            assert fact is not None
            assert fact.values == tuple(f"v{number}" for number in range(2, 10))
            assert [entry.seq for entry in await provider.changes(None, since=10)] == [11, 12]
        await two.save(LIKES.fact(["v1"], timestamp=NOON), USER, SCOPE)
        assert "v1" in ((await one.load(LIKES, USER, SCOPE)) or LIKES.fact(["-"], timestamp=NOON)).values


async def test_a_store_that_others_hold_is_unavailable_and_a_save_refused(tmp_path: Path) -> None:
    holder = LocalStorage(tmp_path)
    async with LocalFileMemoryProvider(tmp_path, lock_timeout="0.05") as provider:
        await provider.save(LIKES.fact(["a"], timestamp=NOON), USER, SCOPE)
        with holder.lock(1):
            with pytest.raises(StoreUnavailableError, match="lock_timeout"):
                await provider.save(LIKES.fact(["b"], timestamp=NOON), USER, SCOPE)
            assert await provider.load(LIKES, USER, SCOPE) == LIKES.fact(["a"], timestamp=NOON)
            assert await provider.version() == 1
        await provider.save(LIKES.fact(["b"], timestamp=NOON), USER, SCOPE)


async def test_a_frame_of_a_writer_that_died_before_its_flush_is_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saying again what such a writer wrote is acknowledged only after a flush."""
    async with LocalFileMemoryProvider(tmp_path) as writer:
        await writer.save(LIKES.fact(["a"], timestamp=NOON), USER, SCOPE)
    flushed: list[int] = []
    real = os.fsync

    def counted(descriptor: int) -> None:
        flushed.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    log = tmp_path / "@default/agent/planner/user.jsonl"
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await provider.save(LIKES.fact(["a"], timestamp=NOON), USER, SCOPE)
        assert log.stat().st_ino in flushed
        assert log.parent.stat().st_ino in flushed
