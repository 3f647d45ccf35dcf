"""Fixtures of the tests of the walls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest

from factmem import Memory


@pytest.fixture
def anyio_backend() -> str:
    """Walls do not depend on the event loop; both loops are tested in the tests of each part."""
    return "asyncio"


@pytest.fixture
def without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run work of threads at once: threads are irrelevant here, and switching between them takes most of the time."""

    async def run_sync(work: Callable[..., Any], *args: Any, **options: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return work(*args)

    monkeypatch.setattr(anyio.to_thread, "run_sync", run_sync)
    monkeypatch.setattr(anyio.from_thread, "check_cancelled", lambda: None)


@pytest.fixture(autouse=True)
def _nothing_expires_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stores are compared at the same moment, so neither may erase in the background before the other."""

    async def stay(memory: Memory, *, again: bool) -> bool:
        return True

    monkeypatch.setattr(Memory, "_expire", stay)
