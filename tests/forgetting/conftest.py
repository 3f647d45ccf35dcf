"""Fixtures that run each test of forgetting on every durable store."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from factmem import AgentMemoryProvider
from factmem.testing import FakeClock
from tests.forgetting.stores import STORES
from tests.packages import need_ciphers


@pytest.fixture
def anyio_backend() -> str:
    """Files do not depend on the event loop: one is enough."""
    return "asyncio"


@pytest.fixture(params=sorted(STORES))
def kind(request: pytest.FixtureRequest) -> str:
    """Kind of the store."""
    if request.param == "encrypted-sqlite":
        need_ciphers()
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder that holds the store and nothing else."""
    made = tmp_path / "store"
    made.mkdir()
    return made


@pytest.fixture
def opened(kind: str, folder: Path) -> Callable[[], AgentMemoryProvider]:
    """Function that opens the store, any number of times."""
    return lambda: STORES[kind](folder)


@pytest.fixture
async def provider(opened: Callable[[], AgentMemoryProvider]) -> AsyncIterator[AgentMemoryProvider]:
    """The opened store."""
    async with opened() as store:
        yield store


@pytest.fixture
def clock() -> FakeClock:
    """A clock that advances by a millisecond with each reading."""
    return FakeClock(dt.datetime.now(dt.UTC), step=dt.timedelta(milliseconds=1))
