"""Observation of an agent's memory."""

from __future__ import annotations

from factmem.abc import Operation
from factmem.agent import AgentMemoryConfig
from factmem.testing import HashEmbedder
from tests.observing.watching import Watcher


async def test_the_memory_of_an_agent_notifies_the_observers_of_its_configuration() -> None:
    """The observers of the configuration are notified for any host."""
    watcher = Watcher()
    config = AgentMemoryConfig(
        store="memory:", agent_name="planner", users="shared", embedder=HashEmbedder(), observers=[watcher]
    )
    async with config.make_memory() as memory:
        await memory.remember("There are 120 seats.")
    assert watcher.completed(Operation.REMEMBER)
