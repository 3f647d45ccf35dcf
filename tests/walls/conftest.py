"""Fixtures of the tests of the walls."""

from __future__ import annotations

import pytest

from factmem import Memory


@pytest.fixture
def anyio_backend() -> str:
    """Walls do not depend on the event loop; both loops are tested in the tests of each part."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _nothing_expires_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stores are compared at the same moment, so neither may erase in the background before the other."""

    async def stay(memory: Memory, *, again: bool) -> bool:
        return True

    monkeypatch.setattr(Memory, "_expire", stay)
