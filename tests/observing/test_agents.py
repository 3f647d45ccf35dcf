"""An agent's memory is observed as any other."""

from __future__ import annotations

from factmem.abc import Operation
from factmem.agent import AgentMemoryConfig
from factmem.testing import HashEmbedder
from tests.observing.watching import Watcher


async def test_the_memory_of_an_agent_tells_the_observers_of_its_configuration() -> None:
    """The observers are told whatever host the agent's memory is put into."""
    watcher = Watcher()
    config = AgentMemoryConfig(
        store="memory:", agent_name="planner", users="shared", embedder=HashEmbedder(), observers=[watcher]
    )
    async with config.make_memory() as memory:
        await memory.remember("There are 120 seats.")
    assert watcher.completed(Operation.REMEMBER)
