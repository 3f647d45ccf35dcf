"""Confinement: no request of a client reaches beyond the scopes, subjects and viewer of its server."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from mcp import Client

from factmem import AgentMemory, AgentMemoryConfig, InMemoryProvider, Memory, SingleFact
from factmem.mcp import make_server
from factmem.testing import FakeClock, HashEmbedder
from tests.mcp.clients import (
    CITY,
    HIDDEN_VALUES,
    MAYA,
    NOAH,
    Walled,
    answer,
    connected,
    opened,
    prompted,
    refusal,
    text_of,
    unreadable,
    walled,
)

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
OUTSIDE = ("/product/alphabet", "/product/alpha/../alphabet", "/cross-product", "/product", "/agent/x", "product/beta")
OF_OTHERS = ("user:noah", "user", "everything")


@attrs.frozen
class Confined:
    """A client of a server that is confined to ``/product/alpha`` and maya."""

    client: Client
    store: Walled


@pytest.fixture
async def confined() -> AsyncIterator[Confined]:
    async with walled() as store:
        options = {"scopes": ["/product/alpha"], "subjects": [MAYA], "trust": True, "allow_erase": True}
        async with connected(store.memory, **options) as client:
            yield Confined(client, store)


async def everything(memory: Memory) -> list[Any]:
    """Return all records of a store, for any viewer."""
    seen = [await memory.view(viewer=name).list_records() for name in (None, "maya", "noah")]
    return sorted({str(record.value) for records in seen for record in records})


async def test_reading_shows_nothing_from_outside(confined: Confined) -> None:
    client = confined.client
    counted = await answer(client, "info")
    shown = [
        counted,
        await answer(client, "recall", query="Hiddenburg Othertown Privatheim Allover city", limit=100),
        await answer(client, "load", keyword="city"),
        await answer(client, "list", limit=100),
        await answer(client, "history", keyword="city"),
        [await text_of(client, f"factmem://{name}") for name in ("facts", "tree", "info", "facts/product/alpha")],
        await prompted(client, "recall_context", question="Hiddenburg Othertown Privatheim Allover city"),
        [str(resource) for resource in (await client.list_resources()).resources],
    ]
    text = json.dumps(shown).replace("Hiddenburg Othertown Privatheim Allover city", "")
    assert "Oslo" in text
    assert [word for word in (*HIDDEN_VALUES, "alphabet", "noah") if word in text] == []
    assert counted["records"] == 1
    assert json.loads(await text_of(client, "factmem://tree"))["records"] == 1


async def test_scores_are_independent_of_records_outside() -> None:
    """A client cannot probe which words occur in scopes outside its server's view."""
    seen = []
    for secrets in ((), ("The launch code is swordfish.", "Swordfish again, and Oslo.")):
        async with Memory(InMemoryProvider(), embedder=HashEmbedder(), clock=FakeClock(NOW)) as memory:
            for text in ("Maya lives in Oslo.", "The code of the garage is blue.", "Oslo is cold."):
                await memory.remember(text, scope="/product/alpha")
            for text in secrets:
                await memory.remember(text, scope="/product/secret")
            async with connected(memory, scopes=["/product/alpha"]) as client:
                queries = ("swordfish Oslo", "pineapple Oslo", "launch code", "garage code", "cold")
                found = [await answer(client, "recall", query=query) for query in queries]
        seen.append([[(match["fact"]["value"], match["score"]) for match in of["matches"]] for of in found])
    without_secrets, with_secrets = seen
    assert with_secrets == without_secrets
    assert all(without_secrets)


CALLS: Sequence[tuple[str, dict[str, Any]]] = (
    ("recall", {"query": "city"}),
    ("load", {"keyword": "city"}),
    ("list", {}),
    ("history", {"keyword": "city"}),
    ("remember", {"text": "Somebody lives in Rome."}),
    ("save_fact", {"keyword": "city", "value": "Rome"}),
)
"""Tools that take a scope and a subject."""


