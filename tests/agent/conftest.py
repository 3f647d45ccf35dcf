"""Fixtures of facts in AGENTS.md: a memory with facts and a file with text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from factmem import Memory
from tests.agent.facts_in_file import knowing, written


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    """A memory with a few facts about the user."""
    async with knowing() as memory:
        yield memory


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An AGENTS.md with text written by a person."""
    return written(tmp_path)
