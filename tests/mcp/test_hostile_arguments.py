"""Hostile arguments: each is refused with a message, and the server continues."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from mcp import Client
from mcp.server.mcpserver.exceptions import ToolError

from factmem import Memory
from factmem.mcp import make_server
from tests.mcp.clients import answer, connected, opened, refusal
from tests.tables import cases

CASES = cases(__file__)

HUGE = "x" * 2_000_000
DEEP: Any = []
for _ in range(500):
    DEEP = [DEEP]


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The refusals do not depend on the event loop."""
    return str(request.param)


HOSTILE: list[tuple[str, dict[str, Any]]] = [
    *CASES["a hostile argument is refused in a few words"],
    ("recall", {"query": HUGE}),
    ("recall", {"query": "x", "scope": HUGE}),
    ("recall", {"query": "x", "concepts": ["c"] * 1_000}),
    ("list", {"page": HUGE}),
    ("remember", {"text": HUGE}),
    ("save_fact", {"keyword": HUGE, "value": 1}),
    ("save_fact", {"keyword": "k", "value": HUGE}),
    ("save_fact", {"keyword": "k", "value": 10**400, "type": "float"}),
    ("update", {"id": HUGE, "value": 1}),
    ("retract", {"ids": ["x"] * 1_000}),
]


@pytest.mark.parametrize("tool", sorted({tool for tool, _ in HOSTILE}))
async def test_a_hostile_argument_is_refused_in_a_few_words(tool: str, caplog: pytest.LogCaptureFixture) -> None:
    async with opened() as memory, connected(memory, trust=True, allow_erase=True) as client:
        for arguments in (arguments for taken, arguments in HOSTILE if taken == tool):
            with caplog.at_level(logging.WARNING):
                message = await refusal(client, tool, **arguments)
            assert 10 < len(message) < 700
            assert "xxxxxxxxxxxx" not in message.replace("x" * 50 + "…", "")
            assert "Error executing tool" not in message, "the error is not handled"
            assert caplog.records == []
        assert await memory.list_records() == []
        assert (await answer(client, "info"))["records"] == 0


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("remember", {"text": "x", "importance": float("nan")}),
        ("save_fact", {"keyword": "k", "value": float("nan")}),
        ("save_fact", {"keyword": "k", "value": float("inf")}),
        ("save_fact", {"keyword": "k", "value": {"a": [float("-inf")]}}),
        ("save_fact", {"keyword": "k", "value": DEEP}),
    ],
    ids=["importance", "nan", "inf", "nested inf", "deep"],
)
async def test_what_only_other_clients_can_send_is_refused_as_well(
    tool: str, arguments: dict[str, Any], memory: Memory
) -> None:
    """The SDK's own client sends null for NaN and infinity, and refuses such deep nesting."""
    server = make_server(memory, trust=True)
    async with Client(server):
        with pytest.raises(ToolError) as error:
            await server.call_tool(tool, arguments)
        assert "Error executing tool" not in str(error.value)
        assert await memory.list_records() == []


async def test_a_private_fact_needs_a_viewer() -> None:
    async with opened(viewer=None) as memory, connected(memory, trust=True) as client:
        assert "needs an owner" in await refusal(client, "save_fact", keyword="k", value=1, private=True)
        assert "needs an owner" in await refusal(client, "remember", text="x", private=True)
        assert await memory.list_records() == []


async def test_a_server_leaves_the_programs_logging_alone() -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    async with opened() as memory, connected(memory):
        assert (root.level, list(root.handlers)) == before
