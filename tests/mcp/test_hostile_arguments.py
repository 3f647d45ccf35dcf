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

HUGE = "x" * 2_000_000
DEEP: Any = []
for _ in range(500):
    DEEP = [DEEP]


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The refusals do not depend on the event loop."""
    return str(request.param)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("recall", {"query": ""}),
        ("recall", {"query": HUGE}),
        ("recall", {"query": None}),
        ("recall", {"query": 5}),
        ("recall", {"query": "\ud800"}),
        ("recall", {"query": "x", "limit": 0}),
        ("recall", {"query": "x", "limit": 10**30}),
        ("recall", {"query": "x", "limit": float("nan")}),
        ("recall", {"query": "x", "limit": "many"}),
        ("recall", {"query": "x", "scope": "/product/../../etc"}),
        ("recall", {"query": "x", "scope": ""}),
        ("recall", {"query": "x", "scope": HUGE}),
        ("recall", {"query": "x", "scope": "/a\x00b"}),
        ("recall", {"query": "x", "subject": ":"}),
        ("recall", {"query": "x", "subject": "user:\n"}),
        ("recall", {"query": "x", "since": "soon"}),
        ("recall", {"query": "x", "since": "9999-12-31T23:59:59-14:00"}),
        ("recall", {"query": "x", "concepts": ["c"] * 1_000}),
        ("recall", {"query": "x", "concepts": "seats"}),
        ("recall", {"query": "x", "limt": 5}),
        ("recall", {}),
        ("list", {"page": "nonsense"}),
        ("list", {"page": HUGE}),
        ("load", {"keyword": {"a": 1}}),
        ("remember", {"text": ""}),
        ("remember", {"text": "  \n "}),
        ("remember", {"text": HUGE}),
        ("remember", {"text": "x", "importance": 2}),
        ("remember", {"text": "x", "categories": [""]}),
        ("remember", {"text": "x", "privat": True}),
        ("save_fact", {"keyword": "k"}),
        ("save_fact", {"keyword": "", "value": 1}),
        ("save_fact", {"keyword": HUGE, "value": 1}),
        ("save_fact", {"keyword": "k", "value": "\ud800"}),
        ("save_fact", {"keyword": "k", "value": HUGE}),
        ("save_fact", {"keyword": "k", "value": " "}),
        ("save_fact", {"keyword": "k", "value": 10**400, "type": "float"}),
        ("save_fact", {"keyword": "k", "value": 1, "type": "complex"}),
        ("save_fact", {"keyword": "k", "value": "1", "type": "int"}),
        ("save_fact", {"keyword": "k", "value": 1, "said": "2999-01-01"}),
        ("save_fact", {"keyword": "k", "value": 1, "multiple": "perhaps"}),
        ("update", {"id": "", "value": 1}),
        ("update", {"id": HUGE, "value": 1}),
        ("retract", {"ids": []}),
        ("retract", {"ids": ["x"] * 1_000}),
        ("retract", {"ids": "x"}),
        ("forget", {"ids": []}),
        ("forget", {"ids": [None]}),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else str(value),
)
async def test_a_hostile_argument_is_refused_in_a_few_words(
    tool: str, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with opened() as memory, connected(memory, trust=True, allow_erase=True) as client:
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
