"""The server's description: names, schemas, hints. Any change of it is visible to every client."""

from __future__ import annotations

import subprocess
import sys

import pytest
from mcp import Client
from mcp_types import Tool

from factmem.mcp.server import READING_TOOLS, WRITING_TOOLS
from tests.mcp.clients import answer, connected, opened
from tests.tables import cases

LARGEST_LISTING = 12_000
"""In bytes: the cost of the tools in every prompt of every client."""


async def offered() -> dict[str, Tool]:
    async with opened() as memory, connected(memory, trust=True, allow_erase=True) as client:
        return {tool.name: tool for tool in (await client.list_tools()).tools}


async def test_the_tools_take_what_they_did() -> None:
    assert {
        (name, " ".join(tool.input_schema["properties"]), *tool.input_schema.get("required", ()))
        for name, tool in (await offered()).items()
    } == {(name, taken, *(required or ())) for name, taken, required in cases(__file__)["arguments"]}


async def test_the_listing_of_all_tools_is_small() -> None:
    async with opened() as memory, connected(memory, trust=True, allow_erase=True) as client:
        listing = (await client.list_tools()).model_dump_json(by_alias=True, exclude_unset=True)
    assert len(listing.encode()) <= LARGEST_LISTING


async def test_optional_arguments_may_still_be_null() -> None:
    """Many clients send null for omitted arguments, though no schema offers it."""
    async with opened() as memory, connected(memory, trust=True) as client:
        nothing = {"scope": None, "subject": None, "since": None, "min_score": None}
        assert (await answer(client, "recall", query="x", **nothing))["matches"] == []


async def test_every_argument_is_described_and_no_other_is_taken() -> None:
    for name, tool in (await offered()).items():
        assert tool.input_schema["additionalProperties"] is False
        assert [key for key, schema in tool.input_schema["properties"].items() if not schema.get("description")] == []
        assert tool.title, name
        assert tool.description
        assert len(tool.description) < 400


async def test_hints_say_which_tools_change_and_destroy() -> None:
    hints = {name: tool.annotations for name, tool in (await offered()).items() if tool.annotations is not None}
    assert [*hints] == [*READING_TOOLS, *WRITING_TOOLS]
    assert [name for name, hint in hints.items() if hint.read_only_hint] == [*READING_TOOLS]
    assert [name for name, hint in hints.items() if hint.destructive_hint] == ["update", "retract", "forget"]
    assert [name for name, hint in hints.items() if hint.idempotent_hint] == [*READING_TOOLS, "retract", "forget"]
    assert not any(hint.open_world_hint for hint in hints.values())


async def test_the_server_introduces_itself(client: Client) -> None:
    assert client.server_info is not None
    assert (client.server_info.name, client.server_info.version[:1].isdigit()) == ("factmem", True)
    assert client.instructions is not None
    assert "kept apart until a person confirms it" in client.instructions
    assert [template.uri_template for template in (await client.list_resource_templates()).resource_templates] == [
        "factmem://facts/{+scope}",
        "factmem://record/{id}",
    ]


@pytest.mark.parametrize("hidden", ["mcp", "mcp_types"])
def test_a_missing_package_is_an_error_with_the_command_to_install_it(hidden: str) -> None:
    code = f"import sys; sys.modules[{hidden!r}] = None\ntry:\n import factmem.mcp\nexcept ImportError as e:\n print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "mcp>=2 is not installed: run  pip install 'factmem[mcp]'\n"
