"""Fixtures of the tests of the server: a memory with maya as its viewer, and clients of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from mcp import Client

from factmem import Memory
from tests.mcp.clients import connected, opened


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    async with opened() as memory:
        yield memory


@pytest.fixture
async def client(memory: Memory) -> AsyncIterator[Client]:
    """A client that is not trusted."""
    async with connected(memory) as client:
        yield client


@pytest.fixture
async def trusted(memory: Memory) -> AsyncIterator[Client]:
    async with connected(memory, trust=True) as client:
        yield client
