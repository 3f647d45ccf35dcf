"""Several providers on one store, as in several processes. Concurrent writers are tested in tests/reliability."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest
from factmem_file import LocalFileMemoryProvider
from factmem_file.log_storage import LocalLogStorage

from factmem.errors import StoreUnavailableError
from factmem.facts import Concept
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

USER = MemorySubject("user")
SCOPE = MemoryScope.agent("planner")
LIKES = Concept.multiple("likes", "likes")
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


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
