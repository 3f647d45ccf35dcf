"""Confinement: no request of a client reaches beyond the scopes, subjects and viewer of its server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from factmem import InMemoryProvider, SingleFact
from factmem.agent.config import AgentMemoryConfig
from factmem.agent.plugin import AgentMemory
from factmem.mcp import make_server
from factmem.memory.facade import Memory
from factmem.testing import HashEmbedder
from tests.mcp.clients import (
    CITY,
    MAYA,
    NOAH,
    answer,
    connected,
    opened,
    refusal,
    unreadable,
)

OUTSIDE = ("/product/alphabet", "/product/alpha/../alphabet", "/cross-product", "/product", "/agent/x", "product/beta")
OF_OTHERS = ("user:noah", "user", "everything")


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    """A memory with a fact about maya in ``/product/alpha``, and others in the way of a confined client."""
    async with opened() as memory:
        for value, subject, scope in (
            ("Oslo", MAYA, "/product/alpha"),
            ("Hiddenburg", MAYA, "/product/alphabet"),
            ("Othertown", NOAH, "/product/alpha"),
        ):
            await memory.save(SingleFact(CITY, value), subject=subject, scope=scope)
        private = SingleFact(CITY, "Privatheim")
        await memory.view(viewer="noah").save(private, subject=MAYA, scope="/product/alpha", private=True)
        yield memory


@pytest.fixture
async def confined(memory: Memory) -> AsyncIterator[Client]:
    """A client of a server that is confined to ``/product/alpha`` and maya."""
    options: dict[str, Any] = {"scopes": ["/product/alpha"], "subjects": [MAYA], "trust": True, "allow_erase": True}
    async with connected(memory, **options) as client:
        yield client


async def everything(memory: Memory) -> list[Any]:
    """Return all records of a store, for any viewer."""
    seen = [await memory.view(viewer=name).list_records() for name in (None, "maya", "noah")]
    return sorted({str(record.value) for records in seen for record in records})


@pytest.mark.parametrize("scope", OUTSIDE)
async def test_no_scope_leads_out(confined: Client, memory: Memory, scope: str) -> None:
    before = await everything(memory)
    for tool, arguments in (
        ("recall", {"query": "city"}),
        ("load", {"keyword": "city"}),
        ("list", {}),
        ("history", {"keyword": "city"}),
        ("info", {}),
        ("remember", {"text": "Maya lives in Rome."}),
        ("save_fact", {"keyword": "city", "value": "Rome"}),
    ):
        message = await refusal(confined, tool, scope=scope, **arguments)
        assert re.search(r"lies outside of what this server shows|cannot climb|needs a name", message)
    assert await unreadable(confined, f"factmem://facts{scope if scope.startswith('/') else '/' + scope}")
    assert await everything(memory) == before


@pytest.mark.parametrize("subject", OF_OTHERS)
async def test_no_subject_leads_out(confined: Client, memory: Memory, subject: str) -> None:
    before = await everything(memory)
    for tool, arguments in (
        ("recall", {"query": "city"}),
        ("load", {"keyword": "city"}),
        ("list", {}),
        ("history", {"keyword": "city"}),
        ("remember", {"text": "Noah lives in Rome."}),
        ("save_fact", {"keyword": "city", "value": "Rome"}),
    ):
        message = await refusal(confined, tool, subject=subject, **arguments)
        assert message == "this server does not serve that subject: name user:maya, or none"
    assert await everything(memory) == before


async def test_what_a_client_writes_stays_in_the_view(confined: Client) -> None:
    (fact,) = (await answer(confined, "save_fact", keyword="pet", value="cat"))["facts"]
    (result,) = (await answer(confined, "remember", text="Maya has a dog."))["facts"]
    assert {(item["scope"], item["subject"]) for item in (fact, result)} == {("/product/alpha", "user:maya")}


async def test_several_scopes_are_served_and_say_which_one_to_write_to() -> None:
    async with opened() as memory:
        await memory.save(SingleFact(CITY, "Oslo"), scope="/product/gamma")
        async with connected(memory, scopes=["/product/alpha", "/product/beta"], trust=True) as client:
            message = await refusal(client, "save_fact", keyword="city", value="Rome")
            assert (
                message == "the scope lies outside of what this server shows, or is not said: `info` lists the scopes"
            )
            await answer(client, "save_fact", keyword="city", value="Rome", scope="/product/beta")
            info = await answer(client, "info")
            assert (info["scopes"], info["server"]["scopes"]) == (
                ["/product/beta"],
                ["/product/alpha", "/product/beta"],
            )


async def test_a_view_confines_a_server_that_is_given_it(memory: Memory) -> None:
    async with connected(memory.scope("/product/alpha")) as client:
        assert {fact["value"] for fact in (await answer(client, "list"))["facts"]} == {"Oslo", "Othertown"}
        assert await refusal(client, "list", scope="/product/alphabet")


async def test_an_agents_memory_serves_its_user_and_scopes() -> None:
    provider = InMemoryProvider()
    async with opened(provider, None) as memory:
        await memory.save(SingleFact(CITY, "Oslo"), subject=MAYA, scope="/product/alpha")
        await memory.save(SingleFact(CITY, "Bern"), subject=NOAH, scope="/product/alpha")
        await memory.save(SingleFact(CITY, "Rome"), subject=MAYA, scope="/product/beta")
        config = AgentMemoryConfig(store=provider, product_name="alpha", embedder=HashEmbedder())
        async with AgentMemory(config) as agents:
            async with connected(agents, user_id="maya", trust=True) as client:
                assert [fact["value"] for fact in (await answer(client, "list"))["facts"]] == ["Oslo"]
                (fact,) = (await answer(client, "save_fact", keyword="pet", value="cat", subject="user"))["facts"]
                assert (fact["subject"], fact["scope"]) == ("user:maya", "/product/alpha")
                assert await refusal(client, "list", subject="user:noah")
            async with connected(agents, user_id="noah") as client:
                assert [fact["value"] for fact in (await answer(client, "list"))["facts"]] == ["Bern"]


async def test_a_memory_that_is_made_for_clients_is_open_while_there_are_some(tmp_path: Path) -> None:
    made: list[Memory] = []

    def make() -> Memory:
        made.append(Memory(f"sqlite-vec:{tmp_path}/facts.db", embedder=HashEmbedder()))
        return made[-1]

    server = make_server(make, trust=True)
    async with Client(server) as first, Client(server) as second:
        await answer(first, "save_fact", keyword="city", value="Oslo")
        assert (await answer(second, "load", keyword="city"))["facts"]
        assert len(made) == 1
    async with Client(server) as again:
        assert (await answer(again, "load", keyword="city"))["facts"][0]["value"] == "Oslo"
    assert len(made) == 2
