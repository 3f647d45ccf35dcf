"""An AGENTS.md to keep facts in, and a memory that knows some."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from factmem import Memory
from tests.agent.facts_in_file import knowing, written


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    """A memory that knows something about the user."""
    async with knowing() as memory:
        yield memory


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that somebody wrote."""
    return written(tmp_path)
