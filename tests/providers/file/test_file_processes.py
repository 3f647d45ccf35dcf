"""Several providers on one store, as in several processes. Concurrent writers are tested in tests/reliability."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest
from factmem_file import LocalFileMemoryProvider
from factmem_file.log_storage import LocalLogStorage

from factmem.abc.capabilities import StateRequest
from factmem.errors import StoreUnavailableError
from factmem.facts import Concept
from factmem.records import AssertionState, Place, Recorded
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

USER = MemorySubject("user")
SCOPE = MemoryScope.agent("planner")
LIKES = Concept.multiple("likes", "likes")
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


async def test_two_providers_see_each_others_saves_states_and_erasures(tmp_path: Path) -> None:
    place = Place(USER, SCOPE)
    async with LocalFileMemoryProvider(tmp_path) as one, LocalFileMemoryProvider(tmp_path) as two:
        for number in range(10):
            writer, reader = (one, two) if number % 2 else (two, one)
            await writer.save(LIKES.fact([f"v{number}"], timestamp=NOON), USER, SCOPE)
            assert await reader.version(None) == number + 1
            fact = await reader.load(LIKES, USER, SCOPE)
            assert fact is not None
            assert len(fact.values) == number + 1
        (v0, v1, *_) = (entry for entry in await one.entries(place) if isinstance(entry, Recorded))
        await two.append([StateRequest.of(v0, state=AssertionState.RETRACTED)])
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
    holder = LocalLogStorage(tmp_path)
    async with LocalFileMemoryProvider(tmp_path, lock_timeout="0.05") as provider:
        await provider.save(LIKES.fact(["a"], timestamp=NOON), USER, SCOPE)
        with holder.lock(1):
            with pytest.raises(StoreUnavailableError, match="lock_timeout"):
                await provider.save(LIKES.fact(["b"], timestamp=NOON), USER, SCOPE)
            assert await provider.load(LIKES, USER, SCOPE) == LIKES.fact(["a"], timestamp=NOON)
            assert await provider.version(None) == 1
        await provider.save(LIKES.fact(["b"], timestamp=NOON), USER, SCOPE)


async def test_a_frame_of_a_writer_that_died_before_its_flush_is_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated save of such a fact is acknowledged only after a flush."""
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
