"""Fixtures of the tests of agents: a memory in the test's own event loop, and an agent over it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from factmem import AgentMemory, Memory
from tests.agent.installed import memory_over, plugin


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    """An empty memory without a model."""
    async with memory_over() as memory:
        yield memory


@pytest.fixture
def agent(memory: Memory) -> AgentMemory:
    """An agent with this memory."""
    return plugin(memory)