@pytest.mark.parametrize("scope", OUTSIDE)
async def test_no_scope_leads_out(confined: Confined, scope: str) -> None:
    client, before = confined.client, await everything(confined.store.memory)
    for tool, arguments in (*CALLS, ("info", {})):
        message = await refusal(client, tool, scope=scope, **arguments)
        assert (
            ("lies outside of what this server shows" in message)
            or ("cannot climb" in message)
            or ("needs a name" in message)
        )
    assert await unreadable(client, f"factmem://facts{scope if scope.startswith('/') else '/' + scope}")
    assert await everything(confined.store.memory) == before


@pytest.mark.parametrize("subject", OF_OTHERS)
async def test_no_subject_leads_out(confined: Confined, subject: str) -> None:
    client, before = confined.client, await everything(confined.store.memory)
    for tool, arguments in CALLS:
        message = await refusal(client, tool, subject=subject, **arguments)
        assert message == "this server does not serve that subject: name user:maya, or none"
    assert await everything(confined.store.memory) == before


@pytest.mark.parametrize("value", HIDDEN_VALUES)
async def test_no_id_leads_out_and_one_that_is_hidden_is_like_one_that_is_not_there(
    confined: Confined, value: str
) -> None:
    client, before = confined.client, await everything(confined.store.memory)
    hidden = confined.store.hidden[value]
    for tool, given in (
        ("update", {"importance": 1}),
        ("update", {"scope": "/product/alpha/deeper"}),
        ("update", {"value": "Rome"}),
        ("retract", {}),
        ("forget", {}),
    ):
        key, named, nobody = ("id", hidden, "nope") if given else ("ids", [hidden], ["nope"])
        assert await refusal(client, tool, **{key: named}, **given) == await refusal(
            client, tool, **{key: nobody}, **given
        )
    message = await unreadable(client, f"factmem://record/{hidden}")
    assert message == await unreadable(client, "factmem://record/nope")
    assert await refusal(client, "retract", ids=[confined.store.seen, hidden])
    assert await refusal(client, "forget", ids=[confined.store.seen, hidden])
    assert await everything(confined.store.memory) == before


async def test_what_a_client_writes_stays_in_the_view(confined: Confined) -> None:
    client = confined.client
    (fact,) = (await answer(client, "save_fact", keyword="pet", value="cat"))["facts"]
    (result,) = (await answer(client, "remember", text="Maya has a dog."))["facts"]
    assert {(item["scope"], item["subject"]) for item in (fact, result)} == {("/product/alpha", "user:maya")}


async def test_a_private_fact_does_not_reveal_its_type(confined: Confined) -> None:
    """Noah's private keyword may have any other type for maya."""
    async with opened() as memory, connected(memory, trust=True) as client:
        await memory.view(viewer="noah").save(SingleFact(CITY, "Privatheim"), private=True)
        (fact,) = (await answer(client, "save_fact", keyword="city", value=5))["facts"]
        assert fact["value"] == 5
        assert (await answer(client, "info"))["records"] == 1


async def test_several_scopes_are_served_and_say_which_one_to_write_to(memory: Memory) -> None:
    await memory.save(SingleFact(CITY, "Oslo"), scope="/product/gamma")
    async with connected(memory, scopes=["/product/alpha", "/product/beta"], trust=True) as client:
        message = await refusal(client, "save_fact", keyword="city", value="Rome")
        assert message == "the scope lies outside of what this server shows, or is not said: `info` lists the scopes"
        await answer(client, "save_fact", keyword="city", value="Rome", scope="/product/beta")
        info = await answer(client, "info")
        assert (info["scopes"], info["server"]["scopes"]) == (["/product/beta"], ["/product/alpha", "/product/beta"])


async def test_a_view_confines_a_server_that_is_given_it() -> None:
    async with walled() as store, connected(store.memory.scope("/product/alpha")) as client:
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
