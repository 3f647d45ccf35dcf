"""Fixtures: a memory over each store, with a clock that is set by hand."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from factmem import AgentMemoryProvider, Memory
from factmem.testing import FakeClock, HashEmbedder
from tests.memory.shelves import two_of
from tests.stores import STORES


@pytest.fixture
def clock() -> FakeClock:
    """A clock that starts now, advances by a millisecond with each reading, and can be set."""
    return FakeClock(dt.datetime.now(dt.UTC), step=dt.timedelta(milliseconds=1))


@pytest.fixture(params=two_of(["memory", "file", "sqlite-vec", "postgres"]))
async def provider(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock
) -> AsyncIterator[AgentMemoryProvider]:
    """Every store that keeps history, two of them by default."""
    async with STORES[request.param](tmp_path, clock) as opened:
        yield opened


@pytest.fixture
def memory(provider: AgentMemoryProvider, clock: FakeClock) -> Memory:
    """A memory with alice as its viewer."""
    return Memory(provider, viewer="alice", embedder=HashEmbedder(), clock=clock)
