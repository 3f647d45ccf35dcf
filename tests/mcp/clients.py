"""Helpers for the tests of the server: a client of it, and a store with facts on both sides of a wall."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
from mcp import Client, MCPError
from mcp_types import TextContent, TextResourceContents

from factmem import Concept, InMemoryProvider, Memory, MemorySubject, SingleFact
from factmem.mcp import make_server
from factmem.mcp.access import ServedMemory
from factmem.testing import HashEmbedder

CITY: Final = Concept.single("city", "Where somebody lives")
SEATS: Final = Concept.single("seats", "How many seats are booked", int)
MAYA: Final = MemorySubject("user", "who speaks", priority_level=1).individual("maya")
NOAH: Final = MemorySubject("user", "who speaks", priority_level=1).individual("noah")


def opened(provider: InMemoryProvider | None = None, viewer: str | None = "maya", **options: Any) -> Memory:
    """Open a memory with maya as its viewer."""
    return Memory(provider or InMemoryProvider(), viewer=viewer, embedder=HashEmbedder(), **options)


@asynccontextmanager
async def connected(memory: ServedMemory, **options: Any) -> AsyncIterator[Client]:
    """Connect a client to a server of a memory, in this process."""
    async with Client(make_server(memory, **options)) as client:
        yield client


async def answer(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed, and return its structured answer."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that must refuse, and return its message."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    assert result.structured_content is None
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def text_of(client: Client, address: str) -> str:
    """Read a resource."""
    (content,) = (await client.read_resource(address)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


async def unreadable(client: Client, address: str) -> str:
    """Read a resource that must not be readable, and return the reason."""
    try:
        text = await text_of(client, address)
    except MCPError as error:
        return error.error.message
    raise AssertionError(f"{address} could be read: {len(text)} characters")


async def prompted(client: Client, prompt: str, **arguments: str) -> str:
    """Return the text of a prompt."""
    (message,) = (await client.get_prompt(prompt, arguments)).messages
    assert message.role == "user"
    assert isinstance(message.content, TextContent)
    return message.content.text


@attrs.frozen
class Walled:
    """A memory with facts inside and outside a client's view.

    Attributes:
        memory: the memory.
        seen: the id of Oslo, which lies in ``/product/alpha`` and is about maya.
        hidden: the ids of facts in another scope, about another subject, or of another owner.
    """

    memory: Memory
    seen: str
    hidden: dict[str, str]


HIDDEN_VALUES: Final = ("Hiddenburg", "Othertown", "Privatheim", "Allover")


@asynccontextmanager
async def walled() -> AsyncIterator[Walled]:
    """A memory to be confined to ``/product/alpha``, maya and her private facts."""
    provider = InMemoryProvider()
    async with opened(provider) as memory, opened(provider, "noah") as noahs:
        (seen,) = await memory.save(SingleFact(CITY, "Oslo"), subject=MAYA, scope="/product/alpha")
        hidden = {}
        for value, subject, scope in (
            ("Hiddenburg", MAYA, "/product/alphabet"),
            ("Allover", MAYA, "/cross-product"),
            ("Othertown", NOAH, "/product/alpha"),
        ):
            (record,) = await memory.save(SingleFact(CITY, value), subject=subject, scope=scope)
            hidden[value] = record.id
        (record,) = await noahs.save(SingleFact(CITY, "Privatheim"), subject=MAYA, scope="/product/alpha", private=True)
        yield Walled(memory, seen.id, hidden | {"Privatheim": record.id})
