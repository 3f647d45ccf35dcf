"""Fixtures of the tests of hosts: a memory, a server that stands in for OpenAI's, and both of its APIs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from factmem import Memory
from factmem.testing.openai_server import LoopbackOpenAIServer, Responder
from tests.agent.installed import memory_over
from tests.integrations.openai_requests import Api


@pytest.fixture
def anyio_backend() -> str:
    """Most hosts run on asyncio only."""
    return "asyncio"


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    """An empty memory without a model."""
    async with memory_over() as memory:
        yield memory


@pytest.fixture(params=["chat", "responses"])
def api(request: pytest.FixtureRequest) -> Api:
    found: Api = request.param
    return found


@pytest.fixture
def serving() -> Iterator[Callable[[Responder], LoopbackOpenAIServer]]:
    """A function that starts a server, which stops at the end of the test."""
    servers: list[LoopbackOpenAIServer] = []

    def serve(respond: Responder) -> LoopbackOpenAIServer:
        servers.append(LoopbackOpenAIServer(respond).__enter__())
        return servers[-1]

    yield serve
    for server in servers:
        server.__exit__(None, None, None)
